"""Empty tensors that get their size afterwards, with ``resize_``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from .legacy_sizes import sets_defaults
from .splice import Splice

_RESIZING = frozenset({"resize_", "resize_as_"})
_EMPTY = frozenset({"torch.Tensor", "torch.FloatTensor"})
_ADVICE = (
    "Dynamo cannot trace a change of a tensor's size. Make the tensor in its size:"
    " `x.new_empty(sizes)`, `torch.empty_like(y)`, or `view`/`reshape` where the number of elements"
    " stays."
)
_FACTS = {"x": tensor(3, 4), "x.data": tensor(3, 4), "y": tensor(3, 4)}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(x, y):\n{body}"


class SizedAtBirth(Codemod):
    """*What it does.*  Makes a tensor in the size that it is resized to at once:
    ``x.data.new().resize_(a, b)`` becomes ``x.data.new_empty(a, b)``.

    *When it applies.*  The tensor is made empty (``x.new()``, ``torch.Tensor()``,
    ``torch.empty(0)``) in the very expression, or by the statement above.

    *Fix safety.*  Safe: both give new memory of that size, uninitialised until it is filled.

    *Refuses.*  Tensors that exist already, memory formats, and a size that reads the tensor itself.
    """

    name = "sized-at-birth"
    codes = ("GB0126", "GB0127")

    examples = tuple(
        Example(_source(*before), _source(*after), at=at, facts=_FACTS, title=title)
        for title, before, after, at in (
            (
                "one expression",
                ("mask = x.data.new().resize_(x.size(0), 4).fill_(0.5)", "return x * mask"),
                ("mask = x.data.new_empty(x.size(0), 4).fill_(0.5)", "return x * mask"),
                "x.data.new().resize_(x.size(0), 4)",
            ),
            (
                "as another tensor",
                ("return x + torch.Tensor().resize_as_(y).zero_()",),
                ("return x + torch.empty(y.size()).zero_()",),
                "torch.Tensor().resize_as_(y)",
            ),
            (
                "two statements",
                ("m = x.new()  # scratch", "m.resize_(y.size()).zero_()", "return x + m"),
                ("m = x.new_empty(y.size())  # scratch", "m.zero_()", "return x + m"),
                "m.resize_(y.size())",
            ),
            (
                "nothing more done to it",
                ("m = torch.empty(0, dtype=y.dtype)", "m.resize_(2, 2)", "return m.zero_()"),
                ("m = torch.empty((2, 2), dtype=y.dtype)", "return m.zero_()"),
                "m.resize_(2, 2)",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(*source), at=at, why=why, facts={**_FACTS, **facts})
        for source, at, why, facts in (
            (("return x.resize_(2)",), "x.resize_(2)", "a tensor that exists", {}),
            (
                ("return x.new(3).resize_(2)",),
                "x.new(3).resize_(2)",
                "not empty: its memory is kept",
                {},
            ),
            (
                ("m = x.new()", "y.copy_(m)", "m.resize_(2)", "return m"),
                "m.resize_(2)",
                "used in between",
                {},
            ),
            (
                ("m = x.new()", "m.resize_(m.size())", "return m"),
                "m.resize_(m.size())",
                "the size reads the tensor",
                {},
            ),
            (
                ("return x.new().resize_(2, memory_format=torch.contiguous_format)",),
                "x.new().resize_(2, memory_format=torch.contiguous_format)",
                "a memory format",
                {},
            ),
            (
                ("return x.new().resize_(2)",),
                "x.new().resize_(2)",
                "a subclass's own `new`",
                {"x": Fact("tensor", "mine.Masked")},
            ),
            (
                ("return torch.empty(0, requires_grad=True).resize_(2)",),
                "torch.empty(0, requires_grad=True).resize_(2)",
                "raises an error",
                {},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        yield Advice(_ADVICE)
        if isinstance(site.node, cst.BaseCompoundStatement):
            return
        for call in walk(site.node):
            if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
                continue
            if call.func.attr.value not in _RESIZING:
                continue
            size = _size(site, call)
            if size is None or comments_in(call):
                return
            born = call.func.value
            splice = Splice(site)
            if isinstance(born, cst.Name):
                assign = _statement_above(site, born)
                if assign is None or _names(call.args, born.value):
                    return
                made = _made_in_size(site, splice, assign.value, size)
                if made is None:
                    return
                splice.replace(assign.value, made)
                if isinstance(site.parent(call), cst.Expr):
                    splice.delete_lines(site.statement_of(call))
                else:
                    splice.replace(call, born.value)
            else:
                made = _made_in_size(site, splice, born, size)
                if made is None:
                    return
                splice.replace(call, made)
            yield splice.rewrite("make the tensor in its size", rank=10)
            return


@dataclasses.dataclass(frozen=True)
class _Size:
    """The size's source text; ``several`` where it is a row of ints rather than one value."""

    text: str
    several: bool


def _size(site: Site, call: cst.Call) -> _Size | None:
    splice = Splice(site)
    assert isinstance(call.func, cst.Attribute)
    if not call.args or any(arg.keyword is not None or arg.star for arg in call.args):
        return None
    texts = [splice.source_of(arg.value) for arg in call.args]
    if any("\n" in text for text in texts):
        return None
    if call.func.attr.value == "resize_":
        facts = [infer(arg.value, site.fact) for arg in call.args]
        if len(call.args) == 1:
            fact = facts[0]
            known = fact is not None and fact.kind in ("int", "tuple", "list")
            return _Size(texts[0], False) if known else None
        if any(fact is None or fact.kind != "int" for fact in facts):
            return None
        return _Size(", ".join(texts), True)
    other = call.args[0].value
    fact = infer(other, site.fact)
    tight = isinstance(other, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    if len(texts) != 1 or not tight or fact is None or not fact.is_tensor:
        return None
    return _Size(f"{texts[0]}.size()", False)


def _made_in_size(site: Site, splice: Splice, born: cst.BaseExpression, size: _Size) -> str | None:
    """Source text that makes the empty tensor in the size; None where it is not made empty."""
    if not isinstance(born, cst.Call):
        return None
    target = resolve(site.module, born.func) or ""
    listed = f"({size.text})" if size.several else size.text
    if target in _EMPTY and not born.args:
        torch = splice.source_of(born.func).rpartition(".")[0]
        if not torch or sets_defaults(site):
            return None  # the legacy constructors do not heed all defaults
        dtype = "" if target == "torch.Tensor" else f", dtype={torch}.float32"
        return f"{torch}.empty({size.text if not dtype else listed}{dtype})"
    if target == "torch.empty":
        first, *keywords = born.args or (None,)
        if first is None or first.star or first.keyword is not None:
            return None
        if not isinstance(first.value, cst.Integer) or first.value.evaluated_value != 0:
            return None
        names = {arg.keyword.value if arg.keyword is not None else "" for arg in keywords}
        if not names <= {"dtype", "device"}:
            return None
        rest = "".join(
            f", {arg.keyword.value}={splice.source_of(arg.value)}"
            for arg in keywords
            if arg.keyword is not None
        )
        text = listed if rest else size.text
        return f"{splice.source_of(born.func)}({text}{rest})"
    if isinstance(born.func, cst.Attribute) and born.func.attr.value == "new" and not born.args:
        fact = infer(born.func.value, site.fact)
        plain = (
            fact is not None
            and fact.is_tensor
            and fact.type.rpartition(".")[2]
            in (
                "Tensor",
                "Parameter",
            )
        )
        return f"{splice.source_of(born.func.value)}.new_empty({size.text})" if plain else None
    return None


def _statement_above(site: Site, name: cst.Name) -> cst.Assign | None:
    """The assignment of the name, if it is the statement just above the site's."""
    line = site.statement_of(name)
    block = list(site.block_of(line))
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or line not in block:
        return None
    index = block.index(line)
    above = block[index - 1] if index else None
    if not isinstance(above, cst.SimpleStatementLine) or len(above.body) != 1:
        return None
    assign = above.body[0]
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    target = assign.targets[0].target
    if not isinstance(target, cst.Name) or target.value != name.value:
        return None
    # Any other use on the line would see the tensor before it had its size.
    uses = [n for n in walk(line) if isinstance(n, cst.Name) and n.value == name.value]
    return assign if len(uses) == 1 else None


def _names(args: object, name: str) -> bool:
    assert isinstance(args, list | tuple)
    return any(
        isinstance(node, cst.Name) and node.value == name for arg in args for node in walk(arg)
    )

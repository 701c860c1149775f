"""``cache[:, t] = x`` with a tensor of one whole number that comes from outside the graph."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.functions import function_of_file
from gbfix.schema import Safety

from ..api.splice import Splice
from ..control_flow.values import Values
from ..wrap.loose import is_tensor_by_text
from .lookup_by_tensor import UNTOLD

_WHOLE = words("torch.int8 torch.int16 torch.int32 torch.int64")
#: What reads the element; ``{name}`` and ``{torch}`` are what the file calls it and torch.
_CHOSEN = '''def {name}(x, dim, index):
    """``x[:, index]``, with ``dim`` times ``:``, or ``x[..., index, :]`` for ``dim`` -2."""
    whole = ({torch}.int64, {torch}.int32, {torch}.int16, {torch}.int8)
    both = isinstance(x, {torch}.Tensor) and isinstance(index, {torch}.Tensor)
    if both and index.dim() == 0 and index.dtype in whole:
        return x.select(dim, index)
    if dim < 0:
        return x[(..., index, *[slice(None)] * (-1 - dim))]
    return x[(*[slice(None)] * dim, index)] if dim else x[index]
'''
_INT = tensor(dtype="torch.int64")
_FACTS = {
    "x": tensor(4, 3),
    "y": tensor(3),
    "t": _INT,
    "n": scalar(2),
    "t.item()": scalar(1),
    "self.at": _INT,
    "self.kept": tensor(5, 3),
}
_HEAD = "import torch\n\n\n"
_BEFORE = "def f(self, x, y, t: torch.Tensor, n):\n    {}\n"


def _example(before: str, after: str, at: str, title: str) -> Example:
    own = _CHOSEN.format(name="chosen", torch="torch") + "\n\n" if "chosen(" in after else ""
    texts = [_BEFORE.format(body) for body in (before, after)]
    return Example(
        f"{_HEAD}{texts[0]}",
        f"{_HEAD}{own}{texts[1]}",
        at=at,
        facts=_FACTS,
        title=title,
    )


class IndexToSelect(Codemod):
    """Chooses by `select` where a tensor holds the number of an index.

    **What it does**

    ``return table[:, t]``, with a whole number ``t`` in a tensor without dimensions, becomes
    ``return chosen(table, 1, t)``, with a function of the file's own that calls
    ``table.select(1, t)``; ``cache[:, t] = x`` becomes ``cache.select(1, t)[...] = x``.  Dynamo
    knows that ``select`` takes a number.  With the tensor as an index, it makes a graph that no
    compiling backend takes.  The same goes for ``cache[:, t.item()]``, which becomes
    ``cache.select(1, t.item())``.

    **When it applies**

    The index is a parameter that the function does not bind anew, or an attribute, and lies on the
    CPU.  Beside it there are only ``:``, ``...`` and numbers that the text tells.  All such indices
    of the function are changed.

    **Fix safety**

    Safe where the text says that the index is a tensor (an annotation, a buffer), else unsafe, as
    Dynamo has error classes of its own: the same place, as a view of the same memory.  What is read
    by masks, numbers of Python and tensors with dimensions is read as before.  Where something is
    written, a mask raises ``RuntimeError`` or ``TypeError`` now.

    **Refuses**

    Indices that the function computes or changes, those on other devices, and several of them
    beside one another.  What `lookup-by-tensor` can keep in the graph comes first.
    """

    name = "index-to-select"
    codes = ("backend-reads-number", "data-dependent-guard", "data-dependent-specialization")
    examples = (
        _example("return x[t]", "return chosen(x, 0, t)", "x[t]", "a row that is returned"),
        _example(
            "return x[:, t]", "return chosen(x, 1, t)", "x[:, t]", "a column that is returned"
        ),
        _example(
            "x[:, t] = 1.0",
            "x.select(1, t)[...] = 1.0",
            "x[:, t] = 1.0",
            "a column that is written",
        ),
        _example(
            "return self.kept[self.at] + x[0, t]",
            "return chosen(self.kept, 0, self.at) + chosen(x[0], 0, t)",
            "self.kept[self.at]",
            "all indices of the function",
        ),
        _example(
            "return x[..., t.item(), :]",
            "return x.select(-2, t.item())",
            "x[..., t.item(), :]",
            "a number that is read beside a slice",
        ),
    )
    near_misses = tuple(
        NearMiss(f"{_HEAD}{_BEFORE.format(body)}", at=at, why=why, facts={**_FACTS, **facts})
        for body, at, why, facts in (
            ("t = t + 1\n    return x[t]", "x[t]", "a number that the graph computes", {}),
            ("t += 1\n    return x[t]", "x[t]", "a number that the graph changes", {}),
            ("return x[t]", "x[t]", "a mask", {"t": tensor(dtype="torch.bool")}),
            ("return x[t]", "x[t]", "places", {"t": tensor(1, dtype="torch.int64")}),
            (
                "return x[t]",
                "x[t]",
                "elsewhere",
                {"t": tensor(dtype="torch.int64", device="cuda:0")},
            ),
            ("return x[n]", "x[n]", "a number that backends take", {}),
            ("return x[:, n]", "x[:, n]", "a caller may give a list", {}),
            ("return x[1:, t.item()]", "x[1:, t.item()]", "part of a dimension", {}),
            ("return x[t, t]", "x[t, t]", "two numbers, which a mask would tell apart", {}),
            ("del x[:, t]", "del x[:, t]", "nothing of torch's", {}),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function, values = site.function, Values(site)
        if function is None or values.torch_missing:
            return
        chosen, own = function_of_file(site, "chosen", _CHOSEN, values.torch)
        splice, used = Splice(site), False
        near, told, writes, done = False, True, False, set[cst.CSTNode]()
        for node in walk(function.body):
            if not isinstance(node, cst.Subscript) or site.function_of(node) is not function:
                continue
            text = _selected(site, node, splice, chosen)
            told &= not text or all(_is_told(site, part.slice) for part in node.slice)
            if text and not done & set(site.ancestors(node)):
                splice.replace(node, text)
                done.add(node)
                near |= site.statement_of(node) is site.statement
                writes |= text.endswith("[...]")
                used |= text.startswith(f"{chosen}(")
        if near:
            splice.insert_function(own if used else "")
            yield splice.rewrite(
                "choose by `select`, which takes a number",
                safety=Safety.SAFE if told else Safety.UNSAFE,
                notes=(*(() if told else (UNTOLD,)), *((_WRITES,) if writes else ())),
                rank=16,
            )


_WRITES = (
    "what is written has to fit the place of one whole number: for masks and indices with"
    " dimensions the patch raises an error"
)


def _selected(site: Site, node: cst.Subscript, splice: Splice, chosen: str) -> str:
    """What selects the same, or ""."""
    held = infer(node.value, site.fact)
    if held is None or not held.is_tensor or comments_in(node):
        return ""
    parts = [part.slice for part in node.slice]
    tensors = [number for number, part in enumerate(parts) if _is_tensor_outside(site, part)]
    numbers = [number for number, part in enumerate(parts) if _is_read(site, part)]
    if len(tensors) + len(numbers) != 1 or (numbers and len(parts) == 1):
        return ""
    place = (tensors or numbers)[0]
    part = parts[place]
    assert isinstance(part, cst.Index)
    base, index = splice.source_of(node.value), splice.source_of(part.value)
    before, after = parts[:place], parts[place + 1 :]
    literal = [code(other) for other in before if _is_literal(other)]
    texts = [code(other) for other in before[len(literal) :]]
    base += f"[{', '.join(literal)}]" if literal else ""
    if any(code(other) != ":" for other in after):
        return ""
    if texts == ["..."] and not literal:
        dim = -1 - len(after)
    elif all(text == ":" for text in texts):
        dim = len(texts)
    else:
        return ""
    holder = site.parent(node)
    if isinstance(holder, cst.Del):
        return ""
    if isinstance(holder, cst.AssignTarget | cst.AugAssign) and holder.target is node:
        return f"{base}.select({dim}, {index})[...]"
    return f"{chosen}({base}, {dim}, {index})" if tensors else f"{base}.select({dim}, {index})"


def _is_tensor_outside(site: Site, part: cst.BaseSlice) -> bool:
    """Whether it is a whole number, in a tensor, that comes from outside the graph."""
    value = part.value if isinstance(part, cst.Index) else None
    name = dotted(value) if value is not None else None
    assert site.function is not None
    if value is None or name is None:
        return False
    if name.partition(".")[0] in activity(site.function.body).bound:
        return False
    fact = infer(value, site.fact)
    if fact is None or fact.type != "torch.Tensor" or fact.shape != ():
        return False
    return fact.dtype in _WHOLE and fact.device == "cpu"


def _is_told(site: Site, part: cst.BaseSlice) -> bool:
    """Whether the text says that the tensor that chooses is one."""
    if not isinstance(part, cst.Index) or not _is_tensor_outside(site, part):
        return True
    return is_tensor_by_text(site, part.value)


def _is_read(site: Site, part: cst.BaseSlice) -> bool:
    """Whether it is a number of Python that the text does not tell."""
    if not isinstance(part, cst.Index) or _is_literal(part):
        return False
    given = parameters_of(site.function.params) if site.function is not None else frozenset()
    if isinstance(part.value, cst.Name) and part.value.value in given:
        return False  # backends take it, and another caller may give a list
    fact = infer(part.value, site.fact)
    return fact is not None and fact.kind == "int"


def _is_literal(part: cst.BaseSlice) -> bool:
    match part:
        case cst.Index(value=cst.Integer() | cst.UnaryOperation(expression=cst.Integer())):
            return True
    return False

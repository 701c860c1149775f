"""A faster way for masks that keep all (or nothing), where the general way gives the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Safety

from ..control_flow.sites import if_at

_FACTS = {
    "mask": tensor(3, dtype="torch.bool"),
    "mask.all()": tensor(dtype="torch.bool"),
    "mask.any()": tensor(dtype="torch.bool"),
    "torch.all(x == 1)": tensor(dtype="torch.bool"),
    "x": tensor(3),
}
_NOTE = (
    "the general way is taken for `{test}`, too; it gave the same as the short one in all calls"
    " that were tried"
)
_WIDER = (
    "Where `{name}` has another dtype or more rows than what it is joined with, the result takes"
    " them from it, which it did not on the short way."
)


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(x, mask, n):\n{body}"


class DropShortcut(Codemod):
    """*What it does.*  Leaves out a shorter way that the function takes where a mask keeps all, or
    nothing: ``if mask.all(): return x, None`` goes, and what follows is computed for such masks,
    too.

    *When it applies.*  A condition asks ``all`` or ``any`` of a tensor, alone or behind an ``and``,
    and the branch for it returns, or only binds names; the general way follows, or is the ``else``.

    *Fix safety.*  Nothing in the text shows that both ways give the same: the runs do. Safe where
    recorded calls and variations of them took each of the two ways at least twice, and values,
    gradients and state agree; else unsafe.  Unsafe, too, where a caller gives the mask as floats:
    one of another dtype than what it is multiplied with would decide on the result's.

    *Refuses.*  Branches that do more than return or bind names; comparisons of sizes and numbers,
    of which a run shows few values.
    """

    name = "drop-shortcut"
    codes = ("GB0170", "data-dependent-guard")
    examples = (
        Example(
            _source("if mask.all():", "    return x", "return x * mask"),
            _source("return x * mask"),
            at="mask.all()",
            facts=_FACTS,
            title="an early return",
        ),
        Example(
            _source(
                "y = x + 1  # the start",
                "",
                "# nothing to hide",
                "if n is not None and torch.all(x == 1):",
                "    mask = None",
                "return y if mask is None else y * mask",
            ),
            _source(
                "y = x + 1  # the start",
                "return y if mask is None else y * mask",
            ),
            at="torch.all(x == 1)",
            facts=_FACTS,
            title="no mask instead of a mask",
        ),
        Example(
            _source(
                "if mask.any():", "    x = x.masked_fill(mask, 0)", "    x = x + 0", "return x"
            ),
            _source("x = x.masked_fill(mask, 0)", "x = x + 0", "return x"),
            at="mask.any()",
            facts=_FACTS,
            title="a guard around the general way",
        ),
        Example(
            _source(
                "if not mask.any():",
                "    y = x",
                "elif mask.all():",
                "    y = x * 2",
                "else:",
                "    y = torch.where(mask, x * 2, x)",
                "return y",
            ),
            _source("y = torch.where(mask, x * 2, x)", "return y"),
            at="mask.any()",
            facts=_FACTS,
            title="a chain of them",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at=at, why=why, facts=_FACTS)
        for why, at, lines in (
            ("it raises", "mask.all()", ("if mask.all():", "    raise ValueError", "return x")),
            (
                "it calls something for its effect",
                "mask.all()",
                ("if mask.all():", "    n.append(1)", "    return x", "return x * mask"),
            ),
            (
                "the other branch is for a number",
                "mask.all()",
                (
                    "if mask.all():",
                    "    y = x",
                    "elif x.sum() > 0:",
                    "    y = x + 1",
                    "else:",
                    "    y = x * mask",
                    "return y",
                ),
            ),
            ("a number is asked", "x.sum() > 0", ("if x.sum() > 0:", "    return x", "return x")),
            (
                "the general way of the guard returns",
                "mask.any()",
                ("if mask.any():", "    return x * mask", "return x"),
            ),
            (
                "what it is asked with may change something",
                "mask.all()",
                ("if n.pop() and mask.all():", "    return x", "return x * mask"),
            ),
            (
                "nothing follows",
                "mask.all()",
                ("if mask.all():", "    return x"),
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        around = (site.node, *site.ancestors(site.node))
        block = next((site.parent(n) for n in around if _is_head(site, n)), site.node)
        if isinstance(block, cst.If) and block.orelse is not None:
            yield from _chain(site)
            return
        if not isinstance(block, cst.If) or comments_in(block.body):
            return
        short = _is_short(block.test)
        if short is None or site.function is None or isinstance(site.parent(block), cst.If):
            return
        edit = site.edit()
        if short:
            if not _returns_or_binds(block) or not _goes_on(site, block):
                return
            edit.remove(block)
        else:
            if not _only_binds(block.body):
                return
            edit.replace(block, *_unguarded(block))
        doubts = _doubts(site, [block.test])
        yield edit.rewrite(
            f"take the general way for `{code(block.test)}`, too",
            notes=(*doubts, _NOTE.format(test=code(block.test))),
            safety=Safety.UNSAFE if doubts else Safety.SAFE,
            rank=28,
            shows=("shortcut",),
        )


def _chain(site: Site) -> Iterator[Rewrite]:
    """Several short ways, and the general one behind ``else``."""
    head = if_at(site)
    if head is None or site.function is None:
        return
    tests: list[cst.BaseExpression] = []
    branch: cst.If | cst.Else | None = head
    while isinstance(branch, cst.If):
        if _is_short(branch.test) is not True or not _only_binds(branch.body):
            return
        if comments_in(branch.body) or (tests and any(it.comment for it in branch.leading_lines)):
            return
        tests.append(branch.test)
        branch = branch.orelse
    if branch is None or not isinstance(branch.body, cst.IndentedBlock):
        return
    if branch.body.header.comment is not None or any(it.comment for it in branch.leading_lines):
        return
    edit = site.edit()
    first, *others = branch.body.body
    above = [*head.leading_lines, *getattr(first, "leading_lines", ())]
    edit.replace(head, first.with_changes(leading_lines=above), *others)
    text = " and ".join(f"`{code(test)}`" for test in tests)
    doubts = _doubts(site, tests)
    yield edit.rewrite(
        f"take the general way for {text}, too",
        notes=(*doubts, _NOTE.format(test=text.strip("`"))),
        safety=Safety.UNSAFE if doubts else Safety.SAFE,
        rank=28,
        shows=("shortcut",),
    )


def _doubts(site: Site, tests: Sequence[cst.BaseExpression]) -> list[str]:
    """A mask of floats that a caller gives may be wider than what it is multiplied with."""
    assert site.function is not None
    given = {item.name.value for item in params_of(site.function.params)}
    body = code(site.function.body)
    found: list[str] = []
    for node in (part for test in tests for part in walk(test) if isinstance(part, cst.Name)):
        fact = site.fact(node)
        if node.value not in given or fact is None or fact.dtype not in FLOAT_DTYPES:
            continue
        if not re.search(rf"\b{node.value}\.(?:to|type_as|type|float|half|bool)\(", body):
            found.append(_WIDER.format(name=node.value))
    return list(dict.fromkeys(found))


def _unguarded(block: cst.If) -> list[cst.BaseStatement]:
    """The statements of the branch, with the comments above the condition."""
    first, *others = cst.ensure_type(block.body, cst.IndentedBlock).body
    above = [*block.leading_lines, *getattr(first, "leading_lines", ())]
    return [first.with_changes(leading_lines=above), *others]


def _is_head(site: Site, node: cst.CSTNode) -> bool:
    holder = site.parent(node)
    return isinstance(holder, cst.If) and holder.test is node


def _is_short(test: cst.BaseExpression) -> bool | None:
    """Whether the condition says that nothing is left to do; False where it says that there is."""
    match test:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            found = _is_short(inner)
            return None if found is None else not found
        case cst.BooleanOperation(operator=cst.And()):
            sides = [_is_short(test.left), _is_short(test.right)]
            if not any(sides):
                return None
            pairs = zip(sides, (test.left, test.right), strict=True)
            return True if all(found or _is_plain(side) for found, side in pairs) else None
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="item" | "bool")) as func, args=[]):
            return _is_short(func.value)
        case cst.Call(func=cst.Name("bool"), args=[cst.Arg(value=inner)]):
            return _is_short(inner)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="all" | "any" as asked)), args=args):
            return asked == "all" if len(args) < 2 else None
    return None


def _is_plain(node: cst.BaseExpression) -> bool:
    """Whether asking it changes nothing: what is left out was asked in vain."""
    kinds = (cst.Await, cst.NamedExpr, cst.Yield)
    if any(isinstance(inner, kinds) for inner in walk(node)):
        return False
    calls = [inner for inner in walk(node) if isinstance(inner, cst.Call)]
    return all(code(call.func) in ("isinstance", "len", "hasattr") for call in calls)


def _returns_or_binds(block: cst.If) -> bool:
    """Whether the branch is one ``return``, perhaps behind names that it binds."""
    lines = list(block.body.body)
    last = lines[-1]
    if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return):
        smalls = [small for line in lines for small in getattr(line, "body", ())]
        lines_are_plain = all(isinstance(line, cst.SimpleStatementLine) for line in lines)
        return lines_are_plain and all(_binds(small) for small in smalls[:-1])
    return _only_binds(block.body)


def _only_binds(body: cst.BaseSuite) -> bool:
    if not isinstance(body, cst.IndentedBlock):
        return False
    return all(
        isinstance(line, cst.SimpleStatementLine) and all(_binds(small) for small in line.body)
        for line in body.body
    )


def _binds(small: cst.BaseSmallStatement) -> bool:
    """``name = value``, whatever is computed for it; a call for its effect is none."""
    return isinstance(small, cst.Assign | cst.AnnAssign) and not activity(small).mutates


def _goes_on(site: Site, block: cst.If) -> bool:
    """Whether something follows, in the branch's block or further out."""
    node: cst.CSTNode = block
    while not isinstance(node, cst.FunctionDef):
        siblings = list(site.block_of(node)) if isinstance(node, cst.BaseStatement) else []
        if node in siblings and siblings.index(node) + 1 < len(siblings):
            return True
        parent = site.parent(node)
        if parent is None or isinstance(parent, cst.For | cst.While):
            return False
        node = parent
    return False

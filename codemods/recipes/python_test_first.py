"""`if data: if flag: …`: what Python knows is asked first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import definitely_bound_before
from gbfix.analysis.purity import effects_of
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor

from ..control_flow.sites import if_at

_SOURCE = """
import torch


def f(self, x, strict, limit):
    ok = torch.isfinite(x)
{}
    return x
"""
_FACTS = {
    "x": tensor(3),
    "ok": tensor(3, dtype="torch.bool"),
    "ok.all()": tensor(dtype="torch.bool"),
    "strict": scalar(True),
    "limit": scalar(3),
    "self.training": scalar(True),
}
#: What a question that comes earlier may be made of.
_PARTS = (
    cst.Name
    | cst.Attribute
    | cst.Integer
    | cst.Float
    | cst.SimpleString
    | cst.Comparison
    | cst.ComparisonTarget
    | cst.BooleanOperation
    | cst.UnaryOperation
)
#: What no value refuses: None, which another caller may give, has no order and no sign.
_OPERATORS = cst.Is | cst.IsNot | cst.Equal | cst.NotEqual | cst.Not
_PLAIN = ("bool", "int", "float", "str", "none")


def _near_miss(why: str, *lines: str) -> NearMiss:
    body = "\n".join(f"    {line}" for line in lines)
    return NearMiss(_SOURCE.format(body), at="ok.all()", why=why, facts=_FACTS)


class PythonTestFirst(Codemod):
    """*What it does.*  Asks what Python knows before what only the data tells.

    ```python
    if not valid.all():
        if self.training:
            raise FloatingPointError("the training has diverged")
        boxes = boxes[valid]
    ```
    becomes
    ```python
    if self.training:
        if not valid.all():
            raise FloatingPointError("the training has diverged")
    elif not valid.all():
        boxes = boxes[valid]
    ```

    *When it applies.*  An ``if`` on a tensor's value has no ``else``, and its body begins with an
    ``if`` on a number, a flag or a setting.  That is all that its body does, or that inner ``if``
    leaves the function or the round of the loop.

    *Fix safety.*  Safe: both questions are only asked, and what runs is the same.  Dynamo follows
    one arm of Python's question, and sees the other one where that answers otherwise.  Other
    codemods do the rest: where none can, this rewrite is not kept.

    *Refuses.*  Questions that call something, or that make sense only after the data have
    answered.
    """

    name = "python-test-first"
    codes = ("GB0170", "GB0033", "GB0036", "GB0088", "GB0124", "data-dependent-guard")
    examples = (
        Example(
            _SOURCE.format(
                "    if not ok.all():\n"
                "        # Too late.\n"
                "        if strict and limit != 2:\n"
                "            raise ValueError('late')\n"
                "        x = x[ok]  # the rest"
            ),
            _SOURCE.format(
                "    # Too late.\n"
                "    if strict and limit != 2:\n"
                "        if not ok.all():\n"
                "            raise ValueError('late')\n"
                "    elif not ok.all():\n"
                "        x = x[ok]  # the rest"
            ),
            at="ok.all()",
            facts=_FACTS,
            title="an error while training only",
        ),
        Example(
            _SOURCE.format(
                "    if not ok.all():\n"
                "        if self.training:\n"
                "            x = x * 2\n"
                "        else:\n"
                "            x = x[ok]"
            ),
            _SOURCE.format(
                "    if self.training:\n"
                "        if not ok.all():\n"
                "            x = x * 2\n"
                "    elif not ok.all():\n"
                "        x = x[ok]"
            ),
            at="ok.all()",
            facts=_FACTS,
            title="two ways to go on",
        ),
        Example(
            _SOURCE.format("    if not ok.all():\n        if strict:\n            print('odd')"),
            _SOURCE.format("    if strict:\n        if not ok.all():\n            print('odd')"),
            at="ok.all()",
            facts=_FACTS,
            title="nothing else",
        ),
    )
    near_misses = (
        _near_miss("the other way", "if strict:", "    if not ok.all():", "        x = x * 2"),
        _near_miss(
            "what follows runs in both cases",
            "if not ok.all():",
            "    if strict:",
            "        x = x * 2",
            "    x = x + 1",
        ),
        _near_miss(
            "something comes before",
            "if not ok.all():",
            "    strict = self.strict",
            "    if strict:",
            "        x = x * 2",
        ),
        _near_miss(
            "an else", "if not ok.all():", "    if strict:", "        x = x * 2", "else:",
            "    x = x + 1",
        ),
        _near_miss("a call", "if not ok.all():", "    if limit.ready():", "        x = x * 2"),
        _near_miss(
            "an order, which another caller's None would not have",
            "if not ok.all():",
            "    if limit > 2:",
            "        x = x * 2",
        ),
        _near_miss("about the data", "if not ok.all():", "    if x > 2:", "        x = x * 2"),
        _near_miss(
            "a setting that may be missing",
            "if self.found is not None and not ok.all():",
            "    if self.found.strict:",
            "        x = x * 2",
        ),
        _near_miss(
            "the data's question may change the setting",
            "if self.update(ok.all()):",
            "    if self.training:",
            "        x = x * 2",
        ),
        _near_miss(
            "bound by the question",
            "if (strict := not ok.all()):",
            "    if strict:",
            "        x = x * 2",
        ),
        _near_miss(
            "a name that is not always bound",
            "if limit:",
            "    late = True",
            "if not ok.all():",
            "    if late:",
            "        x = x * 2",
        ),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        outer = if_at(site)
        if outer is None or outer.orelse is not None or site.parent(outer) is None:
            return
        if not isinstance(outer.body, cst.IndentedBlock) or not isinstance(
            outer.body.body[0], cst.If
        ):
            return
        inner, *rest = outer.body.body
        assert isinstance(inner, cst.If)
        if not _may_come_first(site, outer, inner.test) or _has_comment(outer):
            return
        if rest and (inner.orelse is not None or not _leaves(inner.body)):
            return
        edit = site.edit()
        edit.replace(outer, _swapped(outer, inner, rest))
        first, second = code(inner.test), code(outer.test)
        one = not rest and inner.orelse is None
        yield edit.rewrite(
            f"ask about `{first}` first",
            rank=30,
            assumes=("same-questions",),
            notes=(f"where `{first}` does not hold, `{second}` is not computed",) if one else (),
            prepares=True,
        )


def _has_comment(outer: cst.If) -> bool:
    """Whether a comment has no place in the new order."""
    body = cst.ensure_type(outer.body, cst.IndentedBlock)
    below = any(line.comment is not None for line in body.footer)
    return below or body.header.comment is not None or bool(comments_in(outer.test))


def _may_come_first(site: Site, outer: cst.If, test: cst.BaseExpression) -> bool:
    """Whether a question can be asked before the data: it does nothing, and cannot fail."""
    if comments_in(test) or not all(_only_asks(part) for part in walk(test)):
        return False
    # The question about the data must not change what Python's is about.
    binds = any(isinstance(part, cst.NamedExpr) for part in walk(outer.test))
    if binds or not effects_of(outer.test, site.fact).pure:
        return False
    return all(
        _is_known(site, outer, part)
        for part in walk(test)
        if isinstance(part, cst.Name | cst.Attribute) and not _is_inside(site, part)
    )


def _only_asks(part: cst.CSTNode) -> bool:
    match part:
        case cst.ComparisonTarget(operator=operator) | cst.UnaryOperation(operator=operator):
            return isinstance(operator, _OPERATORS)
        case cst.BaseExpression():
            return isinstance(part, _PARTS)
    return True


def _is_inside(site: Site, part: cst.CSTNode) -> bool:
    """Whether the name belongs to a longer one."""
    return isinstance(site.parent(part), cst.Attribute)


def _is_known(site: Site, outer: cst.If, part: cst.Name | cst.Attribute) -> bool:
    """Whether a name is a plain value of Python wherever the `if` is reached."""
    name = dotted(part)
    if site.function is None or name is None or name in ("True", "False", "None"):
        return name in ("True", "False", "None")
    bound = definitely_bound_before(site.function, site.statement_of(outer))
    fact = site.fact(part) or site.locals_before(site.statement_of(outer)).get(name)
    if isinstance(part, cst.Name):
        return name in bound and fact is not None and fact.kind in _PLAIN
    if name == "self.training":
        return "self" in bound
    # What was read was there; what was not may be there only where the data say so.
    return fact is not None and fact.kind in _PLAIN and name.partition(".")[0] in bound


def _leaves(body: cst.BaseSuite) -> bool:
    """Whether nothing after the block is reached from it."""
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, cst.Raise | cst.Return | cst.Continue | cst.Break)


def _swapped(outer: cst.If, inner: cst.If, rest: Sequence[cst.BaseStatement]) -> cst.If:
    other: cst.If | None = None
    if rest:
        other = cst.If(outer.test.deep_clone(), cst.IndentedBlock(list(rest)))
    elif isinstance(inner.orelse, cst.Else):
        other = cst.If(outer.test.deep_clone(), inner.orelse.body)
    elif inner.orelse is not None:
        other = cst.If(outer.test.deep_clone(), cst.IndentedBlock([inner.orelse]))
    lines = (*outer.leading_lines, *(line for line in inner.leading_lines if line.comment))
    first = cst.IndentedBlock([cst.If(outer.test, inner.body)])
    return cst.If(inner.test, first, other, leading_lines=lines)

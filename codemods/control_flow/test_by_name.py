"""A condition that Python and tensors decide by turns, under a name."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor

from .if_to_where import is_point
from .refusal import Refusal
from .sites import if_at
from .values import Values

_WIDTH = 100
_FACTS = {
    "n != 1": scalar(True),
    "n > 2": scalar(True),
    "x.sum() > 0": tensor(dtype="torch.bool"),
    "x": tensor(3),
    "(x.diff() >= 0).all()": tensor(dtype="torch.bool"),
}


def _source(*lines: str) -> str:
    return "import torch\n\n\ndef f(x, n, m):\n" + "".join(f"    {line}\n" for line in lines)


class NameTheTest(Codemod):
    """*What it does.*  Gives a name to a condition in which tensors decide only where Python's part
    leaves it open: ``if m is not None and (n > 2 or not (x.diff() >= 0).all()):`` becomes

    ```python
    holds = m is not None and (n > 2 or torch.logical_not((x.diff() >= 0).all()))
    if holds:
    ```

    *When it applies.*  ``and`` and ``or`` are nested, and what a tensor decides stands last in
    each. It is a step: the name holds a tensor, and another rewrite lowers the choice.

    *Fix safety.*  Safe: Python evaluates the same parts in the same order, and the truth is the
    same.

    *Refuses.*  Parts of unknown kind, tensors with dimensions, conditions in which Python's part
    stands behind a tensor's.
    """

    name = "test-by-name"
    codes = ("GB0170",)
    examples = (
        Example(
            _source(
                "if m is not None and (n > 2 or not (x.diff() >= 0).all()):",
                "    x = x + 1",
                "return x",
            ),
            _source(
                "holds = m is not None and (n > 2 or torch.logical_not((x.diff() >= 0).all()))",
                "if holds:",
                "    x = x + 1",
                "return x",
            ),
            at="(x.diff() >= 0).all()",
            facts=_FACTS,
            title="where Python leaves it open",
        ),
        Example(
            _source("if not (m is None or (n != 1 and x.sum() > 0)):", "    x = x + 1", "return x"),
            _source(
                "holds = m is not None and (n == 1 or torch.logical_not(x.sum() > 0))",
                "if holds:",
                "    x = x + 1",
                "return x",
            ),
            at="x.sum() > 0",
            facts={**_FACTS, "n": scalar(1)},
            title="denied as a whole",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(line, "    x = x + 1", "return x"), at=at, why=why, facts=_FACTS)
        for why, at, line in (
            ("one level", "x.sum() > 0", "if n > 2 and x.sum() > 0:"),
            (
                "Python's part stands behind",
                "x.sum() > 0",
                "if m is None or (x.sum() > 0 and n > 2):",
            ),
            ("of unknown kind", "x.sum() > 0", "if m or (n > 2 and x.sum() > 0):"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        choice = if_at(site)
        if choice is None or site.function is None or isinstance(site.parent(choice), cst.If):
            return
        if comments_in(choice.test) or not _is_nested(choice.test):
            return
        try:
            held = _held(choice.test, Values(site), denied=False)
        except Refusal:
            return
        name = fresh("holds", names_in(site.module))
        line = f"{name} = {held}"
        if len(line) + site.span(choice).column > _WIDTH:
            line = f"{name} = (\n    {held}\n)"
        made = cst.ensure_type(cst.parse_statement(line), cst.SimpleStatementLine)
        edit = site.edit()
        edit.replace(
            choice,
            made.with_changes(leading_lines=choice.leading_lines),
            choice.with_changes(test=cst.Name(name), leading_lines=()),
        )
        yield edit.rewrite("give the condition a name", rank=18, prepares=True)


def _is_nested(test: cst.BaseExpression) -> bool:
    """Whether both ``and`` and ``or`` are in it."""
    kinds = {type(n.operator) for n in walk(test) if isinstance(n, cst.BooleanOperation)}
    return len(kinds) > 1


def _held(node: cst.BaseExpression, values: Values, *, denied: bool) -> str:
    """The text of what the condition holds: Python's value, or a tensor where one decides."""
    match node:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _held(inner, values, denied=not denied)
        case cst.BooleanOperation(left=left, operator=operator, right=right):
            if not values.is_python(left):
                raise Refusal("a tensor decides first")
            joint = "and" if isinstance(operator, cst.And) != denied else "or"
            parts = [_held(left, values, denied=denied), _held(right, values, denied=denied)]
            texts = [
                f"({text})" if _is_joined(part, denied) not in ("", joint) else text
                for part, text in zip((left, right), parts, strict=True)
            ]
            return f" {joint} ".join(texts)
    plain = node.with_changes(lpar=(), rpar=())
    if values.is_python(node):
        return _denial(plain) if denied else code(plain)
    if not is_point(node, values) or not values.is_bool_tensor(node):
        raise Refusal("a tensor with dimensions decides")
    return f"{values.torch}.logical_not({code(plain)})" if denied else code(plain)


def _is_joined(node: cst.BaseExpression, denied: bool) -> str:
    """The operator that joins the parts of the text, if there are several."""
    match node:
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _is_joined(inner, not denied)
        case cst.BooleanOperation(operator=operator):
            return "and" if isinstance(operator, cst.And) != denied else "or"
    return ""


def _denial(node: cst.BaseExpression) -> str:
    match node:
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
            for one, other in ((cst.Is, "is not"), (cst.IsNot, "is"), (cst.NotEqual, "==")):
                if isinstance(operator, one):
                    return f"{code(left)} {other} {code(right)}"
    return f"not {code(node)}"

"""A condition of Python and a tensor, bound to a name and asked about once, where it is asked."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import code
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .if_to_where import is_point
from .sites import if_at
from .values import Values

_FACTS = {
    "self.training": scalar(True),
    "x.sum() > 0": tensor(dtype="torch.bool"),
    "skip": Fact("mixed"),
    "not skip": Fact("mixed"),
    "x": tensor(3),
    "x > 0": tensor(3, dtype="torch.bool"),
}
_SKIP = "skip = self.training and x.sum() > 0"


def _source(*lines: str) -> str:
    return "import torch\n\n\ndef f(self, x, n):\n" + "".join(f"    {line}\n" for line in lines)


class TestInPlace(Codemod):
    """*What it does.*  Writes a condition out where it is asked about:

    ```python
    skip = self.training and chance < self.rate
    if not skip:
        x = layer(x)
    ```
    becomes ``if not (self.training and chance < self.rate):``.

    *When it applies.*  Python's part and a tensor's are joined by ``and`` or ``or``: the name holds
    a bool in some calls, and a tensor in others, and no choice between tensors takes both.  The
    name is bound in the line above, and used for nothing else.  It is a step: another rewrite
    lowers the choice.

    *Fix safety.*  Safe: the same is evaluated at the same time.

    *Refuses.*  Names that are bound or used elsewhere, tensors with dimensions, code between the
    two lines.
    """

    name = "test-in-place"
    codes = ("GB0170",)
    examples = (
        Example(
            _source("# by chance", _SKIP, "if not skip:", "    x = x + 1", "return x"),
            _source(
                "# by chance",
                "if not (self.training and x.sum() > 0):",
                "    x = x + 1",
                "return x",
            ),
            at="skip:",
            facts=_FACTS,
            title="a layer that is left out in training",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at="skip:", why=why, facts=_FACTS)
        for why, *lines in (
            ("used elsewhere", _SKIP, "if not skip:", "    x = x + 1", "return x, skip"),
            ("bound twice", "skip = False", _SKIP, "if skip:", "    x = x + 1", "return x"),
            ("code between", _SKIP, "x = x - 1", "if skip:", "    x = x + 1", "return x"),
            (
                "Python alone",
                "skip = self.training and self.training",
                "if skip:",
                "    x = x + 1",
                "return x",
            ),
            (
                "a tensor with dimensions",
                "skip = self.training and x > 0",
                "if skip:",
                "    x = x + 1",
                "return x",
            ),
            ("a part of it", _SKIP, "if n or skip:", "    x = x + 1", "return x"),
            (
                "asked in a loop around it",
                _SKIP,
                "while skip:",
                "    x = x + 1",
                "return x",
            ),
            ("a global", "global skip", _SKIP, "if skip:", "    x = x + 1", "return x"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        choice = if_at(site)
        if choice is None or site.function is None or isinstance(site.parent(choice), cst.If):
            return
        inner = choice.test
        denied = isinstance(inner, cst.UnaryOperation) and isinstance(inner.operator, cst.Not)
        if denied:
            inner = cst.ensure_type(inner, cst.UnaryOperation).expression
        if not isinstance(inner, cst.Name):
            return
        line = _bound_above(site, choice, inner.value)
        if line is None:
            return
        match line.body:
            case [cst.Assign(targets=[_], value=cst.BooleanOperation() as value)]:
                pass
            case _:
                return
        if comments_in(value) or not _is_mixed(value, Values(site)):
            return
        text = code(value.with_changes(lpar=(), rpar=()))
        test = cst.parse_expression(f"not ({text})" if denied else text)
        edit = site.edit()
        edit.remove(line)
        edit.replace(
            choice,
            choice.with_changes(
                test=test,
                leading_lines=[*line.leading_lines, *choice.leading_lines],
                whitespace_before_test=cst.SimpleWhitespace(" "),
            ),
        )
        yield edit.rewrite("ask about the condition in place", rank=11, prepares=True)


def _bound_above(site: Site, choice: cst.If, name: str) -> cst.SimpleStatementLine | None:
    """The line right above that alone binds the name, of which nothing else makes use."""
    assert site.function is not None
    does = activity(site.function.body)
    if name in does.captures | does.globals | does.nonlocals or does.frame_access:
        return None
    if len(list(site.places_of(name, site.function))) != 2:
        return None
    block = list(site.block_of(choice))
    place = next((n for n, it in enumerate(block) if it is choice), 0)
    above = block[place - 1] if place else None
    if not isinstance(above, cst.SimpleStatementLine) or name not in activity(above).bound:
        return None
    return above if above.trailing_whitespace.comment is None else None


def _is_mixed(node: cst.BaseExpression, values: Values) -> bool:
    """Whether Python decides one side, and a tensor without dimensions the other."""
    match node:
        case cst.BooleanOperation(left=left, right=right) if values.is_python(left):
            return _is_mixed(right, values) or (
                is_point(right, values) and values.is_bool_tensor(right)
            )
    return False

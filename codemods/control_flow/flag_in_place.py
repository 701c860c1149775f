"""A flag that a condition sets, asked about once: the condition is written out there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, statements_of, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .if_to_where import is_point
from .sites import if_at
from .values import Values

_FACTS = {
    "self.training": scalar(True),
    "self.rate": scalar(0.5),
    "chance": tensor(),
    "chance < self.rate": tensor(dtype="torch.bool"),
    "x > 0": tensor(3, dtype="torch.bool"),
    "x": tensor(3),
    "drop": Fact("mixed"),
    "not drop": Fact("mixed"),
}


def _source(*lines: str) -> str:
    return "import torch\n\n\ndef f(self, x, n):\n" + "".join(f"    {line}\n" for line in lines)


_SET = ("if chance < self.rate:", "    drop = True")
_INSIDE = ("drop = False", "if self.training:", "    chance = torch.rand(())")
_DEEP = tuple(f"    {line}" for line in _SET)
_ASK = ("if not drop:", "    x = x + 1", "return x")


class FlagInPlace(Codemod):
    """*What it does.*  Asks for a condition where a flag was asked for that the condition sets:

    ```python
    drop = False
    if self.training:
        chance = torch.rand(())
        if chance < self.rate:
            drop = True
    if not drop:
        x = layer(x)
    ```
    becomes ``if self.training: chance = torch.rand(())``, and ``if not (self.training and chance <
    self.rate): x = layer(x)``.

    *When it applies.*  The flag is set to a constant, then to the other one by the last ``if`` of
    the next statement, and asked for once, in the statement after that.  It is a step: another
    rewrite lowers the choice.

    *Fix safety.*  Safe: the same conditions are asked, in the same order.

    *Refuses.*  Flags that are used elsewhere, conditions that do more than to ask, and tests of
    tensors with dimensions.
    """

    name = "flag-in-place"
    codes = ("GB0170",)
    examples = (
        Example(
            _source("# by chance", *_INSIDE, *_DEEP, *_ASK),
            _source(
                "# by chance",
                "if self.training:",
                "    chance = torch.rand(())",
                "if not (self.training and chance < self.rate):",
                "    x = x + 1",
                "return x",
            ),
            at="chance < self.rate:",
            facts=_FACTS,
            title="a layer that is left out in training",
        ),
        Example(
            _source("keep = True", "if chance < self.rate:", "    keep = False",
                    "if keep:", "    x = x + 1", "return x"),
            _source("if not chance < self.rate:", "    x = x + 1", "return x"),
            at="chance < self.rate:",
            facts=_FACTS,
            title="a flag that is True at first",
        ),
        Example(
            _source(*_INSIDE, *_DEEP, *_ASK),
            _source(
                "if self.training:",
                "    chance = torch.rand(())",
                "if not (self.training and chance < self.rate):",
                "    x = x + 1",
                "return x",
            ),
            at="drop:",
            facts=_FACTS,
            title="seen where the flag is asked for",
        ),
    )  # fmt: skip
    near_misses = tuple(
        NearMiss(_source(*lines), at="chance < self.rate:", why=why, facts=_FACTS)
        for why, *lines in (
            ("used elsewhere", "drop = False", *_SET, *_ASK[:2], "return x, drop"),
            ("set twice", "drop = False", *_SET, "drop = n", *_ASK),
            ("code between", "drop = False", *_SET, "x = x - 1", *_ASK),
            ("the same constant", "drop = True", *_SET, *_ASK),
            ("another side", "drop = False", *_SET, "else:", "    x = x - 1", *_ASK),
            (
                "more than the flag",
                "drop = False",
                "if chance < self.rate:",
                "    x = x - 1",
                "    drop = True",
                *_ASK,
            ),
            (
                "a condition that may change",
                "drop = False",
                "if next(n):",
                "    chance = torch.rand(())",
                *_DEEP,
                *_ASK,
            ),
            (
                "the condition changes under itself",
                "drop = False",
                "if self.training:",
                "    self.training = n",
                *_DEEP,
                *_ASK,
            ),
            (
                "the condition is changed by a call",
                "drop = False",
                "if self.training:",
                "    chance = self.draw()",
                *_DEEP,
                *_ASK,
            ),
            (
                "a function that may change what is asked",
                "drop = False",
                "if self.training:",
                "    chance = draw()",
                *_DEEP,
                *_ASK,
            ),
            (
                "a change under another name",
                "drop = False",
                "if n.left > 0:",
                "    self.plan.left -= 1",
                *_DEEP,
                *_ASK,
            ),
            ("a global", "drop = False", "if LEFT:", "    chance = x", *_DEEP, *_ASK),
            ("a comment", "drop = False  # not yet", *_SET, *_ASK),
            ("a part of a test", "drop = False", *_SET, "if n or drop:", "    x = 1", "return x"),
            ("a choice with names", "drop = n", *_SET, *_ASK),
            (
                "set in a loop",
                "drop = False",
                "for chance in x:",
                *_DEEP,
                *_ASK,
            ),
        )
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        asked = _asked(site)
        if asked is None or site.function is None:
            return
        name, denied = _flag(asked.test)
        block = list(site.block_of(asked))
        place = next((n for n, it in enumerate(block) if it is asked), 0)
        if not name or place < 2 or not _is_own(site, name):
            return
        first, setter = block[place - 2 : place]
        if not isinstance(first, cst.SimpleStatementLine) or not isinstance(setter, cst.If):
            return
        starts = _constant(first, name)
        found = _set_by(setter, name)
        if starts is None or found is None or found[1] is starts:
            return
        inner, _, outer = found
        tests = [it.test for it in (*outer, inner)]
        if not _is_point(site, inner.test) or not all(_is_still(site, it) for it in outer):
            return
        if any(comments_in(it) for it in (*tests, inner, first.with_changes(leading_lines=[]))):
            return
        text = " and ".join(_part(test, len(tests)) for test in tests)
        # The flag is what it was at first, unless all of these hold.
        if denied is not starts:
            text = f"not ({text})" if len(tests) > 1 else f"not {text}"
        edit = site.edit()
        edit.remove(first)
        above = list(first.leading_lines)
        if outer:
            holder = outer[-1]
            changed = outer[0].deep_replace(
                holder.body, holder.body.with_changes(body=list(holder.body.body)[:-1])
            )
            assert isinstance(changed, cst.If)
            edit.replace(
                setter, changed.with_changes(leading_lines=[*above, *setter.leading_lines])
            )
            above = []
        else:
            edit.remove(setter)
            above += setter.leading_lines
        edit.replace(
            asked,
            asked.with_changes(
                test=cst.parse_expression(text),
                leading_lines=[*above, *asked.leading_lines],
                whitespace_before_test=cst.SimpleWhitespace(" "),
            ),
        )
        yield edit.rewrite("ask for the condition instead of a flag", rank=11, prepares=True)


def _asked(site: Site) -> cst.If | None:
    """The ``if`` that asks for the flag: the site's own, or the one below what the site is in."""
    choice = if_at(site)
    if choice is None or isinstance(site.parent(choice), cst.If):
        return None
    if _flag(choice.test)[0]:
        return choice
    top = choice
    for outer in site.ancestors(choice):
        if isinstance(outer, cst.If):
            top = outer
        elif isinstance(outer, cst.FunctionDef | cst.For | cst.While | cst.Try | cst.With):
            break
    block = list(site.block_of(top))
    place = next((n for n, it in enumerate(block) if it is top), len(block))
    below = block[place + 1] if place + 1 < len(block) else None
    return below if isinstance(below, cst.If) and _flag(below.test)[0] else None


def _flag(test: cst.BaseExpression) -> tuple[str, bool]:
    """``flag``, ``not flag``: the name, and whether it is denied."""
    match test:
        case cst.Name(name):
            return name, False
        case cst.UnaryOperation(operator=cst.Not(), expression=cst.Name(name)):
            return name, True
    return "", False


def _is_own(site: Site, name: str) -> bool:
    """Whether the function alone knows the name, which stands in three places of it."""
    assert site.function is not None
    does = activity(site.function.body)
    if name in does.captures | does.globals | does.nonlocals or does.frame_access:
        return False
    return len(list(site.places_of(name, site.function))) == 3


def _constant(line: cst.CSTNode, name: str) -> bool | None:
    """What a line gives the name, if it does nothing else and that is True or False."""
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(cst.Name(bound))],
                    value=cst.Name("True" | "False" as value),
                )
            ]
        ) if bound == name:
            return value == "True"
    return None


def _set_by(line: cst.CSTNode, name: str) -> tuple[cst.If, bool, tuple[cst.If, ...]] | None:
    """The ``if`` that does nothing but set the name, what it sets it to, and those around it, each
    of which has it as its last statement.
    """
    outer: list[cst.If] = []
    while isinstance(line, cst.If) and line.orelse is None:
        lines = list(statements_of(line.body))
        value = _constant(lines[0], name) if len(lines) == 1 else None
        if value is not None:
            return line, value, tuple(outer)
        if not isinstance(line.body, cst.IndentedBlock) or len(lines) < 2:
            return None
        outer.append(line)
        line = lines[-1]
    return None


def _is_point(site: Site, test: cst.BaseExpression) -> bool:
    values = Values(site)
    return is_point(test, values) and values.is_bool_tensor(test)


def _is_still(site: Site, choice: cst.If) -> bool:
    """Whether the condition is the same when its block has run: names and attributes alone, and the
    block binds and calls nothing that could change them.
    """
    for node in walk(choice.test):
        if isinstance(node, cst.Call | cst.Subscript | cst.Await | cst.NamedExpr):
            return False
        if isinstance(node, cst.Attribute) and _is_defined(site, node.attr.value):
            return False  # a property may do more than to tell, and is asked twice
    if not Values(site).is_python(choice.test):
        return False
    assert site.function is not None
    own = function_scope(site.function).locals
    does = activity(choice.body)
    reads = activity(choice.test).reads
    if reads - own or reads & does.bound or does.attribute_writes or does.subscript_writes:
        return False  # a global, or an object under another name
    if does.global_writes or does.frame_access or does.mutates_unknown:
        return False
    return all(_only_computes(site, it) for it in walk(choice.body) if isinstance(it, cst.Call))


def _is_defined(site: Site, name: str) -> bool:
    texts = {site.source, *site.sources.values()}
    return any(re.search(rf"\bdef {re.escape(name)}\(", text) for text in texts)


def _only_computes(site: Site, call: cst.Call) -> bool:
    """Whether a call changes nothing that a condition could ask: it computes or draws."""
    if isinstance(call.func, cst.Name):
        for line in site.module.body:
            if isinstance(line, cst.FunctionDef) and line.name.value == call.func.value:
                return any("custom_op" in code(item.decorator) for item in line.decorators)
    name = resolve(site.module, call.func) or ""
    return name.startswith(("torch.", "random.", "math.", "numpy.random."))


def _part(test: cst.BaseExpression, count: int) -> str:
    text = code(test)
    loose = isinstance(test, cst.BooleanOperation | cst.IfExp | cst.Lambda | cst.NamedExpr)
    return f"({text})" if loose and not test.lpar else text

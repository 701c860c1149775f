"""Follows a Python number in a test back to the tensor that it was read from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Edit, Site

from .membership import WHOLE
from .texts import NamesOnly, as_whole
from .values import Share, Values


@dataclasses.dataclass(frozen=True)
class Read:
    """``n = t.item()`` and the like: its line, and the name under which the tensor is kept.

    That name is ``n`` itself where nothing but the test uses the number.
    """

    line: cst.SimpleStatementLine
    tensor: cst.BaseExpression
    number: str
    name: str
    reader: str
    used_elsewhere: bool

    def apply(self, edit: Edit) -> None:
        """Keeps the tensor, and reads its number only if that is still used."""
        tensor = self.tensor.with_changes(lpar=(), rpar=())
        keep = cst.Assign([cst.AssignTarget(cst.Name(self.name))], tensor)
        new = self.line.with_changes(body=[keep])
        if not self.used_elsewhere:
            edit.replace(self.line, new)
            return
        read = cst.parse_statement(f"{self.number} = {self.reader.format(self.name)}")
        assert isinstance(read, cst.SimpleStatementLine)
        plain = new.with_changes(trailing_whitespace=cst.TrailingWhitespace())
        edit.replace(
            self.line, plain, read.with_changes(trailing_whitespace=self.line.trailing_whitespace)
        )


def scalars(
    site: Site, statement: cst.If | cst.For, values: Values, inside_branches: dict[str, str]
) -> list[Read]:
    """The numbers in the test of an ``if``, or the bound of a ``for``, that the same function read.

    `Values.scalars` learns what stands for them, ``inside_branches`` what to write for them there:
    torch.cond takes no float from outside.  A name counts if its only binding is one
    ``n = t.item()`` (a line of its own), ahead of the test.
    """
    function = site.function
    if function is None:
        return []
    found = []
    bound_once = [
        node
        for node in walk(function.body)
        if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1
    ]
    test = statement.test if isinstance(statement, cst.If) else statement.iter
    inside, around = set(walk(test)), set(walk(statement))
    for name in sorted(activity(test).reads):
        lines = [line for line in bound_once if name in activity(line).bound]
        others = activity(function.body)
        if name in parameters_of(function.params) or name in others.captures | others.globals:
            continue
        if len(lines) != 1 or _bindings(function, name) != 1:
            continue
        tensor, reader = _read(lines[0], name)
        if tensor is None or not values.is_tensor(tensor):
            continue
        fact = values.fact(tensor)
        if reader.startswith("int") and (fact is None or fact.dtype not in WHOLE):
            continue  # `int` cuts off what stands behind the point
        if values.share(tensor, frozenset()) is not Share.FRESH and others.mutates:
            continue  # the tensor may be changed before the test, the number was not
        uses = [
            node
            for node in walk(function.body)
            if isinstance(node, cst.Name)
            and node.value == name
            and node not in inside
            and not isinstance(site.parent(node), cst.AssignTarget)
        ]
        kept = fresh(f"{name}_tensor", names_in(site.module)) if uses else name
        values.scalars[name] = (tensor, kept)
        elsewhere = any(node not in around for node in uses)
        if uses:
            exact = all(_as_tensor(site, use, tensor, values) for use in uses if use in around)
            inside_branches[name] = f"{kept}.detach()" if exact else reader.format(kept)
        if reader.startswith("int"):
            tensor = cst.parse_expression(as_whole(tensor, values.torch))
        found.append(Read(lines[0], tensor, name, kept, reader, elsewhere))
    return found


def _read(line: cst.SimpleStatementLine, name: str) -> tuple[cst.BaseExpression | None, str]:
    """The tensor of ``name = t.item()``, ``int(t)`` or ``bool(t)``, and how it is read."""
    match line.body[0]:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=target))],
            value=cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value="item")), args=[]),
        ) if target == name:
            return inner, "{}.item()"
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=target))],
            value=cst.Call(
                func=cst.Name(value="bool" | "int" as reader),
                args=[cst.Arg(keyword=None, star="") as arg],
            ),
        ) if target == name:
            return arg.value, f"{reader}({{}})"
    return None, ""


def _bindings(function: cst.FunctionDef, name: str) -> int:
    """How many small statements, loops and the like of the function bind the name."""
    count = 0
    for node in walk(function.body):
        if isinstance(node, cst.BaseSmallStatement | cst.NamedExpr | cst.AsName):
            count += name in activity(node).bound
        elif isinstance(node, cst.For):
            count += name in {n.value for n in walk(node.target) if isinstance(n, cst.Name)}
        elif isinstance(node, cst.FunctionDef | cst.ClassDef):
            count += node.name.value == name
    return count


def reads_inside(
    site: Site, nodes: Sequence[cst.CSTNode], values: Values, inside_branches: dict[str, str]
) -> None:
    """Adds to ``inside_branches`` the calls of ``.item()`` that may stay tensors.

    A call counts if everywhere in the nodes its text stands for one operand of tensor arithmetic.
    """
    found: dict[str, list[cst.Call]] = {}
    for node in nodes:
        for call in walk(node):
            match call:
                case cst.Call(func=cst.Attribute(attr=cst.Name(value="item")), args=[]):
                    found.setdefault(code(call), []).append(call)
    for text, calls in found.items():
        func = calls[0].func
        assert isinstance(func, cst.Attribute)
        if all(
            isinstance(call.func, cst.Attribute) and _as_tensor(site, call, call.func.value, values)
            for call in calls
        ):
            inside_branches[text] = f"{code(func.value)}.detach()"


def _as_tensor(
    site: Site, use: cst.BaseExpression, tensor: cst.BaseExpression, values: Values
) -> bool:
    """Whether arithmetic gives the same with the tensor as with its number, gradients included.

    That is so beside a tensor of the same floating dtype: the number is exact in it, and a
    tensor without dimensions changes neither shape nor dtype.
    """
    holder = site.parent(use)
    if not isinstance(holder, cst.BinaryOperation) or not isinstance(
        holder.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide
    ):
        return False
    other = values.fact(holder.left if holder.right is use else holder.right)
    fact = values.fact(tensor)
    if fact is None or other is None or fact.shape != () or not other.is_tensor:
        return False
    return fact.dtype == other.dtype and fact.dtype in ("torch.float32", "torch.float64")


def read_inside(node: cst.BaseStatement, texts: Mapping[str, str]) -> cst.BaseStatement:
    """The statement with expressions replaced, by their text, inside lambdas and functions."""
    new = node.visit(_ReadInside(texts))
    assert isinstance(new, cst.BaseStatement)
    return new


class _ReadInside(NamesOnly):
    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__()
        self._texts = texts
        self._depth = 0

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self._depth += 1

    def leave_Lambda(self, original_node: cst.Lambda, updated_node: cst.Lambda) -> cst.Lambda:
        self._depth -= 1
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._depth += 1

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._depth -= 1
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if self._depth and original_node.value in self._texts:
            return cst.parse_expression(self._texts[original_node.value])
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if self._depth and code(original_node) in self._texts:
            return cst.parse_expression(self._texts[code(original_node)])
        return updated_node

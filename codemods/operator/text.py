"""The text of a patch: the operator above its function, and its call in the place of the piece."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, dotted, walk
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Edit, Site

from ..side_effects.owners import find_owners
from ..wrap.operator_text import define, namespace, operator_name, place, torch_alias
from .applied import Applied, backward_of
from .fakes import Fake
from .gradients import Draws, backward_text, is_place
from .grown import plainly, remove_unused
from .inputs import TABLE, Parameter, Refused
from .pieces import Piece, is_filled
from .results import Result

_WIDTH = 100


@dataclasses.dataclass(frozen=True)
class Operator:
    """A piece with all that its text needs."""

    piece: Piece
    name: str
    torch: str
    fake: Fake
    ordered: bool
    changed: tuple[str, ...]
    detached: frozenset[str]
    #: Parameters to which a gradient goes back.
    gradients: tuple[str, ...] = ()
    #: Where it draws and has a gradient: its backward draws the same numbers.
    draws: Draws | None = None
    #: Whether autocast, which an operator does not see, would change what it computes.
    minds_autocast: bool = False
    #: The parameters that must have the dtypes that they had, as a result has them.
    minds_dtype: tuple[str, ...] = ()
    #: The class of the user's own whose ``apply`` is all that the piece calls.
    applied: Applied | None = None
    #: The parameters that must not require a gradient, as what it changes would not get it.
    minds_gradients: tuple[str, ...] = ()
    #: Where the operator finds the object whose methods it calls.
    table: str = ""
    #: The parameters of which it changes a copy.
    copied: tuple[str, ...] = ()

    @property
    def leaves(self) -> list[Result]:
        return [leaf for result in self.piece.results for leaf in result.leaves()]

    @property
    def plain(self) -> str:
        """The name of the piece's code as a function, where more than the operator calls it."""
        if self.applied is not None:
            return ""
        minds = self.minds_autocast or self.minds_dtype or self.minds_gradients
        return f"{self.name}_plain" if self.gradients or minds else ""


def name_for(piece: Piece) -> str:
    """A name out of the code's own words."""
    site, function = piece.level.site, piece.level.function
    own = function.name.value
    match piece.nodes[0]:
        case cst.Call(func=cst.Attribute(value=cst.Name(applied), attr=cst.Name("apply"))):
            words_in = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", applied).lower().strip("_")
            return operator_name(site, f"{words_in}_op")
    if piece.is_expression or len(piece.nodes) == 1:
        for node in walk(piece.nodes[0]):
            if isinstance(node, cst.Call):
                fact = site.fact(node.func)
                if fact is not None and fact.in_project and fact.kind == "function":
                    last = code(node.func).rpartition(".")[2]
                    return operator_name(site, f"{last.lstrip('_')}_op")
    bound = piece.results[0].name if piece.results else ""
    if own in ("forward", "__call__", "main", "step"):
        written = sorted(piece.inputs.written)
        if bound:
            return operator_name(site, f"compute_{bound}")
        if written:
            return operator_name(site, f"update_{written[0].rpartition('.')[2].strip('_')}")
    return operator_name(site, f"{own.strip('_')}_op")


def write(operator: Operator, edit: Edit) -> None:
    """Put the operator above its function, and the call in the place of the piece."""
    piece = operator.piece
    site = piece.level.site
    if piece.inputs.owner is not None:
        table = find_owners(site, edit, piece.inputs.owner.kind)
        if not table:
            raise Refused("`self` cannot be passed to an operator")
        operator = dataclasses.replace(operator, table=table)
    if any(twin.is_nested for twin in piece.inputs.twins.values()):
        edit.add_import("types")
    place(site, edit, _definition(operator))
    remove_unused(site, edit, piece.nodes)
    for method in piece.inputs.static:
        _make_static(site, edit, method)
    if piece.is_expression:
        node = cast(cst.BaseExpression, piece.nodes[0])
        if piece.results[0].parts:
            _ahead(operator, edit, node)
            return
        new: cst.CSTNode = cst.parse_expression(_read_back(piece.results[0], _call(operator)))
        edit.replace(node, new.with_changes(lpar=node.lpar, rpar=node.rpar) if node.lpar else new)
        return
    first, *rest = piece.nodes
    lines = _statements(operator)
    end: cst.BaseExpression | None = None
    if piece.tail is not None:
        end = cst.Name(piece.results[0].name)
        match lines:
            case [_, *_, cst.SimpleStatementLine(body=[cst.Assign(value=cst.Tuple() as values)])]:
                lines, end = lines[:-1], values
    lines[0] = lines[0].with_changes(leading_lines=getattr(first, "leading_lines", ()))
    edit.replace(first, *lines)
    if piece.tail is not None and end is not None:
        edit.replace(piece.tail, end)
    for other in rest:
        edit.moved(cast(cst.BaseStatement, other))
    # A diff may show the new lines below those that moved.
    edit.insert_after(piece.nodes[-1])
    top = site.top_level_statement(site.node)
    below = site.module.body[site.module.body.index(top) + 1 :]
    if below:
        edit.insert_before(below[0])


def _ahead(operator: Operator, edit: Edit, node: cst.BaseExpression) -> None:
    """Call the operator in a line of its own, and put several values together in the expression."""
    piece, site = operator.piece, operator.piece.level.site
    statement = site.statement_of(node)
    if not isinstance(statement, cst.SimpleStatementLine) or not _comes_first(statement, node):
        raise Refused("several values within an expression")
    taken = names_in(piece.level.function)
    named = dataclasses.replace(piece.results[0], name=fresh("made", taken))
    *lines, last = _statements(
        dataclasses.replace(operator, piece=dataclasses.replace(piece, results=(named,)))
    )
    match last:
        case cst.SimpleStatementLine(body=[cst.Assign(value=value)]) if lines:
            if activity(*lines).binds & taken:
                raise Refused("several values within an expression")
            first, *others = lines
            edit.insert_before(statement, first, *others)
            edit.replace(node, value)
        case _:
            raise Refused("several values within an expression")


def _comes_first(statement: cst.SimpleStatementLine, node: cst.BaseExpression) -> bool:
    """Whether a statement looks up names, and then computes the expression before all else."""
    if len(statement.body) != 1:
        return False
    match statement.body[0]:
        case (
            cst.Expr(value=value)
            | cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value)
            | cst.Return(value=cst.BaseExpression() as value)
        ):
            if value is node:
                return True
        case _:
            return False
    match value:
        case cst.Call(func=func, args=[cst.Arg(value=inner, star="")]):
            return inner is node and dotted(func) is not None
    return False


# -- the operator ----------------------------------------------------------------------------------


def _definition(operator: Operator) -> list[cst.BaseStatement]:
    piece, torch = operator.piece, operator.torch
    site = piece.level.site
    changed = ", ".join(f'"{name}"' for name in operator.changed)
    changed += "," if len(operator.changed) == 1 else ""
    parameters = ", ".join(f"{p.name}: {_in(p.annotation, torch)}" for p in piece.inputs.parameters)
    head = _head(operator.name, parameters, operator, draws=operator.draws is not None)
    text = ""
    inside = "BODY"
    if operator.plain:
        names = ", ".join(p.name for p in piece.inputs.parameters)
        text = f"{_head(operator.plain, parameters, operator)}    BODY\n\n\n"
        inside = f"return {operator.plain}({names})"
        if operator.draws is not None:
            several = "*" if len(operator.leaves) > 1 else ""
            result = f"return {several}{operator.plain}({names}), {operator.draws.name}"
            inside = "\n    ".join([*operator.draws.kept(torch), result])
    text += (
        f'@{torch}.library.custom_op("{namespace(site)}::{operator.name}", '
        f"mutates_args=({changed}))\n{head}    {inside}\n\n\n"
    )
    text += _fake_text(operator)
    if operator.ordered:
        text += f"\n\n{operator.name}.register_effect({torch}.library.EffectType.ORDERED)\n"
    if operator.applied is not None:
        more = backward_of(operator.applied, operator.name, piece, torch)
        text += f"\n\n{more.replace('SPACE', namespace(site))}"
    elif operator.gradients:
        more = backward_text(
            operator.name, operator.plain, piece, operator.gradients, torch, operator.draws
        )
        text += f"\n\n{more.replace('SPACE', namespace(site))}"
    body = _body(operator)

    class Put(cst.CSTTransformer):
        def leave_IndentedBlock(
            self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
        ) -> cst.IndentedBlock:
            first = original_node.body[0]
            if isinstance(first, cst.SimpleStatementLine) and code(first).strip() == "BODY":
                return updated_node.with_changes(body=body)
            return updated_node

    return [cast(cst.BaseStatement, line.visit(Put())) for line in define(site, text)]


def _head(name: str, parameters: str, operator: Operator, *, draws: bool = False) -> str:
    returns = _returns(operator.piece, operator.torch, draws=draws)
    head = f"def {name}({parameters}) -> {returns}:\n"
    if len(head) > _WIDTH:
        head = f"def {name}(\n    {parameters},\n) -> {returns}:\n"
    return head


def _in(text: str, torch: str) -> str:
    return re.sub(r"\btorch\.", f"{torch}.", text)


def _returns(piece: Piece, torch: str, *, draws: bool = False) -> str:
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    if not leaves:
        return "None"
    kinds = [
        f"list[{torch}.Tensor]" if leaf.kind == "list" else f"{torch}.Tensor" for leaf in leaves
    ]
    kinds += [f"{torch}.Tensor"] if draws else []
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"


def _fake_text(operator: Operator) -> str:
    names = ", ".join(p.name for p in operator.piece.inputs.parameters)
    fake = operator.fake
    if operator.draws is not None:
        several = len(operator.leaves) > 1
        texts = [fake.text[1:-1] if several else fake.text, operator.draws.empty(operator.torch)]
        made = "".join(f"        {text},\n" for text in texts)
        lines = "".join(f"    {line}\n" for line in fake.lines)
        count = "    # The last holds as many bytes as the state of a generator.\n"
        return (
            f"@{operator.name}.register_fake\ndef _({names}):\n{count}{lines}"
            f"    return (\n{made}    )\n"
        )
    if not fake.lines and len(names) + len(fake.text) + len(operator.name) < _WIDTH - 26:
        return f"{operator.name}.register_fake(lambda {names}: {fake.text})\n"
    lines = "".join(f"    {line}\n" for line in fake.lines)
    text = fake.text
    if len(text) > _WIDTH - 11:
        in_lines = r"\1(\n        \2,\n        \3,\n    )"
        text = re.sub(r"^([\w.]+)\((.*), (dtype=[^()]*(?:\(\))?)\)$", in_lines, text)
    return f"@{operator.name}.register_fake\ndef _({names}):\n{lines}    return {text}\n"


class _Replace(cst.CSTTransformer):
    def __init__(self, new: Mapping[cst.CSTNode, cst.BaseExpression]) -> None:
        super().__init__()
        self.new = new

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.new

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        return self.new.get(original_node, updated_node)


def _body(operator: Operator) -> list[cst.BaseStatement]:
    made = [
        p.first.replace(TABLE, operator.table) for p in operator.piece.inputs.parameters if p.first
    ]
    made += [f"{name} = {name}.clone()" for name in operator.copied]
    made += [line for twin in operator.piece.inputs.twins.values() for line in twin.lines()]
    return [*map(cst.parse_statement, made), *plainly(operator.piece.level.site, _moved(operator))]


def _moved(operator: Operator) -> list[cst.BaseStatement]:
    piece = operator.piece
    replace = _Replace(piece.inputs.replacements)
    if piece.is_expression:
        value = cast(cst.BaseExpression, piece.nodes[0].visit(replace))
        value = value.with_changes(lpar=(), rpar=()) if "\n" not in code(value) else value
        return _return(operator, piece.results[0], value, set())
    taken = {name for node in piece.nodes for name in names_in(node)}
    lines: list[cst.BaseStatement] = []
    for node in piece.nodes:
        lines.append(cast(cst.BaseStatement, node.visit(replace)))
    if piece.returns and piece.results:
        block = cst.IndentedBlock(lines).visit(_Returns(operator, taken))
        lines = list(cast(cst.IndentedBlock, block).body)
    if lines:
        lines[0] = lines[0].with_changes(leading_lines=[])
    if piece.returns:
        return lines
    if piece.tail is not None:
        value = cast(cst.BaseExpression, piece.tail.visit(replace))
        return [*lines, *_return(operator, piece.results[0], value, taken)]
    only = piece.nodes[0]
    if len(piece.results) == 1 and len(piece.nodes) == 1 and piece.results[0].node is not None:
        inner = lines[0]
        if isinstance(only, cst.SimpleStatementLine) and len(only.body) == 1:
            assign = cst.ensure_type(inner, cst.SimpleStatementLine).body[0]
            if isinstance(assign, cst.Assign):
                return _return(operator, piece.results[0], assign.value, taken)
    if piece.results:
        texts = [
            _leaf(operator, leaf, source)
            for result in piece.results
            for leaf, source in _sources(result, result.name)
        ]
        lines += _given_back(operator, texts, taken)
    return lines


def _given_back(operator: Operator, texts: list[str], taken: set[str]) -> list[cst.BaseStatement]:
    """``return`` of the results, and before it what the fake says of their sizes.

    In a graph, sizes that share a name are one: an operator whose results differ is an error there.
    """
    if not operator.fake.alike:
        return [cst.parse_statement(f"return {', '.join(texts)}")]
    names = [fresh(f"result_{place}", taken) for place in range(len(texts))]
    differs = [
        f"{names[first[0]]}.shape[{first[1]}] != {names[leaf]}.shape[{dim}]"
        for first, *others in operator.fake.alike
        for leaf, dim in others
    ]
    lines = (
        *(f"{name} = {text}\n" for name, text in zip(names, texts, strict=True)),
        f"if {' or '.join(differs)}:\n"
        f'    raise RuntimeError("results of `{operator.name}` differ in their sizes")\n',
        f"return {', '.join(names)}\n",
    )
    return [cst.parse_statement(line) for line in lines]


def _return(
    operator: Operator, result: Result, value: cst.BaseExpression, taken: set[str]
) -> list[cst.BaseStatement]:
    """``return`` of an expression, carried as tensors."""
    if result.kind in ("tuple", "dict") and not (
        isinstance(value, cst.Tuple) and result.kind == "tuple"
    ):
        name = fresh("result", taken)
        texts = [_leaf(operator, leaf, source) for leaf, source in _sources(result, name)]
        first = cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)])
        return [first, *_given_back(operator, texts, {*taken, name})]
    if isinstance(value, cst.Tuple):
        texts = [
            _leaf(operator, leaf, source)
            for part, element in zip(result.parts, value.elements, strict=True)
            for leaf, source in _sources(part, code(element.value))
        ]
        return _given_back(operator, texts, taken)
    text = _leaf(operator, result, code(value))
    config = cst.parse_module("").config_for_parsing
    return [cst.parse_statement(f"return {text}", config)]


def _sources(result: Result, text: str) -> list[tuple[Result, str]]:
    """Each leaf with the text that reads it from the value."""
    if result.kind == "dict":
        return [
            pair
            for key, part in zip(result.keys, result.parts, strict=True)
            for pair in _sources(part, f'{text}["{key}"]')
        ]
    if result.kind == "tuple":
        return [
            pair
            for place, part in enumerate(result.parts)
            for pair in _sources(part, f"{text}[{place}]")
        ]
    return [(result, text)]


#: Makes a tensor in new memory; what is made of others may follow their layout.
_FRESH = re.compile(
    r"^[\w.]*\b(tensor|stack|cat|zeros|ones|full|arange|zeros_like|ones_like|full_like|empty_like"
    r"|eye)\(.*\)$",
    re.DOTALL,
)


#: The same, laid out row by row whatever it is given.
_IN_ROWS = re.compile(r"^[\w.]*\b(tensor|zeros|ones|full|arange|eye)\(.*\)$", re.DOTALL)


def _leaf(operator: Operator, result: Result, text: str) -> str:
    """A leaf as a tensor that shares no memory with anything."""
    torch = operator.torch
    laid_out = f"memory_format={torch}.contiguous_format"
    if is_filled(operator.piece, result):
        if operator.fake.lines or len(operator.leaves) > 1:
            raise Refused(f"`{result.name}` is a number in other calls")
        filled = f"{operator.fake.text}.fill_({text})"
        return f"{text}.clone({laid_out}) if isinstance({text}, {torch}.Tensor) else {filled}"
    if result.kind == "list":
        return f"[each.clone({laid_out}) for each in {text}]"
    if result.is_number:
        return f"{torch}.tensor({text}, dtype={_in(result.dtype, torch)})"
    if result.kind == "ndarray":
        return f"{torch}.tensor({text})"
    if result.row_by_row and _is_fresh(operator, text, _IN_ROWS):
        return text
    if not _is_tight(text):
        text = f"({text})"
    # Its fake says that it is laid out row by row; other inputs may be laid out in another way.
    if _is_fresh(operator, text, _FRESH):
        return f"{text}.contiguous()"
    return f"{text}.clone({laid_out})"


def _is_fresh(operator: Operator, text: str, makes: re.Pattern[str]) -> bool:
    """Whether a text makes a tensor, or names one that the piece makes and nothing else."""
    if makes.match(text) and _balanced(text):
        return True
    if makes is _FRESH and text.endswith(".clone()"):
        return True
    if not text.isidentifier():
        return False
    bound: list[str] = []
    for node in operator.piece.nodes:
        for inner in walk(node):
            if isinstance(inner, cst.Assign):
                for target in inner.targets:
                    if code(target.target) == text:
                        bound.append(code(inner.value).strip())
            if isinstance(inner, cst.For) and text in names_in(inner.target):
                return False
    return bool(bound) and all(
        (makes.match(each) and _balanced(each)) or (makes is _FRESH and each == f"{text}.clone()")
        for each in bound
    )


def _balanced(text: str) -> bool:
    """Whether the text's first parenthesis closes at its end."""
    depth = 0
    for index, letter in enumerate(text):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if depth == 0 and letter in ")]}" and index < len(text) - 1:
            return False
    return depth == 0


class _Returns(cst.CSTTransformer):
    """Each ``return`` gives tensors."""

    def __init__(self, operator: Operator, taken: set[str]) -> None:
        super().__init__()
        self.operator = operator
        self.taken = taken

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        last = updated_node.body[-1]
        if not isinstance(last, cst.Return):
            return updated_node
        if last.value is None or len(updated_node.body) > 1:
            raise Refused("it returns nothing in one place")
        new = _return(self.operator, self.operator.piece.results[0], last.value, self.taken)
        new[0] = new[0].with_changes(leading_lines=updated_node.leading_lines)
        return cst.FlattenSentinel(new)


# -- the call --------------------------------------------------------------------------------------


def _call(operator: Operator) -> str:
    asked, plain, call = _calls(operator)
    return f"({plain} if {asked} else {call})" if asked else call


def _calls(operator: Operator) -> tuple[str, str, str]:
    """What is asked before the operator is called (empty: nothing), and both calls."""
    given = [_argument(p, operator) for p in operator.piece.inputs.parameters]
    call = f"{operator.name}({', '.join(given)})"
    if operator.draws is not None:
        several = len(operator.leaves) > 1
        call += "[:-1]" if several else "[0]"
    asked: list[str] = []
    grads: list[str] = []
    off = False
    if operator.minds_autocast:
        tensors = [p for p in operator.piece.inputs.parameters if p.annotation == "torch.Tensor"]
        places = [p.given for p in tensors if is_place(p.given)]
        asks = f"{operator.torch}.is_autocast_enabled"
        if places:
            asked.append(f"{asks}({_in(places[0], operator.torch)}.device.type)")
        else:  # what is computed is not computed twice
            asked += [f'{asks}("cuda")', f'{asks}("cpu")']
    for kept in operator.piece.inputs.parameters:
        if kept.name in operator.minds_dtype:
            dtype = _in(str(kept.fact.dtype), operator.torch)
            asked.append(f"{_in(kept.given, operator.torch)}.dtype != {dtype}")
        if kept.name in operator.minds_gradients:
            grads.append(f"{_in(kept.given, operator.torch)}.requires_grad")
            off = off or bool(kept.fact.requires_grad)
    if off and grads:  # a caller has switched gradients off
        either = f"({' or '.join(grads)})" if len(grads) > 1 else grads[0]
        grads = [f"{operator.torch}.is_grad_enabled() and {either}"]
    asked += grads
    return " or ".join(asked), f"{operator.plain}({', '.join(given)})", call


def _argument(parameter: Parameter, operator: Operator) -> str:
    text = _in(parameter.given, operator.torch)
    if parameter.name not in operator.detached:
        return text
    return f"{text}.detach()" if _is_tight(text) else f"({text}).detach()"


def _is_tight(text: str) -> bool:
    """Whether a method may follow the expression as it is."""
    match tree_of(f"({text}\n)").body:
        case [ast.Expr(value=ast.Name() | ast.Attribute() | ast.Subscript() | ast.Call())]:
            return True
    return False


def _read_back(result: Result, text: str) -> str:
    if result.is_number:
        return f"{text}.item()"
    return f"{text}.numpy()" if result.kind == "ndarray" else text


def _statements(operator: Operator) -> list[cst.BaseStatement]:
    piece = operator.piece
    call = _call(operator)
    config = piece.level.site.module.config_for_parsing

    def line(text: str) -> cst.BaseStatement:
        return cst.parse_statement(text, config)

    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    if not leaves:
        asked, plain, alone = _calls(operator)
        step = piece.level.site.module.default_indent
        return [line(f"if {asked}:\n{step}{plain}\nelse:\n{step}{alone}" if asked else call)]
    if len(leaves) == 1 and not piece.results[0].parts:
        text = _read_back(leaves[0], call)
        return [line(f"return {text}" if piece.returns else f"{leaves[0].name} = {text}")]
    taken = set(names_in(piece.level.function))
    names: list[str] = []
    for index, leaf in enumerate(leaves):
        base = leaf.name
        if not base and isinstance(leaf.node, cst.Name):
            base = leaf.node.value
        if not base and len(piece.results) == 1 and piece.results[0].keys:
            base = piece.results[0].keys[index] if index < len(piece.results[0].keys) else ""
        if not base:
            base = fresh(f"part_{index}", taken)
        elif not leaf.name or base in names:
            base = fresh(base, set(names))
        names.append(base)
        taken.add(base)
    lines = [line(f"{', '.join(names)} = {call}")]
    built = iter(zip(leaves, names, strict=True))

    def rebuilt(result: Result) -> str:
        if result.kind == "dict":
            pairs = (f'"{k}": {rebuilt(p)}' for k, p in zip(result.keys, result.parts, strict=True))
            return "{" + ", ".join(pairs) + "}"
        if result.kind == "tuple":
            return f"({', '.join(map(rebuilt, result.parts))})"
        leaf, name = next(built)
        return _read_back(leaf, name)

    for result in piece.results:
        text = rebuilt(result)
        if piece.returns:
            text = text[1:-1] if result.kind == "tuple" and len(result.parts) > 1 else text
            lines.append(line(f"return {text}"))
        elif text != result.name:
            lines.append(line(f"{result.name} = {text}"))
    return lines


def _make_static(site: Site, edit: Edit, method: cst.FunctionDef) -> None:
    decorator = cst.Decorator(cst.Name("staticmethod"))
    params = method.params
    edit.replace(
        method,
        method.with_changes(
            decorators=[decorator], params=params.with_changes(params=params.params[1:])
        ),
    )


__all__: Sequence[str] = ("Operator", "name_for", "torch_alias", "write")

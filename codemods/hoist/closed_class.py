"""A class that reads values of the function around it, made to be given them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.tree import code, is_docstring, walk


@dataclasses.dataclass(frozen=True)
class Closed:
    """The class without free names, and the names that its calls are given first."""

    node: cst.ClassDef
    given: tuple[str, ...]
    #: What stood in the class body and now belongs to its objects alone.
    of_objects: frozenset[str]


def closed(node: cst.ClassDef, captured: Collection[str]) -> Closed | None:
    """The class with ``captured`` names as arguments of ``__init__``; None where that cannot be.

    A line of the class body that reads them (``factor = scale``) moves to ``__init__``, a method
    reads them from its object.
    """
    if node.bases or node.decorators or not isinstance(node.body, cst.IndentedBlock):
        return None
    given = _in_order(node, captured)
    moved: list[cst.SimpleStatementLine] = []
    lines: list[cst.BaseStatement] = []
    init: cst.FunctionDef | None = None
    wanted = set[str]()  # names that methods read from their object
    for line in node.body.body:
        read = activity(line).reads & set(captured)
        match line:
            case cst.FunctionDef(name=cst.Name("__init__")):
                init = line
                lines.append(line)
            case cst.FunctionDef() if read:
                method = _method(line, read)
                if method is None:
                    return None
                wanted |= read
                lines.append(method)
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=cst.Name())]
            ) if read:
                moved.append(line)
            case _:
                if read:
                    return None
                lines.append(line)
    attributes = {_target(line) for line in moved}
    if wanted & (attributes | _attributes(node)):
        return None
    setting = [f"self.{name} = {name}" for name in given if name in wanted]
    setting += [f"self.{_target(line)} = {_value(line)}" for line in moved]
    made = _init(init, given, setting)
    if made is None:
        return None
    if init is None:
        place = 1 if lines and is_docstring(lines[0]) else 0
        lines.insert(place, made)
    else:
        lines[lines.index(init)] = made
    body = node.body.with_changes(body=lines)
    return Closed(node.with_changes(body=body), given, frozenset(attributes))


def closed_function(node: cst.ClassDef, captured: Collection[str]) -> Closed | None:
    """An ``autograd.Function`` that is given ``captured`` names last; None where that cannot be.

    ``forward`` takes them, and keeps for ``backward`` what that reads; ``backward`` has no gradient
    for them.
    """
    if node.decorators or not isinstance(node.body, cst.IndentedBlock):
        return None
    methods = {
        line.name.value: line for line in node.body.body if isinstance(line, cst.FunctionDef)
    }
    first, last = methods.get("forward"), methods.get("backward")
    others = [line for line in node.body.body if line not in (first, last)]
    if first is None or last is None or len(methods) > 2 or activity(others).reads & set(captured):
        return None
    if len(first.params.params) > 2 and any(
        isinstance(it, cst.Return) and isinstance(it.value, cst.Name) for it in walk(last.body)
    ):
        return None  # the name may hold a tuple
    given = _in_order(node, captured)
    kept = [name for name in given if name in activity(last.body).reads]
    forward, backward = _taking(first, given, kept), _giving_none(last, kept, len(given))
    if forward is None or backward is None or set(kept) & _attributes(node):
        return None
    made = {id(first): forward, id(last): backward}
    lines = [made.get(id(line), line) for line in node.body.body]
    body = node.body.with_changes(body=lines)
    return Closed(node.with_changes(body=body), given, frozenset())


def _taking(
    method: cst.FunctionDef, given: tuple[str, ...], kept: list[str]
) -> cst.FunctionDef | None:
    """``forward`` with more parameters, some of which it keeps in its context."""
    params = method.params
    names = {param.name.value for param in params_of(params)}
    plain = params.params
    if not plain or params.star_kwarg or params.kwonly_params or params.posonly_params:
        return None
    if isinstance(params.star_arg, cst.Param) or any(param.default for param in plain):
        return None
    if (names | activity(method.body).writes) & set(given):
        return None
    if not isinstance(method.body, cst.IndentedBlock):
        return None
    context = plain[0].name.value
    keeping = [cst.parse_statement(f"{context}.{name} = {name}") for name in kept]
    lines = list(method.body.body)
    at = 1 if is_docstring(lines[0]) else 0
    body = method.body.with_changes(body=[*lines[:at], *keeping, *lines[at:]])
    more = [cst.Param(cst.Name(name)) for name in given]
    return method.with_changes(params=params.with_changes(params=[*plain, *more]), body=body)


def _giving_none(method: cst.FunctionDef, kept: list[str], count: int) -> cst.FunctionDef | None:
    """``backward`` that reads the names from its context, and gives None for each argument more."""
    plain = method.params.params
    if not plain:
        return None
    context = plain[0].name.value
    inner = any(
        isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.BaseComp)
        for node in walk(method.body)
    )
    names = {param.name.value for param in params_of(method.params)}
    if inner or names & set(kept) or activity(method.body).writes & {*kept, context}:
        return None
    read = cst.ensure_type(method.visit(_FromObject(kept, context)), cst.FunctionDef)
    return cst.ensure_type(read.visit(_MoreNones(count)), cst.FunctionDef)


class _MoreNones(cst.CSTTransformer):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        value = updated_node.value
        more = [cst.Element(cst.Name("None")) for _ in range(self.count)]
        if isinstance(value, cst.Tuple):
            return updated_node.with_changes(
                value=value.with_changes(elements=[*value.elements, *more])
            )
        first = cst.Element(value if value is not None else cst.Name("None"))
        return updated_node.with_changes(
            value=cst.Tuple([first, *more], lpar=[], rpar=[]),
            whitespace_after_return=cst.SimpleWhitespace(" "),
        )


def _init(
    init: cst.FunctionDef | None, given: tuple[str, ...], setting: list[str]
) -> cst.FunctionDef | None:
    lines = [cst.parse_statement(text) for text in setting]
    if init is None:
        head = f"def __init__(self, {', '.join(given)}):\n    pass\n"
        made = cst.ensure_type(cst.parse_statement(head), cst.FunctionDef)
        body = cst.ensure_type(made.body, cst.IndentedBlock)
        return made.with_changes(body=body.with_changes(body=lines))
    names = {param.name.value for param in params_of(init.params)}
    plain = init.params.params
    if names & set(given) or not plain or plain[0].name.value != "self" or init.decorators:
        return None
    if init.params.posonly_params or not isinstance(init.body, cst.IndentedBlock):
        return None
    # They stay parameters: `__init__` reads them by the same names.
    params = [plain[0], *(cst.Param(cst.Name(name)) for name in given), *plain[1:]]
    body = init.body.with_changes(body=[*lines, *init.body.body])
    return init.with_changes(params=init.params.with_changes(params=params), body=body)


def _method(method: cst.FunctionDef, read: Collection[str]) -> cst.FunctionDef | None:
    """The method, reading the names from its object."""
    plain = method.params.params
    if method.decorators or not plain or plain[0].name.value != "self":
        return None
    inner = any(
        isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.BaseComp)
        for node in walk(method.body)
    )
    params = {param.name.value for param in params_of(method.params)}
    what = activity(method.body)
    if inner or (params | what.writes) & set(read):
        return None
    return cst.ensure_type(method.visit(_FromObject(read)), cst.FunctionDef)


class _FromObject(cst.CSTTransformer):
    def __init__(self, names: Collection[str], owner: str = "self") -> None:
        super().__init__()
        self.names = names
        self.owner = owner
        self.labels: set[cst.CSTNode] = set()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.labels.add(node.attr)

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self.labels.add(node.keyword)

    def leave_Name(
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.Name | cst.Attribute:
        if original_node.value in self.names and original_node not in self.labels:
            return cst.Attribute(cst.Name(self.owner), updated_node)
        return updated_node


def _attributes(node: cst.ClassDef) -> set[str]:
    """Attributes that the class speaks of, and what its body binds."""
    spoken = {part.attr.value for part in walk(node) if isinstance(part, cst.Attribute)}
    bound = {
        line.name.value for line in walk(node) if isinstance(line, cst.FunctionDef | cst.ClassDef)
    }
    return spoken | bound


def _in_order(node: cst.ClassDef, names: Collection[str]) -> tuple[str, ...]:
    """The names, as the class first speaks of them."""
    spoken = [part.value for part in walk(node) if isinstance(part, cst.Name)]
    return tuple(dict.fromkeys(name for name in spoken if name in names))


def _target(line: cst.SimpleStatementLine) -> str:
    return code(cst.ensure_type(line.body[0], cst.Assign).targets[0].target)


def _value(line: cst.SimpleStatementLine) -> str:
    return code(cst.ensure_type(line.body[0], cst.Assign).value)

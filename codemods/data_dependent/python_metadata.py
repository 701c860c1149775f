"""What Python knows already: sizes and flags that are put into a tensor and read back."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import import_map, module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Safety

from ..api.splice import Splice

_MAKERS = ("torch.tensor", "torch.as_tensor")
_LONG = ("torch.long", "torch.int64", "torch.int32", "torch.int")
_STATIC_METHODS = words("dim size ndimension numel")
_STATIC_ATTRIBUTES = words("shape ndim")
_STATIC_CALLS = words("len int bool min max sum isinstance tuple list range zip enumerate")
_ELSEWHERE = "code outside of these files that reads the entry finds a Python number there"


class PythonMetadata(Codemod):
    """*What it does.*  Reads back what Python knew before it was put into a tensor.

    ```python
    size = torch.tensor(x.shape[-2:])
    h, w = size.tolist()
    ```
    becomes ``h, w = x.shape[-2:]``.  Where another function loops over such a tensor, the call
    passes the list: ``attend(value, shapes)`` becomes ``attend(value, shapes_list)``.  A flag
    that is kept as ``state["mode"] = torch.tensor(1 if x.ndim == 2 else 2)`` and read as
    ``state["mode"].item()`` is kept as the Python number.

    *When it applies.*  The tensor is made of sizes, lengths and literals by the text, is not
    changed, and what reads it wants Python numbers.

    *Fix safety.*  Safe for sizes: the numbers are the same.  A flag's entry is another type of
    object for whoever else looks at it: the rewrite needs that nothing else in the project's files
    names the entry.

    *Refuses.*  Numbers that come from tensors, tensors of floats, names that are bound again, and
    entries that are named anywhere else.
    """

    name = "python-metadata"
    codes = (
        "GB0124",
        "GB0033",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
    )
    examples = (
        Example(
            title="sizes in a tensor",
            before="""
            import torch


            def f(x):
                size = torch.tensor(x.shape[-2:])
                h, w = size.tolist()
                return x.view(-1, h * w), size
            """,
            after="""
            import torch


            def f(x):
                size = torch.tensor(x.shape[-2:])
                h, w = x.shape[-2:]
                return x.view(-1, h * w), size
            """,
            at="size.tolist()",
            facts={"size": tensor(2, dtype="torch.int64")},
        ),
        Example(
            title="sizes that another function loops over",
            before="""
            import torch


            def attend(value, shapes):
                parts = value.split([h * w for h, w in shapes])
                return torch.stack([part.sum(0) for part in parts])


            def f(maps):
                shapes = torch.tensor([m.shape[-2:] for m in maps])
                value = torch.cat([m.flatten() for m in maps])
                return attend(value, shapes), shapes
            """,
            after="""
            import torch


            def attend(value, shapes):
                parts = value.split([h * w for h, w in shapes])
                return torch.stack([part.sum(0) for part in parts])


            def f(maps):
                shapes_list = [m.shape[-2:] for m in maps]
                shapes = torch.tensor(shapes_list)
                value = torch.cat([m.flatten() for m in maps])
                return attend(value, shapes_list), shapes
            """,
            at="value.split([h * w for h, w in shapes])",
            code="GB0033",
            facts={"shapes": tensor(2, 2, dtype="torch.int64")},
        ),
        Example(
            title="a flag",
            before="""
            import torch


            def prepare(state):
                state["mode"] = torch.tensor(1 if state["x"].ndim == 2 else 2)


            def mode(state):
                return int(state["mode"].item())
            """,
            after="""
            import torch


            def prepare(state):
                state["mode"] = 1 if state["x"].ndim == 2 else 2


            def mode(state):
                return int(state["mode"])
            """,
            at='state["mode"].item()',
        ),
    )
    near_misses = (
        NearMiss(
            """
            import torch


            def f(x, n):
                size = torch.tensor([x.max(), n.item()])
                h, w = size.tolist()
                return x.view(h, w)
            """,
            at="size.tolist()",
            why="made of what tensors hold",
        ),
        NearMiss(
            """
            import torch


            def f(x):
                size = torch.tensor(x.shape)
                size += 1
                h, w = size.tolist()
                return x.view(h, w)
            """,
            at="size.tolist()",
            why="the tensor is changed",
        ),
        NearMiss(
            """
            import torch


            def f(x, y):
                size = torch.tensor(x.shape)
                x = y
                h, w = size.tolist()
                return x.view(h, w)
            """,
            at="size.tolist()",
            why="the sizes are those of another tensor by then",
        ),
        NearMiss(
            """
            import torch


            def prepare(state):
                state["mode"] = torch.tensor(1 if state["x"].ndim == 2 else 2)


            def mode(state):
                state["mode"].add_(1)
                return int(state["mode"].item())
            """,
            at='state["mode"].item()',
            why="the entry is a tensor for others",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        for way in (_same_function, _passed_on, _flag):
            rewrite = way(site, site.function)
            if rewrite is not None:
                yield rewrite
                return


# -- read back in the same function ----------------------------------------------------------------


def _same_function(site: Site, function: cst.FunctionDef) -> Rewrite | None:
    splice = Splice(site)
    names: list[str] = []
    needs_math = False
    for node in walk(function.body):
        read = _read_back(site, function, node)
        if read is None:
            continue
        name, text = read
        splice.replace(node, text)
        names.append(name)
        needs_math = needs_math or "math." in text
    if not names:
        return None
    if needs_math:
        if "math" in names_in(site.module) and import_map(site.module).get("math") != "math":
            return None
        if "math" not in import_map(site.module):
            line = _first_import(site)
            splice.insert(line, 0, "import math\n")
    return splice.rewrite(f"take the numbers of `{names[0]}` from what it was made of", rank=11)


def _first_import(site: Site) -> int:
    """The line of the first import, behind a docstring and ``from __future__``."""
    for statement in site.module.body:
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(
            statement.body[0], cst.Import | cst.ImportFrom
        ):
            first = statement.body[0]
            module = first.module if isinstance(first, cst.ImportFrom) else None
            if module is None or code(module) != "__future__":
                return site.span(statement).line
    return 1


def _read_back(site: Site, function: cst.FunctionDef, node: cst.CSTNode) -> tuple[str, str] | None:
    """The name of the tensor that an expression reads, and the same numbers in Python."""
    match node:
        case cst.Call(func=cst.Attribute(value=base, attr=cst.Name("item" | "tolist")), args=[]):
            pass
        case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=base, keyword=None)]):
            pass
        case _:
            return None
    reduced = _reduced_sizes(site, function, base)
    if reduced is not None:
        return reduced
    index = ""
    if isinstance(base, cst.Subscript) and len(base.slice) == 1:
        index, base = f"[{code(base.slice[0].slice)}]", base.value
    if not isinstance(base, cst.Name):
        return None
    made = _made(site, function, base)
    if made is None:
        return None
    source = made.args[0].value
    if index and not _is_static_index(index):
        return None
    is_list = isinstance(node, cst.Call) and code(node.func).endswith("tolist")
    if is_list == bool(index) or (not is_list and not index and not _is_single(source)):
        return None
    text = code(source)
    if is_list:
        holder = site.parent(node)
        return base.value, text if isinstance(holder, cst.Assign) and isinstance(
            holder.targets[0].target, cst.Tuple
        ) else f"list({text})"
    if index and isinstance(source, cst.List | cst.Tuple):
        place = int(index[1:-1])
        if not -len(source.elements) <= place < len(source.elements):
            return None
        return base.value, code(source.elements[place].value)
    return base.value, f"{text}{index}"


_REDUCTIONS = {"prod": "math.prod", "sum": "sum", "max": "max", "min": "min"}


def _reduced_sizes(
    site: Site, function: cst.FunctionDef, node: cst.BaseExpression
) -> tuple[str, str] | None:
    """``torch.tensor(x.shape).prod()`` is ``math.prod(x.shape)``."""
    match node:
        case cst.Call(func=cst.Attribute(attr=attr), args=[only]) if (
            attr.value in _REDUCTIONS and resolve(site.module, node.func) == f"torch.{attr.value}"
        ):
            base = only.value
        case cst.Call(func=cst.Attribute(value=base, attr=attr), args=[]) if (
            attr.value in _REDUCTIONS
        ):
            pass
        case _:
            return None
    if isinstance(base, cst.Name):
        made, name = _made(site, function, base), base.value
    elif isinstance(base, cst.Call):
        made, name = _made_here(site, base), code(base.args[0].value) if base.args else ""
    else:
        return None
    if made is None:
        return None
    if isinstance(made.args[0].value, cst.Integer | cst.Name):
        return None
    return name, f"{_REDUCTIONS[attr.value]}({code(made.args[0].value)})"


def _made_here(site: Site, made: cst.Call) -> cst.Call | None:
    if resolve(site.module, made.func) not in _MAKERS or len(made.args) != 1:
        return None
    return made if _is_static(site, made.args[0].value) else None


def _is_static_index(text: str) -> bool:
    return text[1:-1].lstrip("-").isdigit()


def _is_single(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index())]) | cst.Integer():
            return True
        case cst.Call(func=cst.Name("len")) | cst.Attribute(attr=cst.Name("ndim")):
            return True
    return False


def _made(site: Site, function: cst.FunctionDef, use: cst.Name) -> cst.Call | None:
    """The call that made the tensor of Python's own numbers, where it holds them still."""
    assign = _only_binding(site, function, use.value)
    if assign is None or not isinstance(assign.value, cst.Call):
        return None
    made = assign.value
    if resolve(site.module, made.func) not in _MAKERS or not made.args:
        return None
    for arg in made.args[1:]:
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if keyword == "dtype" and resolve(site.module, arg.value) not in _LONG:
            return None
        if keyword not in ("dtype", "device"):
            return None
    source = made.args[0].value
    does = activity(function.body)
    rebound = {
        name
        for name in _names(source)
        if name in does.writes and not _bound_once(site, function, name)
    }
    if not _is_static(site, source) or rebound or use.value in does.mutates:
        return None
    # Parameters that are bound again are other objects by then.
    parameters = {
        param.name.value for param in walk(function.params) if isinstance(param, cst.Param)
    }
    if parameters & _names(source) & does.writes:
        return None
    return made


def _only_binding(site: Site, function: cst.FunctionDef, name: str) -> cst.Assign | None:
    found = [
        node
        for node in walk(function.body)
        if isinstance(node, cst.Assign)
        and any(isinstance(t.target, cst.Name) and t.target.value == name for t in node.targets)
    ]
    if len(found) != 1 or len(found[0].targets) != 1 or not _bound_once(site, function, name):
        return None
    return found[0]


def _bound_once(site: Site, function: cst.FunctionDef, name: str) -> bool:
    stores = 0
    for node in site.places_of(name, function):
        part: cst.CSTNode = node
        holder = site.parent(node)
        while isinstance(holder, cst.Element | cst.Tuple | cst.List):
            part, holder = holder, site.parent(holder)
        target = getattr(holder, "target", None) is part
        stores += target or isinstance(holder, cst.Param)
    return stores == 1


def _names(node: cst.CSTNode) -> set[str]:
    return {inner.value for inner in walk(node) if isinstance(inner, cst.Name)}


def _is_static(site: Site, node: cst.BaseExpression, bound: frozenset[str] = frozenset()) -> bool:
    """Whether Python knows the numbers: sizes, lengths, literals, and what is made of them."""
    match node:
        case cst.Integer():
            return True
        case cst.Name(value=value):
            if value in ("True", "False") or value in bound:
                return True
            fact = site.fact(node)
            return fact is not None and fact.kind in ("int", "bool")
        case cst.Attribute(attr=attr):
            return attr.value in _STATIC_ATTRIBUTES
        case cst.Subscript(value=base):
            return _is_static(site, base, bound)
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            return all(_is_static(site, item.value, bound) for item in elements)
        case cst.ListComp(elt=element, for_in=cst.CompFor(inner_for_in=None)):
            return _is_static(site, element, bound)
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            whole = isinstance(
                operator, cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide | cst.Modulo
            )
            return whole and _is_static(site, left, bound) and _is_static(site, right, bound)
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_static(site, inner, bound)
        case cst.IfExp(test=test, body=body, orelse=orelse):
            return (
                _is_static_test(site, test)
                and _is_static(site, body, bound)
                and _is_static(site, orelse, bound)
            )
        case cst.Call(func=cst.Attribute(attr=attr)):
            return attr.value in _STATIC_METHODS
        case cst.Call(func=cst.Name(value=value)):
            return value == "len"
    return False


def _is_static_test(site: Site, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Comparison(left=left, comparisons=comparisons):
            if any(isinstance(each.operator, cst.Is | cst.IsNot) for each in comparisons):
                return True
            if any(isinstance(each.operator, cst.In | cst.NotIn) for each in comparisons):
                keys = isinstance(left, cst.SimpleString)
                return keys and all(isinstance(each.comparator, cst.Name) for each in comparisons)
            sides = [left, *(each.comparator for each in comparisons)]
            return all(_is_static(site, side) for side in sides)
        case cst.Call(func=cst.Name("isinstance" | "hasattr" | "len")):
            return True
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _is_static_test(site, inner)
        case cst.BooleanOperation(left=left, right=right):
            return _is_static_test(site, left) and _is_static_test(site, right)
        case cst.Attribute(value=cst.Name("self"), attr=attr):
            return attr.value == "training"
    return False


# -- passed on to another function -----------------------------------------------------------------


def _passed_on(site: Site, function: cst.FunctionDef) -> Rewrite | None:
    """Pass the list instead of the tensor to a function that only loops over it."""
    if site.top_level_statement(function) is not function or function.decorators:
        return None
    if len(module_bindings(site.module).get(function.name.value, ())) != 1:
        return None
    used = _names(site.node)
    names = [param.name.value for param in function.params.params]
    splice = Splice(site)
    done: list[str] = []
    for place, parameter in enumerate(names):
        fact = (
            site.locals_before(function.body.body[0]).get(parameter) if function.body.body else None
        )
        seen = fact is not None and fact.is_tensor and (fact.dtype or "") in _LONG
        seen = seen or any(
            (known := site.fact(node)) is not None and known.dtype in _LONG
            for node in site.places_of(parameter, function.body)
        )
        if parameter not in used or not seen or not _only_looped(site, function, parameter):
            continue
        for call in _calls_of(site, function):
            argument = _given(call, place, parameter)
            caller = site.function_of(call)
            if caller is None or not isinstance(argument, cst.Name):
                return None
            made = _made(site, caller, argument)
            if made is None or not isinstance(made.args[0].value, cst.List | cst.ListComp):
                return None
            taken = _names(site.module)
            beside = f"{argument.value}_list"
            if beside in taken:
                return None
            source = made.args[0].value
            binding = _only_binding(site, caller, argument.value)
            assert binding is not None
            splice.insert_line_before(
                site.statement_of(binding),
                f"{beside} = {splice.source_of(source)}",
                above_comments=False,
            )
            splice.replace(source, beside)
            splice.replace(argument, beside)
            done.append(argument.value)
    if not done:
        return None
    return splice.rewrite(f"pass the list that `{done[0]}` was made of", rank=12)


def _only_looped(site: Site, function: cst.FunctionDef, parameter: str) -> bool:
    """Whether a parameter is only looped over, and what comes out is only numbers."""
    for node in site.places_of(parameter, function.body):
        holder = site.parent(node)
        if isinstance(holder, cst.For | cst.CompFor) and holder.iter is node:
            if not _only_counted(site, function, holder.target):
                return False
            continue
        call = site.parent(holder) if isinstance(holder, cst.Arg) else None
        if not isinstance(call, cst.Call) or code(call.func) not in ("zip", "enumerate", "len"):
            return False
        loop = site.parent(call)
        if code(call.func) != "len" and not (
            isinstance(loop, cst.For | cst.CompFor) and _only_counted(site, function, loop.target)
        ):
            return False
    return True


def _only_counted(site: Site, function: cst.FunctionDef, target: cst.BaseExpression) -> bool:
    """Whether what a loop binds goes through arithmetic and sizes: no methods of tensors."""
    for name in _names(target):
        for node in site.places_of(name, function.body):
            holder = site.parent(node)
            if isinstance(holder, cst.Attribute):
                fact = site.fact(node)
                if fact is None or (fact.dtype or "") in _LONG:
                    return False
            if isinstance(holder, cst.Return | cst.FormattedStringExpression | cst.AssignTarget):
                return False
    return True


def _calls_of(site: Site, function: cst.FunctionDef) -> Iterator[cst.Call]:
    for node in walk(site.module):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name):
            continue
        if node.func.value == function.name.value:
            yield node


def _given(call: cst.Call, place: int, parameter: str) -> cst.BaseExpression | None:
    for position, arg in enumerate(call.args):
        if arg.star:
            return None
        if arg.keyword is not None:
            if arg.keyword.value == parameter:
                return arg.value
        elif position == place:
            return arg.value
    return None


# -- a flag in an entry ----------------------------------------------------------------------------


def _flag(site: Site, function: cst.FunctionDef) -> Rewrite | None:
    """Keep the Python number under a key that only holds it to be read back."""
    read = _read_of_entry(site.node) or next(
        (found for node in walk(site.statement) if (found := _read_of_entry(node))), None
    )
    if read is None:
        return None
    key = read[1]
    writes: list[tuple[cst.Assign, cst.Call]] = []
    reads: list[cst.Call] = []
    mentions = 0
    for node in walk(site.module):
        if isinstance(node, cst.SimpleString) and node.evaluated_value == key:
            mentions += 1
        found = _read_of_entry(node)
        if found is not None and found[1] == key and isinstance(node, cst.Call):
            reads.append(node)
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Subscript() as target)],
                value=cst.Call() as made,
            ) if _key(target) == key and resolve(site.module, made.func) in _MAKERS:
                writes.append((node, made))
    if len(writes) != 1 or mentions != len(reads) + 1 or not _only_here(site, key):
        return None
    (_, made), splice = writes[0], Splice(site)
    if len(made.args) != 1 or not isinstance(made.args[0].value, cst.BaseExpression):
        return None
    if not _is_static(site, made.args[0].value):
        return None
    splice.replace(made, splice.source_of(made.args[0].value))
    for node in reads:
        assert isinstance(node.func, cst.Attribute)
        splice.replace(node, splice.source_of(node.func.value))
    return splice.rewrite(
        f"keep `{key}` as the Python number that it is",
        rank=12,
        safety=Safety.SAFE,
        notes=(_ELSEWHERE,),
    )


def _only_here(site: Site, key: str) -> bool:
    quoted = (f'"{key}"', f"'{key}'")
    return not any(
        text in source
        for path, source in site.sources.items()
        if path != site.path
        for text in quoted
    )


def _read_of_entry(node: cst.CSTNode) -> tuple[cst.Subscript, str] | None:
    match node:
        case cst.Call(
            func=cst.Attribute(value=cst.Subscript() as entry, attr=cst.Name("item")), args=[]
        ):
            key = _key(entry)
            return (entry, key) if key is not None else None
    return None


def _key(entry: cst.Subscript) -> str | None:
    match entry.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() as text))]:
            value = text.evaluated_value
            return value if isinstance(value, str) else None
    return None

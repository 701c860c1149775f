"""What Python knows already: sizes and flags that are put into a tensor and read back."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import import_map, module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Safety

from ..api.splice import Splice
from ..control_flow.handed import given_to

_MAKERS = ("torch.tensor", "torch.as_tensor")
_LONG = ("torch.long", "torch.int64", "torch.int32", "torch.int")
_STATIC_METHODS = words("dim size ndimension numel")
_STATIC_ATTRIBUTES = words("shape ndim")
_STATIC_CALLS = words("len int bool min max sum isinstance tuple list range zip enumerate")
_ELSEWHERE = (
    "the entry is now a Python number, not a tensor; code outside this project that reads it sees"
    " that"
)


class PythonMetadata(Codemod):
    """*What it does.*  Reads back what Python knew before it was put into a tensor.

    ```python
    size = torch.tensor(x.shape[-2:])
    h, w = size.tolist()
    ```
    becomes ``size_list = x.shape[-2:]``, ``size = torch.tensor(size_list)`` and
    ``h, w = size_list``: the numbers are kept where the tensor is made.  Where another function
    loops over such a tensor, the call passes the list: ``attend(value, shapes)`` becomes
    ``attend(value, shapes_list)``.  A flag that is kept as
    ``state["mode"] = torch.tensor(1 if x.ndim == 2 else 2)`` and read as ``state["mode"].item()``
    is kept as the Python number.  ``n = torch.prod(torch.tensor(x.shape[1:]))`` becomes
    ``math.prod(x.shape[1:])`` where ``n`` is only what tensors are viewed by.

    *When it applies.*  The tensor is made of sizes, lengths and literals by the text, is not
    changed, and what reads it wants Python numbers.

    *Fix safety.*  Safe for sizes: the numbers are the same.  A flag's entry is another type of
    object for whoever else looks at it: the rewrite needs that nothing else in the project's files
    names the entry.

    *Refuses.*  Numbers that come from tensors, tensors of floats, names that are bound again, and
    entries that are named anywhere else.  Numbers of callers without the annotation ``int``.
    Tensors of which a view or another name may be changed first.  Functions that do more with the
    numbers of a list than whole numbers of Python's and of tensors have in common: they divide
    differently, and ``h -= 1`` changes a tensor.  Entries where the file goes through all entries
    of a dict, or makes up keys.
    """

    name = "python-metadata"
    codes = (
        "GB0124",
        "GB0033",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
        "internal-error",
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
                size_list = x.shape[-2:]
                size = torch.tensor(size_list)
                h, w = size_list
                return x.view(-1, h * w), size
            """,
            at="size.tolist()",
            facts={"size": tensor(2, dtype="torch.int64")},
        ),
        Example(
            title="a product of sizes by which a tensor is viewed",
            before="""
            import torch


            def f(x):
                count = torch.prod(torch.tensor(x.shape[1:]))
                return x.view(x.shape[0], count)
            """,
            after="""
            import math

            import torch


            def f(x):
                count = math.prod(x.shape[1:])
                return x.view(x.shape[0], count)
            """,
            at="x.view(x.shape[0], count)",
            code="GB0033",
            facts={"x": tensor(4, 6)},
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


            def f(x):
                count = torch.prod(torch.tensor(x.shape[1:]))
                return x.view(x.shape[0], count), count
            """,
            at="x.view(x.shape[0], count)",
            code="GB0033",
            why="the product is given back, too",
            facts={"x": tensor(4, 6)},
        ),
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


            def f(x):
                size = torch.tensor(x.shape)
                rows = size[:1]
                rows.clamp_(max=8)
                h, w = size.tolist()
                return x.view(h, w)
            """,
            at="size.tolist()",
            why="a view of the tensor is changed",
        ),
        NearMiss(
            """
            import torch


            def f(x, times):
                size = torch.tensor([len(x), times], dtype=torch.long)
                h, n = size.tolist()
                return x.view(h, -1) * n
            """,
            at="size.tolist()",
            why="other callers may give a float, which the tensor cuts off",
            facts={"times": scalar(3)},
        ),
        *(
            NearMiss(
                f"""
                import torch


                def attend(value, shapes):
                    parts = value.split([h * w for h, w in shapes])
                    {lines}


                def f(maps):
                    shapes = torch.tensor([m.shape[-2:] for m in maps])
                    return attend(torch.cat([m.flatten() for m in maps]), shapes)
                """,
                at="value.split([h * w for h, w in shapes])",
                code="GB0033",
                why=why,
                facts={"shapes": tensor(2, 2, dtype="torch.int64")},
            )
            for lines, why in (
                ("return parts[0] * sum(h / w for h, w in shapes)", "ratios of tensors"),
                ("return parts[0] * helper([h for h, w in shapes])", "another function's"),
                (
                    "for h, w in shapes:\n                        h -= 1\n"
                    "                    return parts",
                    "a number is changed, and the tensor with it",
                ),
            )
        ),
        NearMiss(
            """
            import torch


            def prepare(state):
                state["mode"] = torch.tensor(1 if state["x"].ndim == 2 else 2)


            def mode(state):
                return int(state["mode"].item()) + sum(v.ndim for v in state.values())
            """,
            at='state["mode"].item()',
            why="the entry is seen without its name",
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
        for way in (_same_function, _only_sizes, _passed_on, _flag):
            rewrite = way(site, site.function)
            if rewrite is not None:
                yield rewrite
                return


# -- read back in the same function ----------------------------------------------------------------


class _Beside:
    """Names for what tensors were made of, bound on the line above each."""

    def __init__(self, site: Site, splice: Splice) -> None:
        self.site = site
        self.splice = splice
        self.taken = names_in(site.module)
        self.names: dict[cst.CSTNode, str] = {}

    def name(self, function: cst.FunctionDef, tensor_name: str, made: cst.Call) -> str:
        source = made.args[0].value
        if isinstance(source, cst.Integer):
            return code(source)
        if source not in self.names:
            wish = f"{tensor_name}_{'value' if _is_single(source) else 'list'}"
            self.names[source] = fresh(wish, self.taken)
            self.taken.add(self.names[source])
            binding = _only_binding(self.site, function, tensor_name)
            assert binding is not None
            text = f"{self.names[source]} = {self.splice.source_of(source)}"
            self.splice.insert_line_before(
                self.site.statement_of(binding), text, above_comments=False
            )
            self.splice.replace(source, self.names[source])
        return self.names[source]


def _same_function(site: Site, function: cst.FunctionDef) -> Rewrite | None:
    splice = Splice(site)
    beside = _Beside(site, splice)
    names: list[str] = []
    needs_math = False
    for node in walk(function.body):
        read = _read_back(site, function, node, beside)
        if read is None:
            continue
        name, text = read
        splice.replace(node, text)
        names.append(name)
        needs_math = needs_math or "math." in text
    if not names:
        return None
    if needs_math and not _import_math(site, splice):
        return None
    return splice.rewrite(f"take the numbers of `{names[0]}` from what it was made of", rank=11)


def _import_math(site: Site, splice: Splice, *, first: bool = True) -> bool:
    """Import ``math``, unless that is done (or is not the ``first`` time); False where the name is
    another thing's.
    """
    if "math" in names_in(site.module) and import_map(site.module).get("math") != "math":
        return False
    if first and "math" not in import_map(site.module):
        line = _first_import(site)
        before = site.source.splitlines()[line - 1].split()
        own = before[1:2] and before[1].partition(".")[0] in sys.stdlib_module_names
        end = site.module.default_newline
        splice.insert(line, 0, f"import math{end}" if own else f"import math{end}{end}")
    return True


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


def _read_back(
    site: Site, function: cst.FunctionDef, node: cst.CSTNode, beside: _Beside
) -> tuple[str, str] | None:
    """The name of the tensor that an expression reads, and the same numbers in Python."""
    match node:
        case cst.Call(func=cst.Attribute(value=base, attr=cst.Name("item" | "tolist")), args=[]):
            pass
        case cst.Call(func=cst.Name("int"), args=[cst.Arg(value=base, keyword=None)]):
            pass
        case _:
            return None
    reduced = _reduced_sizes(site, function, base, beside)
    if reduced is not None:
        return reduced
    index = ""
    if isinstance(base, cst.Subscript) and len(base.slice) == 1:
        index, base = f"[{code(base.slice[0].slice)}]", base.value
    if not isinstance(base, cst.Name):
        return None
    made = made_of_numbers(site, function, base)
    if made is None:
        return None
    source = made.args[0].value
    if index and not _is_static_index(index):
        return None
    is_list = isinstance(node, cst.Call) and code(node.func).endswith("tolist")
    if is_list == bool(index) or (not is_list and not index and not _is_single(source)):
        return None
    if index and isinstance(source, cst.List | cst.Tuple):
        place = int(index[1:-1])
        if not -len(source.elements) <= place < len(source.elements):
            return None
    text = beside.name(function, base.value, made)
    if is_list:
        holder = site.parent(node)
        return base.value, text if isinstance(holder, cst.Assign) and isinstance(
            holder.targets[0].target, cst.Tuple
        ) else f"list({text})"
    return base.value, f"{text}{index}"


def _only_sizes(site: Site, function: cst.FunctionDef) -> Rewrite | None:
    """``n = torch.tensor(x.shape).prod()`` where ``n`` is only what tensors are viewed by."""
    splice, names = Splice(site), []
    for node in walk(function.body):
        if not isinstance(node, cst.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0].target
        if not isinstance(target, cst.Name) or not is_bound_once(site, function, target.value):
            continue
        reduced = _reduced_sizes(site, function, node.value, None)
        uses = [it for it in site.places_of(target.value, function) if it is not target]
        if reduced is None or not uses or not all(_is_size(site, use) for use in uses):
            continue
        splice.replace(node.value, reduced[1])
        names.append(target.value)
        if "math." in reduced[1] and not _import_math(site, splice, first=len(names) == 1):
            return None
    if not names:
        return None
    return splice.rewrite(f"compute `{names[0]}` of Python's numbers", rank=11)


def _is_size(site: Site, use: cst.Name) -> bool:
    """Whether a use is one of the numbers by which a tensor's method views or makes another."""
    arg = site.parent(use)
    if not isinstance(arg, cst.Arg) or arg.star or arg.keyword is not None:
        return False
    match site.parent(arg):
        case cst.Call(func=cst.Attribute(value=base, attr=cst.Name(name))) if name in _SIZED:
            fact = site.fact(base)
            return fact is not None and fact.is_tensor
    return False


_SIZED = words("view reshape expand repeat new_zeros new_ones new_empty")
_REDUCTIONS = {"prod": "math.prod", "sum": "sum", "max": "max", "min": "min"}


def _reduced_sizes(
    site: Site, function: cst.FunctionDef, node: cst.BaseExpression, beside: _Beside | None
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
    if isinstance(base, cst.Name) and beside is not None:
        made, name = made_of_numbers(site, function, base), base.value
    elif isinstance(base, cst.Call):
        made, name = _made_here(site, base), code(base.args[0].value) if base.args else ""
    else:
        return None
    if made is None:
        return None
    if isinstance(made.args[0].value, cst.Integer | cst.Name):
        return None
    if isinstance(base, cst.Name) and beside is not None:
        text = beside.name(function, name, made)
    else:
        text = code(made.args[0].value)
    return name, f"{_REDUCTIONS[attr.value]}({text})"


def _made_here(site: Site, made: cst.Call) -> cst.Call | None:
    if resolve(site.module, made.func) not in _MAKERS or len(made.args) != 1:
        return None
    return made if is_static(site, made.args[0].value) else None


def _is_static_index(text: str) -> bool:
    return text[1:-1].lstrip("-").isdigit()


def _is_single(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index())]) | cst.Integer():
            return True
        case cst.Call(func=cst.Name("len")) | cst.Attribute(attr=cst.Name("ndim")):
            return True
    return False


def made_of_numbers(site: Site, function: cst.FunctionDef, use: cst.Name) -> cst.Call | None:
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
        if name in does.writes and not is_bound_once(site, function, name)
    }
    if not is_static(site, source) or rebound or use.value in does.mutates:
        return None
    # Parameters that are bound again are other objects by then.
    parameters = {
        param.name.value for param in walk(function.params) if isinstance(param, cst.Param)
    }
    if parameters & _names(source) & does.writes:
        return None
    line = site.statement_of(assign)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return None
    return made if _is_left_alone(site, function, assign, use) else None


def _is_left_alone(
    site: Site, function: cst.FunctionDef, assign: cst.Assign, use: cst.Name
) -> bool:
    """Whether a tensor surely holds at a use what it was made of: no view of it was changed."""
    loops = [
        loop
        for loop in site.ancestors(use)
        if isinstance(loop, cst.For | cst.While) and not any(n is assign for n in walk(loop))
    ]
    again = {id(node) for loop in loops for node in walk(loop)}
    end = site.span(use)
    for place in site.places_of(use.value, function):
        span = site.span(place)
        first = (span.line, span.column) < (end.line, end.column) or id(place) in again
        if first and place is not assign.targets[0].target and not _only_read(site, place):
            return False
    return True


_READS = words(
    """shape device dtype ndim item tolist size dim numel prod sum max min clone new_zeros new_ones
    new_full new_empty cumsum cumprod amax amin any all eq ne lt gt le ge"""
)


def _only_read(site: Site, place: cst.Name) -> bool:
    """Whether a use gives no view of a tensor to anything that may change it."""
    node: cst.CSTNode = place
    holder = site.parent(node)
    if isinstance(holder, cst.Subscript) and holder.value is node:
        node, holder = holder, site.parent(holder)
    if isinstance(holder, cst.Attribute):
        return holder.attr.value in _READS
    if isinstance(holder, cst.BinaryOperation | cst.Comparison | cst.ComparisonTarget):
        return True
    call = site.parent(holder) if isinstance(holder, cst.Arg) else None
    return isinstance(call, cst.Call) and code(call.func) in ("int", "len", "float", "bool")


def _only_binding(site: Site, function: cst.FunctionDef, name: str) -> cst.Assign | None:
    found = [
        node
        for node in walk(function.body)
        if isinstance(node, cst.Assign)
        and any(isinstance(t.target, cst.Name) and t.target.value == name for t in node.targets)
    ]
    if len(found) != 1 or len(found[0].targets) != 1 or not is_bound_once(site, function, name):
        return None
    return found[0]


def is_bound_once(site: Site, function: cst.FunctionDef, name: str) -> bool:
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


def is_static(site: Site, node: cst.BaseExpression, bound: frozenset[str] = frozenset()) -> bool:
    """Whether Python knows the numbers: sizes, lengths, literals, and what is made of them."""
    match node:
        case cst.Integer():
            return True
        case cst.Name(value=value):
            if value in ("True", "False") or value in bound:
                return True
            fact = site.fact(node)
            whole = fact is not None and fact.kind in ("int", "bool", "tuple")
            return whole and _is_whole(site, node, bound)
        case cst.Attribute(attr=attr):
            return attr.value in _STATIC_ATTRIBUTES
        case cst.Subscript(value=base):
            return is_static(site, base, bound)
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            return all(is_static(site, item.value, bound) for item in elements)
        case cst.ListComp(elt=element, for_in=cst.CompFor(inner_for_in=None)):
            return is_static(site, element, bound)
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            whole = isinstance(
                operator, cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide | cst.Modulo
            )
            return whole and is_static(site, left, bound) and is_static(site, right, bound)
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return is_static(site, inner, bound)
        case cst.IfExp(test=test, body=body, orelse=orelse):
            return (
                _is_static_test(site, test)
                and is_static(site, body, bound)
                and is_static(site, orelse, bound)
            )
        case cst.Call(func=cst.Attribute(attr=attr)):
            return attr.value in _STATIC_METHODS
        case cst.Call(func=cst.Name(value=value)):
            return value == "len"
    return False


def _is_whole(site: Site, node: cst.Name, bound: frozenset[str]) -> bool:
    """Whether a name holds a whole number in every call, by the text: others may give a float."""
    function, name = site.function_of(node), node.value
    if function is None or not is_bound_once(site, function, name):
        return False
    for param in params_of(function.params):
        if param.name.value == name:
            annotation = param.annotation
            return annotation is not None and code(annotation.annotation) in ("int", "bool")
    for line in walk(function.body):
        match line:
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value) if (
                name in _names(target)
            ):
                plain = isinstance(target, cst.Name | cst.Tuple | cst.List)
                return plain and is_static(site, value, bound | {name})
            case cst.For(target=cst.Name(), iter=cst.Call(func=cst.Name("range"))) if (
                name in _names(line.target)
            ):
                return True
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
            return all(is_static(site, side) for side in sides)
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
            argument = given_to(call, place, parameter)
            caller = site.function_of(call)
            if caller is None or not isinstance(argument, cst.Name):
                return None
            made = made_of_numbers(site, caller, argument)
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
            if not is_only_counted(site, function, holder.target):
                return False
            continue
        call = site.parent(holder) if isinstance(holder, cst.Arg) else None
        if not isinstance(call, cst.Call) or code(call.func) not in ("zip", "enumerate", "len"):
            return False
        loop = site.parent(call)
        if code(call.func) != "len" and not (
            isinstance(loop, cst.For | cst.CompFor) and is_only_counted(site, function, loop.target)
        ):
            return False
    return True


def is_only_counted(site: Site, function: cst.FunctionDef, target: cst.BaseExpression) -> bool:
    """Whether what a loop binds goes through arithmetic and sizes: no methods of tensors."""
    counted = _Counted(site, function)
    return all(counted.name(name) for name in _names(target))


_SHARED_OPERATORS = cst.Add | cst.Subtract | cst.Multiply | cst.FloorDivide
_KEEPERS = words("append extend insert add update setdefault")
_TAKERS = words("int float bool range slice len zip enumerate tuple list")


class _Counted:
    """What is done with numbers that are tensors now, and shall be Python's: the same of both?

    Both add, multiply and divide down alike.  A ratio of tensors has the precision of a tensor,
    and is infinite where Python raises an error; ``h -= 1`` changes the tensor that is looped over.
    """

    def __init__(self, site: Site, function: cst.FunctionDef) -> None:
        self.site = site
        self.function = function
        self.names: set[str] = set()

    def name(self, name: str) -> bool:
        if name in self.names:
            return True
        self.names.add(name)
        places = self.site.places_of(name, self.function.body)
        return all(self.place(node) for node in places)

    def place(self, node: cst.Name) -> bool:
        holder = self.site.parent(node)
        if isinstance(holder, cst.AssignTarget):
            return False  # bound to something else, too
        if isinstance(holder, cst.AugAssign) and holder.target is node:
            return False  # in place
        fact = self.site.fact(node)
        if isinstance(holder, cst.Attribute):
            return fact is not None and (fact.dtype or "") not in _LONG
        # What stands beside a number in the loop: the tensor that is worked on.
        if fact is not None and (fact.dtype or "torch.int64") not in _LONG:
            return True
        return self.value(node)

    def derived(self, name: str) -> bool:
        """The same of a name that sums and products of the numbers are bound to."""
        if name in self.names:
            return True
        self.names.add(name)
        for node in self.site.places_of(name, self.function.body):
            holder = self.site.parent(node)
            if isinstance(holder, cst.AssignTarget) or getattr(holder, "target", None) is node:
                continue
            if not self.value(node):
                return False
        return True

    def value(self, node: cst.BaseExpression) -> bool:
        """Whether what happens to a number next is the same for both."""
        holder = self.site.parent(node)
        match holder:
            case cst.BinaryOperation(operator=operator):
                other = holder.right if holder.left is node else holder.left
                if not isinstance(operator, _SHARED_OPERATORS):
                    return False
                # Halves are exact in every precision, other fractions are not.
                if isinstance(other, cst.Float) and (2 * other.evaluated_value) % 1:
                    return False
                fact = self.site.fact(other)
                if fact is not None and fact.is_tensor and (fact.dtype or "") not in _LONG:
                    return True  # a tensor either way
                return self.value(holder)
            case cst.UnaryOperation(operator=cst.Minus()) | cst.BooleanOperation():
                return self.value(holder)
            case cst.IfExp() if holder.test is not node:
                return self.value(holder)
            case cst.Subscript() | cst.ListComp() | cst.GeneratorExp() | cst.Tuple() | cst.List():
                return self.value(holder)
            case cst.Element():
                container = self.site.parent(holder)
                return isinstance(container, cst.Tuple | cst.List) and self.value(container)
            case cst.Comparison():
                return self.tested(holder)
            case cst.ComparisonTarget():
                test = self.site.parent(holder)
                return isinstance(test, cst.Comparison) and self.tested(test)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))]):
                return self.derived(name)
            case cst.AugAssign(target=cst.Name(name), operator=cst.AddAssign()):
                return self.derived(name)
            case cst.For() | cst.CompFor():
                return all(self.name(name) for name in _names(holder.target))
            case cst.Arg():
                call = self.site.parent(holder)
                return isinstance(call, cst.Call) and self.called(call)
        return isinstance(holder, cst.Index | cst.Slice | cst.If | cst.IfExp | cst.While)

    def tested(self, test: cst.Comparison) -> bool:
        """Whether a comparison is only asked for its truth."""
        asker = self.site.parent(test)
        if isinstance(asker, cst.UnaryOperation):
            return isinstance(asker.operator, cst.Not)
        return isinstance(
            asker,
            cst.If | cst.IfExp | cst.While | cst.CompIf | cst.BooleanOperation | cst.Assert,
        )

    def called(self, call: cst.Call) -> bool:
        """Whether a call takes a number of Python's for a tensor of one number."""
        if isinstance(call.func, cst.Name) and call.func.value in ("sum", "max", "min", "abs"):
            return self.value(call)
        if isinstance(call.func, cst.Name) and call.func.value in _TAKERS:
            return True
        if (resolve(self.site.module, call.func) or "").startswith("torch."):
            return True
        if isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name):
            fact = self.site.fact(call.func.value)
            bound = call.func.value.value in activity(self.function.body).bound | {
                *(param.name.value for param in params_of(self.function.params)),
                *(
                    name
                    for part in walk(self.function.body)
                    if isinstance(part, cst.CompFor)
                    for name in _names(part.target)
                ),
            }
            tensors = bound and (fact is None or fact.is_tensor)
            return tensors and call.func.attr.value not in _KEEPERS
        if isinstance(call.func, cst.Attribute):
            fact = self.site.fact(call.func.value)
            return fact is not None and fact.is_tensor
        return False


def _calls_of(site: Site, function: cst.FunctionDef) -> Iterator[cst.Call]:
    for node in walk(site.module):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name):
            continue
        if node.func.value == function.name.value:
            yield node


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
    if _goes_through_entries(site):
        return None
    (_, made), splice = writes[0], Splice(site)
    if len(made.args) != 1 or not isinstance(made.args[0].value, cst.BaseExpression):
        return None
    if not is_static(site, made.args[0].value):
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


def _goes_through_entries(site: Site) -> bool:
    """Whether the file may see an entry without its name: all entries, or a key that it makes."""
    for node in walk(site.module):
        match node:
            case cst.Call(func=cst.Attribute(attr=cst.Name("values" | "items" | "keys"))):
                return True
            case cst.StarredDictElement() | cst.Arg(star="**"):
                return True
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
                if isinstance(key, cst.FormattedString | cst.ConcatenatedString):
                    return True
                fact = site.fact(key)
                if (
                    fact is not None
                    and fact.kind == "str"
                    and not isinstance(key, cst.SimpleString)
                ):
                    return True
            case cst.BinaryOperation(left=left, right=right) if isinstance(
                left, cst.SimpleString
            ) or isinstance(right, cst.SimpleString):
                return True
            case (
                cst.For(target=cst.Name(name), iter=cst.Name())
                | cst.CompFor(target=cst.Name(name), iter=cst.Name())
            ) if any(
                isinstance(part, cst.Subscript) and code(part.slice[0].slice) == name
                for part in walk(site.module)
            ):
                return True
    return False


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

"""What an arm must not do where it is evaluated in vain."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.binding import target_names
from gbfix.analysis.torch_names import (
    ELEMENTWISE,
    INT_DTYPES,
    NEW_MEMORY,
    PAIR_REDUCTIONS,
    PURE_MODULES,
    RNG_FUNCTIONS,
    RNG_METHODS,
    RNG_NAMESPACES,
)
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.rewriting.project import is_replaced, mentions

from .computing import PUT_ON, class_computes, made_by, method_computes
from .context import Context, Declined
from .tests import decided_by_tensor

#: Fail for some values of their input: nothing to try in an arm that is not taken.
_MAY_FAIL = words(
    """cholesky inverse inv solve lstsq eigh eigvalsh svd svdvals qr lu_factor lu ldl_factor
    cholesky_solve cholesky_inverse multinomial tensorinv matrix_exp eig eigvals"""
)
#: Take integers that must be in range, or classes that must be known.
_INDEXED = words(
    """gather index_select take take_along_dim embedding one_hot scatter scatter_add index_add
    index_copy index_fill cross_entropy nll_loss bincount"""
)
#: Give integers that are in range.
_IN_RANGE = words("clamp clip argmax argmin argsort arange nonzero remainder")
#: Give values, and where they stand.
_WITH_PLACES = PAIR_REDUCTIONS - {"aminmax"}
#: Layers that draw or keep statistics, put among others.
_INSERTED = r"\.insert\(.*\b(?:Dropout|BatchNorm|DropPath)"
_REPLACED = (
    "The project puts another function in the place of `{0}`, which the branch not taken calls now."
)
_RAISES = (
    "An error that an option leads to is raised with it in every call, whatever the test says."
)
_EFFECTS = words("print open input exec eval setattr delattr next breakpoint")
_ACTIVATIONS = words("ReLU GELU SiLU ELU Tanh Sigmoid LeakyReLU Softplus Softmax Mish Hardtanh")
_COSTLY = words("matmul mm bmm einsum conv1d conv2d conv3d linear baddbmm addmm interpolate sort")
_MANY = 24


class Vain:
    """Looks through arms for what cannot be evaluated in vain, and counts what it costs."""

    def __init__(self, ctx: Context, *, modules: bool) -> None:
        self.ctx = ctx
        self.modules = modules
        self.cost = 0
        #: Whether it multiplies matrices, which autocast does in a lower precision.
        self.multiplies = False
        self._open: set[str] = set()

    def check(self, node: cst.CSTNode) -> None:
        harmless: set[cst.CSTNode] = set()  # selections that cannot fail where nothing is selected
        harmless |= self._by_python(node)
        for inner in walk(node):
            match inner:
                case cst.Raise() if inner in harmless:
                    self.ctx.doubts.append(_RAISES)
                case cst.Assign(targets=targets):
                    # `x[mask] = ...` picks nothing out, and the mask holds on the path only.
                    harmless |= {it.target for it in targets}
                case cst.Await() | cst.Yield() | cst.Raise() | cst.Assert():
                    raise Declined("a branch raises, yields or waits")
                case cst.Global() | cst.Nonlocal() | cst.Import() | cst.ImportFrom() | cst.Del():
                    raise Declined("a branch changes names outside the function")
                case cst.Call():
                    match inner.func:
                        case cst.Attribute(value=value, attr=cst.Name("sum" | "mean")):
                            harmless |= {*_selected(value)}
                    self._call(inner)
                case cst.BinaryOperation():
                    heavy = isinstance(inner.operator, cst.MatrixMultiply)
                    self.multiplies |= heavy
                    self.cost += 8 if heavy else 1
                    if isinstance(inner.operator, cst.FloorDivide | cst.Modulo):
                        self._guarded(inner.right, "an integer division by zero")
                case cst.Subscript():
                    self._subscript(inner, harmless=inner in harmless)

    def _by_python(self, node: cst.CSTNode) -> set[cst.CSTNode]:
        """Errors about options: it is Python that decides whether they are raised."""
        found: set[cst.CSTNode] = set()
        for inner in walk(node):
            if not isinstance(inner, cst.If) or decided_by_tensor(inner.test, self.ctx):
                continue
            bodies = [inner.body]
            if isinstance(inner.orelse, cst.Else):
                bodies.append(inner.orelse.body)
            for body in bodies:
                match body:
                    case cst.IndentedBlock([cst.SimpleStatementLine([cst.Raise() as it])]):
                        found.add(it)
        return found

    @property
    def cheap(self) -> bool:
        return self.cost <= _MANY

    def _subscript(self, node: cst.Subscript, *, harmless: bool) -> None:
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                fact = self.ctx.fact(element.slice.value)
                if fact is not None and fact.is_tensor and fact.dtype == "torch.bool":
                    if harmless:
                        continue
                    raise Declined("a branch picks out elements by a mask")
                index = element.slice.value
                anyway = isinstance(index, cst.Name) and any(
                    name == index.value and size in self._index_anyway.get(name, ())
                    for name, size in self._indexes(node)
                )
                if not anyway:
                    self._guarded(index, "an index out of range")

    def _guarded(self, node: cst.BaseExpression, what: str) -> None:
        """Decline where the test may be what keeps integers away that fail."""
        fact = self.ctx.fact(node)
        integers = fact is not None and fact.is_tensor and fact.dtype in INT_DTYPES
        if self._is_place(node):
            return
        if integers and self._depends(node) & self._tested:
            raise Declined(f"the test may be there to keep {what} out of a branch")

    def _is_place(self, node: cst.CSTNode, depth: int = 3) -> bool:
        """Whether a number tells where in a tensor something stands: no test keeps it in range,
        as far as none asks for it.
        """
        match node:
            case cst.Call(func=func):
                return code(func).rpartition(".")[2] in _IN_RANGE
            case cst.Subscript(
                value=cst.Call(func=cst.Attribute(attr=cst.Name(name))),
                slice=[cst.SubscriptElement(cst.Index(cst.Integer("1")))],
            ) if name in _WITH_PLACES:
                return True
            case cst.Attribute(value=inner, attr=cst.Name("data")):
                return self._is_place(inner, depth)
            case cst.Attribute(value=cst.Call(func=func), attr=cst.Name("indices")):
                return code(func).rpartition(".")[2] in _WITH_PLACES
            case cst.Subscript(value=cst.Name() as name):
                return self._is_place(name, depth)
            case cst.Name(value=name):
                made = self._bound_to.get(name, ())
                return bool(depth and made and name not in self._tested) and all(
                    self._is_place(value, depth - 1) for value in made
                )
        return False

    @functools.cached_property
    def _bound_to(self) -> dict[str, list[cst.CSTNode]]:
        """By name: what assigns it, of ``_, at = x.max(1)`` as ``x.max(1)[1]``; else itself."""
        found: dict[str, list[cst.CSTNode]] = {}
        for node in walk(self.ctx.scope):
            for name in activity(node).bound if isinstance(node, cst.BaseSmallStatement) else ():
                value: cst.CSTNode = node
                match node:
                    case cst.Assign(targets=[cst.AssignTarget(cst.Name())], value=value):
                        pass
                    case cst.Assign(
                        targets=[cst.AssignTarget(cst.Tuple([_, cst.Element(cst.Name(second))]))],
                        value=whole,
                    ) if second == name:
                        one = cst.SubscriptElement(cst.Index(cst.Integer("1")))
                        value = cst.Subscript(whole, [one])
                found.setdefault(name, []).append(value)
        return found

    @functools.cached_property
    def _index_anyway(self) -> dict[str, set[int]]:
        """Names that are an index above the first test, and the sizes that they were in range of.

        No test keeps them in range, as far as it does not ask for them by name.
        """
        scope = self.ctx.scope
        if not isinstance(scope, cst.FunctionDef):
            return {}
        found: dict[str, set[int]] = {}
        for statement in scope.body.body:
            if not isinstance(statement, cst.SimpleStatementLine):
                break
            if any(isinstance(it, cst.IfExp | cst.Lambda) for it in walk(statement)):
                break
            for node in walk(statement):
                for name, size in self._indexes(node):
                    found.setdefault(name, set()).add(size)
        does = activity(scope.body)
        once = set(parameters_of(scope.params)) - set(self._made_of)
        once |= {name for name, values in self._made_of.items() if len(values) == 1}
        asked = {
            part.value
            for node in walk(scope)
            if isinstance(node, cst.If | cst.IfExp)
            for part in walk(node.test)
            if isinstance(part, cst.Name)
        }
        plain = once - does.mutates - does.augments - asked
        return {name: sizes for name, sizes in found.items() if name in plain}

    def _indexes(self, node: cst.CSTNode) -> Iterator[tuple[str, int]]:
        """The names with which a subscript (or ``index_add``) indexes, and how large that was."""
        match node:
            case cst.Subscript(value=value, slice=parts):
                places = list(enumerate(part.slice for part in parts))
                if any(code(part) in ("...", "None") for _, part in places):
                    return
                given = [(n, it.value) for n, it in places if isinstance(it, cst.Index)]
            case cst.Call(
                func=cst.Attribute(value=value, attr=cst.Name("index_add" | "index_select")),
                args=[cst.Arg(value=cst.Integer() as dim, keyword=None), cst.Arg(value=only), *_],
            ):
                given = [(int(dim.value), only)]
            case _:
                return
        kinds = [self.ctx.fact(index) for _, index in given]
        if any(fact is not None and fact.dtype == "torch.bool" for fact in kinds):
            return  # a mask covers several dimensions
        held = self.ctx.fact(value)
        shape = held.shape if held is not None and held.is_tensor else None
        for place, index in given:
            if shape is not None and place < len(shape) and isinstance(index, cst.Name):
                size = shape[place]
                if size is not None:
                    yield index.value, size

    @functools.cached_property
    def _tested(self) -> frozenset[str]:
        """What the tests of the function depend on."""
        tests = [
            node.test
            for node in walk(self.ctx.scope)
            if isinstance(node, cst.If | cst.IfExp) and decided_by_tensor(node.test, self.ctx)
        ]
        return frozenset().union(*map(self._depends, tests))

    @functools.cached_property
    def _made_of(self) -> dict[str, list[cst.BaseExpression]]:
        """By name: what the function binds it to."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for node in walk(self.ctx.scope):
            if isinstance(node, cst.Assign):
                for target in node.targets:
                    for name in _mentioned(target.target):
                        found.setdefault(name, []).append(node.value)
        return found

    def _depends(self, node: cst.CSTNode) -> frozenset[str]:
        """The names and attributes that an expression comes from."""
        found: set[str] = set()
        queue = list(_mentioned(node))
        while queue:
            name = queue.pop()
            if name not in found:
                found.add(name)
                for value in self._made_of.get(name, ()):
                    queue += _mentioned(value)
        return frozenset(found)

    def _call(self, node: cst.Call) -> None:
        self.cost += 1
        func = node.func
        called = self.ctx.resolve(func)
        last = called.rpartition(".")[2] or code(func)
        if called.startswith(RNG_NAMESPACES):
            raise Declined("a branch draws random numbers")
        fact = self.ctx.kind_of(func)
        if fact is not None and fact.kind == "module":
            self._module(func, fact.type)
            return
        if isinstance(func, cst.Name):
            self._name(func, called)
            return
        if not isinstance(func, cst.Attribute):
            return
        last = func.attr.value
        if last in RNG_METHODS or (called.startswith("torch.") and last in RNG_FUNCTIONS):
            raise Declined("a branch draws random numbers")
        if last in _MAY_FAIL:
            raise Declined(f"`{last}` in a branch may fail where the branch is not taken")
        if last in _INDEXED:
            for operand in (func.value, *(arg.value for arg in node.args)):
                self._guarded(operand, f"what `{last}` fails for")
        if last in _COSTLY:
            self.cost += 8
            self.multiplies |= last not in ("interpolate", "sort")
        own = isinstance(func.value, cst.Name) and func.value.value in ("self", "cls")
        if own and (fact is None or fact.kind != "module"):
            self._method(func)
        elif not own:
            self._of_object(func)

    def _module(self, func: cst.BaseExpression, kind: str) -> None:
        text, name = code(func), kind.rpartition(".")[2]
        if name in _ACTIVATIONS or name == "Identity":
            return
        if self.modules and kind.startswith("torch.nn.") and name in PURE_MODULES | {"Sequential"}:
            if mentions(self.ctx.site, rf"{PUT_ON}|{_INSERTED}"):
                self.ctx.doubts.append(
                    f"The project puts observers, parametrizations or other layers into modules:"
                    f" `{text}` may do more than compute there, and the branch not taken calls it."
                )
            self.cost += 8
            self.multiplies = True
            return
        if self.modules and not kind.startswith("torch."):
            self._of_project(text, func, name)
            return
        raise Declined(f"`{text}` is a module that may do more than compute")

    def _of_project(self, text: str, func: cst.BaseExpression, name: str) -> None:
        """A module of a class of the project: of what it is made, and what its methods do."""
        found = class_computes(self.ctx.site, name)
        if found.why_not:
            raise Declined(f"`{text}` is a module that may do more than compute: {found.why_not}")
        classes = self._held(func)
        if classes is None:
            self.ctx.doubts.append(
                f"Wrong where `{text}` is a module that does more than compute in another object."
            )
        for other in (classes or set()) - {name}:
            if class_computes(self.ctx.site, other).why_not:
                raise Declined(f"`{text}` may be a module that does more than compute")
        self.cost += 8
        if found.tame:
            self.ctx.tame.add(text)

    def _held(self, func: cst.BaseExpression) -> set[str] | None:
        """The classes of the modules that the expression may be, by what objects are given."""
        owner = self.ctx.site.class_of(self.ctx.scope)
        held = self._attribute_of(func)
        return made_by(self.ctx.site, owner.name.value, held) if owner and held else None

    def _attribute_of(self, func: cst.BaseExpression) -> str:
        """The attribute of ``self`` that holds the module, or the list of modules."""
        match func:
            case cst.Attribute(value=cst.Name("self"), attr=cst.Name(attribute)):
                return attribute
            case cst.Subscript(value=cst.Attribute() as held):
                return self._attribute_of(held)
            case cst.Name(name):
                loops = [
                    (node.target, node.iter)
                    for node in walk(self.ctx.scope)
                    if isinstance(node, cst.For) and name in _mentioned(node.target)
                ]
                if name in self._made_of or len(loops) != 1:
                    return ""
                return self._looped(name, *loops[0])
        return ""

    def _looped(self, name: str, target: cst.CSTNode, over: cst.BaseExpression) -> str:
        match target, over:
            case cst.Name(), _:
                return self._attribute_of(over)
            case cst.Tuple(elements=[_, cst.Element(value=cst.Name(second))]), cst.Call(
                func=cst.Name("enumerate"), args=[cst.Arg(value=inner), *_]
            ) if second == name:
                return self._attribute_of(inner)
            case cst.Tuple(elements=targets), cst.Call(func=cst.Name("zip"), args=args):
                for item, arg in zip(targets, args, strict=False):
                    if isinstance(item.value, cst.Name) and item.value.value == name:
                        return self._attribute_of(arg.value)
        return ""

    def _name(self, func: cst.Name, called: str) -> None:
        name = func.value
        if name in _EFFECTS:
            raise Declined(f"a branch calls `{name}`")
        if name in self._open:
            return
        self._open.add(name)
        own = [
            node
            for node in walk(self.ctx.scope)
            if isinstance(node, cst.FunctionDef) and node.name.value == name
        ]
        if own and own != [self.ctx.scope]:
            for function in own:
                self._body(function)
            return
        if self.ctx.function is not None and name in activity(self.ctx.function).binds | frozenset(
            parameters_of(self.ctx.function.params)
        ):
            self._given(func)
            return
        for statement in self.ctx.site.module.body:
            if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
                if is_replaced(self.ctx.site, name):
                    self.ctx.doubts.append(_REPLACED.format(name))
                self._body(statement)

    def _given(self, func: cst.Name) -> None:
        """A function that a name of the function's own holds: a caller may give any."""
        fact, name = self.ctx.kind_of(func), func.value
        given = self.ctx.function is not None and name in parameters_of(self.ctx.function.params)
        if (fact is None and not given) or (fact and fact.kind not in ("function", "class")):
            return
        if fact is None or not fact.qualname.startswith("torch."):
            raise Declined(f"a branch calls `{name}`, which may be any function")
        self.ctx.doubts.append(
            f"Wrong where `{name}` is a function that does more than compute in another call."
        )

    def _of_object(self, func: cst.Attribute) -> None:
        """A method of another object of the project: of its class, and of those below it."""
        fact = self.ctx.kind_of(func.value)
        held = fact is not None and fact.kind in ("object", "module")
        kind = fact.type.rpartition(".")[2] if fact is not None and held else ""
        texts = {self.ctx.site.source, *self.ctx.site.sources.values()}
        if not kind or not any(f"class {kind}" in text for text in texts):
            return
        why = method_computes(self.ctx.site, kind, func.attr.value).why_not
        if why:
            raise Declined(f"`{code(func)}` may do more than compute: {why}")

    def _method(self, func: cst.Attribute) -> None:
        """A method of the object: of its own class; who overrides it is asked of the project."""
        name = func.attr.value
        owner = self.ctx.site.class_of(self.ctx.scope)
        found = [
            statement
            for statement in (owner.body.body if owner is not None else ())
            if isinstance(statement, cst.FunctionDef) and statement.name.value == name
        ]
        if len(found) != 1 or found[0].decorators or found[0].asynchronous is not None:
            raise Declined(f"`{code(func)}` is a method of which no body is known")
        if is_replaced(self.ctx.site, name):
            self.ctx.doubts.append(_REPLACED.format(name))
        if f"self.{name}" not in self._open:
            self._open.add(f"self.{name}")
            self._body(found[0])

    def _body(self, function: cst.FunctionDef) -> None:
        """What a function does that an arm calls."""
        name = function.name.value
        body = function.body.visit(_NewByItself())
        assert isinstance(body, cst.BaseSuite)
        what = activity(body)
        own = what.binds - frozenset(parameters_of(function.params))
        beyond = what.globals | what.nonlocals | what.attribute_writes
        if what.mutates_unknown or what.mutates - own or beyond:
            raise Declined(f"`{name}` changes an object in place")
        made = _made_here(function)
        for inner in walk(function.body):
            # A tensor of its own may share the memory of another one, unless it is new.
            match inner:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript(value=value))]):
                    changed: cst.BaseExpression | None = value
                case cst.Call(func=cst.Attribute(value=value, attr=attr)) if _in_place(attr.value):
                    changed = value
                case _:
                    changed = None
            known = isinstance(changed, cst.Name) and changed.value in made
            if changed is not None and not known and not _is_new(changed):
                raise Declined(f"`{name}` changes an object in place")
        self.check(function.body)


def _mentioned(node: cst.CSTNode) -> set[str]:
    """Names in a piece of code, and attributes as they are written (``self.table``)."""
    found: set[str] = set()
    pending = [node]
    while pending:
        inner = pending.pop()
        if isinstance(inner, cst.Attribute) and dotted(inner) is not None:
            owner, _, last = code(inner).rpartition(".")
            # `idx.shape` and `idx.max()` come from `idx`, `self.table` from itself.
            found.add(f"{owner}.{last}" if owner.partition(".")[0] in ("self", "cls") else owner)
        elif isinstance(inner, cst.Name):
            found.add(inner.value)
        else:
            pending += [child for child in inner.children if not _is_callee(inner, child)]
            if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute):
                pending.append(inner.func.value)
    return found


def _is_callee(node: cst.CSTNode, child: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call | cst.Arg) and child in (
        getattr(node, "func", None),
        getattr(node, "keyword", None),
    )


def _made_here(function: cst.FunctionDef) -> frozenset[str]:
    """Names that only ever hold tensors which the function made, each with memory of its own."""
    new: set[str] = set()
    other = set(parameters_of(function.params))
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                # ``a, b = xs + ys`` takes what lists hold.
                apart = isinstance(target, cst.Tuple) and not isinstance(value, cst.Call)
                (new if _is_new(value) and not apart else other).update(target_names(target))
            case cst.Assign(targets=targets):
                other.update(*(target_names(it.target) for it in targets))
            case cst.AnnAssign(target=target) | cst.NamedExpr(target=target):
                other.update(target_names(target))
            case cst.For(target=target) | cst.CompFor(target=target) | cst.AsName(name=target):
                other.update(target_names(target))
    return frozenset(new - other)


def _is_new(value: cst.BaseExpression) -> bool:
    match value:
        case cst.BinaryOperation() | cst.Comparison():
            return True
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(name)), args=args):
            named = {arg.keyword.value for arg in args if arg.keyword is not None}
            if named & {"out", "inplace"} or any(code(arg.value) == "True" for arg in args):
                return False
            made = name.startswith(("zeros", "ones", "empty", "full", "arange", "eye"))
            return name in NEW_MEMORY and (not made or code(owner) == "torch")
    return False


class _NewByItself(cst.CSTTransformer):
    """Says ``float(x.sqrt(), 1)`` for ``x.sqrt().add_(1)``: what is changed there is new."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        match updated_node.func:
            case cst.Attribute(value=cst.Call() as owner, attr=cst.Name(name)) if _in_place(
                name
            ) and _is_new(owner):
                return cst.Call(cst.Name("float"), [cst.Arg(owner), *updated_node.args])
        return updated_node


def _in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__") and method != "requires_grad_"


def _selected(node: cst.BaseExpression) -> Iterator[cst.Subscript]:
    """The subscripts of which the expression is made, element by element."""
    match node:
        case cst.Subscript():
            yield node
        case cst.BinaryOperation(left=left, right=right):
            yield from _selected(left)
            yield from _selected(right)
        case cst.UnaryOperation(expression=inner):
            yield from _selected(inner)
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name))) if name in ELEMENTWISE:
            yield from _selected(inner)

"""What a piece of source reads, binds, deletes and changes in place.

The answer is in names of the scope in which the nodes stand.  Inner scopes (comprehensions,
lambdas, nested functions and classes) are looked through: their free names count, their own names
do not.  It is a *may* analysis: everything that can happen is in it, so code that runs nothing of
what it lists is the only imprecision.

Aliases are not followed: ``y = x; y.add_(1)`` changes ``y`` here.  Callers that need more ask the
recorded facts (`Fact.storage`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import libcst as cst

from gbfix.analysis.tree import children, code, dotted, flatten, words

#: Methods of Python's containers that change their receiver.
MUTATING_METHODS = words(
    """append extend insert pop remove clear update setdefault sort reverse add discard popitem
    appendleft extendleft popleft rotate intersection_update difference_update
    symmetric_difference_update fill resize put itemset setflags partition byteswap
    __setitem__ __delitem__ __setattr__ __delattr__ __iadd__ __isub__ __imul__ __itruediv__
    __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__
    __imatmul__ __next__ send throw close add_module register_buffer register_parameter
    register_module load_state_dict zero_grad train eval backward step"""
)
#: Functions that change their first argument.
MUTATING_FUNCTIONS = words(
    """setattr delattr next anext object.__setattr__ object.__delattr__ operator.setitem
    operator.delitem operator.iadd random.shuffle np.random.shuffle numpy.random.shuffle
    np.copyto numpy.copyto np.put np.place np.putmask np.fill_diagonal heapq.heappush
    heapq.heappop heapq.heapify heapq.heapreplace heapq.heappushpop bisect.insort"""
)
#: Calls whose result shares nothing with what they are called on: changing it changes no name.
_FRESH = words(
    """clone deepcopy zeros ones empty full rand randn arange tolist zeros_like ones_like empty_like
    full_like new_zeros new_ones new_empty new_full"""
)
#: Names under which modules of functions usually go: ``F.relu_(x)`` changes ``x``, not ``F``.
_FUNCTION_MODULES = words(
    """torch nn F init functional np numpy nn.functional torch.nn.functional torch.linalg
    torch.special torch.fft nn.init torch.nn.init torch.autograd"""
)
#: Calls that see every name of their frame.
_FRAME_ACCESS = words(
    """eval exec sys._getframe inspect.currentframe inspect.stack inspect.trace"""
)
_CONSTANTS = frozenset({"None", "True", "False"})
_FRAME_ACCESS_WITHOUT_ARGUMENTS = frozenset({"locals", "vars", "dir"})


@dataclasses.dataclass(frozen=True)
class Activity:
    """What nodes do to the names around them; all sets hold names, or dotted texts where said.

    ``reads``      names whose value may be read, at once or later by a closure made here
    ``writes``     names that may be bound (assignment, ``for``, ``import``, ``def``, ``:=`` ...)
    ``deletes``    names that may be unbound (``del``, end of ``except ... as``)
    ``mutates``    names whose object may be changed in place (``x[0] = ``, ``x.a = ``, ``x += ``,
                   ``x.add_()``, ``x.append()``, ``out=x``); the root name of the changed object
    ``augments``   the names of ``mutates`` for which ``x += ...`` is the only reason (no change of
                   an object where ``x`` is a number, a string or a tuple)
    ``calls``      dotted texts of what is called (``torch.sum``, ``self.norm``); a callee that is
                   not a chain of names is ``"?"`` plus the attribute (``"?.sum"``)
    ``declares``   names made local without a value (``x: int``)
    ``captures``   the names of ``reads`` and ``writes`` that a closure made here (lambda, nested
                   function, generator expression) may use after the nodes have run
    ``closure_writes``  names that a closure made here may bind or unbind (``nonlocal``)
    ``binds``      names of ``writes`` and ``deletes`` that the nodes' own scope binds, no closure
    ``attribute_reads``/``attribute_writes``  dotted texts (``self.training``)
    ``subscript_writes``  source texts (``d['k']``)
    ``globals``/``nonlocals``  names so declared among the nodes themselves
    ``global_writes``  names bound in the module's scope through a ``global`` seen here
    ``dynamic``    uses ``locals()``, ``vars()``, ``dir()``, ``eval``, ``exec``, frames, a zero-
                   argument ``super()``, ``__class__`` or a star import: do not move it
    ``frame_access``  like ``dynamic``, but only what may read any name of the frame
    ``zero_super`` uses ``super()`` without arguments, which reads the first parameter
    ``mutates_unknown``  changes an object in place that no name here leads to
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    mutates: frozenset[str] = frozenset()
    augments: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    declares: frozenset[str] = frozenset()
    captures: frozenset[str] = frozenset()
    closure_writes: frozenset[str] = frozenset()
    binds: frozenset[str] = frozenset()
    attribute_reads: frozenset[str] = frozenset()
    attribute_writes: frozenset[str] = frozenset()
    subscript_writes: frozenset[str] = frozenset()
    globals: frozenset[str] = frozenset()
    nonlocals: frozenset[str] = frozenset()
    global_writes: frozenset[str] = frozenset()
    dynamic: bool = False
    frame_access: bool = False
    zero_super: bool = False
    mutates_unknown: bool = False

    @property
    def bound(self) -> frozenset[str]:
        """Names whose binding may change: bound or unbound."""
        return self.writes | self.deletes


def activity(
    *nodes: cst.CSTNode | Sequence[cst.CSTNode], harmless: Callable[[cst.Call], bool] | None = None
) -> Activity:
    """The activity of expressions, statements or blocks (or sequences of them) taken together.

    A ``FunctionDef`` is the statement that defines it; for its inside, pass ``function.body``.
    ``harmless`` may say, from facts, that a call changes its receiver only by the looks of it:
    ``x.add(y)`` and ``x.sort()`` of a tensor (see `gbfix.analysis.purity.harmless_calls`).
    """
    collector = _Collector(harmless)
    for node in flatten(nodes):
        collector.visit(node)
    return collector.result()


def parameters_of(parameters: cst.Parameters) -> tuple[str, ...]:
    """Names of all parameters in the order of the signature, ``*args`` and ``**kwargs`` too."""
    return tuple(param.name.value for param in params_of(parameters))


def params_of(parameters: cst.Parameters) -> tuple[cst.Param, ...]:
    """All parameter nodes in the order of the signature."""
    found = [*parameters.posonly_params, *parameters.params]
    if isinstance(parameters.star_arg, cst.Param):
        found.append(parameters.star_arg)
    found.extend(parameters.kwonly_params)
    if parameters.star_kwarg is not None:
        found.append(parameters.star_kwarg)
    return tuple(found)


_TEXT_SETS = ("attribute_reads", "attribute_writes", "subscript_writes", "calls")
_NAME_SETS = ("reads", "writes", "deletes", "captures", "closure_writes", "declares")


class _Collector:
    """Gathers the activity of one scope; inner scopes get a collector of their own."""

    def __init__(
        self,
        harmless: Callable[[cst.Call], bool] | None,
        *,
        comprehension_in: _Collector | None = None,
        annotated: bool = False,
    ) -> None:
        self.harmless = harmless
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.deletes: set[str] = set()
        self.mutates: set[str] = set()  # by anything but ``x += ...``
        self.augments: set[str] = set()
        self.captures: set[str] = set()
        self.closure_writes: set[str] = set()
        self.declares: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.global_writes: set[str] = set()
        # Texts keep their root name, so that an inner scope's own roots can be dropped.
        self.texts: dict[str, set[tuple[str, str]]] = {kind: set() for kind in _TEXT_SETS}
        self.bound: set[str] = set()  # bound by this very scope, not by one inside it
        self.dynamic = self.frame_access = self.zero_super = self.mutates_unknown = False
        # Whether the annotations of names are evaluated here (class bodies, modules).
        self.annotated = annotated
        # ``:=`` in a comprehension binds in the scope that holds the comprehension.
        self.walrus_scope: _Collector = comprehension_in.walrus_scope if comprehension_in else self

    def result(self) -> Activity:
        sets: dict[str, Any] = {kind: frozenset(getattr(self, kind)) for kind in _NAME_SETS}
        for kind, pairs in self.texts.items():
            sets[kind] = frozenset(text for _, text in pairs)
        return Activity(
            **sets,
            binds=frozenset(self.bound),
            mutates=frozenset(self.mutates | self.augments),
            augments=frozenset(self.augments - self.mutates),
            globals=frozenset(self.globals),
            nonlocals=frozenset(self.nonlocals),
            global_writes=frozenset(self.global_writes | (self.writes & self.globals)),
            dynamic=self.dynamic,
            frame_access=self.frame_access,
            zero_super=self.zero_super,
            mutates_unknown=self.mutates_unknown,
        )

    # -- names -------------------------------------------------------------------------------

    def read(self, name: str) -> None:
        if name not in _CONSTANTS:
            self.reads.add(name)
        if name == "__class__":
            self.dynamic = True

    def bind(self, name: str) -> None:
        self.writes.add(name)
        self.bound.add(name)

    def unbind(self, name: str) -> None:
        self.deletes.add(name)
        self.bound.add(name)

    def text(self, kind: str, root: str, text: str) -> None:
        self.texts[kind].add((root, text))

    def absorb(self, inner: _Collector, *, parameters: Iterable[str], closure: bool) -> None:
        """Take over what an inner scope does to names that are not its own."""
        # Names of an inner scope's bodies are its own, unless declared otherwise.
        outside = inner.nonlocals | inner.globals
        own = (set(parameters) | inner.bound | inner.declares) - outside
        hidden = own | inner.globals
        self.reads |= inner.reads - hidden
        self.writes |= inner.writes - hidden
        self.deletes |= inner.deletes - hidden
        self.mutates |= inner.mutates - hidden
        self.augments |= inner.augments - hidden
        if closure:
            self.captures |= (inner.reads | inner.writes | inner.deletes) - hidden
            self.closure_writes |= (inner.writes | inner.deletes) - hidden
        self.captures |= inner.captures - hidden
        self.closure_writes |= inner.closure_writes - hidden
        self.global_writes |= inner.global_writes | (inner.writes & inner.globals)
        for kind, pairs in inner.texts.items():
            self.texts[kind] |= {(root, text) for root, text in pairs if root not in own}
        self.dynamic |= inner.dynamic
        self.frame_access |= inner.frame_access
        self.zero_super |= inner.zero_super
        self.mutates_unknown |= inner.mutates_unknown

    # -- the walk ----------------------------------------------------------------------------

    def visit(self, node: cst.CSTNode) -> None:
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            handler(self, node)
        else:
            self.visit_children(node)

    def visit_children(self, node: cst.CSTNode) -> None:
        for child in children(node):
            self.visit(child)

    def visit_all(self, nodes: Iterable[cst.CSTNode | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # -- targets -----------------------------------------------------------------------------

    def target(self, node: cst.CSTNode) -> None:
        """Something that is assigned to."""
        if isinstance(node, cst.Name):
            self.bind(node.value)
        elif isinstance(node, cst.Tuple | cst.List):
            for element in node.elements:
                self.target(element.value)
        elif isinstance(node, cst.Attribute | cst.Subscript):
            self.change(node)
        else:
            self.visit(node)

    def change(self, node: cst.Attribute | cst.Subscript) -> None:
        """An attribute or an item that is assigned to or deleted: its object is changed."""
        self.visit(node.value)
        if isinstance(node, cst.Subscript):
            self.visit_all(node.slice)
            self.text("subscript_writes", _root(node) or "", code(_bare(node)))
        else:
            text = dotted(node) or f"{code(_bare(node.value))}.{node.attr.value}"
            self.text("attribute_writes", _root(node) or "", text)
        self.mutated(node.value)

    def mutated(self, base: cst.BaseExpression) -> None:
        """The object that ``base`` evaluates to is changed in place."""
        if _is_fresh(base) or _is_constant(base):
            return
        if isinstance(base, cst.List | cst.Tuple | cst.Set):
            for element in base.elements:  # ``torch._foreach_add_([a, b], 1)``
                self.mutated(element.value)
            return
        root = _root(base)
        if root is not None:
            self.mutates.add(root)
            return
        # ``torch.view_as_real(x)``, ``(a or b)``, ``x.view(-1)``: any name in it may be the one.
        names = activity(base).reads
        self.mutates |= names
        if not names or _holds_call(base):
            self.mutates_unknown = True

    def delete_target(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Name):
            self.unbind(node.value)
        elif isinstance(node, cst.Tuple | cst.List):
            for element in node.elements:
                self.delete_target(element.value)
        elif isinstance(node, cst.Attribute | cst.Subscript):
            self.change(node)

    # -- expressions -------------------------------------------------------------------------

    def name(self, node: cst.Name) -> None:
        self.read(node.value)

    def attribute(self, node: cst.Attribute) -> None:
        text = dotted(node)
        if text is not None:
            root = text.partition(".")[0]
            self.text("attribute_reads", root, text)
        self.visit(node.value)

    def named_expr(self, node: cst.NamedExpr) -> None:
        self.visit(node.value)
        if isinstance(node.target, cst.Name):
            self.walrus_scope.bind(node.target.value)
            if self.walrus_scope is not self:
                self.writes.add(node.target.value)

    def call(self, node: cst.Call) -> None:
        self.visit(node.func)
        self.visit_all(node.args)
        callee = dotted(node.func)
        if callee is not None:
            self.text("calls", callee.partition(".")[0], callee)
            self.dynamic_call(callee, node)
        elif isinstance(node.func, cst.Attribute):
            self.text("calls", "", f"?.{node.func.attr.value}")
        else:
            self.text("calls", "", "?")
        receiver_safe = self.harmless is not None and self.harmless(node)
        for changed in _changed_by_call(node, callee, receiver_safe=receiver_safe):
            self.mutated(changed)

    def dynamic_call(self, callee: str, node: cst.Call) -> None:
        if callee in _FRAME_ACCESS or (callee in _FRAME_ACCESS_WITHOUT_ARGUMENTS and not node.args):
            self.dynamic = self.frame_access = True
        elif callee == "super" and not node.args:
            self.dynamic = self.zero_super = True

    def arg(self, node: cst.Arg) -> None:
        self.visit(node.value)  # not its keyword

    def lambda_(self, node: cst.Lambda) -> None:
        self.defaults(node.params)
        inner = _Collector(self.harmless)
        inner.visit(node.body)
        self.absorb(inner, parameters=parameters_of(node.params), closure=True)

    def defaults(self, parameters: cst.Parameters) -> None:
        for param in params_of(parameters):
            self.visit_all((param.default, param.annotation))

    def comprehension(self, node: cst.ListComp | cst.SetComp | cst.DictComp) -> None:
        self.comprehend(node, node.for_in, closure=False)

    def generator(self, node: cst.GeneratorExp) -> None:
        # Lazy: what it reads may be read long after (all but the first iterable).
        self.comprehend(node, node.for_in, closure=True)

    def comprehend(self, node: cst.BaseComp, first: cst.CompFor, *, closure: bool) -> None:
        self.visit(first.iter)
        inner = _Collector(self.harmless, comprehension_in=self)
        clause: cst.CompFor | None = first
        while clause is not None:
            inner.target(clause.target)
            if clause is not first:
                inner.visit(clause.iter)
            for condition in clause.ifs:
                inner.visit(condition.test)
            clause = clause.inner_for_in
        if isinstance(node, cst.DictComp):
            inner.visit_all((node.key, node.value))
        elif isinstance(node, cst.ListComp | cst.SetComp | cst.GeneratorExp):
            inner.visit(node.elt)
        self.absorb(inner, parameters=(), closure=closure)

    # -- statements --------------------------------------------------------------------------

    def assign(self, node: cst.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.target(target.target)

    def assign_target(self, node: cst.AssignTarget) -> None:
        self.target(node.target)

    def aug_assign(self, node: cst.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, cst.Name):
            self.read(node.target.value)
            self.bind(node.target.value)
            self.augments.add(node.target.value)
        else:
            self.visit(node.target)
            self.target(node.target)

    def ann_assign(self, node: cst.AnnAssign) -> None:
        # In a function the annotation is never evaluated; in a class body or module it is.
        if self.annotated:
            self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.target(node.target)
        elif isinstance(node.target, cst.Name):
            self.declares.add(node.target.value)
        elif isinstance(node.target, cst.Attribute):
            self.visit(node.target.value)
        elif isinstance(node.target, cst.Subscript):
            self.visit(node.target.value)
            self.visit_all(node.target.slice)

    def module(self, node: cst.Module) -> None:
        self.annotated = True
        self.visit_children(node)

    def for_(self, node: cst.For) -> None:
        self.visit(node.iter)
        self.target(node.target)
        self.visit_all((node.body, node.orelse))

    def as_name(self, node: cst.AsName) -> None:
        self.target(node.name)

    def except_handler(self, node: cst.ExceptHandler | cst.ExceptStarHandler) -> None:
        self.visit_all((node.type, node.name, node.body))
        if node.name is not None and isinstance(node.name.name, cst.Name):
            self.unbind(node.name.name.value)

    def del_(self, node: cst.Del) -> None:
        self.delete_target(node.target)

    def import_(self, node: cst.Import) -> None:
        for alias in node.names:
            self.import_alias(alias)

    def import_from(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar):
            self.dynamic = True
            return
        for alias in node.names:
            self.import_alias(alias)

    def import_alias(self, node: cst.ImportAlias) -> None:
        if node.asname is not None:
            self.target(node.asname.name)
        else:
            self.bind((dotted(node.name) or "").partition(".")[0])

    def global_(self, node: cst.Global) -> None:
        self.globals |= {item.name.value for item in node.names}

    def nonlocal_(self, node: cst.Nonlocal) -> None:
        self.nonlocals |= {item.name.value for item in node.names}

    def function(self, node: cst.FunctionDef) -> None:
        self.visit_all(node.decorators)
        self.defaults(node.params)
        self.visit_all((node.returns,))
        inner = _Collector(self.harmless)
        inner.visit(node.body)
        parameters = {*parameters_of(node.params), *_type_parameters(node.type_parameters)}
        self.absorb(inner, parameters=parameters, closure=True)
        self.bind(node.name.value)

    def class_(self, node: cst.ClassDef) -> None:
        self.visit_all(node.decorators)
        for arg in (*node.bases, *node.keywords):
            self.visit(arg.value)
        body = _Collector(self.harmless, annotated=True)
        body.visit(node.body)
        own = set(_type_parameters(node.type_parameters))
        # A class body may read from outside a name that it binds afterwards, and the free names of
        # its methods skip the class's own scope.
        self.reads |= body.reads - own
        for kind in ("captures", "closure_writes", "writes", "deletes", "mutates", "augments"):
            found: set[str] = getattr(body, kind)
            skips = body.closure_writes if kind in ("writes", "deletes") else body.captures
            getattr(self, kind).update((found & skips) - own - body.globals)
        self.absorb(body, parameters=own, closure=False)
        self.bind(node.name.value)

    def type_alias(self, node: cst.TypeAlias) -> None:
        inner = _Collector(self.harmless)
        inner.visit(node.value)
        self.absorb(inner, parameters=_type_parameters(node.type_parameters), closure=True)
        self.bind(node.name.value)

    # -- patterns ----------------------------------------------------------------------------

    def match_as(self, node: cst.MatchAs) -> None:
        self.visit_all((node.pattern,))
        if node.name is not None:
            self.bind(node.name.value)

    def match_star(self, node: cst.MatchStar) -> None:
        if node.name is not None:
            self.bind(node.name.value)

    def match_mapping(self, node: cst.MatchMapping) -> None:
        self.visit_all(node.elements)
        if node.rest is not None:
            self.bind(node.rest.value)

    def match_class(self, node: cst.MatchClass) -> None:
        self.visit(node.cls)
        self.visit_all(node.patterns)
        for element in node.kwds:
            self.visit(element.pattern)


_HANDLERS: dict[type[cst.CSTNode], Callable[[_Collector, Any], None]] = {
    cst.Name: _Collector.name,
    cst.Attribute: _Collector.attribute,
    cst.NamedExpr: _Collector.named_expr,
    cst.Call: _Collector.call,
    cst.Lambda: _Collector.lambda_,
    cst.ListComp: _Collector.comprehension,
    cst.SetComp: _Collector.comprehension,
    cst.DictComp: _Collector.comprehension,
    cst.GeneratorExp: _Collector.generator,
    cst.Assign: _Collector.assign,
    cst.AssignTarget: _Collector.assign_target,
    cst.AugAssign: _Collector.aug_assign,
    cst.AnnAssign: _Collector.ann_assign,
    cst.For: _Collector.for_,
    cst.AsName: _Collector.as_name,
    cst.ExceptHandler: _Collector.except_handler,
    cst.ExceptStarHandler: _Collector.except_handler,
    cst.Del: _Collector.del_,
    cst.Import: _Collector.import_,
    cst.ImportFrom: _Collector.import_from,
    cst.ImportAlias: _Collector.import_alias,
    cst.Global: _Collector.global_,
    cst.Nonlocal: _Collector.nonlocal_,
    cst.FunctionDef: _Collector.function,
    cst.ClassDef: _Collector.class_,
    cst.TypeAlias: _Collector.type_alias,
    cst.MatchAs: _Collector.match_as,
    cst.MatchStar: _Collector.match_star,
    cst.MatchMapping: _Collector.match_mapping,
    cst.MatchClass: _Collector.match_class,
    cst.Module: _Collector.module,
    cst.Arg: _Collector.arg,
}


def _type_parameters(parameters: cst.TypeParameters | None) -> tuple[str, ...]:
    if parameters is None:
        return ()
    return tuple(item.param.name.value for item in parameters.params)


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=(), rpar=()) if node.lpar else node


def _root(node: cst.BaseExpression) -> str | None:
    """The name at the left end of ``x.a[0].b``; None where something else stands there."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else None


def _is_fresh(node: cst.BaseExpression) -> bool:
    """Whether the object was surely made by this very expression."""
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Attribute) and node.func.attr.value in _FRESH
    return isinstance(node, cst.BaseNumber | cst.BaseString | cst.BaseDict)


def _holds_call(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        return True
    return any(
        _holds_call(child) for child in children(node) if isinstance(child, cst.BaseExpression)
    )


def _changed_by_call(
    node: cst.Call, callee: str | None, *, receiver_safe: bool
) -> list[cst.BaseExpression]:
    """The expressions whose objects a call changes, as far as its looks tell."""
    positional = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
    changed: list[cst.BaseExpression] = []
    for arg in node.args:
        keyword = arg.keyword.value if arg.keyword is not None else None
        if keyword == "out":
            changed.append(arg.value)
        elif keyword == "inplace" and not (
            isinstance(arg.value, cst.Name) and arg.value.value == "False"
        ):
            changed.extend(positional[:1])
        elif keyword == "input" and _is_in_place_name(_last(node.func)):
            changed.append(arg.value)
    if callee in MUTATING_FUNCTIONS:
        changed.extend(positional[:1])
        return changed
    last = _last(node.func)
    if isinstance(node.func, cst.Attribute):
        if last in MUTATING_METHODS and not (last == "sort" and _sorts_a_tensor(node)):
            if receiver_safe or dotted(node.func.value) in _FUNCTION_MODULES:
                return changed  # ``torch.add(x, y)``
            changed.append(node.func.value)
        elif _is_in_place_name(last):
            root = _root(node.func)
            if root in _FUNCTION_MODULES:
                changed.extend(positional[:1])
            else:
                changed.append(node.func.value)
    elif _is_in_place_name(last):
        changed.extend(positional[:1])
    return changed


def _sorts_a_tensor(node: cst.Call) -> bool:
    """``x.sort(dim=-1)``, which gives new tensors: lists and arrays take no such arguments."""
    keywords = {arg.keyword.value for arg in node.args if arg.keyword is not None}
    return bool(keywords & {"dim", "descending"})


def _last(func: cst.BaseExpression) -> str:
    if isinstance(func, cst.Attribute):
        return func.attr.value
    return func.value if isinstance(func, cst.Name) else ""


def _is_in_place_name(name: str) -> bool:
    """``add_`` and ``normal_``: torch's mark of in-place operations; not ``__init__`` or ``_``."""
    return len(name) > 1 and name.endswith("_") and not name.endswith("__")


def _is_constant(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Name):
        return node.value in _CONSTANTS
    return isinstance(node, cst.BaseNumber | cst.SimpleString)

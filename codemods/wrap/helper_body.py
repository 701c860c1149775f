"""What a helper does to what it is given: which arguments it writes to, and may give back.

Names are followed through views: ``rows = table.numpy()`` is another name of ``table``'s memory.
Everything that is not known to make something new may be another name of all that goes into it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import MUTATING_METHODS, activity
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.torch_names import (
    CASTS,
    PURE_FUNCTIONAL,
    PURE_METHODS,
    PURE_TORCH,
    RNG_FUNCTIONS,
    RNG_METHODS,
)
from gbfix.analysis.tree import children, code, walk, words
from gbfix.codemod import Site

from .capture import Refused

_FORBIDDEN = (
    cst.Global, cst.Nonlocal, cst.Yield, cst.Await, cst.Lambda, cst.FunctionDef, cst.ClassDef,
    cst.With, cst.Del, cst.Try, cst.TryStar, cst.NamedExpr, cst.Import, cst.ImportFrom,
    cst.Match,
)  # fmt: skip
_BUILTINS = words(
    """abs all any bool dict enumerate float int isinstance len list max min range reversed round
    set slice sorted str sum tuple zip ValueError RuntimeError IndexError TypeError"""
)
_MAKES = words(
    """torch.zeros torch.ones torch.full torch.empty torch.eye torch.arange torch.linspace
    torch.zeros_like torch.ones_like torch.full_like torch.empty_like torch.tensor torch.cat
    torch.stack torch.where"""
)
#: Functions and methods of torch and numpy whose result may be, or share memory with, an argument.
_VIEWS = words(
    """from_numpy as_tensor asarray reshape flatten unflatten squeeze unsqueeze transpose swapaxes
    swapdims permute movedim moveaxis rollaxis t narrow select diagonal diag split chunk unbind
    tensor_split broadcast_tensors broadcast_to broadcast_arrays view_as_real view_as_complex
    view_as conj detach ravel atleast_1d atleast_2d atleast_3d ascontiguousarray asanyarray
    expand_dims array_split hsplit vsplit dsplit real imag flip fliplr flipud rot90 require
    asfortranarray nan_to_num frombuffer matrix_transpose permute_dims unstack astype view expand
    expand_as contiguous to cpu cuda type type_as numpy unfold get items values keys pop
    setdefault popitem __getitem__ max min sorted list tuple dict set reversed enumerate zip sum
    positive requires_grad_ resolve_conj"""
) | frozenset(CASTS)
#: Of numpy: what draws, reads or writes more than its arguments.
_NOT_NUMPY = words(
    """load loads save savez savez_compressed savetxt loadtxt genfromtxt fromfile tofile fromregex
    frombuffer memmap open seterr seterrcall setbufsize set_printoptions printoptions errstate
    frompyfunc vectorize apply_along_axis apply_over_axes fromfunction piecewise info test nditer
    nested_iters fromiter print"""
)
#: Write to their first argument: ``np.add.at(counts, index, 1)``, ``np.copyto(to, what)``.
_WRITE_FIRST = words("at copyto put place putmask fill_diagonal")
#: Take three arguments or more, and write to none of them.
_READ_THIRD = words(
    """where clip interp searchsorted digitize isin select linspace arange full unwrap convolve
    correlate percentile quantile insert delete append repeat take"""
)
_ARRAY_METHODS = words(
    """copy astype argsort nonzero sum min max mean any all reshape transpose ravel flatten tolist
    item cumsum clip round argmax argmin std var prod dot squeeze repeat searchsorted take
    new_zeros new_ones new_empty new_full get keys values items index count join split strip
    lower upper startswith endswith is_contiguous data_ptr element_size"""
)
_RANDOM = words("rand randn randint randperm normal bernoulli multinomial dropout")


@dataclasses.dataclass(frozen=True)
class Body:
    """``changed`` and ``returned`` hold parameters; ``foreign`` the calls that nobody knows."""

    changed: frozenset[str]
    returned: frozenset[str]
    foreign: tuple[str, ...]
    uses_numpy: bool


def examine(site: Site, function: cst.FunctionDef, objects: frozenset[str]) -> Body:
    """Raise `Refused` unless the body only computes, and writes to arguments at most.

    ``objects`` are the parameters that are no plain Python scalars.
    """
    return Follower(site, function, objects).body()


class Follower:
    """Follows names through a body: which arguments they may lead to."""

    def __init__(self, site: Site, function: cst.FunctionDef, objects: frozenset[str]) -> None:
        self.site = site
        self.function = function
        self.names: dict[str, frozenset[str]] = {name: frozenset({name}) for name in objects}
        self.changed = frozenset[str]()
        self.foreign: list[str] = []
        self.locals = function_scope(function).locals

    def body(self) -> Body:
        does = activity(self.function.body)
        given = frozenset(function_scope(self.function).parameters)
        if does.dynamic or does.global_writes or does.captures & does.writes:
            raise Refused("it binds global names, or looks at its own frame")
        if does.writes & given:
            raise Refused(f"it binds `{min(does.writes & given)}` anew")
        nodes = list(walk(self.function.body))
        for node in nodes:
            if isinstance(node, _FORBIDDEN):
                raise Refused(f"it holds `{code(node).strip().splitlines()[0][:30]}`")
            if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Attribute):
                raise Refused(f"it sets `{code(node.target)}`")
        before: object = None
        while before != (before := (dict(self.names), self.changed)):  # until nothing is added
            self.foreign = []
            for node in nodes:
                self.visit(node)
        returned = frozenset[str]()
        for node in nodes:
            if isinstance(node, cst.Return) and node.value is not None:
                returned |= self.roots(node.value)
        owned = does.mutates - given - self.locals
        if owned:
            raise Refused(f"it changes the global `{min(owned)}`")
        uses_numpy = any(
            isinstance(node, cst.Attribute) and node.attr.value in ("numpy", "from_numpy")
            for node in nodes
        )
        return Body(self.changed, returned, tuple(self.foreign), uses_numpy)

    # -- names and what they stand for -----------------------------------------------------------

    def visit(self, node: cst.CSTNode) -> None:
        match node:
            case cst.Assign(targets=targets, value=value):
                for target in targets:
                    self.bind(target.target, self.roots(value))
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                self.bind(target, self.roots(value))
            case cst.AugAssign(target=target, value=value):
                if isinstance(target, cst.Name):
                    self.changed |= self.roots(target)
                self.bind(target, self.roots(value) if self.holds(target) else frozenset())
            case cst.For(target=target, iter=it) | cst.CompFor(target=target, iter=it):
                self.bind(target, self.roots(it))
            case cst.Call():
                self.call(node)

    def holds(self, target: cst.BaseExpression) -> bool:
        """Whether ``target += value`` may keep parts of the value (a list does)."""
        fact = self.site.fact(target)
        return fact is None or fact.kind not in ("tensor", "ndarray", "int", "float", "bool", "str")

    def bind(self, target: cst.BaseExpression, roots: frozenset[str]) -> None:
        match target:
            case cst.Name(value=name):
                self.names[name] = self.names.get(name, frozenset()) | roots
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for element in elements:
                    self.bind(element.value, roots)
            case cst.StarredElement(value=value):
                self.bind(value, roots)
            case cst.Subscript(value=value):
                self.changed |= self.roots(value)
                if self.is_container(value):
                    self.bind(value, roots)

    def is_container(self, node: cst.BaseExpression) -> bool:
        fact = self.site.fact(node)
        return fact is None or fact.kind not in ("tensor", "ndarray")

    def roots(self, node: cst.CSTNode) -> frozenset[str]:
        """The parameters whose memory the value may share, or which it may hold."""
        match node:
            case cst.Name(value=name):
                return self.names.get(name, frozenset())
            case cst.BaseNumber() | cst.SimpleString() | cst.FormattedString() | cst.Comparison():
                return frozenset()
            case cst.BinaryOperation() | cst.UnaryOperation():
                fact = self.site.fact(node)
                if fact is not None and fact.kind in ("tensor", "ndarray", "int", "float", "bool"):
                    return frozenset()
            case cst.Attribute(value=value, attr=cst.Name(value=attr)):
                if attr in ("shape", "dtype", "device", "ndim", "size"):
                    return frozenset()
                return self.roots(value)
            case cst.Subscript(value=value):
                return self.roots(value)
            case cst.Call(func=func, args=args):
                last = func.attr.value if isinstance(func, cst.Attribute) else code(func)
                known = self.is_known(node)
                out = [arg.value for arg in args if arg.keyword and arg.keyword.value == "out"]
                if known and last not in _VIEWS and not last.endswith("_") and not out:
                    return frozenset()
                found = [self.roots(arg.value) for arg in args]
                if isinstance(func, cst.Attribute):
                    found.append(self.roots(func.value))
                return frozenset().union(*found)
        return frozenset().union(*(self.roots(child) for child in children(node)))

    # -- calls -----------------------------------------------------------------------------------

    def is_known(self, node: cst.Call) -> bool:
        name = resolve(self.site.module, node.func)
        if name is None:
            return isinstance(node.func, cst.Attribute)
        return name.startswith(("torch.", "numpy.", "builtins.", "math."))

    def call(self, node: cst.Call) -> None:
        for argument in node.args:
            if argument.keyword is not None and argument.keyword.value == "out":
                self.changed |= self.roots(argument.value)
            if argument.keyword is not None and argument.keyword.value == "generator":
                raise Refused("it draws random numbers")
        name = resolve(self.site.module, node.func)
        if name is not None:
            self.function_call(node, name)
        elif isinstance(node.func, cst.Attribute):
            self.method_call(node, node.func)
        else:
            raise Refused(f"nothing is known of `{code(node.func)}`")

    def function_call(self, node: cst.Call, name: str) -> None:
        home, _, last = name.rpartition(".")
        if home == "builtins":
            if last in _BUILTINS:
                return
        elif name.startswith("numpy."):
            if last in _NOT_NUMPY or ".random" in name or "overwrite" in code(node):
                raise Refused(f"`{name}` does more than compute")
            if last in _WRITE_FIRST and node.args:
                self.changed |= self.roots(node.args[0].value)
            # ``np.add(a, b, out)``: whatever comes third may be written to.
            for argument in node.args[2:] if last not in _WRITE_FIRST | _READ_THIRD else ():
                if argument.keyword is None:
                    self.changed |= self.roots(argument.value)
            return
        elif home == "math":
            return
        elif home == "torch.nn.functional" and last in PURE_FUNCTIONAL:
            if "inplace" not in code(node):
                return
        elif home in ("torch", "torch.linalg", "torch.fft", "torch.special"):
            drawn = last in RNG_FUNCTIONS or last in _RANDOM
            if not drawn and (name in _MAKES or home != "torch" or last in PURE_TORCH):
                return
        elif not name.startswith(("torch.", "time.", "os.", "sys.", "random.", "logging.")):
            fact = self.site.fact(node.func)
            if fact is not None and not fact.in_project and fact.kind in ("function", "class"):
                self.foreign.append(name)
                return
        raise Refused(f"`{name}` is not known to only compute")

    def method_call(self, node: cst.Call, func: cst.Attribute) -> None:
        method = func.attr.value
        receiver = func.value
        if method in RNG_METHODS or method in ("backward", "register_hook"):
            raise Refused(f"`{code(node)}` does more than compute")
        if method in MUTATING_METHODS:
            self.changed |= self.roots(receiver)
            held = frozenset().union(*(self.roots(argument.value) for argument in node.args))
            if self.is_container(receiver):
                self.bind(receiver, held)
            return
        if method.endswith("_") and not method.endswith("__"):
            self.changed |= self.roots(receiver)
            return
        if method in PURE_METHODS or method in _ARRAY_METHODS:
            return
        raise Refused(f"nothing is known of `{code(func)}`")


def written_to(site: Site, function: cst.FunctionDef, objects: frozenset[str]) -> frozenset[str]:
    """The parameters that the body may write to, under any name; calls that nobody knows are taken
    to write to nothing.
    """
    examiner = _Writes(site, function, objects)
    nodes = list(walk(function.body))
    before: object = None
    while before != (before := (dict(examiner.names), examiner.changed)):
        for node in nodes:
            examiner.visit(node)
    return examiner.changed


class _Writes(Follower):
    def is_known(self, node: cst.Call) -> bool:
        # What is copied holds plain values only: see the callers.
        return resolve(self.site.module, node.func) == "copy.copy" or super().is_known(node)

    def call(self, node: cst.Call) -> None:
        with contextlib.suppress(Refused):
            super().call(node)


def selected(function: cst.FunctionDef, value: cst.BaseExpression) -> bool:
    """Whether the value is made of a list that is filled as the data says: in a ``while`` loop, or
    under a condition.
    """
    names = {node.value for node in walk(value) if isinstance(node, cst.Name)}
    for statement in assigned(function, names):
        names |= {node.value for node in walk(statement) if isinstance(node, cst.Name)}
    return any(_appends(node, names) for node in walk(function.body)
               if isinstance(node, cst.While | cst.If)) or any(
        isinstance(node, cst.CompIf) for node in walk(value))  # fmt: skip


def assigned(function: cst.FunctionDef, names: set[str]) -> Iterator[cst.BaseExpression]:
    """What is assigned to these names somewhere in the function."""
    for node in walk(function.body):
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(value=name)), *_], value=value
            ):
                if name in names:
                    yield value


def _appends(node: cst.CSTNode, names: set[str]) -> bool:
    for inner in walk(node):
        match inner:
            case cst.Call(
                func=cst.Attribute(
                    value=cst.Name(value=name), attr=cst.Name("append" | "extend" | "insert")
                )
            ) if name in names:
                return True
    return False

"""What a helper that launches triton kernels does: to its arguments, and to what it gives back.

Inside ``torch.library.triton_op`` the helper runs while a compiler traces, on tensors without
contents, and not again for each call.  So it may launch kernels, make tensors, look at sizes and
compute with numbers, and nothing else.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

from .capture import Refused
from .helper_body import Follower
from .plain_python import PLAIN, check_call, check_names, check_plain, project_function
from .triton_writes import Kernel, arguments, find_kernel, may_write

_FORBIDDEN = (
    cst.Global, cst.Nonlocal, cst.Yield, cst.Await, cst.ClassDef, cst.Del, cst.Try, cst.TryStar,
    cst.NamedExpr, cst.Import, cst.ImportFrom, cst.Match, cst.MatrixMultiply,
)  # fmt: skip
#: Where the kernels run; under a compiler, that is where their tensors are.
_DEVICES = words(
    """torch.cuda.device torch.cuda.device_of torch.xpu.device torch.xpu.device_of
    torch.accelerator.device_index"""
)
_ABOUT_DEVICES = words(
    """torch.cuda.get_device_properties torch.cuda.get_device_capability torch.cuda.current_device
    torch.is_tensor torch.numel torch.finfo torch.iinfo torch.device torch.Size"""
)
_MAKERS = words(
    """torch.empty torch.zeros torch.ones torch.full torch.empty_like torch.zeros_like
    torch.ones_like torch.full_like torch.arange torch.empty_strided"""
)
_MAKING_METHODS = words("new_empty new_zeros new_ones new_full")
#: Beside those that look at a tensor: views, casts, copies and plain arithmetic.
_METHODS = (
    words(
        """view reshape flatten squeeze unsqueeze transpose permute t narrow expand expand_as
        view_as contiguous to type_as detach float double half bfloat16 int long bool clone abs neg
        sum amax amin max min add sub mul div clamp copy_ zero_ fill_ add_ mul_ div_ sub_ neg_"""
    )
    | _MAKING_METHODS
)
_NUMBERS = words("size numel stride dim element_size nelement is_contiguous is_floating_point")
_ATTRIBUTES = words(
    """shape dtype device ndim is_cuda is_cpu is_xpu itemsize nbytes layout T mT type index
    multi_processor_count major minor bits max min eps name"""
)


@dataclasses.dataclass(frozen=True)
class Launching:
    """``changed`` are the parameters that it may write to; ``returned`` those that a result may
    share memory with; ``detached`` says that no result can have a gradient.
    """

    launches: tuple[cst.Call, ...]
    changed: frozenset[str]
    returned: frozenset[str]
    twice: bool
    detached: bool


def examine_launches(
    site: Site,
    function: cst.FunctionDef,
    objects: frozenset[str],
    results: list[cst.BaseExpression],
) -> Launching:
    """Raise `Refused` unless the body launches kernels and only computes beside that."""
    return _Launcher(site, function, objects).launching(results)


class _Launcher(Follower):
    def __init__(self, site: Site, function: cst.FunctionDef, objects: frozenset[str]) -> None:
        super().__init__(site, function, objects)
        self.objects = objects
        self.kernels: dict[cst.Call, Kernel] = {}
        self.written = frozenset[str]()
        #: New tensors by their marks, and whether they are made without any gradient.
        self.made: dict[str, bool] = {}

    def launching(self, results: list[cst.BaseExpression]) -> Launching:
        does = activity(self.function.body)
        if does.dynamic or does.global_writes:
            raise Refused("it binds global names, or looks at its own frame")
        nodes = list(walk(self.function.body))
        self.find_kernels(nodes)
        inside = {id(part) for node in nodes if isinstance(node, cst.Lambda | cst.FunctionDef)
                  for part in walk(node) if part is not node}  # fmt: skip
        nodes = [node for node in nodes if id(node) not in inside]
        for node in nodes:
            self.check(node)
        check_names(self.site, self.function.body, self.locals | self.kernel_names())
        before: object = None
        while before != (before := (dict(self.names), self.changed, self.written)):
            for node in nodes:
                self.visit(node)
        owned = does.mutates - self.locals
        if owned:
            raise Refused(f"it changes the global `{min(owned)}`")
        roots = [self.roots(value) for value in results]
        together = frozenset[str]().union(*roots)
        filled = self.changed - self.only_filled()
        return Launching(
            launches=tuple(self.kernels),
            changed=(self.changed | self.written) & self.objects,
            returned=together & self.objects,
            twice=sum(map(len, roots)) != len(together) or not all(roots),
            detached=all(self.made.get(root, False) for root in together) and not together & filled,
        )

    def visit(self, node: cst.CSTNode) -> None:
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Tuple(elements=names))],
                value=cst.Tuple(elements=values),
            ) if len(names) == len(values) and not any(
                isinstance(element, cst.StarredElement) for element in (*names, *values)
            ):
                for name, value in zip(names, values, strict=True):
                    self.bind(name.value, self.roots(value.value))
            case _:
                super().visit(node)

    # -- launches --------------------------------------------------------------------------------

    def find_kernels(self, nodes: list[cst.CSTNode]) -> None:
        called = set()
        for node in nodes:
            match node:
                case cst.Call(func=cst.Subscript(value=cst.Name() as name, slice=[_])):
                    kernel = None if name.value in self.locals else find_kernel(self.site, name)
                    if kernel is None:
                        raise Refused(f"nothing is known of the kernel `{name.value}`")
                    if not self.is_above(name):
                        raise Refused(f"the kernel `{name.value}` is bound below it")
                    if not isinstance(self.site.parent(node), cst.Expr):
                        raise Refused(f"what `{name.value}` gives is used")
                    self.kernels[node] = kernel
                    called.add(name)
                case cst.Call(func=cst.Subscript(value=value)):
                    raise Refused(f"nothing is known of the kernel `{code(value)}`")
        if not self.kernels:
            raise Refused("it launches no kernel")
        names = self.kernel_names()
        for node in nodes:
            if isinstance(node, cst.Name) and node.value in names and node not in called:
                raise Refused(f"`{node.value}` is more than launched")

    def is_above(self, kernel: cst.Name) -> bool:
        """Whether torch finds the kernel when it decorates the function."""
        top = self.site.module.body
        first = self.site.span(self.function).line
        return (
            all(
                self.site.span(bound).line < first
                for bound in module_bindings(self.site.module).get(kernel.value, ())
            )
            and self.function in top
        )

    def kernel_names(self) -> frozenset[str]:
        return frozenset(kernel.function.name.value for kernel in self.kernels.values())

    def launch(self, node: cst.Call) -> None:
        kernel = self.kernels[node]
        changed = may_write(kernel)
        for parameter, value in arguments(kernel, node):
            roots = self.roots(value)
            if parameter in changed:
                self.written |= roots
            elif parameter not in kernel.parameters and roots & self.objects:
                raise Refused(f"`{parameter}` of `{kernel.function.name.value}` is not known")
        match node.func:
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=grid))]):
                if isinstance(grid, cst.Name) and grid.value not in self.locals:
                    check_plain(*project_function(self.site, grid))

    # -- what else there is ----------------------------------------------------------------------

    def check(self, node: cst.CSTNode) -> None:
        if isinstance(node, _FORBIDDEN):
            raise Refused(f"it holds `{code(node).strip().splitlines()[0][:30]}`")
        match node:
            case cst.With(items=items):
                for item in items:
                    call = item.item
                    name = isinstance(call, cst.Call) and resolve(self.site.module, call.func)
                    if name not in _DEVICES or item.asname is not None:
                        raise Refused(f"it enters `{code(item.item)}`")
            case cst.Lambda() | cst.FunctionDef():
                check_plain(self.site, node, self.locals)
            case cst.AssignTarget(target=cst.Attribute() as target):
                raise Refused(f"it sets `{code(target)}`")
            case cst.AssignTarget(target=cst.Subscript() as target):
                if not self.is_container(target.value):
                    raise Refused(f"it sets `{code(target)}`")
            case cst.Attribute(attr=attr):
                holder = self.site.parent(node)
                is_called = isinstance(holder, cst.Call) and holder.func is node
                if not (is_called or attr.value in _ATTRIBUTES or self.is_dotted(node)):
                    raise Refused(f"it reads `{code(node)}`")

    def is_dotted(self, node: cst.BaseExpression) -> bool:
        """Whether a chain starts at a module: the whole of it is judged, not its parts."""
        while isinstance(node, cst.Attribute):
            node = node.value
        return isinstance(node, cst.Name) and node.value not in self.locals

    def call(self, node: cst.Call) -> None:
        if node in self.kernels:
            self.launch(node)
            return
        for argument in node.args:
            if argument.star or (
                argument.keyword is not None
                and argument.keyword.value in ("out", "generator", "requires_grad")
            ):
                raise Refused(f"nothing is known of `{code(node)[:40]}`")
        name = resolve(self.site.module, node.func) or ""
        if name in _MAKERS | _DEVICES | _ABOUT_DEVICES:
            return
        match node.func:
            case cst.Attribute(value=value, attr=cst.Name(method)) if (
                not name and method in _METHODS | _NUMBERS
            ):
                if method.endswith("_"):
                    self.changed |= self.roots(value)
                return
        if name not in PLAIN and not name.startswith(("builtins.", "math.")):
            given = frozenset[str]().union(*(self.roots(arg.value) for arg in node.args))
            if given & (self.objects | self.made.keys()):
                raise Refused(f"`{code(node.func)}` gets a tensor, and nothing is known of it")
        check_call(self.site, node, self.locals)

    def roots(self, node: cst.CSTNode) -> frozenset[str]:
        if isinstance(node, cst.Call):
            name = resolve(self.site.module, node.func) or ""
            last = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            if last in _NUMBERS or name in _ABOUT_DEVICES:
                return frozenset()
            if name in _MAKERS or (not name and last in _MAKING_METHODS):
                return self.mark(node, detached=True)
        found = super().roots(node)
        if not found and self.is_new(node):
            return self.mark(node, detached=False)
        return found

    def is_new(self, node: cst.CSTNode) -> bool:
        """Whether it may make a tensor; numbers make none."""
        match node:
            case cst.BinaryOperation() | cst.UnaryOperation():
                fact = self.site.fact(node)
                return fact is not None and fact.is_tensor
            case cst.Call(func=func):
                name = resolve(self.site.module, func)
                if name is not None:
                    return name.startswith("torch.") and name not in _DEVICES
                return isinstance(func, cst.Attribute)
        return False

    def mark(self, node: cst.CSTNode, *, detached: bool) -> frozenset[str]:
        span = self.site.span(node)
        name = f"@{span.line}:{span.column}:{span.end_line}:{span.end_column}"
        self.made[name] = detached
        return frozenset({name})

    def only_filled(self) -> frozenset[str]:
        """New tensors that nothing in place changes but ``zero_`` and ``fill_`` of a number."""
        others = frozenset[str]()
        filled = frozenset[str]()
        for node in walk(self.function.body):
            match node:
                case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(method))) if (
                    method.endswith("_") and not method.endswith("__")
                ):
                    if method == "zero_":
                        filled |= self.roots(value)
                    else:
                        others |= self.roots(value)
                case cst.AugAssign(target=target):
                    others |= self.roots(target)
        return filled - others


def wrapped(function: cst.FunctionDef, launches: tuple[cst.Call, ...]) -> cst.FunctionDef:
    """The function with ``wrap_triton(kernel)[grid](...)`` for each ``kernel[grid](...)``."""
    chosen = {id(launch) for launch in launches}

    class Wrap(cst.CSTTransformer):
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
            func = updated_node.func
            if id(original_node) not in chosen or not isinstance(func, cst.Subscript):
                return updated_node
            # Torch finds the kernels of an operator, for the keys of its caches, where they are
            # wrapped under this very name.
            kernel = cst.Call(cst.Name("wrap_triton"), [cst.Arg(func.value)])
            return updated_node.with_changes(func=func.with_changes(value=kernel))

    new = function.visit(Wrap())
    assert isinstance(new, cst.FunctionDef)
    return new

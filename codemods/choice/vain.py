"""What an arm must not do where it is evaluated in vain."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.torch_names import PURE_MODULES, RNG_FUNCTIONS, RNG_METHODS, RNG_NAMESPACES
from gbfix.analysis.tree import code, walk, words

from .context import Context, Declined

#: Fail for some values of their input: nothing to try in an arm that is not taken.
_MAY_FAIL = words(
    """cholesky inverse inv solve lstsq eigh eigvalsh svd svdvals qr lu_factor lu ldl_factor
    cholesky_solve cholesky_inverse multinomial tensorinv matrix_exp eig eigvals"""
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
        self._open: set[str] = set()

    def check(self, node: cst.CSTNode) -> None:
        for inner in walk(node):
            match inner:
                case cst.Await() | cst.Yield() | cst.Raise() | cst.Assert():
                    raise Declined("a branch raises, yields or waits")
                case cst.Global() | cst.Nonlocal() | cst.Import() | cst.ImportFrom() | cst.Del():
                    raise Declined("a branch changes names outside the function")
                case cst.Call():
                    self._call(inner)
                case cst.BinaryOperation():
                    heavy = isinstance(inner.operator, cst.MatrixMultiply)
                    self.cost += 8 if heavy else 1
                case cst.Subscript():
                    self._subscript(inner)

    @property
    def cheap(self) -> bool:
        return self.cost <= _MANY

    def _subscript(self, node: cst.Subscript) -> None:
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                fact = self.ctx.fact(element.slice.value)
                if fact is not None and fact.is_tensor and fact.dtype == "torch.bool":
                    raise Declined("a branch picks out elements by a mask")

    def _call(self, node: cst.Call) -> None:
        self.cost += 1
        func = node.func
        called = self.ctx.resolve(func)
        last = called.rpartition(".")[2] or code(func)
        if called.startswith(RNG_NAMESPACES):
            raise Declined("a branch draws random numbers")
        fact = self.ctx.kind_of(func)
        if fact is not None and fact.kind == "module":
            self._module(code(func), fact.type)
            return
        if isinstance(func, cst.Name):
            self._name(func.value, called)
            return
        if not isinstance(func, cst.Attribute):
            return
        last = func.attr.value
        if last in RNG_METHODS or (called.startswith("torch.") and last in RNG_FUNCTIONS):
            raise Declined("a branch draws random numbers")
        if last in _MAY_FAIL:
            raise Declined(f"`{last}` in a branch may fail where the branch is not taken")
        if last in _COSTLY:
            self.cost += 8
        own = isinstance(func.value, cst.Name) and func.value.value in ("self", "cls")
        if own and (fact is None or fact.kind != "module"):
            raise Declined(f"`{code(func)}` is a method that a subclass may override")

    def _module(self, text: str, kind: str) -> None:
        name = kind.rpartition(".")[2]
        if name in _ACTIVATIONS or name == "Identity":
            return
        if self.modules and kind.startswith("torch.nn.") and name in PURE_MODULES | {"Sequential"}:
            self.cost += 8
            return
        raise Declined(f"`{text}` is a module with work of its own")

    def _name(self, name: str, called: str) -> None:
        if name in _EFFECTS:
            raise Declined(f"a branch calls `{name}`")
        if name in self._open:
            return
        self._open.add(name)
        for statement in self.ctx.site.module.body:
            if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
                for inner in walk(statement.body):
                    match inner:
                        case cst.Assign(targets=[cst.AssignTarget(target=target)]):
                            if isinstance(target, cst.Attribute | cst.Subscript):
                                raise Declined(f"`{name}` changes what it is given")
                        case cst.Call(func=cst.Attribute(attr=attr)) if _in_place(attr.value):
                            raise Declined(f"`{name}` changes what it is given")
                self.check(statement.body)


def _in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__") and method != "requires_grad_"

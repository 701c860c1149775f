"""Shapes that are calculated with as tensors, as exporting to ONNX once needed."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.project import mentions
from gbfix.schema import Fact

from ..api.splice import Splice
from ..data_dependent.nested import Atom, Nested, Parts

_SHAPES = ("torch.onnx.operators.shape_as_tensor", "torch._shape_as_tensor")
_RESHAPES = ("torch.onnx.operators.reshape_from_tensor_shape", "torch._reshape_from_tensor")
_TYPES = ("torch.Tensor", "torch.nn.parameter.Parameter")
#: What a class of the project's may define, by which its tensors are reshaped otherwise.
_OVERRIDES = r"\bdef (?:reshape|shape|__torch_function__|__getattribute__)\b"
_LISTS = ("torch.LongTensor", "torch.tensor")
_FACTS = {"x": tensor(2, 3, 4), "y": tensor(6, 4)}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(x, y):\n{body}"


_SHAPE = "shape = torch.onnx.operators.shape_as_tensor(x)"
_RESHAPE = "torch.onnx.operators.reshape_from_tensor_shape"


class ShapeTensor(Codemod):
    """*What it does.*  Keeps shapes Python's that a function makes tensors of:
    ``torch.onnx.operators.shape_as_tensor(x)`` becomes ``x.shape``, ``torch.cat`` of its parts a
    tuple, and ``reshape_from_tensor_shape(x, shape)`` becomes ``x.reshape(shape)``.

    Dynamo takes the shape for the numbers that it is, which have no methods of tensors.

    *When it applies.*  All that is done with the shape in the function is to take it apart, put
    parts together, and reshape by it.

    *Fix safety.*  Safe: sizes are the same numbers, and a reshape by them is the same.

    *Refuses.*  Shapes that are returned, handed on, or calculated with; subclasses of tensors, and
    projects that define a ``reshape`` of their own.
    """

    name = "shape-tensor"
    codes = ("GB0088", "data-dependent-guard", "data-dependent-other", "torch-runtime-error")
    examples = (
        Example(
            _source(
                _SHAPE,
                "flat = torch.cat((torch.LongTensor([-1]), shape[2].view(1)))",
                f"return {_RESHAPE}(y, flat)",
            ),
            _source(
                "shape = x.shape",
                "flat = (-1, shape[2])",
                "return y.reshape(flat)",
            ),
            at="shape[2].view(1)",
            facts=_FACTS,
            title="one size",
        ),
        Example(
            _source(
                _SHAPE,
                f"return {_RESHAPE}(y.t(), torch.cat([shape[:2], torch.tensor([4])], dim=0))",
            ),
            _source("shape = x.shape", "return y.t().reshape((*shape[:2], 4))"),
            at="torch.cat([shape[:2], torch.tensor([4])], dim=0)",
            facts={**_FACTS, "y.t()": tensor(4, 6)},
            title="several sizes",
        ),
    )
    near_misses = (
        NearMiss(
            _source(_SHAPE, f"return {_RESHAPE}(y, torch.cat((shape[1:], shape[:1])))"),
            at="torch.cat((shape[1:], shape[:1]))",
            why="a subclass of tensors",
            facts={**_FACTS, "y": Fact("tensor", "Loud", shape=(6, 4), dtype="torch.float32")},
        ),
        NearMiss(
            _source(_SHAPE, f"return {_RESHAPE}(y, torch.cat((shape[1:], shape[:1])))")
            + "\n\nclass Loud(torch.Tensor):\n    def reshape(self, *shape): ...\n",
            at="torch.cat((shape[1:], shape[:1]))",
            why="tensors that reshape otherwise",
            facts=_FACTS,
        ),
        *(
            NearMiss(_source(_SHAPE, *lines), at=at, why=why, facts=_FACTS)
            for lines, at, why in (
                (("return x, shape[0].view(1)",), "shape[0].view(1)", "a size that is returned"),
                (("return x * shape[0].view(1)",), "shape[0].view(1)", "a size that is a factor"),
                (("shape = shape + 1", "return x"), "shape + 1", "calculated with"),
                (
                    ("flat = torch.cat((shape[:1], y))", "return flat"),
                    "torch.cat((shape[:1], y))",
                    "put together with a tensor",
                ),
                (("return lambda: shape",), "shape", "kept by a function"),
                (
                    (f"return {_RESHAPE}(y, torch.cat((shape[1:], shape[:1]), 1))",),
                    "torch.cat((shape[1:], shape[:1]), 1)",
                    "another dimension",
                ),
                (
                    ("shape[0] = -1", f"return {_RESHAPE}(y, shape)"),
                    "shape[0] = -1",
                    "a shape that is written to",
                ),
            )
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None or mentions(site, _OVERRIDES):
            return
        sizes = _Sizes(site, site.function)
        if not sizes.names or not sizes.stay():
            return
        nested, splice = Nested(site, sizes.edits), Splice(site)
        for node in nested.outermost(site.function.body):
            if comments_in(node):
                return
            splice.replace(node, nested.render(node))
        yield splice.rewrite("keep the sizes of a shape numbers", rank=11)


class _Sizes:
    """The names of shapes in one function, and the edits that make Python's shapes of them."""

    def __init__(self, site: Site, function: cst.FunctionDef) -> None:
        self.site = site
        self.function = function
        self.edits: dict[cst.CSTNode, Parts] = {}
        self.names: set[str] = set()
        self._understood: set[cst.CSTNode] = set()
        #: Parts of one size, and that size.
        self._singles: dict[cst.CSTNode, cst.BaseExpression] = {}
        for _ in range(4):
            for node in walk(function.body):
                self._visit(node)

    def _visit(self, node: cst.CSTNode) -> None:
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)], value=value) if (
                not self._is_list(value) and self._all_sizes(value)
            ):
                self.names.add(name.value)
                self._understood.add(name)
            case cst.Call(args=[cst.Arg(keyword=None, value=given), cst.Arg(value=shape)]):
                if resolve(self.site.module, node.func) not in _RESHAPES:
                    return
                fact = infer(given, self.site.fact)
                if _is_plain(fact) and self._all_sizes(shape):
                    self.edits[node] = (Atom(given), ".reshape(", shape, ")")

    def _is_list(self, node: cst.BaseExpression) -> bool:
        called = resolve(self.site.module, node.func) if isinstance(node, cst.Call) else None
        return called in _LISTS

    def stay(self) -> bool:
        """Whether every place of the names is understood."""
        return all(
            place in self._understood
            for name in self.names
            for place in self.site.places_of(name, self.function)
        )

    def _all_sizes(self, node: cst.BaseExpression) -> bool:
        """Whether all of an expression is sizes; nothing is kept of a part that is."""
        edits, understood = dict(self.edits), set(self._understood)
        if self._is_sizes(node):
            return True
        self.edits, self._understood = edits, understood
        return False

    def _is_sizes(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is a shape, or a part of one."""
        match node:
            case cst.Name(value=value) if value in self.names:
                self._understood.add(node)
                return self.site.function_of(node) is self.function
            case cst.Subscript(
                value=base, slice=[cst.SubscriptElement(slice=cst.Slice(step=None))]
            ):
                return self._is_sizes(base)
            case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=given), *others]):
                name = resolve(self.site.module, func) or ""
                if name in _SHAPES and not others:
                    fact = infer(given, self.site.fact)
                    self.edits[node] = (Atom(given), ".shape")
                    return _is_plain(fact)
                if name in _LISTS and not others:
                    return self._listed(node, given)
                if name == "torch.cat" and _along_first(others):
                    return self._joined(node, given)
        return self._is_one_size(node)

    def _is_one_size(self, node: cst.BaseExpression) -> bool:
        """``shape[2].view(1)``"""
        match node:
            case (
                cst.Call(
                    func=cst.Attribute(value=value, attr=cst.Name("view" | "reshape")),
                    args=[cst.Arg(value=cst.Integer(value="1") | cst.UnaryOperation())],
                )
                | cst.Call(
                    func=cst.Attribute(value=value, attr=cst.Name("unsqueeze")),
                    args=[cst.Arg(value=cst.Integer(value="0"))],
                )
            ):
                if self._is_size(value):
                    self.edits[node] = ("(", value, ",)")
                    self._singles[node] = value
                    return True
        return False

    def _is_size(self, node: cst.BaseExpression) -> bool:
        match node:
            case cst.Subscript(
                value=base, slice=[cst.SubscriptElement(slice=cst.Index(value=index))]
            ):
                number = index.expression if isinstance(index, cst.UnaryOperation) else index
                return isinstance(number, cst.Integer) and self._is_sizes(base)
        return False

    def _listed(self, call: cst.Call, given: cst.BaseExpression) -> bool:
        """``torch.LongTensor([-1])``"""
        if not isinstance(given, cst.List) or not given.elements:
            return False
        parts: list[str | cst.CSTNode | Atom] = []
        for element in given.elements:
            number = element.value
            bare = number.expression if isinstance(number, cst.UnaryOperation) else number
            if not isinstance(bare, cst.Integer):
                return False
            parts += [number, ", "]
        if len(given.elements) == 1:
            self._singles[call] = given.elements[0].value
            parts = [given.elements[0].value, ",", ""]
        self.edits[call] = ("(", *parts[:-1], ")")
        return True

    def _joined(self, call: cst.Call, given: cst.BaseExpression) -> bool:
        """``torch.cat((torch.LongTensor([-1]), shape[2:]))``"""
        if not isinstance(given, cst.Tuple | cst.List) or len(given.elements) < 2:
            return False
        parts: list[str | cst.CSTNode | Atom] = []
        for element in given.elements:
            if not isinstance(element, cst.Element) or not self._is_sizes(element.value):
                return False
            single = self._singles.get(element.value)
            parts += ["*", Atom(element.value), ", "] if single is None else [single, ", "]
        self.edits[call] = ("(", *parts[:-1], ")")
        return True


def _is_plain(fact: Fact | None) -> bool:
    """Whether a tensor has torch's own ``reshape`` and ``shape``."""
    return fact is not None and fact.type in _TYPES


def _along_first(args: list[cst.Arg]) -> bool:
    """Whether ``torch.cat`` is left to the first dimension."""
    match args:
        case []:
            return True
        case [cst.Arg(keyword=None | cst.Name("dim" | "axis"), value=cst.Integer(value="0"))]:
            return True
    return False

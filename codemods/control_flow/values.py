"""What control-flow codemods know about values: tensor or not, one element or more, new or shared.

Facts of the recorded run come first.  Where the run did not go (a branch not taken) the answer is
inferred from the source, and only where it is sure: every question here has a third answer, *not
known*, on which codemods refuse or leave the judgement to validation.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Sequence
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.kinds import called_function, infer, merge
from gbfix.analysis.purity import Effects, effects_of
from gbfix.analysis.scopes import import_map
from gbfix.analysis.torch_names import FLOAT_DTYPES
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site, SiteError
from gbfix.schema import Fact

#: Methods and functions that may return their input or share memory with it.
SHARING = words(
    """view view_as reshape reshape_as flatten unflatten ravel squeeze unsqueeze transpose swapaxes
    swapdims permute movedim moveaxis t adjoint expand expand_as broadcast_to narrow select slice
    diagonal as_strided unfold split chunk unbind tensor_split hsplit vsplit dsplit detach alias
    contiguous to type type_as float double half bfloat16 int long short char byte bool cpu cuda
    real imag view_as_real view_as_complex conj resolve_conj resolve_neg positive atleast_1d
    atleast_1d atleast_2d atleast_3d rename align_to as_tensor asarray from_numpy
    data tile broadcast_tensors sum_to_size chain_matmul column_stack row_stack channel_shuffle
    pixel_shuffle pixel_unshuffle
    requires_grad_ values indices to_dense coalesce clip_grad_norm_ meshgrid dropout dropout1d
    dropout2d dropout3d alpha_dropout feature_alpha_dropout cat concat concatenate einsum"""
)
#: Functions of torch that give a view of their first argument.
_VIEW_FUNCTIONS = words(
    """reshape flatten ravel squeeze unsqueeze transpose swapaxes permute movedim t narrow select
    diagonal detach real imag atleast_1d atleast_2d atleast_3d broadcast_to unflatten"""
)
#: Elementwise functions and reductions of one tensor that cannot fail, whatever its shape.
_TOTAL = words(
    """isnan isinf isfinite isneginf isposinf logical_not neg sign exp clone detach any all sum
    count_nonzero"""
)
#: The same, of floating tensors.
_OF_FLOATS = words("abs mean norm square relu tanh sigmoid")
_VIEW_ATTRIBUTES = words("T mT H mH data real imag")


def _is_index_of(place: cst.BaseSlice, size: int | None) -> bool:
    """Whether it is all of a dimension, or a literal place in it; without a size, an ellipsis."""
    if isinstance(place, cst.Slice):
        return place.lower is None and place.upper is None and place.step is None
    if not isinstance(place, cst.Index):
        return False
    if size is None:
        return isinstance(place.value, cst.Ellipsis)
    text = code(place.value).replace(" ", "")
    return text.removeprefix("-").isdigit() and -size <= int(text) < size


class Share(enum.Enum):
    """Whether the value of an expression is a tensor of its own."""

    FRESH = "made by the expression itself"
    LOCAL = "another name for, or a view of, a tensor made in the branch"
    SHARED = "may be, or share memory with, a tensor that exists without it"
    UNKNOWN = "not known: the result of a call whose body is not seen"
    PYTHON = "no tensor"


class Values:
    """Answers about the expressions of one site's file."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.site = site
        self._root: cst.CSTNode = site.statement
        self._busy: set[str] = set()
        self._given: dict[cst.CSTNode, Fact] = {}
        #: Names bound to a tensor's one value: the tensor, and the text that stands for it now.
        self.scalars: dict[str, tuple[cst.BaseExpression, str]] = {}
        #: Names of a codemod's own making, and what they hold (see `places`).
        self.named: dict[str, Fact] = {}
        #: Names that a codemod has found to be Python numbers.
        self.numbers: set[str] = set()
        #: Names of tensors that surely have elements, where the question is asked.
        self.filled: frozenset[str] = frozenset()

    # -- names of torch ----------------------------------------------------------------------

    @functools.cached_property
    def torch(self) -> str:
        """The name under which the file reaches torch."""
        names = [
            name for name, target in import_map(self._site.module).items() if target == "torch"
        ]
        return names[0] if names else "torch"

    @property
    def torch_missing(self) -> bool:
        """Whether the file has to import torch before it can use it."""
        return import_map(self._site.module).get(self.torch) != "torch"

    # -- facts -------------------------------------------------------------------------------

    def fact(self, node: cst.BaseExpression) -> Fact | None:
        """What the expression evaluates to: recorded, or else inferred where that is sure."""
        return infer(node, self._known)

    def outside(self, name: str) -> Fact | None:
        """What a local name held just before the statement that broke."""
        return self.named.get(name) or self._site.locals_before(self._root).get(name)

    def needs_gradients(self) -> bool:
        """Whether a tensor that the function held before the break may need gradients."""
        facts = self._site.locals_before(self._root).values()
        return any(fact.is_tensor and fact.requires_grad is not False for fact in facts)

    def before(self, name: str) -> cst.Name:
        """A new node for the value that the name had before the statement that broke."""
        node = cst.Name(name)
        fact = self.outside(name)
        if fact is not None:
            self._given[node] = fact
        return node

    def effects(self, *nodes: cst.CSTNode) -> Effects:
        """What running the nodes may do besides giving a value."""
        return effects_of(nodes, self._known)

    def _known(self, node: cst.BaseExpression) -> Fact | None:
        if node in self._given:
            return self._given[node]
        if isinstance(node, cst.Tuple) and not node.elements:
            return None  # `()` has no text without its parentheses, and no need of a record
        try:
            fact = self._site.fact(node)
            if fact is None and isinstance(node, cst.Name) and self._is_of_inner_scope(node):
                return self._as_tested(node)
            if fact is None and isinstance(node, cst.Name):
                fact = self._site.locals_before(self._site.statement_of(node)).get(node.value)
        except (KeyError, SiteError):  # a node that codemods made
            fact = None
        if isinstance(node, cst.Name) and node.value in self.named:
            return self.named[node.value]
        if fact is None and isinstance(node, cst.Name) and not self._is_of_inner_scope(node):
            return self._still(node) or self._from_here(node) or self._name(node.value)
        return fact

    def _from_here(self, node: cst.Name) -> Fact | None:
        """What the name holds inside the statement that broke, whatever was bound to it before.

        What came before is in the record of its value just before; a loop around comes back.
        """
        around, inside = self._root, False
        for parent in self._site.ancestors(node):
            inside |= parent is self._root
            if isinstance(parent, cst.Lambda | cst.FunctionDef | cst.ClassDef):
                break
            if inside and isinstance(parent, cst.For | cst.While):
                around = parent
        if not inside or self.outside(node.value) is None:
            return None
        return self._name(node.value, around)

    def _is_of_inner_scope(self, node: cst.Name) -> bool:
        """Whether a lambda or comprehension around the name has a name of its own like it."""
        for parent in self._site.ancestors(node):
            match parent:
                case cst.Lambda():
                    names: Sequence[str] | set[str] = parameters_of(parent.params)
                case cst.BaseComp():
                    loops = [n for n in walk(parent) if isinstance(n, cst.CompFor)]
                    names = {
                        n.value for c in loops for n in walk(c.target) if isinstance(n, cst.Name)
                    }
                case cst.FunctionDef():
                    return parent is not self._site.function
                case _:
                    continue
            if node.value in names:
                return True
        return False

    def _as_tested(self, node: cst.Name) -> Fact | None:
        """What the test of a conditional expression saw under the name that its arm reads."""
        child: cst.CSTNode = node
        for parent in self._site.ancestors(node):
            match parent:
                case cst.Lambda() | cst.BaseComp() | cst.FunctionDef():
                    return None
                case cst.IfExp() if child is not parent.test:
                    for inner in walk(parent.test):
                        if isinstance(inner, cst.Lambda | cst.BaseComp | cst.NamedExpr):
                            return None
                        if isinstance(inner, cst.Name) and inner.value == node.value:
                            return self._site.fact(inner)
            child = parent
        return None

    def _still(self, node: cst.Name) -> Fact | None:
        """What the name held before the statement that broke, if it holds that here, inside it.

        Branches that did not run have no facts of their own; what they read first was there before.
        """
        name, child = node.value, cast(cst.CSTNode, node)
        for parent in self._site.ancestors(node):
            match parent:
                case cst.Lambda() | cst.FunctionDef() | cst.ClassDef() | cst.BaseComp():
                    return None
                case cst.NamedExpr() | cst.For() | cst.While() | cst.Try() | cst.TryStar():
                    before: Sequence[cst.CSTNode] = [parent]
                case cst.If():
                    before = [] if child is parent.test else [parent.test]
                case cst.With():
                    before = parent.items
                case cst.IndentedBlock() | cst.SimpleStatementLine() | cst.SimpleStatementSuite():
                    before = parent.body[: list(parent.body).index(child)]
                case cst.BaseExpression():
                    # What stands beside it may bind it: `(x := f()) + x`.
                    before = [parent]
                case _:
                    before = []
            if name in activity(before).bound:
                return None
            if parent is self._root:
                return self.outside(name)
            child = parent
        return None

    def _name(self, name: str, scope: cst.CSTNode | None = None) -> Fact | None:
        """What a name holds wherever the function (or ``scope``) uses it, or an imported module."""
        function = self._site.function
        found = self.outside(name)
        if function is None or name in self._busy:
            return found
        body = scope or function.body
        self._busy.add(name)
        try:
            for target, value in _bindings(body):
                if _binds(target, name):
                    new = self._bound_to(target, value, name)
                    found = new if found is None else merge(found, new)
                    if found is None:
                        return None
            if found is not None:
                return self._augmented(found, name, body)
        finally:
            self._busy.discard(name)
        imported = import_map(self._site.module).get(name)
        return None if imported is None else Fact("pymodule", "module", qualname=imported)

    def _bound_to(
        self, target: cst.BaseExpression, value: cst.BaseExpression | None, name: str
    ) -> Fact | None:
        """What one binding gives a name that stands in its target."""
        target, value = _element(target, value, name)
        if not isinstance(target, cst.Name) or value is None:
            return None
        return infer(value, self._known)

    def _augmented(self, fact: Fact, name: str, body: cst.CSTNode) -> Fact | None:
        """What is true of a name's values before and after each ``name += y`` of the body."""
        augmented = [
            node
            for node in walk(body)
            if isinstance(node, cst.AugAssign)
            and isinstance(node.target, cst.Name)
            and node.target.value == name
        ]
        if not all(self._stays(fact, node) for node in augmented):
            return None
        return (merge(fact, Fact(fact.kind, fact.type)) or fact) if augmented else fact

    def _stays(self, fact: Fact, node: cst.AugAssign) -> bool:
        """Whether ``x += y`` leaves ``x`` what it is: a number may become a tensor, say."""
        if fact.kind not in ("int", "float"):
            return fact.kind in ("tensor", "list", "tuple", "str", "bytes")
        value = infer(node.value, self._known)
        divides = isinstance(node.operator, cst.DivideAssign | cst.PowerAssign)
        same = value is not None and value.kind == fact.kind
        return same and not (divides and fact.kind == "int")

    def is_rebound_by_augmenting(self, name: str) -> bool:
        """Whether ``name += y`` surely makes a new object: the name holds a tuple or a number."""
        fact = self._name(name)
        return fact is not None and fact.kind in ("tuple", "int", "float", "str", "bytes")

    # -- tensor or not -----------------------------------------------------------------------

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is surely a tensor."""
        fact = self.fact(node)
        return fact is not None and fact.is_tensor

    def is_tensor_name(self, name: str) -> bool:
        """Whether the local name surely holds a tensor wherever the function uses it."""
        fact = self._name(name)
        return fact is not None and fact.is_tensor

    def is_python(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is surely a Python value with a truth of its own."""
        if isinstance(node, cst.Attribute) and node.attr.value == "training":
            return True
        if isinstance(node, cst.Comparison) and _is_about_metadata(node):
            return True
        if isinstance(node, cst.UnaryOperation) and self.is_python(node.expression):
            return True
        if isinstance(node, cst.BooleanOperation):
            return self.is_python(node.left) and self.is_python(node.right)
        fact = self.fact(node)
        return fact is not None and (
            fact.is_python_scalar or fact.kind in ("list", "tuple", "dict", "set", "function")
        )

    def is_python_name(self, name: str) -> bool:
        """Whether the local name surely holds a Python number, string or the like."""
        fact = self.outside(name)
        return fact is not None and fact.is_python_scalar

    # -- one element -------------------------------------------------------------------------

    def one_element(self, node: cst.BaseExpression) -> bool:
        """Whether the tensor surely has exactly one element."""
        fact = self.fact(node)
        if fact is None or not fact.is_tensor or fact.shape is None:
            return False
        return all(size == 1 for size in fact.shape)

    def is_bool_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether the tensor is surely of dtype bool."""
        fact = self.fact(node)
        return fact is not None and fact.dtype == "torch.bool"

    def is_total(self, node: cst.BaseExpression) -> bool:
        """Whether evaluating the expression has no effect and cannot raise where it is evaluated.

        Names are taken to be bound; a tensor's reductions and elementwise functions are total.
        """
        match node:
            case cst.Name() | cst.BaseNumber() | cst.SimpleString():
                return True
            case cst.Attribute(value=inner):
                known = node.attr.value in ("training", "shape", "dtype", "ndim", "device")
                return self.is_total(inner) and (known or self.fact(node) is not None)
            case cst.Comparison(left=left, comparisons=targets):
                lefts = [left, *(target.comparator for target in targets)]
                return all(map(self._total_comparison, lefts, targets))
            case cst.UnaryOperation(operator=cst.Not() | cst.Minus() | cst.BitInvert()):
                inverted = not isinstance(node.operator, cst.BitInvert)
                return self.is_total(node.expression) and (
                    inverted or self.is_bool_tensor(node.expression)
                )
            case cst.BooleanOperation():
                return self.is_total(node.left) and self.is_total(node.right)
            case cst.Subscript(value=inner):
                return self.is_total(inner) and self._is_inside(node)
            case cst.Call(
                func=cst.Attribute(attr=cst.Name("isclose")),
                args=[cst.Arg(value=left, keyword=None), cst.Arg(value=right, keyword=None)],
            ) if self.of_torch(node):
                # Of one dtype, and of one element where the other has more: then they fit.
                made = isinstance(right, cst.Call) and self._of_number(right) == code(left)
                return made and self.is_total(left) and self._is_floating(left)
            case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
                operand = self.operand(node)
                if operand is None or not self.is_tensor(operand) or not self.is_total(operand):
                    return False
                if name in ("max", "min"):
                    return isinstance(operand, cst.Name) and operand.value in self.filled
                return name in _TOTAL or (name in _OF_FLOATS and self._is_floating(operand))
        return False

    def _of_number(self, node: cst.Call) -> str:
        """The tensor whose dtype ``torch.as_tensor(0.0, dtype=x.dtype)`` takes; else nothing."""
        match node:
            case cst.Call(
                func=cst.Attribute(attr=cst.Name("as_tensor" | "tensor")),
                args=[
                    cst.Arg(value=cst.BaseNumber(), keyword=None, star=""),
                    cst.Arg(
                        value=cst.Attribute(value=like, attr=cst.Name("dtype")),
                        keyword=cst.Name("dtype"),
                    ),
                ],
            ) if self.of_torch(node):
                return code(like)
        return ""

    def _is_floating(self, node: cst.BaseExpression) -> bool:
        fact = self.fact(node)
        return fact is not None and fact.dtype in FLOAT_DTYPES

    def _is_inside(self, node: cst.Subscript) -> bool:
        """Whether an index of literals, as in ``x[..., 0]``, fits the tensor's recorded sizes."""
        fact = self.fact(node.value)
        if fact is None or not fact.is_tensor or fact.shape is None:
            return False
        places = [element.slice for element in node.slice]
        dots = [isinstance(it, cst.Index) and isinstance(it.value, cst.Ellipsis) for it in places]
        if dots.count(True) > 1 or len(places) - dots.count(True) > len(fact.shape):
            return False
        cut = dots.index(True) if True in dots else len(places)
        behind = len(places) - cut - 1
        sizes = [*fact.shape[:cut], None, *fact.shape[len(fact.shape) - behind :]]
        return all(map(_is_index_of, places, sizes))

    def _total_comparison(self, left: cst.BaseExpression, target: cst.ComparisonTarget) -> bool:
        sides = (left, target.comparator)
        if not all(self.is_total(side) for side in sides):
            return False
        if isinstance(target.operator, cst.Is | cst.IsNot):
            return True
        if isinstance(target.operator, cst.In | cst.NotIn):
            return False
        facts = [self.fact(side) for side in sides]
        if any(fact is None or fact.kind not in _COMPARABLE for fact in facts):
            return False
        tensors = [side for side in sides if self.is_tensor(side)]
        # Shapes that do not fit raise; those of one element always fit.
        return len(tensors) < 2 or all(self.one_element(side) for side in tensors)

    def operand(self, node: cst.Call) -> cst.BaseExpression | None:
        """The tensor of ``x.any()`` or ``torch.any(x)`` if the call has no other argument."""
        if not isinstance(node.func, cst.Attribute):
            return None
        if self.of_torch(node):
            if len(node.args) == 1 and node.args[0].keyword is None and not node.args[0].star:
                return node.args[0].value
            return None
        return node.func.value if not node.args else None

    def of_torch(self, node: cst.Call) -> bool:
        """Whether the call is one of a function of torch (not of a tensor's method)."""
        if not isinstance(node.func, cst.Attribute) or self.is_tensor(node.func.value):
            return False
        function = called_function(node, self._known)
        return function is not None and function.rpartition(".")[0] in _HOMES

    # -- new or shared -----------------------------------------------------------------------

    def share(self, node: cst.BaseExpression, own: frozenset[str]) -> Share:
        """Whether the expression's value is new; ``own`` are names of the branch's own tensors."""
        match node:
            case cst.Name(value="None" | "True" | "False"):
                return Share.PYTHON
            case cst.BaseNumber() | cst.BaseString():
                return Share.PYTHON
            case cst.Name():
                return Share.FRESH if node.value in own else Share.SHARED
            case cst.Attribute(value=inner, attr=cst.Name(value=name)) if name in _VIEW_ATTRIBUTES:
                return self._view_of(inner, own)
            case cst.Attribute():
                return Share.PYTHON if self.is_python(node) else Share.SHARED
            case cst.UnaryOperation(operator=cst.Plus()):
                return Share.SHARED
            case cst.UnaryOperation(operator=cst.Not()):
                return Share.PYTHON
            case cst.UnaryOperation() | cst.BinaryOperation() | cst.Comparison():
                return Share.PYTHON if self.is_python(node) else Share.FRESH
            case cst.IfExp():
                return _worst([self.share(arm, own) for arm in (node.body, node.orelse)])
            case cst.Subscript():
                index = node.slice[0].slice if len(node.slice) == 1 else None
                if isinstance(index, cst.Index) and self.is_bool_tensor(index.value):
                    return Share.FRESH
                return self._view_of(node.value, own)
            case cst.Call():
                return self._share_of_call(node, own)
        return Share.UNKNOWN

    def _view_of(self, node: cst.BaseExpression, own: frozenset[str]) -> Share:
        share = self.share(node, own)
        return Share.LOCAL if share is Share.FRESH else share

    def _share_of_call(self, node: cst.Call, own: frozenset[str]) -> Share:
        if self.is_python(node):
            return Share.PYTHON
        if not isinstance(node.func, cst.Attribute):
            return Share.UNKNOWN
        name = node.func.attr.value
        of_torch = self.of_torch(node)
        if not of_torch and not self.is_tensor(node.func.value):
            return Share.UNKNOWN
        inputs = [arg.value for arg in node.args] if of_torch else [node.func.value]
        if any(arg.keyword is not None and arg.keyword.value == "out" for arg in node.args):
            return Share.SHARED
        if name.endswith("_") and not name.endswith("__"):
            return self._view_of(inputs[0], own) if inputs else Share.UNKNOWN
        if name not in SHARING:
            return Share.FRESH
        if not inputs or (of_torch and name not in _VIEW_FUNCTIONS):
            return Share.UNKNOWN
        return self._view_of(inputs[0], own)


def _is_about_metadata(node: cst.Comparison) -> bool:
    """``x.dtype == torch.float16``: a question that no data answers."""
    return isinstance(node.left, cst.Attribute) and node.left.attr.value in (
        "dtype",
        "device",
        "layout",
        "ndim",
    )


_COMPARABLE = words("tensor int float bool")
_HOMES = words("torch torch.nn.functional torch.linalg torch.fft torch.special")


def _worst(shares: list[Share]) -> Share:
    order = (Share.PYTHON, Share.SHARED, Share.UNKNOWN, Share.LOCAL, Share.FRESH)
    return next(share for share in order if share in shares)


def _bindings(
    body: cst.CSTNode,
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression | None]]:
    """All targets below a node with the values that they get; None where no text gives them."""
    for node in walk(body):
        match node:
            case cst.Assign():
                for item in node.targets:
                    yield item.target, node.value
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                yield target, value
            case cst.For(target=target) | cst.NamedExpr(target=target) | cst.AsName(name=target):
                yield target, None


def _element(
    target: cst.BaseExpression, value: cst.BaseExpression | None, name: str
) -> tuple[cst.BaseExpression, cst.BaseExpression | None]:
    """Of ``a, b = x, y`` the target that is the name, and its value."""
    if not isinstance(target, cst.Tuple) or not isinstance(value, cst.Tuple):
        return target, value
    plain = all(isinstance(e, cst.Element) for e in (*target.elements, *value.elements))
    if not plain or len(target.elements) != len(value.elements):
        return target, value
    pairs = zip(target.elements, value.elements, strict=True)
    mine = [(left.value, right.value) for left, right in pairs if _binds(left.value, name)]
    return mine[0] if len(mine) == 1 else (target, value)


def _binds(target: cst.CSTNode, name: str) -> bool:
    if isinstance(target, cst.Name):
        return target.value == name
    if isinstance(target, cst.Tuple | cst.List):
        return any(_binds(element.value, name) for element in target.elements)
    if isinstance(target, cst.StarredElement):
        return _binds(target.value, name)
    return False

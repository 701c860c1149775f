"""What evaluating code may do besides giving a value.

Conservative: whatever is not known to be harmless counts as a call of unknown code.  Three things
are taken on trust, and the validation ladder is there for them: reading an attribute has no effects
(a property that counts its readers is not seen); what built-in containers hold compares, prints and
hashes without effects; torch's own functions are not patched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import libcst as cst

from gbfix.analysis import torch_names as names
from gbfix.analysis.activity import MUTATING_METHODS, activity
from gbfix.analysis.kinds import KindOf, called_function, infer
from gbfix.analysis.tree import children, code, flatten, words
from gbfix.schema import Fact

_NUMBERS = words("bool int float")
_COMPARISONS = (
    cst.Equal
    | cst.NotEqual
    | cst.LessThan
    | cst.LessThanEqual
    | cst.GreaterThan
    | cst.GreaterThanEqual
)
_SCALARS = words("bool int float complex str bytes none")
_BUILT_IN = _SCALARS | words("tensor list tuple set dict")
_SEQUENCES = words("list tuple str bytes dict set tensor")
_BUILTIN_TYPES = words(
    "list tuple dict set frozenset str bytes bool int float complex NoneType torch.Size"
)
#: Builtins that run no code of their arguments at all.
_INERT = words("isinstance issubclass type id callable super locals globals vars slice")
#: Builtins that run only the arguments' own protocols, harmless for built-in kinds.
_BY_PROTOCOL = words(
    """len abs min max sum any all int float bool complex str repr tuple list dict set frozenset
    sorted reversed zip enumerate range round divmod pow hash ord chr format hasattr bytes iter"""
)
_PURE_CONTAINER_METHODS = words(
    """copy index count get keys values items union intersection difference symmetric_difference
    issubset issuperset isdisjoint"""
)
_CONSUMERS = words("next sum any all tuple list set frozenset dict sorted min max zip enumerate")
_ITERATES = words("range zip enumerate reversed")
_HARMLESS_CONTEXTS = words(
    """torch.no_grad torch.enable_grad torch.inference_mode torch.autocast torch.amp.autocast
    torch.cuda.amp.autocast torch.autograd.no_grad torch.autograd.enable_grad
    torch.autograd.profiler.record_function torch.profiler.record_function contextlib.nullcontext
    nullcontext"""
)
_NP_PURE = words(
    """sqrt exp log log2 log10 sin cos tan floor ceil prod sum mean array asarray zeros ones arange
    linspace float32 float64 int32 int64 abs maximum minimum clip round isnan isinf isfinite pi
    concatenate stack"""
)
#: Functions that change state of their arguments unless a flag says otherwise.
_TRAINS_STATISTICS = words("batch_norm instance_norm")


@dataclasses.dataclass(frozen=True)
class Effects:
    """What evaluating nodes may do besides giving a value.

    ``mutates``  names whose object (or, for ``global``/``nonlocal`` names, binding) may change
    ``mutates_unknown``  changes an object that no name leads to
    ``rng``      draws random numbers, or sets or reads a generator's state
    ``io``       prints, logs, warns, reads or writes files, looks at the clock
    ``unknown``  source texts of calls and operators that may run any code
    ``modules``  source texts of calls of ``nn.Module`` objects (those not in `unknown` are of
                 types that only compute; forward hooks are not seen)
    ``raises``   may raise, if only a shape error; False only where that is impossible
    ``suspends`` yields or awaits
    """

    mutates: frozenset[str] = frozenset()
    mutates_unknown: bool = False
    rng: bool = False
    io: bool = False
    unknown: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    raises: bool = False
    suspends: bool = False

    @property
    def pure(self) -> bool:
        """Whether evaluating twice, or not at all, makes no difference but time and errors."""
        changes = self.mutates or self.mutates_unknown or self.rng or self.io
        return not (changes or self.unknown or self.suspends)

    @property
    def total(self) -> bool:
        """Whether it is pure and cannot raise either: safe to run where the source did not."""
        return self.pure and not self.raises


def effects_of(node: cst.CSTNode | Sequence[cst.CSTNode], kind_of: KindOf) -> Effects:
    """The effects of evaluating an expression, or of running statements.

    ``kind_of`` gives recorded facts of expressions (None where nothing was seen).  Binding a local
    name is no effect; defining a function or lambda is none either (calling it is unknown code).
    """
    finder = _Finder(kind_of)
    nodes = list(flatten((node,)))
    for item in nodes:
        finder.visit(item)
    what = activity(nodes, harmless=harmless_calls(kind_of))
    shared = what.global_writes | (what.nonlocals & what.writes)
    return Effects(
        mutates=(what.mutates - finder.harmless_augments(what.augments)) | shared | finder.mutates,
        mutates_unknown=what.mutates_unknown or finder.mutates_unknown,
        rng=finder.rng,
        io=finder.io,
        unknown=tuple(dict.fromkeys(finder.unknown)),
        modules=tuple(dict.fromkeys(finder.modules)),
        raises=finder.raises,
        suspends=finder.suspends,
    )


def harmless_calls(kind_of: KindOf) -> Callable[[cst.Call], bool]:
    """For `activity`: tells calls of tensor methods that make a new tensor (``x.add(y)``)."""

    def harmless(node: cst.Call) -> bool:
        if not isinstance(node.func, cst.Attribute):
            return False
        receiver = infer(node.func.value, kind_of)
        return (
            receiver is not None
            and receiver.is_tensor
            and (node.func.attr.value in names.PURE_METHODS)
        )

    return harmless


class _Finder:
    def __init__(self, kind_of: KindOf) -> None:
        self.kind_of = kind_of
        self.mutates: set[str] = set()
        # ``n += 1`` on a number changes no object: names so augmented, and the others.
        self.rebinds: set[str] = set()
        self.augmented_objects: set[str] = set()
        self.mutates_unknown = self.rng = self.io = self.raises = self.suspends = False
        self.unknown: list[str] = []
        self.modules: list[str] = []

    def kind(self, node: cst.BaseExpression) -> Fact | None:
        return infer(node, self.kind_of)

    def harmless_augments(self, augmented: frozenset[str]) -> frozenset[str]:
        return augmented & (self.rebinds - self.augmented_objects)

    def is_kind(self, node: cst.BaseExpression, kinds: frozenset[str]) -> bool:
        """Whether the value is surely of one of these built-in kinds, and no subclass of them."""
        fact = self.kind(node)
        if fact is None or fact.kind not in kinds:
            return False
        last = fact.type.rpartition(".")[2]
        if fact.is_tensor:
            return last in ("", "Tensor", "Parameter", "Buffer")
        return fact.type.removeprefix("builtins.") in _BUILTIN_TYPES or not fact.type

    def calls(self, node: cst.BaseExpression, functions: frozenset[str]) -> bool:
        """Whether the expression is a call of one of these functions."""
        return isinstance(node, cst.Call) and called_function(node, self.kind_of) in functions

    def not_known(self, node: cst.CSTNode) -> None:
        self.unknown.append(code(node).strip())
        self.raises = True

    def visit(self, node: cst.CSTNode) -> None:
        match node:
            case cst.Lambda():
                self.visit_children(node.params)
            case cst.FunctionDef():
                for part in (*node.decorators, node.params):
                    self.visit(part)
                if node.decorators:
                    self.not_known(node.decorators[0])
            case cst.ClassDef():
                self.not_known(node)
            case cst.Annotation():
                pass
            case _:
                if isinstance(node, cst.BaseExpression):
                    self.expression(node)
                else:
                    self.statement(node)
                self.visit_children(node)

    def expression(self, node: cst.BaseExpression) -> None:
        """What the expression itself does with the values of its parts."""
        match node:
            case cst.Call():
                self.call(node)
            case cst.BinaryOperation():
                self.operator(node, node.left, node.right)
            case cst.Comparison():
                self.comparison(node)
            case cst.UnaryOperation():
                self.truth_or_sign(node)
            case cst.BooleanOperation():
                self.truth(node.left)
            case cst.IfExp():
                self.truth(node.test)
            case cst.Subscript():
                self.subscript(node)
            case cst.Attribute():
                self.raises = self.raises or self.kind_of(node) is None
            case cst.StarredElement():
                self.iterate(node.value)
            case cst.Yield() | cst.Await():
                self.suspends = self.raises = True
            case cst.Dict() | cst.Set():
                self.raises = True  # unhashable keys

    def statement(self, node: cst.CSTNode) -> None:
        """What a statement, or a part of an expression, itself does with values."""
        match node:
            case cst.If() | cst.While() | cst.CompIf():
                self.truth(node.test)
            case cst.Assert():
                self.truth(node.test)
                self.raises = True
            case cst.AugAssign():
                self.aug_assign(node)
            case cst.Assign():
                self.assign(node)
            case cst.For() | cst.CompFor():
                self.iterate(node.iter)
            case cst.StarredDictElement():
                self.iterate(node.value)
            case cst.With():
                for item in node.items:
                    self.context(item.item)
            case cst.FormattedStringExpression():
                if not self.is_kind(node.expression, _BUILT_IN):
                    self.not_known(node.expression)
            case cst.Raise():
                self.raises = True
            case cst.Import() | cst.ImportFrom() | cst.Match():
                self.not_known(node)

    def visit_children(self, node: cst.CSTNode) -> None:
        for child in children(node):
            self.visit(child)

    # -- operators ---------------------------------------------------------------------------

    def operator(
        self, node: cst.CSTNode, left: cst.BaseExpression, right: cst.BaseExpression
    ) -> None:
        if not (self.is_kind(left, _BUILT_IN) and self.is_kind(right, _BUILT_IN)):
            self.not_known(node)
            return
        one, other = self.kind(left), self.kind(right)
        assert one is not None and other is not None
        self.raises = self.raises or not _total_arithmetic(node, one, other)

    def comparison(self, node: cst.Comparison) -> None:
        left = node.left
        for target in node.comparisons:
            right = target.comparator
            if not isinstance(target.operator, cst.Is | cst.IsNot):
                if self.is_kind(left, _BUILT_IN) and self.is_kind(right, _BUILT_IN):
                    one, other = self.kind(left), self.kind(right)
                    assert one is not None and other is not None
                    self.raises = self.raises or not _total_arithmetic(target, one, other)
                else:
                    self.not_known(node)
            if len(node.comparisons) > 1 and not (
                self.is_kind(left, _SCALARS) and self.is_kind(right, _SCALARS)
            ):
                self.raises = True  # ``a < b < c`` asks for the truth of ``a < b``
            left = right

    def truth_or_sign(self, node: cst.UnaryOperation) -> None:
        if isinstance(node.operator, cst.Not):
            self.truth(node.expression)
        elif not self.is_kind(node.expression, words("tensor int float complex bool")):
            self.not_known(node)
        elif not self.is_kind(node.expression, words("int bool")):
            self.raises = True  # ``-`` of a bool tensor, ``~`` of a float

    def truth(self, test: cst.BaseExpression) -> None:
        fact = self.kind(test)
        if fact is None or fact.kind in ("object", "ndarray", "mixed"):
            self.not_known(test)
        elif fact.is_tensor:
            one_value = fact.shape is not None and all(size == 1 for size in fact.shape)
            self.raises = self.raises or not one_value

    def subscript(self, node: cst.Subscript) -> None:
        self.raises = True
        if not self.is_kind(node.value, words("tensor list tuple str bytes dict")):
            self.not_known(node)  # a defaultdict, too: reading it may add a key

    def assign(self, node: cst.Assign) -> None:
        unpacks = any(isinstance(item.target, cst.Tuple | cst.List) for item in node.targets)
        if unpacks and not isinstance(node.value, cst.Tuple | cst.List):
            self.iterate(node.value)
        for item in node.targets:
            if isinstance(item.target, cst.Attribute | cst.Subscript):
                self.raises = True

    def aug_assign(self, node: cst.AugAssign) -> None:
        self.raises = True
        target = node.target
        if not (self.is_kind(target, _BUILT_IN) and self.is_kind(node.value, _BUILT_IN)):
            self.not_known(node)
        if isinstance(target, cst.Name):
            rebinds = self.is_kind(target, _SCALARS | {"tuple"})
            (self.rebinds if rebinds else self.augmented_objects).add(target.value)

    def iterate(self, iterable: cst.BaseExpression) -> None:
        if self.calls(iterable, _ITERATES):
            return  # `call` looks at the arguments
        fact = self.kind(iterable)
        if fact is not None and fact.kind == "iterator":
            self.consume(iterable)
        elif not self.is_kind(iterable, _SEQUENCES):
            self.not_known(iterable)
        if fact is None or fact.kind != "list":
            self.raises = True

    def consume(self, iterator: cst.BaseExpression) -> None:
        """An iterator that the code is given is another one afterwards."""
        if isinstance(iterator, cst.Name):
            self.mutates.add(iterator.value)
        if not isinstance(iterator, cst.GeneratorExp):
            self.not_known(iterator)

    def context(self, manager: cst.BaseExpression) -> None:
        if not self.calls(manager, _HARMLESS_CONTEXTS):
            self.not_known(manager)

    # -- calls -------------------------------------------------------------------------------

    def call(self, node: cst.Call) -> None:
        self.raises = True
        for arg in node.args:
            if arg.star:
                self.iterate(arg.value)
        function = called_function(node, self.kind_of)
        known = self.kind_of(node.func)
        if known is not None and known.kind == "module":
            self.module_call(node, known)
            return
        if known is not None and known.in_project:
            self.not_known(node)
            return
        if isinstance(node.func, cst.Attribute) and self.method(node, node.func):
            return
        if function is None:
            self.not_known(node)
        else:
            self.function_call(node, function)

    def module_call(self, node: cst.Call, module: Fact) -> None:
        text = code(node.func)
        self.modules.append(text)
        kind = (module.type or module.qualname).rpartition(".")[2]
        ours = (module.type or module.qualname).startswith("torch.nn.")
        if ours and kind in names.RNG_MODULES:
            self.rng = True
        elif not (ours and kind in names.PURE_MODULES):
            self.not_known(node)

    def function_call(self, node: cst.Call, function: str) -> None:
        function = function.removeprefix("builtins.")
        home, _, last = function.rpartition(".")
        if function.startswith(names.RNG_NAMESPACES):
            self.rng = True
        elif function in names.IO_FUNCTIONS or function.startswith(names.IO_NAMESPACES):
            self.io = True
        elif function in _HARMLESS_CONTEXTS or function.startswith(names.PURE_NAMESPACES):
            pass
        elif not home:
            self.builtin_call(node, function)
        elif home in ("torch", "torch.nn.functional", "torch.nn.init") or home.startswith(
            "torch.nn.functional"
        ):
            self.torch_call(node, home, last)
        elif not (home in ("np", "numpy") and last in _NP_PURE):
            self.not_known(node)

    def builtin_call(self, node: cst.Call, function: str) -> None:
        if function in _INERT:
            return
        attribute = node.args[1].value if len(node.args) > 1 else None
        if function == "getattr" and isinstance(attribute, cst.SimpleString):
            return
        if function not in _BY_PROTOCOL:
            self.not_known(node)
            return
        for arg in node.args:
            if arg.keyword is not None and arg.keyword.value == "key":
                self.not_known(node)
                continue
            fact = self.kind(arg.value)
            if fact is not None and fact.kind == "iterator":
                if function in _CONSUMERS:
                    self.consume(arg.value)
            elif not self.harmless_argument(arg.value):
                self.not_known(node)

    def harmless_argument(self, node: cst.BaseExpression) -> bool:
        """Whether the value's own protocols (iteration, length, text) run only built-in code."""
        if self.is_kind(node, _BUILT_IN):
            return True
        return self.calls(node, _ITERATES) or isinstance(node, cst.GeneratorExp)

    def torch_call(self, node: cst.Call, home: str, last: str) -> None:
        if last in names.RNG_FUNCTIONS:
            self.rng = self.rng or not _switched_off(node)
            return
        if last == "scaled_dot_product_attention":
            self.rng = self.rng or len(node.args) > 3 or _keyword(node, "dropout_p") is not None
            return
        if last in _TRAINS_STATISTICS:
            flag = "training" if last == "batch_norm" else "use_input_stats"
            if not _is_false(_keyword(node, flag)):
                for arg in node.args[1:3]:
                    self.mutates |= activity(arg.value).reads
                for name in ("running_mean", "running_var"):
                    value = _keyword(node, name)
                    if value is not None:
                        self.mutates |= activity(value).reads
            return
        if last == "embedding":
            if len(node.args) > 3 or _keyword(node, "max_norm") is not None:
                self.mutates_unknown = True  # it renormalizes the weight
            return
        if last.endswith("_"):  # the argument that it changes is in `activity`
            self.rng = self.rng or home == "torch.nn.init" or last in names.RNG_METHODS
            return
        table = names.PURE_TORCH if home == "torch" else names.PURE_FUNCTIONAL
        if last not in table:
            self.not_known(node)

    def method(self, node: cst.Call, func: cst.Attribute) -> bool:
        """Judge a method of a receiver whose kind is known; False where it is not."""
        receiver = self.kind(func.value)
        if receiver is None:
            return False
        name = func.attr.value
        if receiver.is_tensor:
            if name in names.RNG_METHODS:
                self.rng = True
            elif not (name in names.PURE_METHODS or _in_place(name)):
                self.not_known(node)
            return True
        if receiver.kind in ("str", "bytes"):
            if name in ("format", "join", "format_map"):
                for arg in node.args:
                    if not self.harmless_argument(arg.value):
                        self.not_known(node)
            return True
        if receiver.kind in ("list", "tuple", "dict", "set"):
            # What changes the receiver is in `activity`.
            if name not in _PURE_CONTAINER_METHODS | MUTATING_METHODS:
                self.not_known(node)
            return True
        if receiver.kind == "module":
            self.not_known(node)
            return True
        if name in names.IO_METHODS and receiver.kind == "object":
            self.io = True
            if not receiver.type.startswith(("logging.", "_io.", "io.")):
                self.not_known(node)
            return True
        return False


def _in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _keyword(node: cst.Call, name: str) -> cst.BaseExpression | None:
    for arg in node.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    return None


def _is_false(node: cst.BaseExpression | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "False"


def _switched_off(node: cst.Call) -> bool:
    """``F.dropout(x, p, training=False)``: draws nothing."""
    return _is_false(_keyword(node, "training"))


def _total_arithmetic(node: cst.CSTNode, left: Fact, right: Fact) -> bool:
    """Whether the operator surely succeeds on these facts."""
    operator = getattr(node, "operator", None)
    if isinstance(operator, cst.In | cst.NotIn):
        return False
    if left.kind in _NUMBERS and right.kind in _NUMBERS:
        # Division, powers and shifts have values that they refuse.
        return isinstance(operator, cst.Add | cst.Subtract | cst.Multiply | _COMPARISONS)
    if left.is_tensor or right.is_tensor:
        tensors = [fact for fact in (left, right) if fact.is_tensor]
        if any(fact.dtype not in names.FLOAT_DTYPES for fact in tensors):
            return False
        if not isinstance(
            operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide | _COMPARISONS
        ):
            return False
        if len(tensors) == 1:
            # A bool: torch refuses to subtract it.
            return (right if left.is_tensor else left).kind in ("int", "float")
        first, second = tensors
        same = first.device == second.device and first.shape == second.shape
        return same and first.shape is not None and None not in first.shape
    scalars = left.is_python_scalar and right.is_python_scalar
    return scalars and isinstance(operator, cst.Equal | cst.NotEqual)

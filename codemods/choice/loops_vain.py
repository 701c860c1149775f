"""What a round that counts no longer may compute: nothing that fails, draws or changes, and no
derivative that is not finite.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of, params_of
from gbfix.analysis.scopes import resolve
from gbfix.analysis.torch_names import NEW_MEMORY, RNG_FUNCTIONS, RNG_METHODS
from gbfix.analysis.tree import code, walk, words
from gbfix.analysis.trees import alternatives, tree_of
from gbfix.codemod import Site
from gbfix.rewriting.modules import given_functions, stores
from gbfix.rewriting.names import bindings
from gbfix.rewriting.project import home_of

from ..control_flow.refusal import Refusal
from ..control_flow.texts import number_of
from ..control_flow.values import Values
from .computing import Computes, class_computes, function_computes, made_by, method_computes

#: Fail, or have no finite derivative, for what a round may well come to.
_MAY_FAIL = words(
    """cholesky inverse inv solve solve_triangular lstsq eigh eigvalsh svd svdvals qr lu_factor lu
    ldl_factor cholesky_solve cholesky_inverse multinomial tensorinv matrix_exp eig eigvals det
    logdet slogdet pinv matrix_rank bincount item tolist"""
)
#: Have no finite derivative where their argument is 0 (or less), and a plain one at 1.
_AT_ZERO = words("sqrt rsqrt reciprocal log log2 log10 log1p lgamma digamma entr")
#: Have none at 1 or beyond it.
_AT_ONE = words("acos asin arccos arcsin atanh arctanh acosh arccosh logit erfinv")
#: Have none at some values of all that they are given.
_OF_SEVERAL = words("pow std atan2 div true_divide hypot xlogy")
_ADDS = words("append insert extend add_module")
_DRAWING = words("RReLU Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout")
#: May hold such layers.
_MAY_DRAW = words(
    """Sequential ModuleList ModuleDict LSTM GRU RNN MultiheadAttention Transformer
    TransformerEncoderLayer TransformerDecoderLayer TransformerEncoder TransformerDecoder"""
)
#: Take integers that must be in range.
_INDEXED = words(
    "gather index_select take take_along_dim embedding one_hot scatter scatter_add index_add"
)
#: Fail for no elements at all.
_OF_SOME = words("max min amax amin argmax argmin median mode aminmax")
_COUNTING = words("BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm InstanceNorm1d InstanceNorm2d")


def _reads_item(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Attribute) and node.func.attr.value == "item" and not node.args


#: Fail for some of Python's numbers.
_PARTIAL = words(
    """math.sqrt math.log math.log2 math.log10 math.log1p math.acos math.asin math.acosh math.atanh
    math.factorial math.gamma math.lgamma math.fmod math.comb math.perm math.isqrt"""
)
_OF_POSITIVE = words("math.sqrt math.log math.log2 math.log10 math.log1p")


def _is_positive(node: cst.BaseExpression, counts: Collection[str], *, zero: bool) -> bool:
    """Whether a number is above zero (or at it): ``i + 1``, where ``counts`` count from zero, and
    sizes.
    """

    def of(inner: cst.BaseExpression, *, zero: bool) -> bool:
        return _is_positive(inner, counts, zero=zero)

    match node:
        case cst.Integer() | cst.Float():
            return zero or node.evaluated_value > 0
        case cst.Name(name):
            return zero and name in counts
        case cst.Call(func=cst.Attribute(attr=cst.Name("size" | "numel")) | cst.Name("len")):
            return zero  # a size
        case cst.Subscript(value=cst.Attribute(attr=cst.Name("shape"))):
            return zero
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            both = of(left, zero=True) and of(right, zero=True)
            return both and (zero or of(left, zero=False) or of(right, zero=False))
        case cst.BinaryOperation(
            left=left, operator=cst.Multiply() | cst.Divide() | cst.Power(), right=right
        ):
            return of(left, zero=zero) and of(right, zero=zero)
    return False


class Vain:
    """Checks what runs in vain, and gives risky operands a safe value there."""

    def __init__(self, site: Site, values: Values, *, gradients: bool) -> None:
        self.site = site
        self.values = values
        self.gradients = gradients
        #: Names that the rounds set, and those of them that count from zero.
        self.set_in_rounds: Collection[str] = ()
        self.counts: Collection[str] = ()
        #: What may have no finite derivative, and modules that may draw random numbers.
        self.unsure: list[str] = []
        self.draws: list[str] = []
        #: Functions that a caller gives, of which another call may give others.
        self.others: list[str] = []
        self._open: set[str] = set()
        #: Functions of the project whose derivatives may not be finite.
        self.wild: set[str] = set()
        #: Whether all that the calls are given is made of ones where it does not count.
        self.of_ones = False
        #: Calls that are known to be harmless.
        self.known: frozenset[cst.CSTNode] = frozenset()

    def check(self, *nodes: cst.CSTNode) -> None:
        """Refuse what must not be run once too often."""
        effects = self.values.effects(*nodes)
        if effects.rng:
            raise Refusal("an iteration draws random numbers")
        if effects.io:
            raise Refusal("an iteration prints, logs or writes")
        if effects.suspends:
            raise Refusal("an iteration yields or awaits")
        for node in nodes:
            if self._selects(node):
                raise Refusal(
                    "it takes the largest element that a mask selects, and there may be none"
                )
            tests = {
                id(part) for it in walk(node) if isinstance(it, cst.If) for part in walk(it.test)
            }
            for inner in walk(node):
                if isinstance(inner, cst.Call) and inner not in self.known:
                    # A number that a test reads stays in its tensor there.
                    if not (id(inner) in tests and _reads_item(inner)):
                        self._call(inner)
                elif isinstance(inner, cst.Raise | cst.Assert | cst.Del | cst.Global | cst.Try):
                    raise Refusal("an iteration does more than compute")

    def _selects(self, node: cst.CSTNode) -> bool:
        """Whether a reduction that fails for nothing may get what a mask selects."""
        masks = calls = False
        for inner in walk(node):
            if isinstance(inner, cst.Index):
                fact = self.values.fact(inner.value)
                masks = masks or (fact is not None and fact.dtype == "torch.bool")
            elif isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute):
                calls = calls or inner.func.attr.value in _OF_SOME
        return masks and calls

    def _call(self, node: cst.Call) -> None:
        func = node.func
        fact = self.site.fact(func) if self._is_of_file(func) else None
        if fact is not None and fact.kind == "module":
            kind = fact.type.rpartition(".")[2]
            own = not fact.type.startswith("torch.nn.")
            if not isinstance(func, cst.Attribute) and self._may_get_another():
                raise Refusal(f"`{code(func)}` is one of a list that gets layers which may draw")
            if kind in _DRAWING | _COUNTING or (own and not self._is_plain_class(kind)):
                raise Refusal(f"`{code(func)}` may draw random numbers or keep statistics")
            # What its ``forward`` calls counts, too.
            if own and (why := class_computes(self.site, kind).why_not):
                raise Refusal(f"`{code(func)}` may do more than compute: {why}")
            if kind in _MAY_DRAW or self._is_given(func):
                self.draws.append(code(func))
            return
        called = resolve(self.site.module, func) or ""
        last = called.rpartition(".")[2] or code(func).rpartition(".")[2]
        if last in _MAY_FAIL and (called.startswith("torch.") or isinstance(func, cst.Attribute)):
            raise Refusal(f"`{last}` may fail where the loop would have ended")
        if called in _PARTIAL and not self._is_defined(called, node):
            raise Refusal(f"`{code(node)}` may fail where the loop would have ended")
        if called.startswith(("torch.", "math.", "builtins.")) or self._is_tensor_method(func):
            return
        if self._is_of_plain_list(func):
            return
        project = fact is not None and fact.kind == "function" and fact.in_project
        if project and fact is not None and isinstance(func, cst.Name):
            self._given_function(fact.qualname or "", func)
            return
        if self._is_plain_function(func):
            return
        if not project or fact is None or not isinstance(func, cst.Attribute):
            raise Refusal(f"it is not known what `{code(func)}` does")
        self._given_function(fact.qualname or "", func)
        self.others.append(code(func))  # another object may hold another function

    def _is_defined(self, called: str, node: cst.Call) -> bool:
        """Whether a function of Python's numbers cannot fail in a later round, if not in the first.

        Of what the loop does not set, the first round asks it as well.
        """
        if not activity(node).reads & set(self.set_in_rounds):
            return True
        given = node.args[0].value
        zero = called in ("math.sqrt", "math.log1p")
        return (
            len(node.args) == 1
            and called in _OF_POSITIVE
            and _is_positive(given, self.counts, zero=zero)
        )

    def _given_function(self, qualname: str, func: cst.BaseExpression) -> None:
        """A function of the project that a name holds: ``f`` for what a caller gives as ``f``."""
        path, place = home_of(self.site, qualname)
        first, *inner = place.split(".")
        self._others_given(code(func))
        if path and not inner:
            self._runs(function_computes(self.site, first, path), func)
            return
        if path != self.site.path:
            raise Refusal(f"it is not known what `{code(func)}` does")
        if inner == ["<locals>", "<lambda>"]:
            lambdas = [
                node
                for part in self.site.module.body
                if isinstance(part, cst.FunctionDef) and part.name.value == first
                for node in walk(part)
                if isinstance(node, cst.Lambda)
            ]
            text = f"<lambda> of {first}"
            if lambdas and text not in self._open:
                self._open.add(text)
                self.check(*(node.body for node in lambdas))
            if lambdas:
                return
        if len(inner) == 2 and inner[0] == "<locals>":
            self._runs(function_computes(self.site, place, path), func)
            return
        raise Refusal(f"it is not known what `{code(func)}` does")

    def _others_given(self, name: str) -> None:
        """Notes a parameter for which another call may give a function that nobody has read."""
        function = self.site.function
        if function is None or name not in parameters_of(function.params):
            return
        found = given_functions(self.site, function, name)
        if found is None or any(function_computes(self.site, it).why_not for it in found):
            self.others.append(name)

    def _runs(self, told: Computes, func: cst.BaseExpression) -> None:
        """Refuse a function of the project that does more than compute, or that may fail."""
        if told.why_not:
            raise Refusal(f"`{code(func)}` may do more than compute: {told.why_not}")
        for name in sorted(told.calls):
            if name in _PARTIAL or name.rpartition(".")[2] in _MAY_FAIL:
                raise Refusal(
                    f"`{name}` in `{code(func)}` may fail where the loop would have ended"
                )
        if not told.tame:
            self.wild.add(code(func))

    def _is_given(self, func: cst.BaseExpression) -> bool:
        """Whether ``self.layer`` may be what somebody gives to the object."""
        owner = self.site.class_of(self.site.node)
        match func:
            case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)) if owner is not None:
                values = [value for _, value in stores(self.site, owner.name.value, name)]
                may_be = (it for value in values if value for it in alternatives(value))
                if not any(isinstance(it, ast.Name) for it in may_be):
                    return False
                made = made_by(self.site, owner.name.value, name)
                return made is None or any(class_computes(self.site, it).why_not for it in made)
        return False

    def reads_numbers(self, func: cst.BaseExpression) -> bool:
        """Whether a method of the object reads nothing of it but numbers, as literals say, and
        defaults and annotations of ``__init__``: nothing to which a gradient would go.
        """
        owner = self.site.class_of(self.site.node)
        match func:
            case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)) if owner is not None:
                pass
            case _:
                return False
        found = [
            it
            for it in owner.body.body
            if isinstance(it, cst.FunctionDef) and it.name.value == name
        ]
        if len(found) != 1:
            return False
        read = {
            node.attr.value
            for node in walk(found[0].body)
            if isinstance(node, cst.Attribute) and code(node.value) == "self"
        }
        numbers = _numbers_given(owner)
        return all(
            (values := [value for _, value in stores(self.site, owner.name.value, attribute)])
            and all(
                isinstance(value, ast.Constant)
                or (isinstance(value, ast.Name) and value.id in numbers)
                for value in values
            )
            for attribute in read
        )

    def _is_of_file(self, node: cst.CSTNode) -> bool:
        return self.site.parent(node) is not None

    def _is_tensor_method(self, func: cst.BaseExpression) -> bool:
        if not isinstance(func, cst.Attribute):
            return False
        in_place = func.attr.value.endswith("_") and not func.attr.value.endswith("__")
        if in_place and not _is_new(func.value):
            raise Refusal(f"`{code(func)}` changes a tensor in place")
        return in_place or self.values.is_tensor(func.value)

    def _is_plain_function(self, func: cst.BaseExpression) -> bool:
        """A function at module level (or a method of this class) that only computes."""
        name = code(func)
        if name in self._open:
            return True
        found: cst.FunctionDef | None = None
        own = self.site.class_of(self.site.node)
        for part in self.site.module.body:
            if isinstance(part, cst.FunctionDef) and part.name.value == name:
                found = part
        if name.startswith("self.") and own is not None:
            for inside in own.body.body:
                if isinstance(inside, cst.FunctionDef) and f"self.{inside.name.value}" == name:
                    found = inside
        if found is None or found.decorators or found.asynchronous is not None:
            return False
        self._open.add(name)
        if own is not None and not self._calls_plain_layers(own, found):
            return False
        if own is not None and name.startswith("self."):
            told = method_computes(self.site, own.name.value, name.removeprefix("self."))
        else:
            told = function_computes(self.site, name)
        self._runs(told, func)
        return True

    def _may_get_another(self) -> bool:
        """Whether the project adds a layer that draws or counts to some list of modules."""
        for text in {self.site.source, *self.site.sources.values()}:
            for node in ast.walk(tree_of(text)):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Attribute(), attr=attr), args=[*_, value]
                    ) if attr in _ADDS:
                        words_in = set(re.findall(r"\w+", ast.unparse(value)))
                        if words_in & (_DRAWING | _COUNTING):
                            return True
        return False

    def _is_of_plain_list(self, func: cst.BaseExpression) -> bool:
        """The variable of ``for f in [plain, other]:``, which nothing else binds, and functions at
        module level of which each only computes.
        """
        if not isinstance(func, cst.Name) or self.site.function is None:
            return False
        given: list[cst.BaseExpression] = []
        for line in bindings(self.site, func.value):
            match line:
                case cst.For(target=cst.Name(), iter=cst.List(items) | cst.Tuple(items)):
                    given += [item.value for item in items]
                case _:
                    return False
        if func.value in parameters_of(self.site.function.params):
            return False
        return bool(given) and all(
            isinstance(item, cst.Name) and self._is_plain_function(item) for item in given
        )

    def _calls_plain_layers(self, own: cst.ClassDef, method: cst.FunctionDef) -> bool:
        """Whether what a method calls of its object draws nothing and counts nothing."""
        called = {
            code(node.func)
            for node in walk(method.body)
            if isinstance(node, cst.Call) and code(node.func).startswith("self.")
        }
        for node in walk(own):
            if not isinstance(node, cst.Assign):
                continue
            if not called & {code(target.target) for target in node.targets}:
                continue
            made = {part.value for part in walk(node.value) if isinstance(part, cst.Name)}
            if made & (_DRAWING | _COUNTING | _MAY_DRAW - {"Sequential", "ModuleList"}):
                return False
            if not self._are_plain_classes(made):
                return False
        return True

    def _are_plain_classes(self, names: set[str]) -> bool:
        """Whether the file's classes of these names, as far as it has them, only compute."""
        for part in self.site.module.body:
            if isinstance(part, cst.ClassDef) and part.name.value in names - self._open:
                self._open.add(part.name.value)
                if not self._is_plain_class(part.name.value):
                    return False
        return True

    def _is_plain_class(self, name: str) -> bool:
        """Whether a module class of the file only computes, as do the layers that it makes."""
        for part in self.site.module.body:
            if not isinstance(part, cst.ClassDef) or part.name.value != name:
                continue
            layers = {node.value for node in walk(part.body) if isinstance(node, cst.Name)}
            if not self._are_plain_classes(layers):
                return False
            if layers & (_DRAWING | _COUNTING | _MAY_DRAW - {"Sequential", "ModuleList"}):
                return False
            for inside in part.body.body:
                if isinstance(inside, cst.FunctionDef) and inside.name.value == "forward":
                    return self._only_computes(inside)
        return False

    def _only_computes(self, found: cst.FunctionDef) -> bool:
        """Whether the function changes nothing, draws nothing and shows nothing."""
        for inner in walk(found.body):
            match inner:
                case cst.Attribute(attr=attr) if attr.value in RNG_METHODS | RNG_FUNCTIONS:
                    return False
                case cst.AssignTarget(target=cst.Attribute() | cst.Subscript()):
                    return False
                case cst.AugAssign() | cst.Yield() | cst.Await() | cst.Raise() | cst.With():
                    return False
                case cst.Call(func=cst.Attribute(attr=attr)) if attr.value.endswith("_"):
                    return False
                case cst.Call(func=cst.Name(value="print" | "open" | "input")):
                    return False
        return True

    # -- derivatives -------------------------------------------------------------------------

    def guarded(self, node: cst.BaseExpression, safe: str) -> cst.BaseExpression:
        """The expression with operands that may have no finite derivative made harmless.

        ``safe`` is a template with ``{}`` for the operand: ``torch.where(done, 1, {})``.
        """
        guard = _Guard(self, safe)
        new = node.visit(guard)
        assert isinstance(new, cst.BaseExpression)
        return new


def _numbers_given(owner: cst.ClassDef) -> set[str]:
    """The parameters of ``__init__`` that are numbers, by their defaults or annotations."""
    return {
        param.name.value
        for item in owner.body.body
        if isinstance(item, cst.FunctionDef) and item.name.value == "__init__"
        for param in params_of(item.params)
        if isinstance(param.default, cst.Integer | cst.Float)
        or (param.annotation and code(param.annotation.annotation) in ("int", "float"))
    }


class _Guard(cst.CSTTransformer):
    def __init__(self, vain: Vain, safe: str) -> None:
        super().__init__()
        self.vain = vain
        self.safe = safe

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def leave_Index(self, original_node: cst.Index, updated_node: cst.Index) -> cst.Index:
        new = self._placed(original_node.value, updated_node.value)
        return updated_node if new is None else updated_node.with_changes(value=new)

    def _placed(
        self, old: cst.BaseExpression, new: cst.BaseExpression
    ) -> cst.BaseExpression | None:
        """An index that data has made is 0 where it does not count."""
        fact = self.vain.values.fact(old)
        if fact is None or not fact.is_tensor or fact.dtype == "torch.bool":
            return None
        if isinstance(old, cst.Call) and code(old.func).endswith("arange"):
            return None
        before, _, behind = self.safe.rpartition(", 1")
        return cst.parse_expression(f"{before}, 0{behind}".format(code(new)))

    def _wrapped(
        self, old: cst.BaseExpression, new: cst.BaseExpression
    ) -> cst.BaseExpression | None:
        values = self.vain.values
        if not self.vain.gradients or number_of(old) is not None:
            return None
        fact = values.fact(old)
        if fact is not None and not fact.is_tensor:
            return None
        if fact is None and not values.is_tensor(old):
            self.vain.unsure.append(code(old))
            return None
        plain = new.with_changes(lpar=(), rpar=())
        return cst.parse_expression(self.safe.format(code(plain)))

    def leave_BinaryOperation(
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        match original_node.operator:
            case cst.Divide():
                new = self._wrapped(original_node.right, updated_node.right)
                return updated_node if new is None else updated_node.with_changes(right=new)
            case cst.Power() if not _is_whole(original_node.right):
                new = self._wrapped(original_node.left, updated_node.left)
                return updated_node if new is None else updated_node.with_changes(left=new)
            case cst.FloorDivide() | cst.Modulo():
                sides = (original_node.left, original_node.right)
                tensors = any(self.vain.values.is_tensor(side) for side in sides)
                if self.vain.gradients and tensors:
                    self.vain.unsure.append(code(original_node))
        return updated_node

    def _index(self, old: cst.Arg, new: cst.Arg) -> cst.Arg:
        fact = self.vain.values.fact(old.value)
        if fact is None or "float" in (fact.dtype or ""):
            return new
        placed = self._placed(old.value, new.value)
        return new if placed is None else new.with_changes(value=placed)

    def _given_ones(self, old: cst.Call, new: cst.Call) -> cst.Call:
        """A function of the file gets ones where it does not count: no gradient comes back then."""
        if not isinstance(old.func, cst.Name) and not self.vain.reads_numbers(old.func):
            self.vain.unsure.append(code(old))
            return new
        args = []
        for before, after in zip(old.args, new.args, strict=True):
            fact = self.vain.values.fact(before.value)
            if before.star or fact is None or not (fact.is_tensor or fact.is_python_scalar):
                self.vain.unsure.append(code(old))
                return new
            floats = fact.is_tensor and "float" in (fact.dtype or "float")
            value = self._wrapped(before.value, after.value) if floats else None
            args.append(after if value is None else after.with_changes(value=value))
        return new.with_changes(args=args)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = original_node.func
        vain = self.vain
        if code(func) in vain.wild and vain.gradients and not vain.of_ones:
            return self._given_ones(original_node, updated_node)
        if not isinstance(func, cst.Attribute):
            return updated_node
        last = func.attr.value
        fact = self.vain.values.fact(func)
        if last in _INDEXED or (fact is not None and fact.type.endswith(".Embedding")):
            return updated_node.with_changes(
                args=[self._index(*pair) for pair in zip(original_node.args, updated_node.args,
                                                         strict=True)]
            )  # fmt: skip
        risky = last in _AT_ONE or last in _OF_SEVERAL
        if last == "pow" and original_node.args and _is_whole(original_node.args[-1].value):
            risky = False
        if risky and self.vain.gradients:
            self.vain.unsure.append(code(original_node))
        if last not in _AT_ZERO:
            return updated_node
        if self.vain.values.of_torch(original_node):
            old, new = original_node.args[0].value, updated_node.args[0].value
            wrapped = self._wrapped(old, new)
            if wrapped is None:
                return updated_node
            first = updated_node.args[0].with_changes(value=wrapped)
            return updated_node.with_changes(args=[first, *updated_node.args[1:]])
        assert isinstance(updated_node.func, cst.Attribute)
        wrapped = self._wrapped(func.value, updated_node.func.value)
        if wrapped is None:
            return updated_node
        return updated_node.with_changes(func=updated_node.func.with_changes(value=wrapped))


def _is_new(value: cst.BaseExpression) -> bool:
    """Whether a tensor is made right here, so that a change in place shows nowhere else."""
    match value:
        case cst.BinaryOperation():
            return True
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(name)), args=args):
            told = {arg.keyword.value for arg in args if arg.keyword is not None}
            told |= {code(arg.value) for arg in args}
            if name in NEW_MEMORY:
                return not told & {"True", "inplace", "out"}
            return name.endswith("_") and _is_new(owner)
    return False


def _is_whole(node: cst.BaseExpression) -> bool:
    number = number_of(node)
    return number is not None and number == int(number) and number >= 1

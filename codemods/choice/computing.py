"""Whether a module of the project only computes: an arm that is not taken may call it in vain.

Read from the text of its class: what it is made of, and what its methods do.  Whatever is not known
counts as more than that.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterator

import libcst as cst

from gbfix.analysis.torch_names import (
    IO_FUNCTIONS,
    IO_NAMESPACES,
    PURE_FUNCTIONAL,
    PURE_METHODS,
    PURE_MODULES,
    PURE_NAMESPACES,
    PURE_TORCH,
    RNG_FUNCTIONS,
)
from gbfix.analysis.tree import walk, words
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Site
from gbfix.rewriting.modules import given, overriders, stores
from gbfix.rewriting.project import home_of, mentions

from .gates import CUT, HARMLESS, TAME

#: Modules whose call is one function of their input, given that they are not ``inplace``.
_LAYERS = PURE_MODULES | words(
    """Sequential ModuleList ReLU ReLU6 LeakyReLU ELU SELU CELU SiLU Mish Hardtanh Hardsigmoid
    Hardswish LogSigmoid Softsign Tanhshrink Softshrink Hardshrink PReLU GLU Threshold Embedding
    RNNCell LSTMCell GRUCell"""
)
#: Those whose derivative may be infinite, or divides by what may be zero.
_WILD_LAYERS = words("CosineSimilarity KLDivLoss BCELoss NLLLoss")
#: What a class is called that can only be torch's own.
_TORCHS = "torch.nn."
_BUILTINS = words(
    """len isinstance range zip enumerate tuple list dict int float bool str max min sum abs
    reversed getattr hasattr any all sorted type super"""
)
#: Give a tensor that shares memory with no other.
_FRESH = words("zeros ones empty full zeros_like ones_like empty_like full_like arange eye clone")


#: Are put on modules, and may change their buffers in every call.
PUT_ON = (
    r"\b(?:register_parametrization|spectral_norm|prepare_qat|FakeQuantize|\w+Observer)\b"
    r"|\bquantization\.prepare\("
)
#: Where ``inplace`` stands among the arguments of a layer; its function has the input before it.
#: An embedding with a ``max_norm`` writes to its table.
_INPLACE_AT = {
    **dict.fromkeys(words("relu relu6 selu silu mish hardswish hardsigmoid"), 0),
    **dict.fromkeys(words("elu celu leakyrelu"), 1),
    **dict.fromkeys(words("hardtanh threshold embedding"), 2),
}


#: Look at several rows, unless they are told the last dimension.
_OVER_ROWS = words(
    """nanquantile trapezoid trapz cumulative_trapezoid msort gradient scatter_reduce
    cummax cummin diff einsum tensordot cdist outer nansum nanmean kthvalue quantile nanquantile
    aminmax count_nonzero index_select inner dot vdot kron renorm searchsorted bucketize histc
    bincount gather scatter scatter_add take take_along_dim index_add index_fill unique mode
    sum mean std var norm vector_norm max min amax amin argmax argmin prod median logsumexp
    softmax log_softmax softmin normalize cumsum cumprod sort argsort topk flip roll matmul bmm mm
    batch_norm instance_norm group_norm any all unsqueeze squeeze"""
)
#: Make other rows of them, whatever dimension they are told: ``h.view(-1)`` has one dimension.
_MIXES = words(
    """view view_as reshape flatten ravel t transpose permute movedim moveaxis swapaxes swapdims
    adjoint hsplit vsplit dsplit atleast_1d atleast_2d atleast_3d column_stack row_stack block_diag
    inverse pinverse cholesky cholesky_inverse cholesky_solve slogdet logdet det vdot cov corrcoef
    matrix_exp matrix_power svd qr lu_solve lu_unpack triangular_solve argwhere vander ger put
    index_put index_reduce select_scatter slice_scatter diagonal_scatter diagflat chain_matmul
    channel_shuffle pixel_unshuffle pairwise_distance stft istft histogram sum_to_size
    conv_transpose1d conv_transpose2d conv_transpose3d max_pool1d max_pool2d max_pool3d avg_pool1d
    adaptive_avg_pool1d triplet_margin_loss cosine_embedding_loss hinge_embedding_loss
    margin_ranking_loss kl_div poisson_nll_loss"""
)


@dataclasses.dataclass(frozen=True)
class Computes:
    """What the text of a class tells: why it may do more (or ""), and whether gradients are tame.

    ``tame``: its derivatives are finite wherever its input is.  ``rows_alone``: no row of its input
    (all but the last dimension count rows) has to do with another one.  ``calls``: functions of
    torch and of Python's numbers (``torch.sort``, ``math.log``) and methods (``sort``).
    """

    why_not: str = ""
    tame: bool = True
    rows_alone: bool = True
    calls: frozenset[str] = frozenset()


def class_computes(site: Site, name: str) -> Computes:
    """Whether calls of modules of the class with this name only compute.

    So must the project's classes that derive from it: one may stand in its place.
    """

    def read(reader: _Reader) -> None:
        reader.read_class(name)
        for derived in overriders(site, name, "forward"):
            reader.read_class(derived)

    return _computes(site, read)


def method_computes(site: Site, owner: str, method: str) -> Computes:
    """Whether calls of a method of a class of the project only compute, overridden or not."""

    def read(reader: _Reader) -> None:
        reader.read_method(owner, method)
        for name in overriders(site, owner, method):
            reader.read_method(name, method)

    return _computes(site, read)


def function_computes(site: Site, name: str, path: str = "") -> Computes:
    """Whether calls of a function of the site's file (or of the project's file) only compute.

    ``outer.<locals>.inner`` is one that another function defines.
    """
    text = site.sources.get(path, site.source) if path else site.source
    outer, nested, inner = name.partition(".<locals>.")
    if nested:
        return _computes(site, lambda reader: reader.read_nested(text, outer, inner))
    return _computes(site, lambda reader: reader.read_function(text, name))


def _computes(site: Site, read: Callable[[_Reader], None]) -> Computes:
    texts = tuple(sorted({site.source, *site.sources.values()}))
    if mentions(site, PUT_ON):
        return Computes("the project puts parametrizations or observers on modules")
    if any(_sets_modules(text) for text in texts):
        return Computes("the project puts other modules in by name")
    reader = _Reader(site, texts)
    try:
        read(reader)
    except _More as more:
        return Computes(str(more))
    if reader.calls_modules and mentions(site, r"\.forward\s*=[^=]|setattr\("):
        return Computes("another `forward` may be put in the place of its own")
    if reader.calls_modules and mentions(site, r"\bregister_\w*hook\b"):
        return Computes("hooks may see its calls")
    # What stands in for other rows counts as a use, too, of the first row of the table.
    rows_alone = reader.rows_alone and not mentions(
        site, r"scale_grad_by_freq|\bsparse\s*=|max_norm"
    )
    return Computes("", reader.tame, rows_alone, frozenset(reader.calls))


def made_by(site: Site, owner: str, attribute: str) -> set[str] | None:
    """The classes that make what ``self.attribute`` holds, its items too; None where not known."""
    found: set[str] = set()
    values: list[ast.expr | None] = []
    for holder, value in stores(site, owner, attribute):
        known = given(site, holder, value.id) if isinstance(value, ast.Name) else None
        values += known or [value]
    if not values:
        return None
    texts = {site.source, *site.sources.values()}
    for value in (*values, *_appended(texts, attribute)):
        classes = _classes(value)
        if classes is None:
            return None
        found |= classes
    return found


def _classes(value: ast.expr | None) -> set[str] | None:
    """The classes of what an expression makes: of the module, or of those in a list of modules."""
    match value:
        case ast.Call(func=func, args=args, keywords=keywords):
            home, _, name = ast.unparse(func).rpartition(".")
            if not name[:1].isupper():
                return None
            if name == "ModuleDict":
                return _classes_by_name(args, keywords)
            if name not in ("ModuleList", "Sequential"):
                inplace = any(k.arg in ("inplace", "max_norm") for k in keywords)
                inplace |= _is_told_inplace(name, args, 0)
                # `**options` may hold it, where the class takes it.
                inplace |= _may_be_inplace(name) and any(k.arg is None for k in keywords)
                of_torch = home in ("nn", "torch.nn")
                return None if inplace else {f"{_TORCHS}{name}" if of_torch else name}
            found: set[str] = set()
            for arg in args:
                inner = _classes(arg.value if isinstance(arg, ast.Starred) else arg)
                if inner is None:
                    return None
                found |= inner
            return found
        case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt):
            return _classes(elt)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            parts = [_classes(item) for item in items]
            known = [part for part in parts if part is not None]
            return set().union(*known) if len(known) == len(parts) else None
        case ast.BinOp(left=ast.List() as items, op=ast.Mult()):
            return _classes(items)
    return None


def _classes_by_name(args: list[ast.expr], keywords: list[ast.keyword]) -> set[str] | None:
    """The classes of a dict of modules, or of pairs of a name and a module."""
    match args:
        case []:
            return set() if not keywords else None
        case [ast.Dict(values=values)]:
            parts = [_classes(value) for value in values]
        case [ast.DictComp(value=value)]:
            parts = [_classes(value)]
        case [
            ast.ListComp(elt=ast.Tuple(elts=[_, value]))
            | ast.GeneratorExp(elt=ast.Tuple(elts=[_, value]))
        ]:
            parts = [_classes(value)]
        case [ast.List(elts=pairs) | ast.Tuple(elts=pairs)]:
            each = [
                pair.elts[1]
                for pair in pairs
                if isinstance(pair, ast.Tuple) and len(pair.elts) == 2
            ]
            parts = [_classes(value) for value in each] if len(each) == len(pairs) else [None]
        case _:
            return None
    known = [part for part in parts if part is not None]
    return set().union(*known) if len(known) == len(parts) and not keywords else None


def _may_be_inplace(name: str) -> bool:
    return name.lower().replace("_", "") in _INPLACE_AT


def _is_told_inplace(name: str, args: list[ast.expr], before: int) -> bool:
    """Whether an argument by position may say that an activation writes to its input."""
    at = _INPLACE_AT.get(name.lower().replace("_", ""))
    starred = any(isinstance(arg, ast.Starred) for arg in args)
    return at is not None and (starred or len(args) > at + before)


def _sets_modules(text: str) -> bool:
    """Whether a text gives objects something that it made or was given, under any name."""
    for node in ast.walk(_tree(text)):
        match node:
            case ast.Call(func=ast.Name(id="setattr"), args=[_, _, value]):
                if isinstance(value, ast.Call | ast.Name | ast.Starred):
                    return True
            case ast.Subscript(ctx=ast.Store(), value=ast.Attribute(attr="_modules")):
                return True
            case ast.Call(func=ast.Attribute(attr="set_submodule" | "register_module")):
                return True
    return False


def _appended(texts: set[str], attribute: str) -> Iterator[ast.expr | None]:
    """What is added to a list of modules of that name."""
    for text in texts:
        for node in ast.walk(tree_of(text)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Attribute(attr=attr), attr=method), args=args
                ) if attr == attribute and method in ("append", "extend", "insert", "add_module"):
                    yield args[-1] if args else None
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Attribute(attr=attr), attr="update" | "setdefault" | "__setitem__"
                    )
                ) if attr == attribute:
                    yield None
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(), attr="append" | "insert" | "add_module"),
                    args=[*_, value],
                ) if _makes_a_class(value):
                    yield value  # the list may have another name there
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        match target:
                            case ast.Subscript(value=ast.Attribute(attr=attr)) if attr == attribute:
                                yield value
                            case ast.Subscript(value=ast.Name()) if _makes_a_class(value):
                                yield value  # the list may have another name there


def _makes_a_class(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2][:1].isupper()


_SIZES = words("shape ndim dtype device is_cuda size dim numel nelement stride is_floating_point")
#: Tell of all rows at once.
_COUNTS = words("len numel nelement size")


def _checks_of_sizes(function: ast.AST) -> Iterator[int]:
    """Assertions and errors about sizes and types, as any operation raises some of its own."""
    for node in ast.walk(function):
        match node:
            case ast.Assert(test=test) if _asks_sizes(test):
                yield from map(id, ast.walk(node))
            case ast.If(test=test, body=[ast.Raise() as raised]) if _asks_sizes(test):
                yield from map(id, ast.walk(raised))


def _asks_sizes(node: ast.expr) -> bool:
    """Whether an expression is made of sizes, types and constants, and of no tensor's values."""
    match node:
        case ast.Constant():
            return True
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.Compare(left=left, comparators=others):
            return all(map(_asks_sizes, (left, *others)))
        case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
            return all(map(_asks_sizes, values))
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            return _asks_sizes(inner)
        case ast.BinOp(left=left, right=right):
            return _asks_sizes(left) and _asks_sizes(right)
        case ast.Call(func=ast.Attribute(attr=attr)) | ast.Attribute(attr=attr):
            return attr in _SIZES
        case ast.Call(func=ast.Name(id="isinstance" | "len")):
            return True
    return False


#: Draws where it is told to drop values, and computes otherwise.
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


def _drops_nothing(node: ast.Call) -> bool:
    """Whether attention gets no ``dropout_p``, its fifth argument, or a literal 0."""
    told = [*node.args[4:5], *(it.value for it in node.keywords if it.arg in ("dropout_p", None))]
    stars = any(isinstance(it, ast.Starred) for it in node.args)
    return not stars and all(isinstance(it, ast.Constant) and it.value == 0 for it in told)


class _More(Exception):
    """The class does more than to compute, or may."""


class _Reader:
    """Reads classes and functions, and all that they call."""

    def __init__(self, site: Site, texts: tuple[str, ...]) -> None:
        self.site = site
        self.texts = texts
        self.tame = True
        self.rows_alone = True
        #: Whether modules are called on the way, of which hooks may see it.
        self.calls_modules = False
        self.calls: set[str] = set()
        self._read: set[tuple[str, str]] = set()

    def read_class(self, name: str) -> None:
        """Read the ``forward`` of a class of torch or of the project."""
        self.calls_modules = True
        plain = name.removeprefix(_TORCHS)
        if plain in _LAYERS and (plain != name or not self._classes(name)):
            self.tame &= plain not in _WILD_LAYERS
            # Of a softmax or the like, nothing here tells the dimension.
            self.rows_alone &= not plain.startswith(("BatchNorm", "InstanceNorm")) and (
                plain not in _OF_A_DIMENSION
            )
            return
        if ("class", name) in self._read:
            return
        self._read.add(("class", name))
        self.read_method(name, "forward")

    def read_method(self, owner: str, method: str) -> None:
        if (owner, method) in self._read:
            return
        self._read.add((owner, method))
        text, node = self._class(owner)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == method:
                if statement.decorator_list:
                    raise _More(f"`{owner}.{method}` has a decorator")
                self._body(text, statement, owner)
                return
        bases = [ast.unparse(base) for base in node.bases]
        if len(bases) != 1 or bases[0] in ("nn.Module", "torch.nn.Module", "Module"):
            raise _More(f"`{owner}.{method}` is not known")
        self.read_method(bases[0].rpartition(".")[2], method)

    def _class(self, name: str) -> tuple[str, ast.ClassDef]:
        found = self._classes(name)
        if len(found) != 1:
            raise _More(f"the class `{name}` is not known")
        return found[0]

    def _classes(self, name: str) -> list[tuple[str, ast.ClassDef]]:
        """The project's classes of that name: it may be one of torch's layers, too."""
        return [
            (text, node)
            for text in self.texts
            for node in ast.walk(_tree(text))
            if isinstance(node, ast.ClassDef) and node.name == name
        ]

    # -- bodies ------------------------------------------------------------------------------

    def _body(
        self,
        text: str,
        function: ast.FunctionDef,
        owner: str,
        around: frozenset[str] = frozenset(),
    ) -> None:
        own = _own(function)
        held = _held(function)
        for node in self._nodes(function):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in held:
                    raise _More(f"what `{name}` does is what a call of `{function.name}` gives")
                case ast.Global() | ast.Nonlocal() | ast.Yield() | ast.YieldFrom() | ast.Await():
                    raise _More(f"`{function.name}` is no plain function")
                case ast.Assert() | ast.Raise():
                    raise _More(f"`{function.name}` may raise an error")
                case ast.Delete() | ast.Import() | ast.ImportFrom() | ast.Try() | ast.TryStar():
                    raise _More(f"`{function.name}` does more than compute")
                case ast.Attribute(ctx=ast.Store()):
                    raise _More(f"`{function.name}` changes an object")
                case ast.Subscript(ctx=ast.Store(), value=value):
                    if not (isinstance(value, ast.Name) and value.id in own):
                        raise _More(f"`{function.name}` changes an object")
                case ast.AugAssign(target=ast.Name(id=name)):
                    if name not in own:
                        raise _More(f"`{function.name}` changes `{name}` in place")
                case ast.AugAssign(target=ast.Subscript()):
                    raise _More(f"`{function.name}` changes what an object holds")
                case ast.BinOp(op=op, right=right):
                    plain = isinstance(right, ast.Constant)
                    wild = isinstance(op, ast.Div | ast.FloorDiv | ast.Mod | ast.Pow)
                    if isinstance(op, ast.Pow):
                        # A root has no finite derivative at zero.
                        plain = plain and isinstance(right.value, int) and right.value > 0  # type: ignore[attr-defined]
                    self.tame &= plain or not wild
                case ast.Call():
                    self._call(text, node, owner, own, held | around)

    def _nodes(self, function: ast.FunctionDef) -> Iterator[ast.AST]:
        """What the body is made of, but checks of sizes; whether it looks at rows by themselves."""
        of_last = {
            id(node.value)
            for node in ast.walk(function)
            if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "-1"
        }
        harmless = set(_checks_of_sizes(function))
        for node in ast.walk(function):
            self.rows_alone &= id(node) in of_last or _is_by_rows(node)
            if id(node) not in harmless:
                yield node
            else:
                self.rows_alone &= ast.unparse(node) not in _COUNTS

    def _call(
        self,
        text: str,
        node: ast.Call,
        owner: str,
        own: frozenset[str],
        held: frozenset[str],
    ) -> None:
        called = ast.unparse(node.func)
        home = _home(text, called)
        name = called.rpartition(".")[2]
        turned = isinstance(node.func, ast.Attribute) and _is_held(node.func.value)
        mixes = name in _MIXES or (name in _OVER_ROWS and not _is_of_last(node))
        self.rows_alone &= turned or not mixes
        if name in _CUTS:
            told = [*node.args, *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
            self.rows_alone &= bool(told) and ast.unparse(told[-1]) == "-1"
        self.rows_alone &= name not in _COUNTS_ROWS and (name != "size" or _is_of_last(node))
        if any(keyword.arg in ("inplace", "max_norm", "out", None) for keyword in node.keywords):
            raise _More(f"`{called}` may write to its input")
        if home.startswith("torch.") and _is_told_inplace(name, node.args, 1):
            raise _More(f"`{called}` may write to its input")
        if home == _ATTENTION and _drops_nothing(node):
            self.calls.add(home)
            self.tame = False
            return
        if home.startswith(("torch.", *PURE_NAMESPACES)):
            self._of_torch(home, name)
            return
        match node.func:
            case ast.Name(id=name):
                self.read_function(text, name)
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
                self._of_self(owner, attribute)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=method) if (
                owner
            ):
                self._of_base(owner, method)
            case ast.Attribute(value=ast.Name(id=local), attr="append" | "extend") if local in own:
                return
            case ast.Attribute(value=ast.Name(id=root)) if root in _bound_at_top(text) - held:
                # `METER.add(1)`: no tensor that somebody gave, whatever its method is called.
                raise _More(f"what `{called}` does is not known")
            case ast.Attribute(attr=method):
                self._of_tensor(method, called)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=attribute)):
                self._of_self(owner, attribute)
            case _:
                raise _More(f"what `{called}` does is not known")

    def _of_torch(self, home: str, name: str) -> None:
        self.calls.add(home)
        if home.startswith(IO_NAMESPACES):
            raise _More(f"`{home}` does more than compute")
        if name in RNG_FUNCTIONS:
            raise _More(f"`{home}` draws random numbers")
        known = PURE_FUNCTIONAL if home.startswith("torch.nn.functional.") else PURE_TORCH
        pure = name in known or home.startswith(PURE_NAMESPACES)
        if not pure:
            raise _More(f"what `{home}` does is not known")
        self.tame &= name in HARMLESS | TAME | CUT

    def _of_tensor(self, method: str, called: str) -> None:
        self.calls.add(method)
        if method not in PURE_METHODS:
            raise _More(f"what `{called}` does is not known")
        self.tame &= method in HARMLESS | TAME | CUT

    def _of_self(self, owner: str, attribute: str) -> None:
        _, node = self._class(owner)
        inherits = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        if any(isinstance(it, ast.FunctionDef) and it.name == attribute for it in node.body):
            self.read_method(owner, attribute)
            return
        classes = made_by(self.site, owner, attribute)
        if classes is None:
            if inherits and inherits[0] not in ("Module", "object"):
                self._of_self(inherits[0], attribute)
                return
            raise _More(f"what `self.{attribute}` of `{owner}` does is not known")
        for name in classes:
            self.read_class(name)

    def _of_base(self, owner: str, method: str) -> None:
        """``super().forward(x)``: of a class of the project, or of one of torch's layers."""
        text, node = self._class(owner)
        bases = [ast.unparse(base) for base in node.bases]
        if len(bases) != 1:
            raise _More(f"what `super().{method}` of `{owner}` does is not known")
        base = bases[0].rpartition(".")[2]
        if method == "forward" and _home(text, bases[0]).startswith(_TORCHS):
            if _may_be_inplace(base):
                raise _More(f"a `{base}` may write to its input")
            self.read_class(f"{_TORCHS}{base}")
        else:
            self.read_method(base, method)

    def read_nested(self, text: str, outer: str, name: str) -> None:
        """A function that another one defines: what it takes from there is only read."""
        found = [
            (inner, _held(statement))
            for statement in _tree(text).body
            if isinstance(statement, ast.FunctionDef) and statement.name == outer
            for inner in ast.walk(statement)
            if isinstance(inner, ast.FunctionDef) and inner.name == name
        ]
        if len(found) != 1 or found[0][0].decorator_list:
            raise _More(f"what `{name}` does is not known")
        function, around = found[0]
        called = {ast.unparse(it.func) for it in ast.walk(function) if isinstance(it, ast.Call)}
        if called & around:
            raise _More(f"what `{min(called & around)}` does is what `{outer}` gives")
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=root), attr=method)) if (
                    root in around - _held(function) and not self._was_tensor(text, root)
                ):
                    raise _More(f"what `{root}.{method}` does is not known")
        self._body(text, function, "", around)

    def _was_tensor(self, text: str, name: str) -> bool:
        """Whether the run saw a name of the file, and tensors alone."""
        if text != self.site.source:
            return False
        places = (it for it in walk(self.site.module) if isinstance(it, cst.Name))
        facts = [self.site.fact(it) for it in places if it.value == name]
        seen = [fact for fact in facts if fact is not None]
        return bool(seen) and all(fact.is_tensor for fact in seen)

    def read_function(self, text: str, name: str) -> None:
        if name in _BUILTINS:
            return
        if name in IO_FUNCTIONS:
            raise _More(f"it calls `{name}`")
        if (text, name) in self._read:
            return
        self._read.add((text, name))
        home = _home(text, name)
        if (path := home_of(self.site, home)[0]) and path != self.site.path:
            text, name = self.site.sources[path], home.rpartition(".")[2]
        if name in _bound_at_top(text):
            raise _More(f"`{name}` may be another function: the module binds the name again")
        for statement in _tree(text).body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                if statement.decorator_list:
                    raise _More(f"`{name}` has a decorator")
                self._body(text, statement, "")
                return
        raise _More(f"what `{name}` does is not known")


def _is_of_last(node: ast.Call) -> bool:
    """Whether a reduction is told the last dimension, and no other."""
    values = [*node.args, *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
    told = [ast.unparse(value) for value in values]
    numbers = [text for text in told if text.lstrip("-").isdigit()]
    return bool(numbers) and all(text == "-1" for text in numbers)


#: Show rows as something else, or say how many there are.
_TURNS = words("T mT H mH shape")
_COUNTS_ROWS = words("len numel nelement arange linspace eye tril triu tril_indices triu_indices")
_CUTS = words("chunk split tensor_split unbind narrow select cat concat stack")
#: Layers of which their arguments tell along which dimension they work.
_OF_A_DIMENSION = words("Softmax LogSoftmax Softmin Softmax2d Flatten Unflatten GLU Fold Unfold")


def _is_by_rows(node: ast.AST) -> bool:
    """Whether a node, apart from calls, looks at no row but the one that it computes."""
    match node:
        case ast.Subscript():
            return _is_of_all_rows(node)
        case ast.Attribute(value=value, attr=attribute):
            return attribute not in _TURNS or _is_held(value)
        case ast.BinOp(op=ast.MatMult(), right=right):
            return _is_held(right)
    return True


def _is_held(node: ast.expr) -> bool:
    """A parameter of the object, as it is or turned: ``self.weight``, ``self.weight.t()``."""
    match node:
        case ast.Attribute(value=ast.Name(id="self")):
            return True
        case ast.Attribute(value=inner, attr="T" | "mT"):
            return _is_held(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="t" | "transpose" | "to")):
            return _is_held(inner)
    return False


def _is_of_all_rows(node: ast.Subscript) -> bool:
    """``x[:, :2]``, ``x[..., 0]``, ``x.shape[-1]``, ``self.layers[0]``, ``x.chunk(2, -1)[0]``."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return ast.unparse(node.slice) == "-1"
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"))):
            return True
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="chunk" | "split" | "unbind"))):
            return isinstance(node.slice, ast.Constant)
        case ast.Subscript(slice=ast.Tuple(elts=[first, *_])):
            return ast.unparse(first) in (":", "Ellipsis", "...")
    return ast.unparse(node.slice) in ("...", "Ellipsis")


def _tree(text: str) -> ast.Module:
    try:
        return tree_of(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _own(function: ast.FunctionDef) -> frozenset[str]:
    """Names that only hold lists, tuples and tensors which the function made itself."""
    fresh: set[str] = set()
    other = {arg.arg for arg in ast.walk(function) if isinstance(arg, ast.arg)}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                (fresh if _is_fresh(value) else other).add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                (fresh if _is_fresh(value) else other).add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                other.add(name)
    for node in ast.walk(function):
        # What a loop, a tuple or a `with` binds is not followed.
        if isinstance(node, ast.For | ast.comprehension | ast.NamedExpr | ast.withitem):
            other |= _bound(getattr(node, "target", None) or getattr(node, "optional_vars", None))
        several = isinstance(node, ast.Assign) and len(node.targets) > 1
        if isinstance(node, ast.Assign) and (several or not isinstance(node.targets[0], ast.Name)):
            other |= set().union(*map(_bound, node.targets))
    return frozenset(fresh - other)


def _held(function: ast.FunctionDef) -> frozenset[str]:
    """Names of the function's own: what it gets, and what it binds."""
    given = {arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)}
    bound = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return frozenset(given | bound)


def _bound(target: ast.AST | None) -> set[str]:
    """The names that a target binds: a store into what a name holds binds none."""
    match target:
        case ast.Name(id=name):
            return {name}
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return set().union(*map(_bound, items))
        case ast.Starred(value=value):
            return _bound(value)
    return set()


def _is_fresh(value: ast.expr) -> bool:
    match value:
        case ast.BinOp() | ast.List() | ast.Tuple() | ast.ListComp() | ast.Dict() | ast.Constant():
            return True
        case ast.Compare(
            ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq()]
        ):
            return True  # a mask
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _FRESH
    return False


@functools.lru_cache(maxsize=256)
def _bound_at_top(text: str) -> frozenset[str]:
    """Names that the statements of a module bind, in other ways than by `def` and `class`."""
    return frozenset(
        node.id
        for statement in _tree(text).body
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


@functools.lru_cache(maxsize=256)
def _imports(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(_tree(text)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    found[alias.asname or alias.name] = alias.name
            case ast.ImportFrom(module=module, names=names):
                # A relative import names the end of the module's path.
                for alias in names:
                    home = f"{module}.{alias.name}" if module else alias.name
                    found[alias.asname or alias.name] = home
    return found


def _home(text: str, called: str) -> str:
    """The dotted home of what is called, as far as imports tell; else "" """
    known = _imports(text)
    head, _, rest = called.partition(".")
    if head in known:
        return f"{known[head]}.{rest}" if rest else known[head]
    return ""

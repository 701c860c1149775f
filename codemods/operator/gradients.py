"""The gradient of a piece: its own code is run once more in the backward, and differentiated.

An operator's body runs below autograd, so that nothing is recorded there.  ``torch.func.vjp``
records for itself; inside a second operator it follows the very code that the piece has, whatever
values of tensors that code reads on its way.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.torch_names import INT_DTYPES
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site
from gbfix.rewriting import project

from ..wrap.pure import AUTOCAST_METHODS
from .fakes import Fake, holders_of, mentions, written
from .inputs import PRODUCTS, Refused, local_names
from .pieces import Piece
from .reached import called

_FLOATS = words("torch.float32 torch.float64 torch.float16 torch.bfloat16")
#: What looks at autograd itself, or leaves it: another thing below autograd, or in `vjp`.
_LOOKS = re.compile(
    r"\b(requires_grad\w*|grad_fn|is_grad_enabled|enable_grad|set_grad_enabled|inference_mode"
    r"|is_leaf|retain_grad|register_hook|backward|autograd|checkpoint|data_ptr|func|vmap)\b"
    r"|\.(grad|data)\b|\.numpy\b"
)
#: What a gradient ends at, or an error where it would have to go through.
_ARRAYS = re.compile(r"\b(numpy|np|from_numpy)\b")
#: What draws numbers, perhaps others when it runs again, or changes a layer's state.
_DRAWS = re.compile(
    r"\b\w*(dropout|rrelu|bernoulli|multinomial|rand\w*|normal_|uniform_|exponential_|sample"
    r"|batch_norm|instance_norm|seed)\b",
    re.IGNORECASE,
)
#: Asks a tensor whether it has a gradient, or fails where it has one.
_ASKS = r"\.numpy\(|\.is_leaf\b|\.grad_fn\b|\.requires_grad\b|\b__array__\b|\bdeepcopy\b"
#: Of these, what torch's generators do not put back: a layer's state, a seed.
_KEEPS = re.compile(r"\b\w*(batch_norm|instance_norm|seed)\b", re.IGNORECASE)
_WIDTH = 100
_MODULES = (
    "torch", "math", "functools", "itertools", "operator", "typing", "collections", "numpy",
    "bisect", "heapq", "statistics",
)  # fmt: skip
#: How many bytes the state of torch's generator has: on the CPU, and on a device of CUDA.
_BYTES = (5056, 16)


def differentiable(piece: Piece, *, draws: bool = False) -> tuple[str, ...]:
    """The parameters of which a piece with a gradient is a function; raises `Refused`.

    ``draws`` says that it draws from torch's generators, and from nothing else: the backward sets
    them to where they were.
    """
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    if not leaves or not all(leaf.kind == "tensor" and leaf.dtype in _FLOATS for leaf in leaves):
        raise Refused("a gradient goes through some of its results, and not through others")
    asked = {bool(leaf.fact.requires_grad) for leaf in leaves}
    if len(asked) > 1 and project.mentions(piece.level.site, _ASKS):
        # A result that had no gradient in this call has one now: code that asks would notice.
        raise Refused("a gradient goes through some of its results, and not through others")
    text = written(piece)
    for part in (inner for node in piece.nodes for inner in walk(node)):
        # Whole numbers, as the places of a sort, have no gradient to look at.
        if isinstance(part, cst.Attribute) and part.attr.value == "data":
            fact = piece.level.site.fact(part.value)
            if fact is not None and fact.dtype in INT_DTYPES:
                text = text.replace(code(part), code(part.value))
    found = _LOOKS.search(text)
    if found:
        raise Refused(f"a gradient goes through it, and it looks at `{found[0]}`")
    found = (_KEEPS if draws else _DRAWS).search(text)
    if found:
        raise Refused(f"a gradient goes through it, and `{found[0]}` may draw other numbers again")
    _check_names(piece)
    if any(p.annotation.startswith("list[torch") for p in piece.inputs.parameters):
        raise Refused("a gradient goes through a list of tensors")
    names = tuple(
        p.name
        for p in piece.inputs.parameters
        if p.annotation == "torch.Tensor" and p.fact.dtype in _FLOATS
    )
    if _ARRAYS.search(text):
        names = _without_arrays(piece, names)
    if not names:
        raise Refused("a gradient comes from what does not go into it")
    return names


def _without_arrays(piece: Piece, names: Sequence[str]) -> tuple[str, ...]:
    """The parameters of which nothing becomes an array; raises `Refused`."""
    site = piece.level.site
    nodes: list[cst.CSTNode] = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    parts = [part for node in nodes for part in walk(node)]
    found = []
    for parameter in piece.inputs.parameters:
        if parameter.name not in names:
            continue
        holders = holders_of(parts, {parameter.given, parameter.name})
        if not any(_makes_array(site, part, holders) for part in parts):
            found.append(parameter.name)
        elif parameter.fact.requires_grad:
            raise Refused(f"a gradient goes through `{parameter.name}`, which becomes an array")
    return tuple(found)


def _makes_array(site: Site, node: cst.CSTNode, holders: set[str]) -> bool:
    """Whether a call makes an array of what it is given, or hands it to code that makes one."""
    if not isinstance(node, cst.Call):
        return False
    name = resolve(site.module, node.func) or ""
    given = any(mentions(arg.value, holders) for arg in node.args)
    if name.startswith("numpy.") or name == "torch.from_numpy":
        return given
    if isinstance(node.func, cst.Attribute):
        given = given or mentions(node.func.value, holders)
    alone = node.with_changes(args=())
    return given and any(_has_arrays(site, each) for each in called(site, [alone]))


def _has_arrays(site: Site, function: cst.FunctionDef) -> bool:
    """Whether numpy gets something of the function's own: not in ``np.log(np.exp(1 - LEAST))``."""
    own = function_scope(function).locals
    for node in walk(function.body):
        if isinstance(node, cst.Attribute) and node.attr.value == "numpy":
            return True
        if not isinstance(node, cst.Call):
            continue
        name = resolve(site.module, node.func) or ""
        if name.startswith("numpy.") or name == "torch.from_numpy":
            parts = (part for arg in node.args for part in walk(arg))
            if any(isinstance(part, cst.Name) and part.value in own for part in parts):
                return True
    return False


def _class_name(site: Site, method: cst.FunctionDef) -> str:
    holder = site.class_of(method)
    return holder.name.value if holder is not None else ""


def _check_names(piece: Piece) -> None:
    """Every global that the piece's code reads is a function or a number: no tensor of its own."""
    site = piece.level.site
    nodes: list[cst.CSTNode] = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    functions = called(site, nodes)
    bindings = module_bindings(site.module)
    passed = piece.inputs.replacements
    # What methods read of an object that the operator makes is given to it.
    made = {twin.kind for twin in piece.inputs.twins.values()}
    reading = {id(it.body) for it in functions if _class_name(site, it) in made}
    for top in (*nodes, *(function.body for function in functions)):
        # No result, and no gradient, comes out of what is raised.
        raised = {id(it) for node in walk(top) if isinstance(node, cst.Raise) for it in walk(node)}
        for node in walk(top):
            if id(node) in raised:
                continue
            if isinstance(node, cst.Attribute) and _is_own(node) and top not in nodes:
                fact = site.fact(node)
                if fact is not None and fact.kind in ("int", "float", "bool", "str"):
                    continue
                if id(top) in reading:
                    continue
                raise Refused(f"a gradient goes through it, and `{code(node)}` may hold a tensor")
            if not isinstance(node, cst.Name) or node.value in local_names(site, top):
                continue
            if node in passed or _is_attribute(site.parent(node), node):
                continue
            for bound in bindings.get(node.value, ()):
                if not _is_harmless(bound, functions, resolve(site.module, node) or ""):
                    raise Refused(
                        f"a gradient goes through it, and nothing tells what `{node.value}` holds"
                    )


def _is_own(node: cst.Attribute) -> bool:
    return isinstance(node.value, cst.Name) and node.value.value in ("self", "cls")


def _is_attribute(holder: cst.CSTNode | None, node: cst.Name) -> bool:
    if isinstance(holder, cst.Attribute):
        return holder.attr is node
    return isinstance(holder, cst.Arg) and holder.keyword is node


def _is_harmless(bound: cst.CSTNode, functions: Sequence[cst.FunctionDef], name: str) -> bool:
    if isinstance(bound, cst.FunctionDef):
        return bound in functions
    if isinstance(bound, cst.Import | cst.ImportFrom | cst.ImportAlias):
        return name.partition(".")[0] in _MODULES
    match bound:
        case cst.Assign(value=value) | cst.AnnAssign(value=cst.BaseExpression() as value):
            return _is_written_out(value)
    return name.partition(".")[0] in _MODULES


def _is_written_out(value: cst.BaseExpression) -> bool:
    """Whether numbers and texts are all that it is made of: no tensor comes out of these."""
    plain = (
        cst.Integer, cst.Float, cst.SimpleString, cst.Tuple, cst.Element, cst.UnaryOperation,
        cst.BinaryOperation, cst.BaseUnaryOp, cst.BaseBinaryOp, cst.BaseParenthesizableWhitespace,
        cst.LeftParen, cst.RightParen, cst.Comma, cst.TrailingWhitespace, cst.Newline, cst.Comment,
    )  # fmt: skip
    return all(
        isinstance(node, plain) or (isinstance(node, cst.Name) and node.value in _CONSTANTS)
        for node in walk(value)
    )


_CONSTANTS = ("True", "False", "None")


def has_products(piece: Piece) -> bool:
    """Whether the piece's code multiplies matrices, which autocast does in a lower precision."""
    return any(
        (isinstance(it, cst.BinaryOperation) and isinstance(it.operator, cst.MatrixMultiply))
        or (isinstance(it, cst.Call) and _last_name(it) in PRODUCTS)
        for it in _parts(piece)
    )


@dataclasses.dataclass(frozen=True)
class Draws:
    """How an operator hands on where torch's generators stood, as bytes: one result more.

    ``name`` is a name that its parameters leave free, ``of`` a tensor whose device may have a
    generator of its own.
    """

    name: str
    of: str

    def kept(self, torch: str) -> list[str]:
        """The lines that keep the state, before anything draws."""
        here, of = self.name, self.of
        return [
            f"{here} = {torch}.get_rng_state()",
            f"if {of}.is_cuda:",
            f"    {here} = {torch}.cat([{here}, {torch}.cuda.get_rng_state({of}.device)])",
        ]

    def empty(self, torch: str) -> str:
        cpu, cuda = _BYTES
        return f"{torch}.empty({cpu} + {cuda} * {self.of}.is_cuda, dtype={torch}.uint8)"

    def again(self, torch: str, lines: Sequence[str]) -> list[str]:
        """Lines that run with the generators as they were."""
        here, of, (cpu, _) = self.name, self.of, _BYTES
        return [
            f"with {torch}.random.fork_rng([{of}.device] if {of}.is_cuda else []):",
            f"    {torch}.set_rng_state({here}[:{cpu}])",
            f"    if {of}.is_cuda:",
            f"        {torch}.cuda.set_rng_state({here}[{cpu}:], {of}.device)",
            *(f"    {line}" for line in lines),
        ]


#: What autocast computes in float32 on some device, besides `AUTOCAST_METHODS`.
_IN_FLOAT32 = AUTOCAST_METHODS | words(
    """layer_norm group_norm cosine_similarity cdist dist pdist renorm softplus softmin normalize
    grid_sample bilinear binary_cross_entropy binary_cross_entropy_with_logits cross_entropy
    mse_loss l1_loss smooth_l1_loss huber_loss nll_loss kl_div ctc_loss cosine_embedding_loss
    hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss
    poisson_nll_loss soft_margin_loss triplet_margin_loss quantile nanquantile stft trace inverse
    pinverse cholesky avg_pool3d max_pool3d"""
)
#: Creations that take the default dtype where none is given, whatever the arguments have.
_CREATES = words("empty zeros ones full rand randn normal linspace logspace eye")


def _parts(piece: Piece) -> Iterator[cst.CSTNode]:
    """All nodes of a piece, and of the file's functions that it calls."""
    site = piece.level.site
    nodes: list[cst.CSTNode] = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    for top in (*nodes, *(function.body for function in called(site, nodes))):
        yield from walk(top)


def _last_name(node: cst.Call) -> str:
    return code(node.func).rpartition(".")[2]


def casts_up(piece: Piece) -> bool:
    """Whether the piece calls what autocast computes in float32, which an operator does not see."""
    return any(isinstance(it, cst.Call) and _last_name(it) in _IN_FLOAT32 for it in _parts(piece))


def of_one_dtype(piece: Piece, fake: Fake) -> str:
    """The parameter whose dtype a result has only while it is that of a new tensor, too.

    ``if torch.rand(()) < p: x = x * torch.rand(3)`` gives float32 for a half in some calls.
    """
    site = piece.level.site
    creates = any(
        isinstance(node, cst.Call)
        and _last_name(node) in _CREATES
        and (resolve(site.module, node.func) or "").startswith("torch.")
        and not any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in node.args)
        for node in _parts(piece)
    )
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    floats = any(leaf.kind == "tensor" and leaf.dtype in _FLOATS for leaf in leaves)
    if not creates or not floats or not re.search(r"\.new_empty\(|_like\(", fake.text):
        return ""  # the fake takes no argument's dtype
    if "dtype=" in fake.text:
        return ""
    given = [
        p
        for p in piece.inputs.parameters
        if p.annotation == "torch.Tensor" and p.fact.dtype == "torch.float32"
    ]
    named = [p.name for p in given if is_place(p.given)]
    if given and not named:
        raise Refused("a new tensor in it has a dtype of its own")
    return named[0] if named else ""


def of_given_dtypes(piece: Piece, fake: Fake) -> tuple[str, ...]:
    """The parameters of float32 of which a result may have the dtype, where the fake says float32.

    ``if not losses: return torch.tensor(0.0)`` gives it whatever comes in, and all else follows.
    """
    if not re.search(r"dtype=\w+\.float32\b", fake.text):
        return ()
    given = [
        p
        for p in piece.inputs.parameters
        if p.annotation == "torch.Tensor" and p.fact.dtype == "torch.float32"
    ]
    return tuple(p.name for p in given) if all(is_place(p.given) for p in given) else ()


def is_place(text: str) -> bool:
    """Whether what is given stands in a name or an attribute, and is not computed where it is."""
    return re.fullmatch(r"[A-Za-z_][\w.]*", text) is not None


def backward_text(
    name: str,
    plain: str,
    piece: Piece,
    gradients: tuple[str, ...],
    torch: str,
    draws: Draws | None = None,
) -> str:
    """The lines that define a second operator, for the backward, and register it."""
    parameters = piece.inputs.parameters
    names = [p.name for p in parameters]
    taken = [*names, *([draws.name] if draws is not None else [])]
    grads = _grads(taken, len([leaf for result in piece.results for leaf in result.leaves()]))
    state = [draws.name] if draws is not None else []
    given = [f"{grad}: {torch}.Tensor" for grad in [*grads, *state]]
    given += [f"{p.name}: {re.sub('^torch', torch, p.annotation)}" for p in parameters]
    tensors = [p.name for p in parameters if p.is_tensor]
    others = [n for n in names if n not in tensors]
    back = f"{name}_backward"
    kind = f"{torch}.Tensor"
    outs = grads[0] if len(grads) == 1 else f"({', '.join(grads)})"
    layout = f"memory_format={torch}.contiguous_format"
    made = [f"    return {torch}.empty_like({gradients[0]}, {layout})"]
    pull = fresh("pull", names)
    result = f"{pull}({outs})[0].clone({layout})"
    if len(gradients) > 1:
        kind = f"tuple[{', '.join([kind] * len(gradients))}]"
        like = [f"        {torch}.empty_like({n}, {layout})," for n in gradients]
        made = ["    return (", *like, "    )"]
        result = f"tuple(part.clone({layout}) for part in {pull}({outs}))"
    head = [f"def {back}({', '.join(given)}) -> {kind}:"]
    if len(head[0]) > _WIDTH:
        head = [f"def {back}(", *(f"    {item}," for item in given), f") -> {kind}:"]
    run = [
        f"_, {pull} = {torch}.func.vjp({_call(plain, names, gradients)}, {', '.join(gradients)})"
    ]
    if draws is not None:
        run = draws.again(torch, run)
    saved = [*tensors, *state]
    lines = [
        f"# The backward runs `{plain}` once more, and follows it.",
        f'@{torch}.library.custom_op("SPACE::{back}", mutates_args=())',
        *head,
        *(f"    {line}" for line in run),
        f"    return {result}",
        "",
        "",
        f"@{back}.register_fake",
        f"def _({', '.join([*grads, *state, *names])}):",
        *made,
        "",
        "",
        f"def {name}_keep(ctx, inputs, output):",
        f"    {_several(names)} = inputs",
        f"    ctx.save_for_backward({', '.join([*tensors, *(['output[-1]'] if state else [])])})",
        *(["    ctx.mark_non_differentiable(output[-1])"] if state else []),
        *(f"    ctx.{n} = {n}" for n in others),
        "",
        "",
        f"def {name}_pull(ctx, {', '.join([*grads, *(['_'] if state else [])])}):",
        f"    {_several(saved)} = ctx.saved_tensors",
        *_asked(names, [p.name for p in parameters if p.annotation == "torch.Tensor"], gradients),
        *_returned(back, [*grads, *state], names, others, gradients),
        "",
        "",
        f"{name}.register_autograd({name}_pull, setup_context={name}_keep)",
        "",
    ]
    return "\n".join(lines)


def _several(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _grads(names: Sequence[str], count: int) -> list[str]:
    base = "grad"
    while any(name.startswith(base) for name in names):
        base += "_out"
    return [base] if count == 1 else [f"{base}_{number}" for number in range(count)]


def _call(plain: str, names: list[str], gradients: tuple[str, ...]) -> str:
    """The function of the differentiable parameters alone."""
    if tuple(names) == gradients:
        return plain
    return f"lambda {', '.join(gradients)}: {plain}({', '.join(names)})"


def _asked(names: Sequence[str], tensors: Sequence[str], gradients: tuple[str, ...]) -> list[str]:
    """An error where a gradient is asked of what was no float in the run: it would be lost."""
    places = [n for n, name in enumerate(names) if name in tensors and name not in gradients]
    if not places:
        return []
    asked = " or ".join(f"ctx.needs_input_grad[{n}]" for n in places)
    return [
        f"    if {asked}:",
        f'        raise NotImplementedError("no gradient for {_or([names[n] for n in places])}")',
    ]


def _or(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _returned(
    back: str,
    grads: Sequence[str],
    names: Sequence[str],
    others: Sequence[str],
    gradients: tuple[str, ...],
) -> list[str]:
    given = [f"ctx.{name}" if name in others else name for name in names]
    call = f"{back}({', '.join([*grads, *given])})"
    if tuple(names) == gradients:
        return [f"    return {call}"]
    if len(gradients) == 1:
        results = [call if name in gradients else "None" for name in names]
        return [f"    return {', '.join(results)}"]
    targets = [f"of_{name}" for name in gradients]
    results = [f"of_{name}" if name in gradients else "None" for name in names]
    return [f"    {', '.join(targets)} = {call}", f"    return {', '.join(results)}"]

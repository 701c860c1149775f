"""Python that a graph cannot hold, as an operator that a graph calls."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.clocks import asks_clock
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.purity import harmless_calls
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import OTHER_SIZES, Advice, Codemod, Edit, Rewrite, Site
from gbfix.rewriting.handlers import goes_on_after, who_handles
from gbfix.rewriting.settings import NO_SCRIPT, set_options
from gbfix.schema import Fact, Safety, Told

from ..control_flow.refusal import Refusal
from ..control_flow.surroundings import check_later_changes
from ..control_flow.values import Share, Values
from ..side_effects.effect_operator import operator_notes
from ..wrap.operator_text import runs_beside_operator
from .applied import Applied, applied
from .copied import copied, is_bound_first
from .data import sized_names
from .earlier import changed_before, is_caught
from .effects_in import Activity, acts
from .fakes import (
    Fake,
    fake_of,
    gives_sizes_only,
    own_text,
    read_by_python,
    written,
)
from .gradients import (
    Draws,
    casts_up,
    differentiable,
    has_products,
    is_place,
    of_given_dtypes,
    of_one_dtype,
)
from .inputs import Parameter, Refused, local_names
from .memory import written_by_functions
from .mixed_numbers import may_be_fraction, mixes_numbers
from .owner import changed_attributes
from .pieces import Piece, levels, pieces, switches_gradients_off
from .reached import called
from .results import Carries, Result
from .shared import sharing_results
from .sizes import methods_named
from .text import Operator, name_for, torch_alias, write
from .wrap_cases import EXAMPLES, NEAR_MISSES

_FLOATS = words(
    "torch.float32 torch.float64 torch.float16 torch.bfloat16 torch.complex64 torch.complex128"
)

#: What a call passes to an operator that takes no other tensor.
_ANCHOR = "torch.empty(0)"


_CASTS = re.compile(r"dtype|\.(?:float|double|half|to|type|type_as|bfloat16)\(|tensor\(")


_NO_NUMPY = re.compile(r"\btrace_numpy\s*=\s*False\b")


class WrapPiece(Codemod):
    """*What it does.*  Puts Python that a graph cannot hold into a custom operator.

    ```python
    @torch.library.custom_op("net::cross_op", mutates_args=())
    def cross_op(a: torch.Tensor, b: torch.Tensor, buckets: int) -> torch.Tensor:
        ids = []
        for i, j in zip(a.tolist(), b.tolist()):
            ids.append(zlib.crc32(f"{i}_{j}".encode()) % buckets)
        return torch.tensor(ids, dtype=torch.long)


    cross_op.register_fake(lambda a, b, buckets: torch.empty((a.shape[0],), dtype=torch.int64))
    ```
    The piece is the smallest one, from the break outward through the functions that led to it, that
    takes tensors, numbers, strings and attributes, and gives tensors or lists of them.  Arrays and
    numbers are carried as tensors and read back.  What the fake says of sizes is told from the
    piece's text, or else found by running the operator with inputs of other sizes.  An object whose
    methods the piece calls, and which these only read, is found by its identity.  Methods that read
    and change tensors of a module run on an object of its class that holds the operator's arguments
    and nothing else.

    *When it applies.*  The break lies in Python that reads tensors' values or calls what the
    compiler cannot follow.  Where a gradient goes through it, the code must compute and nothing
    else: a second operator runs it again in the backward, with ``torch.func.vjp``.  A call of
    ``apply`` of the file's own ``torch.autograd.Function`` keeps its class's backward: the second
    operator runs the forward of the class for what that keeps, and then its ``backward``.

    *Fix safety.*  Safe where the text tells every size of the results, or runs with other sizes
    agree on it; unsafe where a size or a dtype is known from the recorded run only, and where
    compiled code elsewhere in the project handles an error that the piece says that it raises.
    Where it multiplies matrices, the code runs as before under autocast, which an operator would
    escape.  Where a tensor that is given is changed, and an input requires a gradient, the code
    runs as before: autograd does not see what an operator writes.

    *Refuses.*  Pieces inside a ``try`` of compiled code, which would miss what they raise; pieces
    through which a gradient goes and that draw numbers, look at autograd or read tensors that are
    not passed; pieces that set attributes or global names, that leave a loop or define functions,
    and results that are texts, objects or lists of others than tensors, or of as many as the data
    decide.  Results that share memory with each other, or with an argument, where one of them is
    changed afterwards.
    """

    name = "wrap-piece"
    codes = (
        "GB0007", "GB0008", "GB0033", "GB0036", "GB0059", "GB0068", "GB0087", "GB0088", "GB0101",
        "GB0109", "GB0124", "GB0147", "GB0149", "GB0156", "GB0170", "GB0189", "GB0290", "GB0291",
        "GB0292", "GB0293", "GB0294", "GB0298", "GB0025", "GB0442", "GB7000", "GB8335", "GB4297",
        "GB0098", "GB0119", "GB0123",
        # Python, C and numpy of which Dynamo has no model.
        "GB0005", "GB0009", "GB0037", "GB0043", "GB0086", "GB0105", "GB0142", "GB0146", "GB0148",
        "GB0157", "GB0158", "GB0160", "GB0177", "GB0178", "GB0184", "GB0185", "GB0193", "GB0207",
        "GB0208", "GB0231", "GB0246", "GB0250", "GB0299", "GB0300", "GB0569", "GB0808", "GB0811",
        "GB1220", "GB2861", "GB3006", "GB3775", "GB4347", "GB4411", "GB4880", "GB5904", "GB6012",
        "GB6025", "GB7286", "GB7906",
        "data-dependent-guard", "data-dependent-specialization", "data-dependent-other",
        "user-error", "internal-error", "torch-runtime-error", "unknown",
    )  # fmt: skip

    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        reasons: list[str] = []
        seen: set[str] = set()
        count = 0
        if runs_beside_operator(site):
            return
        for gradients in (False, True):
            if gradients and count:
                break
            for piece in _by_level(site) if not gradients else pieces(site, Carries.GRADIENTS):
                if isinstance(piece, Refused):
                    reasons.append(str(piece))
                    continue
                if count >= _MOST:
                    continue
                for guesses in (True, False):
                    try:
                        rewrite = _rewrite(piece, count, guesses=guesses)
                    except Refused as why:
                        reasons.append(str(why))
                        break
                    key = "\n".join(rewrite.edits.values())
                    if key not in seen:
                        yield rewrite
                        count += 1
                    seen.add(key)
                    if rewrite.safety is Safety.SAFE:
                        for way in (Way.DTYPES, Way.GRADIENTS):
                            with contextlib.suppress(Refused):
                                yield _rewrite(piece, count, guesses=guesses, way=way)
                        break  # nothing was guessed
        if not count and asks_clock(site.text(site.node).strip()):
            yield Advice(_CLOCK)
        elif not count and reasons:
            yield Advice(
                f"gbfix looked for a piece to put into a custom operator and found none: "
                f"{reasons[-1]}."
            )


_MOST = 6


class Way(enum.Enum):
    """Whether the operator is called always, or the plain code runs for other inputs than those
    that were seen: of other dtypes, or with gradients.
    """

    ALWAYS = enum.auto()
    DTYPES = enum.auto()
    GRADIENTS = enum.auto()


def _by_level(site: Site) -> list[Piece | Refused]:
    """What gives tensors, numbers as well, or lists of tensors, the innermost functions first.

    Before these comes what takes a block with it that switches gradients off: nothing in a graph
    that an error leaves switches them on again.
    """
    kinds = (Carries.TENSORS, Carries.NUMBERS, Carries.LISTS)
    both = [piece for carries in kinds for piece in pieces(site, carries)]
    order = [level.function for level in levels(site)]
    refused: list[Piece | Refused] = [piece for piece in both if isinstance(piece, Refused)]
    found = [piece for piece in both if isinstance(piece, Piece)]

    def rank(piece: Piece) -> tuple[bool, int]:
        only = piece.nodes[0]
        takes = isinstance(only, cst.With) and switches_gradients_off(only)
        return not takes, order.index(piece.level.function)

    return [*refused, *sorted(found, key=rank)]


_FOUND = "the operator looks its object up by `id`, so each new object causes a recompile"
_SETS_FILTERS = re.compile(r"\b(?:filterwarnings|simplefilter|resetwarnings)\(")
_MINDS = "for inputs of other dtypes than in the run, the code runs as before, outside of it"
_CLOCK = (
    "What a clock tells between parts of one graph means little: the compiler joins and moves them."
    " Take the times around the call of the compiled function, or let `torch.profiler` tell what"
    " each operation costs."
)


def _is_tensor_code(piece: Piece) -> bool:
    """Whether the piece is no more than calls of tensors, of torch and conversions to numbers."""
    tensors = {parameter.name for parameter in piece.inputs.parameters if parameter.is_tensor}
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    inside = [node for top in nodes for node in walk(top)]
    if any(isinstance(node, cst.For | cst.While | cst.If | cst.CompFor) for node in inside):
        return False
    calls = [node.func for node in inside if isinstance(node, cst.Call)]
    return all(
        code(func) in ("int", "float", "bool")
        if isinstance(func, cst.Name)
        else code(func).partition(".")[0].partition("[")[0] in tensors | {"torch"}
        for func in calls
    )


def _is_plain(piece: Piece) -> bool:
    """The same, where calls may also be of what is computed on the way: `(a - b).square()`."""
    site = piece.level.site
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    inside = [node for top in nodes for node in walk(top)]
    if any(isinstance(node, cst.For | cst.While | cst.If | cst.CompFor) for node in inside):
        return False

    def is_tensor(node: cst.BaseExpression) -> bool:
        fact = site.fact(node)
        return fact is not None and fact.is_tensor

    return all(
        (resolve(site.module, node.func) or "").startswith("torch.")
        or (isinstance(node.func, cst.Attribute) and is_tensor(node.func.value))
        for node in inside
        if isinstance(node, cst.Call)
    )


def _without_numpy(site: Site) -> bool:
    """Whether the program tells Dynamo to leave numpy alone (``trace_numpy = False``)."""
    return any(_NO_NUMPY.search(text) for text in (site.source, *site.sources.values()))


def _check_break(piece: Piece) -> None:
    """Refuse where what breaks is called before the operator, for one of its arguments."""
    site = piece.level.site
    frames = [frame for frame in site.graph_break.frames if frame.in_project]
    if not frames or frames[-1] == site.frame:
        return  # it breaks at a value, which the operator is given
    if any(it in piece.inputs.replacements for it in (site.node, *site.ancestors(site.node))):
        raise Refused("what breaks runs before it, for one of its arguments")


def _check_globals(piece: Piece) -> None:
    """Refuse to read inside what the region changes outside: Dynamo makes changes of Python's
    objects once the graph has run, and the operator would read the value of the call before.
    """
    site = piece.level.site
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    kept = {
        name
        for name, bound in module_bindings(site.module).items()
        if not any(isinstance(it, cst.FunctionDef | cst.Import | cst.ImportFrom) for it in bound)
    }
    read = {name for node in nodes for name in activity(node).reads} - _locals(piece)
    for function in called(site, nodes):
        read |= activity(function.body).reads - function_scope(function).locals
    read &= kept
    if not read:
        return
    around = [level.function for level in levels(site) if level.site.path == site.path]
    for function in (*around, *called(site, [it.body for it in around])):
        does = activity(function.body)
        own = function_scope(function).locals
        changed = ((does.mutates - own) | does.global_writes) & read
        if changed:
            raise Refused(f"it reads `{min(changed)}`, which the compiled function changes")


def _check_owner(piece: Piece) -> None:
    """Refuse to read of an object inside what the region sets on it: that comes later."""
    owner = piece.inputs.owner
    if owner is None:
        return
    site = piece.level.site
    around = [level.function for level in levels(site) if level.site.path == site.path]
    # What an earlier patch moved into an operator is changed there.
    operators = [
        it
        for it in site.module.body
        if isinstance(it, cst.FunctionDef) and "custom_op(" in "".join(map(code, it.decorators))
    ]
    for function in (*around, *operators, *called(site, [it.body for it in around])):
        for name in sorted(owner.reads & changed_attributes(function.body)):
            raise Refused(f"it reads `self.{name}`, which the compiled function changes")


def _check_changes(piece: Piece) -> None:
    """Refuse to change inside what else the region reads: its graph has that from before.

    Attributes count that functions of the file set, which the piece calls.
    """
    site = piece.level.site
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    inner = called(site, nodes)
    changed = {name for function in inner for name in changed_attributes(function.body)}
    # Tensors that are handed to it are changed in the graph as well.
    changed -= {part for text in piece.inputs.written for part in text.split(".")}
    if not changed:
        return
    around = [level.function for level in levels(site) if level.site.path == site.path]
    # What calls a module calls its `forward`.
    others = [*called(site, [it.body for it in around]), *methods_named(site, "forward")]
    for function in (*around, *others):
        if any(function is it for it in inner):
            continue
        for name in sorted(changed & _attributes_read(function.body, nodes)):
            raise Refused(f"it changes `{name}`, which the compiled function reads besides")


def _attributes_read(node: cst.CSTNode, without: Collection[cst.CSTNode]) -> set[str]:
    """The names of attributes that code reads."""
    if any(node is it for it in without):
        return set()
    if isinstance(node, cst.AssignTarget | cst.Del) and isinstance(node.target, cst.Attribute):
        node = node.target.value
    found = {node.attr.value} if isinstance(node, cst.Attribute) else set()
    return found.union(*(_attributes_read(child, without) for child in node.children))


def _check_filters(piece: Piece) -> None:
    """Refuse to set filters of warnings when the block around, which puts them back, is over."""
    if not _SETS_FILTERS.search(written(piece)):
        return
    around = [*piece.level.site.ancestors(piece.nodes[0])]
    for view in piece.level.site.callers():
        around += view.ancestors(view.node)
    for outer in around:
        if isinstance(outer, cst.With) and any("catch_warnings" in code(it) for it in outer.items):
            raise Refused("it would set filters of warnings after they have been put back")


def _leaves_nothing(piece: Piece) -> bool:
    """Whether layers run in the piece, and all that its region computes with tensors does."""
    site = piece.level.site
    layers = [
        node
        for node in _inside(piece)
        if isinstance(node, cst.Call)
        and (fact := site.fact(node.func)) is not None
        and fact.kind == "module"
    ]
    return bool(layers) and not _leaves_something(piece)


def _inside(piece: Piece) -> set[cst.CSTNode]:
    """What runs in the operator."""
    passed = set(piece.inputs.replacements)
    inside: set[cst.CSTNode] = set()
    stack: list[cst.CSTNode] = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    while stack:
        node = stack.pop()
        if node not in passed:
            inside.add(node)
            stack += node.children
    return inside


def _leaves_something(piece: Piece) -> bool:
    """Whether the region computes with tensors besides the piece, as far as its text tells."""
    site = piece.level.site
    frames = [frame for frame in site.graph_break.frames if frame.in_project]
    if frames and (frames[0].path, frames[0].line) != (site.frame.path, site.frame.line):
        return True  # the region begins further out, and may do more there
    inside = _inside(piece)
    for node in walk(piece.level.function.body):
        if node not in inside and isinstance(node, cst.Call | cst.BinaryOperation):
            fact = site.fact(node)
            if fact is not None and fact.is_tensor:
                return True
    return False


def _rewrite(
    piece: Piece,
    number: int,
    *,
    guesses: bool = True,
    way: Way = Way.ALWAYS,
    told: Told | None = None,
) -> Rewrite:
    """``way`` says for what the plain code runs.

    ``told`` are the sizes of the results, where runs of the operator have told them.
    """
    site = piece.level.site
    parameters = piece.inputs.parameters
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    plain = bool(leaves) and _is_tensor_code(piece)
    protocol = piece.level.function.name.value.startswith("__")
    if plain and (protocol or any(leaf.is_number for leaf in leaves)):
        # Of ``__getitem__``, Dynamo asks by tracing where an iteration ends.
        raise Refused("all that it does is tensor code, which needs no operator")
    if any(leaf.kind == "ndarray" for leaf in leaves) and _without_numpy(site):
        raise Refused("it gives an array, and the program lets Dynamo trace no numpy")
    _check_break(piece)
    _check_globals(piece)
    _check_owner(piece)
    _check_changes(piece)
    _check_filters(piece)
    if _leaves_nothing(piece):
        raise Refused("the region's layers run in it, and nothing would be left to compile")
    edit = site.edit()
    torch = torch_alias(site, edit)
    changed = _changed(piece)
    if changed and any(leaf.kind == "list" for leaf in leaves):
        raise Refused("torch functionalizes no operator that changes tensors and gives lists")
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    inside = {*_locals(piece), *(p.name for p in parameters)}
    does = acts(site, nodes, inside)
    ordered = bool(does)
    # What only raises would be dropped, were it not for its place among the effects.
    kinds = _raised(site, nodes)
    caught = _handlers(piece, kinds)
    raises = not (leaves or changed or ordered) and _only_raises(site, kinds)
    ordered = ordered or raises
    untied = not any(p.is_tensor for p in parameters)
    if ordered and untied and acts(site, nodes, inside, beside_draws=True) is Activity.NOTHING:
        # Inductor may put an operator without tensors anywhere, also one with ordered effects.
        # One that only draws may come late or early, as long as all draws keep their order.
        anchor = fresh("anchor", inside | names_in(site.module))
        empty = Fact("tensor", "torch.Tensor", (0,), "torch.float32", "cpu")
        parameters.insert(0, Parameter(anchor, "torch.Tensor", _ANCHOR, anchor, empty))
    _check_numbers(piece, leaves)
    draws = does is Activity.DRAWS
    gradients, its_own = _gradients(
        piece, plain=not (changed or (ordered and not draws)), draws=draws
    )
    # Torch's own arithmetic gives the dtype that it is given, whatever Python reads on the way.
    plainly = gradients and its_own is None and not _CASTS.search(written(piece))
    follow = True if plainly else None
    fake = fake_of(piece, torch, follow=follow, guesses=guesses, told=told)
    if plain and fake.dynamic:
        raise Refused("all that it does is tensor code, whose sizes a graph holds as well")
    made_of_numbers = bool(leaves) and not any(leaf.is_number for leaf in leaves)
    # Inductor may put an operator without tensors anywhere: it must depend on its numbers alone.
    if not any(p.is_tensor for p in parameters) and (
        ordered or fake.dynamic or not made_of_numbers
    ):
        raise Refused("no tensor goes into it")
    detached = frozenset(
        p.name
        for p in parameters
        if not gradients and p.given != _ANCHOR and _is_detached(piece, p)
    )
    cut = _cut_by_some(piece, detached, gradients) if way is Way.GRADIENTS else ()
    # What is given back as it came is a copy: nobody may change the one through the other.
    passed = {result.name for result in piece.results} & {p.name for p in parameters}
    passed |= sharing_results(piece)
    if passed:
        try:
            check_later_changes(site, piece.nodes[-1], Values(site), passed)
        except Refusal as why:
            raise Refused(str(why)) from why
    operator = Operator(
        piece,
        name_for(piece),
        torch,
        fake,
        ordered,
        changed,
        detached - {*cut},
        gradients,
        _draws_of(piece) if gradients and draws else None,
        has_products(piece) or (bool(gradients) and its_own is None and casts_up(piece)),
        _minded(piece, fake, every=way is Way.DTYPES) if its_own is None else (),
        its_own,
        (*_without(piece, changed, detached), *cut),
        copied=copied(piece),
    )
    if way is Way.DTYPES and not (operator.minds_dtype and _leaves_something(piece)):
        raise Refused("its results have a dtype of their own")
    write(operator, edit)
    notes = _notes(operator, told, way)
    doubts = [*_doubts(piece, fake), *caught]
    notes += doubts
    safety = Safety.UNSAFE if doubts else Safety.SAFE
    options, also = _options(site, edit, leaves, dynamic=fake.dynamic)
    what = {"capture_scalar_outputs": "numbers", "capture_dynamic_output_shape_ops": "sizes"}
    if options:
        read = " and ".join(what[option] for option in options)
        notes.append(f"{read} that come out of tensors stay in the graph, by a setting of Dynamo")
    # A graph that holds what is smaller or larger in each call is worse than one that does not.
    sized = {p.given for p in parameters} & sized_names(site, piece.level.function)
    rank = 57 if gradients else 52 + 4 * bool(options) + 12 * bool(sized) + 3 * fake.dynamic
    if has_products(piece):  # much that would not be compiled any more
        rank = max(rank, 57 if gradients else 81)
    rewrite = edit.rewrite(
        f"put `{operator.name}` into a custom operator",
        # Tensor code that a graph can hold by an option is better there, and so is a check.
        rank=(81 if plain or raises or (fake.dynamic and _is_plain(piece)) else rank)
        + number
        + (way is not Way.ALWAYS),
        safety=safety,
        notes=notes,
        also=also[:1],
        assumes=_assumes(site, piece, kinds, changes=bool(changed)),
    )
    rewrite = dataclasses.replace(rewrite, waits=way is Way.GRADIENTS)
    runs = not changed and does in (Activity.NOTHING, Activity.DRAWS)
    asked = fake.guessed or fake.likely or fake.supposes
    if told is None and runs and (asked or fake.mixes):
        settled = _to_be_settled(rewrite, operator, number, way)
        if not asked:
            settled = dataclasses.replace(settled, asks="dtypes")
        return settled
    return rewrite


def _to_be_settled(rewrite: Rewrite, operator: Operator, number: int, way: Way) -> Rewrite:
    """The same, to be made anew once runs of the operator have told the sizes of its results."""

    def settle(found: Mapping[str, Told]) -> Rewrite | None:
        sizes = found.get(operator.name)
        if sizes is None:
            return None
        try:
            better = _rewrite(operator.piece, number, way=way, told=sizes)
        except Refused:
            if rewrite.safety is Safety.UNSAFE:
                return None
            # It passed with sizes that other runs contradict, and what they say has no place.
            notes = (OTHER_SIZES, *rewrite.notes)
            return dataclasses.replace(rewrite, safety=Safety.UNSAFE, notes=notes, settle=None)
        known = better.edits == rewrite.edits and better.safety is rewrite.safety
        return None if known else better

    return dataclasses.replace(rewrite, settle=settle)


def _notes(operator: Operator, told: Told | None, way: Way) -> list[str]:
    """What a user should know of the operator, whether it is safe or not."""
    notes = [f"`{operator.name}` runs as Python; a compiled graph calls it, and is not cut by it"]
    if operator.gradients:
        notes.append("its backward runs the same code again; gradients of gradients are an error")
    notes += [_MINDS] if way is Way.DTYPES else []
    notes += _held_notes(operator.piece, operator)
    notes += [_FOUND] if operator.piece.inputs.owner is not None else []
    if operator.ordered:
        notes += operator_notes(operator.piece.level.site)[1:]
    for parameter in operator.piece.inputs.parameters:
        if parameter.annotation == "list[int]" and "self." in parameter.given:
            notes.append(f"`{parameter.given}` holds whole numbers: with a fraction it is an error")
        if parameter.annotation == "list[float]" and "self." in parameter.given:
            notes.append(f"`{parameter.given}` holds Python's numbers: with numpy's it is an error")
    if told is not None and told.real:
        runs = f"{told.runs} runs with inputs of other sizes"
        notes.append(f"the sizes of its result agree in {runs}")
    return notes


def _minded(piece: Piece, fake: Fake, *, every: bool) -> tuple[str, ...]:
    """The parameters whose dtypes have to be as they were; ``every``: of all that results have."""
    one = of_one_dtype(piece, fake)
    return of_given_dtypes(piece, fake) if every else (one,) if one else ()


def _cut_by_some(
    piece: Piece, detached: frozenset[str], gradients: tuple[str, ...]
) -> tuple[str, ...]:
    """Arguments that the call would cut off from their gradients as some of the piece's code does.

    They had none in the run; with one, the plain code knows what is cut.
    """
    found = tuple(
        p.name
        for p in piece.inputs.parameters
        if p.name in detached and p.fact.requires_grad is False and is_place(p.given)
    )
    if not found or gradients:
        raise Refused("no gradient is cut")
    return found


def _without(piece: Piece, changed: Sequence[str], detached: frozenset[str]) -> tuple[str, ...]:
    """The tensors that go in without a gradient, where the piece changes one that is given:
    autograd does not see what an operator writes.
    """
    tensors = [
        p
        for p in piece.inputs.parameters
        if p.annotation == "torch.Tensor" and p.fact.dtype in _FLOATS
    ]
    own = any(p.name in changed and not p.given.startswith("self.") for p in tensors)
    if not own or _without_gradients(piece):
        return ()
    text = own_text(piece)
    found = [
        p
        for p in tensors
        if p.name not in detached
        and is_place(p.given)
        and not gives_sizes_only(p, text, dtype=True)
    ]
    if any(p.fact.requires_grad is not False for p in found) and not _was_without_gradients(
        piece, changed
    ):
        raise Refused("it changes a tensor, and in the run a gradient goes through it")
    return tuple(p.name for p in found)


def _was_without_gradients(piece: Piece, changed: Sequence[str]) -> bool:
    """Whether a caller has switched gradients off: nothing that comes out requires one."""
    site, last = piece.level.site, piece.nodes[-1]
    given = {p.name: p.given for p in piece.inputs.parameters}
    facts = [leaf.fact for result in piece.results for leaf in result.leaves()]
    if not piece.is_expression:
        block = list(site.block_of(site.statement_of(last)))
        below = block[block.index(last) + 1 :] if last in block else []
        after = site.locals_before(below[0]) if below else {}
        facts += [fact for name in changed if (fact := after.get(given.get(name, name)))]
    floats = [fact for fact in facts if fact.dtype in _FLOATS]
    return bool(floats) and not any(fact.requires_grad for fact in floats)


def _gradients(piece: Piece, *, plain: bool, draws: bool) -> tuple[tuple[str, ...], Applied | None]:
    """The parameters to which gradients go back, and the class whose own they are.

    ``plain`` says that it computes, and does nothing else but draw.
    """
    if any(leaf.fact.requires_grad for result in piece.results for leaf in result.leaves()):
        if not plain:
            raise Refused("a gradient goes through it, and it does more than compute")
        its_own = applied(piece)
        if its_own is not None:
            return tuple(its_own.gradients), its_own
        return differentiable(piece, draws=draws), None
    return (_one_day(piece, draws=draws) if plain else ()), None


def _one_day(piece: Piece, *, draws: bool) -> tuple[str, ...]:
    """The parameters through which gradients may go in other calls than those recorded.

    A region that differentiates something in the run may be given inputs that ask for gradients,
    and an operator without them says so by an error, which the original does not.
    """
    asks = any(
        fact is not None and fact.is_tensor and fact.requires_grad
        for level in levels(piece.level.site)
        for node in walk(level.function.body)
        if isinstance(node, cst.Call | cst.BinaryOperation)
        for fact in (level.site.fact(node),)
    )
    if not asks or _without_gradients(piece):
        return ()
    tensors = [p for p in piece.inputs.parameters if p.annotation == "torch.Tensor"]
    text = own_text(piece)
    computed = [p for p in tensors if not gives_sizes_only(p, text, dtype=True)]
    if not any(p.fact.dtype in _FLOATS and _may_differentiate(piece, p) for p in computed):
        return ()
    if any(_is_detached(piece, p) for p in tensors):
        return ()  # said by its call, as before
    try:
        return differentiable(piece, draws=draws)
    except Refused:
        return ()


def _draws_of(piece: Piece) -> Draws:
    taken = {p.name for p in piece.inputs.parameters}
    tensors = [p.name for p in piece.inputs.parameters if p.annotation == "torch.Tensor"]
    return Draws(fresh("draws", taken), tensors[0])


def _only_raises(site: Site, kinds: Sequence[str]) -> bool:
    """True if the text of a piece without results says that it raises; else raises `Refused`."""
    if not kinds:
        raise Refused("nothing shows what it does")
    lost = changed_before(site)
    if lost:
        raise Refused(f"where it raises, the change of `{lost}` before it would be lost")
    return True


def _check_numbers(piece: Piece, leaves: Sequence[Result]) -> None:
    """Refuse a number that is a text or None in calls that the run has not shown."""
    names = {leaf.name for leaf in leaves if leaf.is_number and leaf.name}
    for node in (part for top in piece.nodes for part in walk(top)):
        if not isinstance(node, cst.Assign):
            continue
        others = (
            isinstance(node.value, cst.BaseString | cst.List | cst.Dict | cst.Set)
            or code(node.value) == "None"
        )
        for target in node.targets if others else ():
            if isinstance(target.target, cst.Name) and target.target.value in names:
                raise Refused(f"`{target.target.value}` is no number in other calls")


def _assumes(site: Site, piece: Piece, kinds: Sequence[str], *, changes: bool) -> list[str]:
    """What holds of it by its text; ``kinds`` are the exceptions that it says that it raises.

    ``changes``: it changes tensors, and Python may raise what no text names (``round(nan)``).
    """
    found = []
    if _gives_fractions(piece):
        # The code is moved as it is: whichever side is taken, a fraction holds what it gives.
        found.append("same-questions")
    kinds = kinds or ([""] if changes else [])
    if kinds and not goes_on_after(site, kinds):
        # Nobody is there to see what an error leaves behind: that is told, and no more.
        found.append("unset-at-errors")
    return found


#: Calls that leave the program, by an exception as well.
_EXITS = ("sys.exit", "builtins.exit", "builtins.quit", "exit", "quit")


def _raised(site: Site, nodes: Sequence[cst.CSTNode]) -> list[str]:
    """The classes of what a piece says that it raises; "" for one that its text does not name."""
    found = []
    for top in (*nodes, *(function.body for function in called(site, nodes))):
        for node in walk(top):
            if isinstance(node, cst.Assert):
                found.append("AssertionError")
            elif isinstance(node, cst.Raise):
                kind = node.exc.func if isinstance(node.exc, cst.Call) else node.exc
                found.append("" if kind is None else code(kind))
            elif isinstance(node, cst.Call) and resolve(site.module, node.func) in _EXITS:
                found.append("SystemExit")
    return found


def _handlers(piece: Piece, kinds: Sequence[str]) -> list[str]:
    """Who might catch what it raises, were it not for the graph; refuses where one does."""
    site = piece.level.site
    if is_caught(site, piece.nodes[0]):
        raise Refused("what it raises is caught in compiled code, and an operator raises later")
    if not kinds:
        return []  # what Python raises by itself: of handlers elsewhere, too many would be meant
    on_the_way, notes = who_handles(site, piece.level.function, piece.nodes[0], kinds)
    if any(not it.cleans_up for it in on_the_way):
        raise Refused("what it raises is caught in compiled code, and an operator raises later")
    return notes


def _gives_fractions(piece: Piece) -> bool:
    """Whether all results are fractions: in a whole number, one of another side would be cut."""
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    return bool(leaves) and all(leaf.kind == "float" for leaf in leaves)


def _doubts(piece: Piece, fake: Fake) -> list[str]:
    """What is known of the results from the recorded run only."""
    found = []
    if fake.guessed:
        found.append(
            f"only the recorded run shows that a size of its result is "
            f"{' and '.join(f'`{text}`' for text in fake.guessed)}"
        )
    if fake.supposes:
        found.append("only the recorded run shows that two of its results are of one size")
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    mixed = any(not leaf.is_number for leaf in leaves) and mixes_numbers(piece)
    if mixed or may_be_fraction(piece):
        found.append(
            "only the recorded run shows whether its numbers are whole: the data decide it"
        )
    if _draws_elsewhere(piece):
        found.append("other code of the region draws from `random`, too, and would draw first")
    return found


def _draws_elsewhere(piece: Piece) -> bool:
    """Whether the piece draws from `random`, and other code of what is compiled does so as well.

    In a graph Dynamo draws at the beginning of the call, and an operator where it stands: the two
    would get each other's numbers.
    """
    site = piece.level.site
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    parts = [*nodes, *(function.body for function in called(site, nodes))]
    inside = {id(it) for node in parts for it in walk(node)}
    if not any(_draws(site, it) for node in parts for it in walk(node)):
        return False
    others = [it for it in walk(site.module) if id(it) not in inside and _draws(site, it)]
    around = {site.function_of(node) for node in others}
    return any(function is not None and _was_recorded(site, function) for function in around)


def _draws(site: Site, node: cst.CSTNode) -> bool:
    """Whether a call draws from `random`."""
    return (
        isinstance(node, cst.Call)
        and (resolve(site.module, node.func) or "").startswith("random.")
        and not code(node.func).endswith(("seed", "getstate", "setstate", "Random"))
    )


def _was_recorded(site: Site, function: cst.FunctionDef) -> bool:
    """Whether a compiled region ran the function."""
    names = (node for node in walk(function.body) if isinstance(node, cst.Name | cst.Attribute))
    return any(site.fact(node) is not None for node in names)


def _held_notes(piece: Piece, operator: Operator) -> list[str]:
    """What autograd sees of a tensor that the operator changes: of one of the object, where the
    original changes it in some calls only or behind autograd's back, and of one that is given.
    """
    parameters = [p for p in piece.inputs.parameters if p.name in operator.changed]
    if operator.minds_gradients:
        why = "autograd does not see what an operator changes"
        if not parameters:
            why = "its call would cut them, and some of its code does not"
        return [
            "for inputs that require gradients, the code runs as before, outside of"
            f" `{operator.name}`: {why}"
        ]
    held = [p.given for p in parameters if p.given.startswith("self.")]
    parts = [part for node in piece.nodes for part in walk(node)]
    seldom = any(isinstance(part, cst.If | cst.Return) for part in parts)
    hidden = any(isinstance(p, cst.Attribute) and p.attr.value == "data" for p in parts)
    if not held or not (seldom or hidden):
        return []
    return [
        f"autograd takes every call of `{operator.name}` for an in-place change of `{held[0]}`: one"
        " backward pass over two calls fails if it needs the earlier value"
    ]


def _options(
    site: Site, edit: Edit, leaves: Sequence[Result], *, dynamic: bool
) -> tuple[list[str], list[Rewrite]]:
    """Settings that the patch needs, made in the edit or in a rewrite of another file."""
    options = []
    if any(leaf.is_number for leaf in leaves):
        options.append("capture_scalar_outputs")
    if dynamic:
        options.append("capture_dynamic_output_shape_ops")
    also = set_options(site, edit, options)
    if also is None:
        raise Refused(NO_SCRIPT)
    return options, also


def _changed(piece: Piece) -> tuple[str, ...]:
    """Arguments that the piece writes to."""
    site = piece.level.site
    does = activity(*piece.nodes, harmless=harmless_calls(site.fact))
    tensors = {p.name for p in piece.inputs.parameters if p.is_tensor}
    augmented = {it for it in does.augments & tensors if not is_bound_first(piece, it)}
    augmented -= set(copied(piece))
    names = (does.mutates - does.augments | augmented) - _own_from_the_start(piece)
    names |= written_by_functions(site, piece.nodes) & tensors
    places = piece.inputs.written
    found = tuple(
        p.name for p in piece.inputs.parameters if p.given in places or p.given == p.name in names
    )
    for parameter in piece.inputs.parameters:
        if parameter.name in found and parameter.fact.requires_grad:
            raise Refused(f"it changes `{parameter.name}`, which requires a gradient")
    return found


def _own_from_the_start(piece: Piece) -> frozenset[str]:
    """Names that are bound to new tensors alone, and before anything changes what they named."""
    values = Values(piece.level.site)
    changed: set[str] = set()
    found: set[str] = set()
    for node in piece.nodes:
        does = activity(node)
        found -= does.bound
        match node:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)]
            ) if name not in changed and values.share(value, frozenset()) is Share.FRESH:
                found.add(name)
        changed |= does.mutates
    return frozenset(found)


def _locals(piece: Piece) -> frozenset[str]:
    return local_names(piece.level.site, piece.level.function.body)


def _is_detached(piece: Piece, parameter: Parameter) -> bool:
    """Whether the call cuts the gradient of an argument: nothing comes back through the piece."""
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    if not any(leaf.dtype in _FLOATS for leaf in leaves):
        return False
    if parameter.annotation != "torch.Tensor" or parameter.fact.dtype not in _FLOATS:
        return False
    if parameter.given.endswith(".detach()") or parameter.given.startswith("torch.from_numpy("):
        return False
    if gives_sizes_only(parameter, own_text(piece), dtype=True):
        return not _without_gradients(piece)  # no gradient would go back to it
    if parameter.fact.requires_grad is False and _may_differentiate(piece, parameter):
        return False  # with a gradient one day, an operator without one says so by an error
    if parameter.name in _changed(piece) or _raises_with_gradients(piece, parameter):
        return False
    return not _without_gradients(piece)


def _may_differentiate(piece: Piece, parameter: Parameter) -> bool:
    """Whether gradients may go back through the piece: torch computes with the argument."""
    cuts = r"detach|no_grad|\.data\b|from_numpy|inference_mode"
    if parameter.name in read_by_python(piece) or re.search(cuts, written(piece)):
        return False
    return any(leaf.fact.requires_grad is not None for r in piece.results for leaf in r.leaves())


def _raises_with_gradients(piece: Piece, parameter: Parameter) -> bool:
    """Whether the piece's only reads are ``x.numpy()``: with a gradient, they raise, as before."""
    text = "\n".join(map(piece.level.site.text, piece.nodes))
    name = re.escape(parameter.given)
    reads = re.findall(rf"(?<![\w.]){name}\b(?!\s*=[^=])", text)
    arrays = re.findall(rf"(?<![\w.]){name}(?:\.cpu\(\)|\.contiguous\(\))*\.numpy\(\)", text)
    return bool(arrays) and len(reads) == len(arrays)


def _without_gradients(piece: Piece) -> bool:
    site = piece.level.site
    for outer in site.ancestors(piece.nodes[0]):
        heads = [code(item) for item in outer.items] if isinstance(outer, cst.With) else []
        if isinstance(outer, cst.FunctionDef):
            heads = [code(decorator) for decorator in outer.decorators]
        if any("no_grad" in head or "inference_mode" in head for head in heads):
            return True
        if isinstance(outer, cst.FunctionDef):
            return False
    return False

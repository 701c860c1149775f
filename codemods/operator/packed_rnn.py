"""A recurrent layer over packed sequences: packing, layer and padding as one operator."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import MUTATING_METHODS, activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.schema import Safety

from ..api.splice import Splice
from ..config.compiling import Compiling, compiling
from ..config.sizes import is_only_region
from ..data_dependent.flow import torch_name
from ..wrap.capture import Refused
from ..wrap.operator_text import namespace, operator_name
from .earlier import changed_before, is_caught
from .packed_cases import EXAMPLES, NEAR_MISSES
from .packed_text import EFFECT, TEXT

_RNN = "torch.nn.utils.rnn."
_LAYERS = frozenset(f"torch.nn.modules.rnn.{name}" for name in ("LSTM", "GRU", "RNN"))
_PACK = ("input", "lengths", "batch_first", "enforce_sorted")
_PAD = ("sequence", "batch_first", "padding_value", "total_length")
_LAYER = ("input", "hx")
_NAME = "packed_rnn"
_WIDTH = 100


class PackedRnnToOp(Codemod):
    """*What it does.*  Runs a recurrent layer over packed sequences in an operator.

    ```python
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    out, hidden = self.rnn(packed)
    out, sizes = pad_packed_sequence(out, batch_first=True)
    ```
    becomes ``out, hidden = packed_rnn(self.rnn, x, lengths, batch_first=True)`` and ``out, sizes =
    out``.  How many rows each step has depends on the values of the lengths, so that no graph holds
    a packed sequence.  The operator packs, runs the layer's own kernel and pads; its backward
    follows the same arithmetic step by step.  `packed_rnn` runs the layer as it was where it has
    hooks, a projection or a class of its own, and under autocast.

    *When it applies.*  ``pack_padded_sequence``, one call of an ``nn.LSTM``, ``nn.GRU`` or
    ``nn.RNN`` on what it gives, and at most one ``pad_packed_sequence`` stand in one block, and
    nothing else reads the packed rows.

    *Fix safety.*  Safe: the same kernels run on the same values.

    *Refuses.*  Packed rows that other code reads, arguments that change between the three calls,
    two calls that do not agree on ``batch_first``.
    """

    name = "packed-rnn-to-op"
    codes = ("GB0007", "GB0014", "GB0170")
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None or "pack_padded_sequence" not in site.source:
            return
        for node in walk(site.function.body):
            if site.function_of(node) is not site.function or not _is(site, node, "pack"):
                continue
            assert isinstance(node, cst.Call)
            try:
                use = _use(site, node)
                if site.statement in use.lines:
                    yield _rewrite(site, use)
                    return
            except Refused as reason:
                yield Advice(
                    "A recurrent layer over packed sequences can run in an operator of its own,"
                    f" but not this one: {reason}."
                )


def _is(site: Site, node: cst.CSTNode, what: str) -> bool:
    if not isinstance(node, cst.Call):
        return False
    name = {"pack": "pack_padded_sequence", "pad": "pad_packed_sequence"}[what]
    return resolve(site.module, node.func) == f"{_RNN}{name}"


@dataclasses.dataclass(frozen=True)
class _Use:
    """The three calls, and the statements that they stand in."""

    pack: cst.Call
    layer: cst.Call
    pad: cst.Call | None
    #: The statement that names the packed rows; it goes.
    named: cst.CSTNode | None
    lines: tuple[cst.CSTNode, ...]


def _use(site: Site, pack: cst.Call) -> _Use:
    """The calls that go with this one; raises `Refused`."""
    holder = site.parent(pack)
    layer = site.parent(holder) if isinstance(holder, cst.Arg) else None
    line = site.statement_of(pack)
    if isinstance(layer, cst.Call) and layer.args[0] is holder:
        named: cst.CSTNode | None = None
        called: cst.CSTNode = line
    else:
        packed = _only_name(line, pack)
        if packed is None:
            raise Refused("its rows are not simply named, or handed to the layer")
        named = line
        layer, called = _layer_on(site, packed, line)
    lengths = _arguments(pack, _PACK).get("lengths")
    seen = site.fact(lengths) if lengths is not None else None
    kinds = {item.kind for item in seen.items or ()} if seen is not None else set()
    if seen is not None and seen.kind in ("list", "tuple") and kinds != {"int"}:
        raise Refused("its lengths are no whole numbers")
    fact = site.fact(layer.func)
    if fact is None or fact.type not in _LAYERS or dotted(layer.func) is None:
        raise Refused(f"`{code(layer.func)}` was not seen to be an LSTM, a GRU or an RNN")
    pad, padded = _pad_of(site, layer, called)
    if named is not None and comments_in(named.with_changes(leading_lines=[])):
        raise Refused("a comment stands at the statement that packs")
    lines = [it for it in (named, called, padded) if it is not None]
    if any(comments_in(call) for call in (pack, layer, pad) if call is not None):
        raise Refused("there are comments among its arguments")
    return _Use(pack, layer, pad, named, tuple(lines))


def _only_name(line: cst.CSTNode, value: cst.BaseExpression) -> str | None:
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=given)]
        ) if given is value:
            return name
    return None


def _following(site: Site, line: cst.CSTNode) -> Sequence[cst.CSTNode]:
    block = list(site.block_of(line))
    if any(isinstance(outer, cst.For | cst.While) for outer in site.ancestors(line)):
        raise Refused("it stands in a loop")
    return block[block.index(line) + 1 :]


def _reads(site: Site, line: cst.CSTNode, name: str) -> list[cst.Name]:
    """Where a statement reads the name: each place but those that only bind it."""
    found = []
    for node in walk(line):
        if isinstance(node, cst.Name) and node.value == name:
            holder = site.parent(node)
            attribute = isinstance(holder, cst.Attribute) and holder.attr is node
            keyword = isinstance(holder, cst.Arg) and holder.keyword is node
            if not attribute and not keyword and not _is_target(site, node):
                found.append(node)
    return found


def _is_target(site: Site, node: cst.CSTNode) -> bool:
    """``x = ...``, ``x, y = ...``: the name is bound."""
    holder = site.parent(node)
    while isinstance(holder, cst.Element | cst.Tuple | cst.List):
        holder = site.parent(holder)
    return isinstance(holder, cst.AssignTarget)


def _readers(site: Site, line: cst.CSTNode, name: str) -> Iterator[tuple[cst.CSTNode, cst.Name]]:
    """Who reads a name after the statement that binds it, until it is bound again."""
    for after in _following(site, line):
        for node in _reads(site, after, name):
            yield after, node
        plain = isinstance(after, cst.SimpleStatementLine) and name in activity(after).writes
        if plain:
            return
    # The block ends: what stands after it may read the name, too.
    assert site.function is not None
    if list(site.block_of(line)) == list(site.block_of(site.function.body.body[0])):
        return
    inside = {id(node) for it in site.block_of(line) for node in walk(it)}
    for node in _reads(site, site.function.body, name):
        if id(node) not in inside and site.span(node).line > site.span(line).line:
            yield line, node


def _layer_on(site: Site, packed: str, line: cst.CSTNode) -> tuple[cst.Call, cst.CSTNode]:
    """The one call that takes the packed rows, and its statement."""
    readers = list(_readers(site, line, packed))
    if len(readers) != 1:
        raise Refused(f"more than one call reads `{packed}`" if readers else "no call reads it")
    after, node = readers[0]
    holder = site.parent(node)
    call = site.parent(holder) if isinstance(holder, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not holder or _is(site, call, "pad"):
        raise Refused(f"`{packed}` is not handed to a layer as it is")
    if after is not site.statement_of(call):
        raise Refused(f"`{packed}` is handed to a layer in another block")
    return call, after


def _pad_of(
    site: Site, layer: cst.Call, line: cst.CSTNode
) -> tuple[cst.Call | None, cst.CSTNode | None]:
    """The call that pads what the layer gives; none where nothing reads it.  Raises `Refused`."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise Refused("the layer is called in a part of a larger statement")
    holder = site.parent(layer)
    if isinstance(holder, cst.Subscript) and holder.value is layer:
        place_ = code(holder.slice[0].slice) if len(holder.slice) == 1 else ""
        if place_ in ("1", "-1"):
            return None, None
        if place_ != "0":
            raise Refused("what the layer gives is not taken apart")
        above = site.parent(holder)
        call = site.parent(above) if isinstance(above, cst.Arg) else None
        if isinstance(call, cst.Call) and _is(site, call, "pad") and call.args[0] is above:
            return call, line
        rows = _only_name(line, holder)
    else:
        rows = None
        match line.body[0]:
            case cst.Assign(
                targets=[
                    cst.AssignTarget(
                        cst.Tuple(elements=[cst.Element(cst.Name(first)), cst.Element()])
                    )
                ],
                value=value,
            ) if value is layer:
                rows = first
    if rows is None:
        raise Refused("what the layer gives is not taken apart")
    readers = list(_readers(site, line, rows))
    if not readers:
        return None, None
    after, node = readers[0]
    above = site.parent(node)
    call = site.parent(above) if isinstance(above, cst.Arg) else None
    if not isinstance(call, cst.Call) or not _is(site, call, "pad") or call.args[0] is not above:
        raise Refused(f"`{rows}` is not padded")
    if len(readers) > 1 or after is not site.statement_of(call):
        raise Refused(f"more than `pad_packed_sequence` reads `{rows}`")
    return call, after


# -- the text --------------------------------------------------------------------------------------


def _rewrite(site: Site, use: _Use) -> Rewrite:
    pack = _arguments(use.pack, _PACK)
    layer = _arguments(use.layer, _LAYER)
    pad = _arguments(use.pad, _PAD) if use.pad is not None else {}
    first, second = (code(given.get("batch_first", _FALSE)) for given in (pack, pad))
    if use.pad is not None and first != second:
        raise Refused("packing and padding do not agree on `batch_first`")
    _check_moves(site, use, pack, pad)
    if is_caught(site):
        raise Refused(
            "an error of packing is caught in compiled code, and an operator raises later"
        )
    place = compiling(site)
    if place is None:
        raise Refused("nothing shows where the region is compiled, to allow recurrent layers there")
    splice = Splice(site)
    torch = _torch(site, splice)
    name, text = _functions(site, torch)
    splice.insert_function(text)
    given = [use.layer.func, pack["input"], _lengths(site, pack["lengths"])]
    given += [layer["hx"]] if "hx" in layer and code(layer["hx"]) != "None" else []
    texts = [code(value) for value in given]
    texts += [f"{key}={code(pack[key])}" for key in _PACK[2:] if key in pack]
    texts += [f"{key}={code(pad[key])}" for key in _PAD[2:] if key in pad]
    made = _laid_out(site, use.layer, name, texts)
    if use.pad is not None and site.statement_of(use.pad) is site.statement_of(use.layer):
        splice.replace(use.pad, f"{made}[0]")
    else:
        splice.replace(use.layer, made)
        if use.pad is not None:
            splice.replace(use.pad, code(use.pad.args[0].value))
    if use.named is not None:
        splice.delete_lines(use.named)
    static = "total_length" in pad or _is_list(site, given[2])
    options, shows, notes = _options(site, place, static=static)
    elsewhere = Splice(place.view) if place.view.path != site.path else splice
    for option, around_calls in options:
        place.set_option(
            elsewhere, option, "True", at_import=not around_calls, around_calls=around_calls
        )
    lost = changed_before(site)
    if lost:
        notes.append(f"where packing raises, the change of `{lost}` before it is lost")
    again = _may_drop(site) and any(_CHECKPOINTS.search(it) for it in _texts(site))
    if again:
        notes.append(_AGAIN)
    rewrite = splice.rewrite(
        "run the recurrent layer over packed rows in an operator",
        rank=14,
        safety=Safety.UNSAFE if lost or again else Safety.SAFE,
        notes=[_SECOND, *notes],
        shows=shows,
    )
    if elsewhere is not splice and options:
        other = elsewhere.rewrite(rewrite.title)
        rewrite = dataclasses.replace(
            rewrite,
            edits={**rewrite.edits, **other.edits},
            touched={**rewrite.touched, **other.touched},
        )
    return rewrite


_SECOND = "its backward runs the layer once more, step by step; a second derivative would raise"
_AGAIN = (
    "activation checkpointing runs the operator again, and a layer would drop other values then"
)
_PROCESS = "recurrent layers in other compiled regions of the process are traced, too"
_SIZES = "capture_dynamic_output_shape_ops"


def _is_list(site: Site, lengths: cst.BaseExpression) -> bool:
    """Whether the lengths are numbers of Python, so that the longest is known while tracing."""
    fact = site.fact(lengths)
    return fact is not None and fact.kind in ("list", "tuple")


def _options(
    site: Site, place: Compiling, *, static: bool
) -> tuple[list[tuple[str, bool]], list[str], list[str]]:
    """Options of Dynamo's that the operator needs: names, and whether they hold around calls only.

    With them comes what a run has to show, and notes.  The layer is an argument of the file's
    function, and how long the longest row is, is known when the operator has run.
    """
    options, shows, notes = [], [], []
    if "allow_rnn" not in place.view.source:
        options.append(("allow_rnn", False))
        notes += [_PROCESS] if place.function is None else []
    if not static and _SIZES not in place.view.source:
        alone = place.function is not None or is_only_region(site)
        options.append((_SIZES, not alone))
        shows.append("sizes")
        if not alone and place.only_called() is None:
            raise Refused("other regions of the process would capture sizes, too")
    return options, shows, notes


_FALSE = cst.Name("False")


def _arguments(call: cst.Call, names: Sequence[str]) -> dict[str, cst.BaseExpression]:
    given: dict[str, cst.BaseExpression] = {}
    for number, argument in enumerate(call.args):
        if argument.star or (argument.keyword is None and number >= len(names)):
            raise Refused(f"the arguments of `{code(call.func)}` are not written out")
        name = argument.keyword.value if argument.keyword is not None else names[number]
        if name not in names or name in given:
            raise Refused(f"`{code(call.func)}` takes no `{name}`")
        given[name] = argument.value
    if not {"lengths"} & {*names} or "lengths" in given:
        return given
    raise Refused("the lengths are not given")


def _check_moves(
    site: Site,
    use: _Use,
    pack: dict[str, cst.BaseExpression],
    pad: dict[str, cst.BaseExpression],
) -> None:
    """What is packed and how it is padded is evaluated where the layer is called, from now on."""
    line = site.statement_of(use.layer)
    block = list(site.block_of(line))
    at = block.index(line)
    between: list[cst.CSTNode] = [argument.value for argument in use.layer.args[1:]]
    if use.named is not None:
        lines = block[block.index(use.named) + 1 : at]
        between += lines
        # A draw (dropout of what is packed) keeps its place among others.
        if _calls(lines) - {"flatten_parameters"} and _calls(list(pack.values())) - _ASKS:
            raise Refused("what it packs is computed by a call that would come later")
    changed = activity(between).bound & activity(list(pack.values())).reads
    if changed:
        raise Refused(f"`{min(changed)}` changes before the layer is called")
    # What changes a tensor may change what is packed, under another name.
    if any(not _leaves_all(site, node) for top in between for node in walk(top)):
        raise Refused("what it packs may change before the layer is called")
    later = [value for key, value in pad.items() if key in _PAD[1:]]
    if use.pad is not None and later:
        end = block.index(site.statement_of(use.pad))
        does = activity(block[at:end])
        changed = does.bound | does.mutates
        if changed & activity(later).reads or any(
            isinstance(node, cst.Call) and not _is_size(node)
            for value in later
            for node in walk(value)
        ):
            raise Refused("how it is padded may be known only after the layer was called")


#: Calls that draw and change nothing, wherever they stand.
_ASKS = frozenset({"cpu", "size", "detach", "tolist", "numpy", "long", "to", "len", "clone"})


def _calls(nodes: Sequence[cst.CSTNode]) -> set[str]:
    """The last names of all that is called."""
    return {
        code(node.func).rpartition(".")[2]
        for top in nodes
        for node in walk(top)
        if isinstance(node, cst.Call)
    }


def _leaves_all(site: Site, node: cst.CSTNode) -> bool:
    """Whether a part of the code between the calls changes nothing in place."""
    if isinstance(node, cst.AugAssign | cst.AnnAssign | cst.Del | cst.With | cst.Try):
        return False
    if isinstance(node, cst.AssignTarget):
        places = walk(node.target)
        return not any(isinstance(it, cst.Subscript | cst.Attribute) for it in places)
    if not isinstance(node, cst.Call):
        return True
    name = code(node.func).rpartition(".")[2]
    if (resolve(site.module, node.func) or "").startswith(("torch.", "builtins.")):
        return not name.endswith("_") and not any(
            argument.keyword is not None and argument.keyword.value in ("out", "inplace")
            for argument in node.args
        )
    if name == "flatten_parameters":
        return True
    if not isinstance(node.func, cst.Attribute) or name in MUTATING_METHODS:
        return False
    fact = site.fact(node.func.value)
    if fact is not None and fact.is_tensor:
        # ``x.new(2, n).zero_()`` changes what is new.
        fresh = isinstance(node.func.value, cst.Call) and code(node.func.value.func).rpartition(
            "."
        )[2].startswith("new")
        return fresh or not name.endswith("_")
    return False


def _is_size(call: cst.Call) -> bool:
    match call.func:
        case cst.Attribute(attr=cst.Name("size" | "dim")) | cst.Name("len"):
            return True
    return False


def _lengths(site: Site, given: cst.BaseExpression) -> cst.BaseExpression:
    """``lengths.tolist()`` of a tensor is the tensor, on the CPU as the list would be."""
    match given:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("tolist" | "numpy")), args=[]):
            fact = site.fact(owner)
            if fact is not None and fact.is_tensor:
                inner = owner
                if isinstance(inner, cst.Call) and code(inner.func).endswith(".cpu"):
                    return inner
                return cst.Call(cst.Attribute(inner, cst.Name("cpu")))
    return given


def _torch(site: Site, splice: Splice) -> str:
    """The file's name for torch; ``import torch`` goes below its other imports if it has none."""
    if "torch" not in import_map(site.module).values():
        last = next(
            line
            for line in reversed(site.module.body)
            if isinstance(line, cst.SimpleStatementLine)
            and isinstance(line.body[0], cst.Import | cst.ImportFrom)
        )
        splice.insert(site.span(last).end_line + 1, 0, f"import torch{site.module.default_newline}")
    return torch_name(site)


def _functions(site: Site, torch: str) -> tuple[str, str]:
    """The name of the file's function, and its text, empty where the file has it already."""

    def text(name: str) -> str:
        names = {"TORCH": torch, "NAME": name, "SPACE": namespace(site)}
        whole = TEXT if _may_drop(site) else TEXT.replace(EFFECT, "")
        return re.sub("|".join(names), lambda found: names[found[0]], whole)

    if text(_NAME).strip() in site.source.replace("\r\n", "\n"):
        return _NAME, ""
    name = operator_name(site, _NAME)
    return name, text(name)


#: A layer without dropout: none is given, or none that is more than nothing.
_DROPS = re.compile(r"\bdropout\w*\s*=(?!=)(?!\s*0(?:\.0*)?\s*[,)\n])")
_CHECKPOINTS = re.compile(r"\bcheckpoint(?:_sequential)?\(|gradient_checkpointing")


def _texts(site: Site) -> tuple[str, ...]:
    return (site.source, *site.sources.values())


def _may_drop(site: Site) -> bool:
    """Whether a recurrent layer of the project may drop values: it is given a ``dropout``."""
    texts = _texts(site)
    return any(map(_DROPS.search, texts)) or any(map(_may_be_given, texts))


def _may_be_given(text: str) -> bool:
    """Whether a recurrent layer is given a rate by its place, or options that may hold one."""
    for node in ast.walk(tree_of(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("LSTM", "GRU", "RNN")):
            starred = any(isinstance(it, ast.Starred) for it in node.args)
            if starred or len(node.args) > 5 or any(it.arg is None for it in node.keywords):
                return True
    return False


def _laid_out(site: Site, old: cst.BaseExpression, name: str, given: Sequence[str]) -> str:
    """The call over several lines where one is too short for it."""
    text = f"{name}({', '.join(given)})"
    line, span = site.span(site.statement_of(old)), site.span(old)
    if span.column + len(text) + max(0, line.end_column - span.end_column) <= _WIDTH:
        return text
    newline = site.module.default_newline
    own = site.source.splitlines()[line.line - 1][: line.column]
    inner = own + site.module.default_indent
    lines = "".join(f"{inner}{item},{newline}" for item in given)
    return f"{name}({newline}{lines}{own})"

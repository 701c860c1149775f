"""LSTM layers that are trained on inputs without gradients, which compiled code for CPU cannot."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Span

from ..config.compiling import Compiling, compiling
from .splice import Splice

_LSTM = Fact("module", "torch.nn.modules.rnn.LSTM")
_CONSTRUCTORS = frozenset({"torch.nn.LSTM", "torch.nn.modules.rnn.LSTM", "torch.nn.modules.LSTM"})
#: Where these are used, an LSTM may be given something else than a tensor, or the function that
#: hands it its input may not be understood.
_OTHERS = re.compile(
    r"\b(?:PackedSequence|pack_\w*sequence|nn\.utils\.rnn|jit|vmap|functorch|torch\.func|quantiz\w*"
    r"|register_\w*forward\w*hook)\b"
)
_COMPILES = re.compile(r"\bcompile\s*\(|@\s*(?:\w+\.)*compile\b")
_HELPER = '''class {name}({torch}.autograd.Function):
    """Hands an LSTM its input with a gradient: compiled for CPU, it trains on no other (2.13)."""

    @staticmethod
    def forward(ctx, x, weight):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


'''
_HELPER_NAME = "_WithGradient"
_FACTS = {"self.lstm": _LSTM, "lstm": _LSTM, "x": tensor(2, 3, 4)}


def _source(call: str = "self.lstm(x)[0]", init: str = "self.lstm = nn.LSTM(4, 5)") -> str:
    return f"""import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        return {call}


net = torch.compile(Encoder())
"""


class LstmInputGradient(Codemod):
    """*What it does.*  Allows recurrent layers in the compiled region, and hands its LSTM layers
    their input through a small ``torch.autograd.Function``, whose result has a gradient.

    On torch 2.13, training a compiled LSTM on CPU fails in AOTAutograd where the layer's input has
    no gradient, as a batch of data has none.  Values and the gradients of everything else stay as
    they are; the gradient of the input is computed, and dropped.

    *When it applies.*  Dynamo refused an ``nn.LSTM`` that a name or an attribute of ``self`` holds,
    and all LSTM layers of the file are used in calls that give the input first.

    *Fix safety.*  Safe: where the option does not hold for this region alone, the rewrite says so.

    *Refuses.*  Packed sequences, TorchScript, ``vmap``, hooks and quantization anywhere in the
    project, layers in containers or passed around, and devices other than the CPU.
    """

    name = "lstm-input-gradient"
    uncovers = True
    codes = ("GB0014",)

    examples = (
        Example(
            title="a module",
            before=_source(),
            after=_source("self.lstm(_WithGradient.apply(x, self.lstm.weight_hh_l0))[0]")
            .replace("class Enc", _HELPER.format(name="_WithGradient", torch="torch") + "class Enc")
            .replace("net =", "torch._dynamo.config.allow_rnn = True\nnet ="),
            at="self.lstm(x)",
            facts=_FACTS,
        ),
        Example(
            title="a function, with a state",
            before="""
            import torch

            lstm = torch.nn.LSTM(4, 5)


            @torch.compile
            def encode(x, state):
                y, state = lstm(x, state)
                return y
            """,
            after="""
            import torch

            lstm = torch.nn.LSTM(4, 5)


            class _WithGradient(torch.autograd.Function):
                \"\"\"Hands an LSTM its input with a gradient: compiled for CPU, it trains on no other (2.13).\"\"\"

                @staticmethod
                def forward(ctx, x, weight):
                    return x.view_as(x)

                @staticmethod
                def backward(ctx, gradient):
                    return gradient, None


            @torch._dynamo.config.patch(allow_rnn=True)
            @torch.compile
            def encode(x, state):
                y, state = lstm(_WithGradient.apply(x, lstm.weight_hh_l0), state)
                return y
            """,  # noqa: E501
            at="lstm(x, state)",
            facts=_FACTS,
        ),
    )
    near_misses = (
        *(
            NearMiss(source, at=at, why=why, facts=_FACTS)
            for source, at, why in (
                (_source("self.lstm(input=x)[0]"), "self.lstm(input=x)", "no first argument"),
                (_source("self.lstm(*x)[0]"), "self.lstm(*x)", "no first argument"),
                (
                    _source("run(self.lstm)(x), self.lstm(x)"),
                    "self.lstm(x)",
                    "somebody else may call the layer",
                ),
                (
                    _source(init="self.lstm = make(nn.LSTM)"),
                    "self.lstm(x)",
                    "not plain to see what the layer is",
                ),
                (
                    _source().replace("import nn", "import nn, jit"),
                    "self.lstm(x)",
                    "TorchScript does not know autograd functions",
                ),
                (
                    _source().replace("import nn", "import nn\nfrom torch.nn.utils.rnn import *"),
                    "self.lstm(x)",
                    "may pack its sequences",
                ),
                (
                    _source().replace("net =", "pack_padded_sequence(1)\nnet ="),
                    "self.lstm(x)",
                    "packed sequences are no tensors",
                ),
            )
        ),
        NearMiss(
            _source(),
            at="self.lstm(x)",
            why="another layer",
            facts={**_FACTS, "self.lstm": Fact("module", "torch.nn.modules.rnn.GRU")},
        ),
        NearMiss(
            _source(),
            at="self.lstm(x)",
            why="another device has another kernel",
            facts={**_FACTS, "x": tensor(2, 3, 4, device="cuda:0")},
        ),
        NearMiss(
            _source(),
            at="self.lstm(x)",
            why="no tensor",
            facts={**_FACTS, "x": Fact("object", "torch.nn.utils.rnn.PackedSequence")},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        place = compiling(site)
        torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
        if place is None or torch is None or "allow_rnn" in place.view.source:
            return
        if any(_OTHERS.search(text) for text in site.sources.values()) or not _is_refused(site):
            return
        calls = _calls(site)
        if not calls:
            return
        name = _HELPER_NAME
        while name in site.source:
            name += "_"
        splice = Splice(site)
        first = min(
            (site.top_level_statement(call) for call in calls), key=lambda n: _line(site, n)
        )
        line = _line(site, first)
        helper = _HELPER.format(name=name, torch=torch)
        helper = helper.replace("    ", site.module.default_indent)
        splice.insert(line, 0, helper.replace("\n", site.module.default_newline))
        for call in calls:
            given = call.args[0].value
            layer = splice.source_of(call.func)
            text = f"{name}.apply({splice.source_of(given)}, {layer}.weight_hh_l0)"
            splice.replace(given, text)
        yield _rewrite(site, splice, place)


def _rewrite(site: Site, splice: Splice, place: Compiling) -> Rewrite:
    apart = splice if place.view.path == site.path else Splice(place.view)
    place.set_option(apart, "allow_rnn", "True", at_import=True)
    alone = place.function is not None or _is_alone(site)
    one = splice.rewrite(
        "allow the LSTM in the compiled region, with a gradient for its input",
        notes=() if alone else ("recurrent layers in other regions are compiled, too",),
        rank=40,
    )
    if apart is splice:
        return one
    other = apart.rewrite("")
    return Rewrite(
        one.title,
        {**one.edits, **other.edits},
        {**one.touched, **other.touched},
        safety=one.safety,
        notes=one.notes,
        rank=one.rank,
    )


def _is_refused(site: Site) -> bool:
    """Whether the layer that was refused is an LSTM that was given a tensor on the CPU."""
    around = site.parent(site.node)  # Dynamo may speak of the layer, or of its call
    nodes = [*walk(site.node), *([around] if around is not None else [])]
    found = False
    for call in nodes:
        fact = site.fact(call.func) if isinstance(call, cst.Call) else None
        if not isinstance(call, cst.Call) or fact is None or fact.kind != "module":
            continue
        given = site.fact(call.args[0].value) if call.args else None
        if fact.type != _LSTM.type or given is None or given.type != "torch.Tensor":
            return False
        if given.device != "cpu":
            return False
        found = True
    return found


def _calls(site: Site) -> list[cst.Call]:
    """All calls of the file's LSTM layers; none where one is used in another way."""
    names: set[str] = set()
    made = 0
    for node in walk(site.module):
        if isinstance(node, cst.Name | cst.Attribute) and _is_constructor(site, node):
            made += 1
        if isinstance(node, cst.Assign | cst.AnnAssign) and isinstance(node.value, cst.Call):
            targets = (
                [item.target for item in node.targets]
                if isinstance(node, cst.Assign)
                else [node.target]
            )
            if resolve(site.module, node.value.func) not in _CONSTRUCTORS or len(targets) != 1:
                continue
            text = code(targets[0])
            if re.fullmatch(r"(?:self\.)?\w+", text):
                names.add(text)
                made -= 1
    if made or not names:
        return []
    found = []
    for node in walk(site.module):
        if not isinstance(node, cst.Name | cst.Attribute) or code(node) not in names:
            continue
        parent = site.parent(node)
        if isinstance(parent, cst.AssignTarget | cst.AnnAssign) and parent.target is node:
            continue
        if isinstance(parent, cst.Attribute) and (parent.value is node or parent.attr is node):
            continue
        if not isinstance(parent, cst.Call) or parent.func is not node or not parent.args:
            return []
        first = parent.args[0]
        if first.star or first.keyword is not None:
            return []
        found.append(parent)
    return found


def _is_constructor(site: Site, node: cst.Name | cst.Attribute) -> bool:
    if isinstance(node, cst.Name) and isinstance(site.parent(node), cst.Attribute):
        return False
    if isinstance(site.parent(node), cst.ImportAlias):
        return False
    return resolve(site.module, node) in _CONSTRUCTORS


def _is_alone(site: Site) -> bool:
    """Whether nothing else of the project is compiled, and no other file speaks of an LSTM."""
    compiled = sum(len(_COMPILES.findall(text)) for text in site.sources.values())
    others = (text for path, text in site.sources.items() if path != site.path)
    return compiled <= 1 and not any("LSTM" in text for text in others)


def _line(site: Site, node: cst.CSTNode) -> int:
    """The line above which something may stand: that of its decorators and comments."""
    decorators = getattr(node, "decorators", ())
    span: Span = site.span(decorators[0] if decorators else node)
    line = span.line
    for above in reversed(getattr(node, "leading_lines", ())):
        if above.comment is None:
            break
        line -= 1
    return line

"""Recurrent layers, which Dynamo traces only where it is told to."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site
from gbfix.schema import Fact

from ..config.compiling import compiling
from .splice import Splice

_ADVICE = (
    "Dynamo traces nn.RNN, nn.GRU and nn.LSTM where `torch._dynamo.config.allow_rnn` is on while"
    " the region is compiled. On torch 2.13, training a compiled LSTM on CPU fails where its input"
    " has no gradient: give it one (a layer before it does), or keep it outside of the region."
)
_LSTM_NOTE = (
    "an LSTM so compiled runs without gradients; training it on CPU raises an error in aot_autograd"
    " (torch 2.13)"
)
_PROCESS_NOTE = "recurrent layers in other compiled regions of the process are traced, too"
_NO_GRADIENT = frozenset({"torch.no_grad", "torch.inference_mode"})


def _module(name: str) -> Fact:
    return Fact("module", f"torch.nn.modules.rnn.{name}")


class AllowRnn(Codemod):
    """*What it does.*  Turns on ``torch._dynamo.config.allow_rnn`` where a region is compiled.

    A function compiled by a decorator gets ``@torch._dynamo.config.patch(allow_rnn=True)`` above
    it, which holds for its own calls only.  Where ``torch.compile`` is called, the line above sets
    the option, or the line below the imports if that is in a function, for the process from there
    on.

    *When it applies.*  Dynamo refused an ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM``, and the place where
    the region is compiled is in the project.

    *Fix safety.*  Safe.  LSTM layers compile and run without gradients, but training them on CPU
    raises an error with aot_eager and inductor, which is said.

    *Refuses.*  Regions whose place of compilation is not found, or where torch has no name.
    """

    name = "allow-rnn"
    uncovers = True
    codes = ("GB0014",)

    examples = (
        Example(
            title="a decorated function",
            before="""
            import torch
            from torch import nn

            gru = nn.GRU(3, 4)


            @torch.compile(backend="eager")
            def encode(x):
                return gru(x)[0]
            """,
            after="""
            import torch
            from torch import nn

            gru = nn.GRU(3, 4)


            @torch._dynamo.config.patch(allow_rnn=True)
            @torch.compile(backend="eager")
            def encode(x):
                return gru(x)[0]
            """,
            at="gru(x)",
            facts={"gru": _module("GRU")},
        ),
        Example(
            title="a method, without gradients",
            before="""
            import torch as T
            from torch import nn


            class Encoder(nn.Module):
                # compiled
                @T.compile
                @T.no_grad()
                def forward(self, x):
                    return self.lstm(x)[0]
            """,
            after="""
            import torch as T
            from torch import nn


            class Encoder(nn.Module):
                # compiled
                @T._dynamo.config.patch(allow_rnn=True)
                @T.compile
                @T.no_grad()
                def forward(self, x):
                    return self.lstm(x)[0]
            """,
            at="self.lstm(x)",
            facts={"self.lstm": _module("LSTM")},
        ),
        Example(
            title="a module that is compiled elsewhere",
            before="""
            import torch
            from torch import nn


            class Encoder(nn.Module):
                def forward(self, x):
                    return self.rnn(x)[0]


            def main():
                # fast
                net = torch.compile(Encoder())
                return net(torch.ones(2, 3, 4))
            """,
            after="""
            import torch
            from torch import nn

            torch._dynamo.config.allow_rnn = True


            class Encoder(nn.Module):
                def forward(self, x):
                    return self.rnn(x)[0]


            def main():
                # fast
                net = torch.compile(Encoder())
                return net(torch.ones(2, 3, 4))
            """,
            at="self.rnn(x)",
            facts={"self.rnn": _module("GRU")},
        ),
    )
    near_misses = (
        NearMiss(
            """
            import torch

            class Encoder(torch.nn.Module):
                def forward(self, x):
                    return self.rnn(x)[0]
            """,
            at="self.rnn(x)",
            why="nothing shows where it is compiled",
            facts={"self.rnn": _module("GRU")},
        ),
        NearMiss(
            """
            from torch import compile

            @compile
            def f(x, rnn):
                return rnn(x)[0]
            """,
            at="rnn(x)",
            why="torch has no name here",
            facts={"rnn": _module("GRU")},
        ),
        NearMiss(
            """
            import torch

            f = torch.compile(first)
            g = torch.compile(second)

            def second(x):
                return rnn(x)[0]
            """,
            at="rnn(x)",
            why="two places compile, and nothing tells which",
            facts={"rnn": _module("GRU")},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        yield Advice(_ADVICE)
        place = compiling(site)
        if place is None or "allow_rnn" in place.view.source:
            return
        splice = Splice(place.view)
        place.set_option(splice, "allow_rnn", "True", at_import=True)
        notes: tuple[str, ...] = ()
        if place.function is not None:
            title = f"allow recurrent layers while `{place.function.name.value}` runs"
            if _may_be_lstm(site) and not _switches_gradients_off(place.view, place.function):
                notes = (_LSTM_NOTE,)
        else:
            title = "allow recurrent layers in compiled regions"
            notes = (_PROCESS_NOTE, *((_LSTM_NOTE,) if _may_be_lstm(site) else ()))
        yield splice.rewrite(title, notes=notes, rank=30)


def _may_be_lstm(site: Site) -> bool:
    """Whether the layer is an LSTM, or may be one: neither name nor type shows another kind."""
    names = {"GRU", "RNN"}
    shown = site.graph_break.context.partition("(")[0]  # Dynamo shows the layer: "GRU(3, 4)"
    if shown in names or shown == "LSTM":
        return shown == "LSTM"
    for node in walk(site.node):
        fact = site.fact(node.func) if isinstance(node, cst.Call) else None
        if fact is not None and fact.kind == "module":
            return fact.type.rpartition(".")[2] not in names
    return True


def _switches_gradients_off(view: Site, function: cst.FunctionDef) -> bool:
    return any(
        isinstance(decorator.decorator, cst.Call)
        and resolve(view.module, decorator.decorator.func) in _NO_GRADIENT
        for decorator in function.decorators
    )

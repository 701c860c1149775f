"""Recurrent layers, which Dynamo traces only where it is told to."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site
from gbfix.schema import Fact, Safety

from .references import is_compile
from .splice import Splice

_ADVICE = (
    "Dynamo traces nn.RNN, nn.GRU and nn.LSTM where `torch._dynamo.config.allow_rnn` is on while"
    " the region is compiled. Training an LSTM through aot_autograd on CPU fails on torch 2.13:"
    " keep it outside of the compiled part then."
)
_LSTM_NOTE = (
    "an LSTM so compiled runs without gradients; training it on CPU raises an error in aot_autograd"
    " (torch 2.13)"
)
_NO_GRADIENT = frozenset({"torch.no_grad", "torch.inference_mode"})


def _module(name: str) -> Fact:
    return Fact("module", f"torch.nn.modules.rnn.{name}")


class AllowRnn(Codemod):
    """*What it does.*  Turns on ``torch._dynamo.config.allow_rnn`` where a region is compiled.

    A function compiled by a decorator gets ``@torch._dynamo.config.patch(allow_rnn=True)`` above
    it, which holds for its own calls only.  Where ``torch.compile`` is called, the line above sets
    the option, for the process from there on.

    *When it applies.*  Dynamo refused an ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM``, and the place where
    the region is compiled is in the project.

    *Fix safety.*  Safe for GRU and RNN layers; the whole-process form only where no file of the
    project speaks of an LSTM.  LSTM layers compile and run without gradients, but training them on
    CPU fails with aot_eager and inductor, so that they are unsafe unless the compiled function
    switches gradients off itself.

    *Refuses.*  Regions whose place of compilation is not found, or where torch has no name.
    """

    name = "allow-rnn"
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


            class Encoder(nn.Module):
                def forward(self, x):
                    return self.rnn(x)[0]


            def main():
                torch._dynamo.config.allow_rnn = True
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
        view = _compiling_file(site)
        if view is None or "allow_rnn" in view.source:
            return
        torch = _name_of_torch(view)
        if torch is None:
            return
        splice = Splice(view)
        lstm = _may_be_lstm(site)
        function = _decorated_function(site, view)
        if function is not None:
            splice.insert_line_before(
                function, f"@{torch}._dynamo.config.patch(allow_rnn=True)", above_comments=False
            )
            safe = not lstm or _switches_gradients_off(view, function)
            title = f"allow recurrent layers while `{function.name.value}` runs"
            yield _rewrite(splice, title, safe=safe, lstm=lstm, rank=30)
            return
        statement = _compiling_statement(site, view)
        if statement is not None:
            splice.insert_line_before(statement, f"{torch}._dynamo.config.allow_rnn = True")
            safe = not lstm and not any("LSTM" in source for source in site.sources.values())
            title = "allow recurrent layers in compiled regions"
            yield _rewrite(splice, title, safe=safe, lstm=lstm, rank=80)


def _rewrite(splice: Splice, title: str, *, safe: bool, lstm: bool, rank: int) -> Rewrite:
    return splice.rewrite(
        title,
        safety=Safety.SAFE if safe else Safety.UNSAFE,
        notes=(_LSTM_NOTE,) if lstm else (),
        rank=rank,
    )


def _may_be_lstm(site: Site) -> bool:
    """Whether the layer is an LSTM, or nothing tells that it is another."""
    names = {"GRU", "RNN"}
    shown = site.graph_break.context.partition("(")[0]  # Dynamo shows the layer: "GRU(3, 4)"
    if shown in names or shown == "LSTM":
        return shown == "LSTM"
    for node in walk(site.node):
        fact = site.fact(node.func) if isinstance(node, cst.Call) else None
        if fact is not None and fact.kind == "module":
            return fact.type.rpartition(".")[2] not in names
    return True


def _compiling_file(site: Site) -> Site | None:
    path = site.region.compile_path if site.region is not None else ""
    return site if path in ("", site.path) else site.other(path)


def _name_of_torch(view: Site) -> str | None:
    return next((name for name, home in import_map(view.module).items() if home == "torch"), None)


def _decorated_function(site: Site, view: Site) -> cst.FunctionDef | None:
    """The region's function, if a decorator compiles it."""
    found = []
    for node in walk(view.module):
        if not isinstance(node, cst.FunctionDef):
            continue
        if not any(is_compile(view, decorator.decorator) for decorator in node.decorators):
            continue
        first, last = view.span(node.decorators[0]).line, view.span(node).line
        if site.region is None:
            matches = node is site.function
        else:
            name = site.region.name.rpartition(".")[2]
            matches = name == node.name.value and first <= site.region.line <= last
        if matches:
            found.append(node)
    return found[0] if len(found) == 1 else None


def _compiling_statement(site: Site, view: Site) -> cst.SimpleStatementLine | None:
    """The statement that calls ``torch.compile`` (or ``module.compile``) for the region."""
    found: dict[cst.SimpleStatementLine, None] = {}
    for node in walk(view.module):
        if not isinstance(node, cst.Call):
            continue
        by_method = isinstance(node.func, cst.Attribute) and node.func.attr.value == "compile"
        if not (is_compile(view, node.func) or (by_method and site.region is not None)):
            continue
        statement = view.statement_of(node)
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        span = view.span(statement)
        line = site.region.compile_line if site.region is not None else span.line
        if span.line <= line <= span.end_line:
            found[statement] = None
    return next(iter(found)) if len(found) == 1 else None


def _switches_gradients_off(view: Site, function: cst.FunctionDef) -> bool:
    return any(
        isinstance(decorator.decorator, cst.Call)
        and resolve(view.module, decorator.decorator.func) in _NO_GRADIENT
        for decorator in function.decorators
    )

"""Attributes that no call reads have facts: what the object holds when the function begins."""

from __future__ import annotations

import ast
import builtins
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from gbfix.schema import Fact, Span
from gbfix.worker import factlog, instrument
from gbfix.worker.protocol import Instrument
from gbfix.worker.values import Project

SOURCE = """
from torch import nn
import torch


class Config:
    rate = 0.5

    @property
    def asked(self):
        raise RuntimeError("a property runs no code here")


class Net(nn.Module):
    kind = "plain"

    def __init__(self):
        super().__init__()
        self.config = Config()
        self.config.size = 3
        self.layer = nn.Linear(2, 2)
        self.register_buffer("table", torch.zeros(4))
        self.spare = None
        self.count = 0

    def forward(self, x):
        "Its docstring."
        if x is None:
            self.count += 1
            return (self.spare, self.table, self.layer.weight, self.config.size,
                    self.config.rate, self.config.asked, self.kind, self.count, self.missing)
        return x
"""


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Fact]:
    path = tmp_path / "program.py"
    path.write_text(SOURCE)
    line = SOURCE[: SOURCE.index("if x is None")].count("\n") + 1
    log = factlog.FactLog(Project(str(tmp_path)))
    hooks = {
        instrument.SEE: log.see,
        instrument.LOCALS: log.locals,
        instrument.TEST: log.test,
        instrument.HELD: log.held,
    }
    for name, hook in hooks.items():
        monkeypatch.setattr(builtins, name, hook, raising=False)
    tree = instrument.transform(ast.parse(SOURCE), [Instrument(str(path), "facts", line)])
    module = types.ModuleType("program")
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), module.__dict__)
    net = module.Net()
    assert isinstance(net, nn.Module)
    assert torch.equal(net(torch.ones(2)), torch.ones(2))
    assert module.Net.forward.__doc__ == "Its docstring."
    lines = SOURCE.splitlines()

    def text(span: Span) -> str:
        return lines[span.line - 1][span.column : span.end_column]

    seen = log.seen(str(path), line)
    return {text(span): fact for span, fact in seen.facts.expressions.items()}


def test_what_an_object_holds_is_known_without_a_value(facts: dict[str, Fact]) -> None:
    assert facts["self.spare"].kind == "none"
    assert facts["self.table"].shape == (4,)
    assert facts["self.layer.weight"].requires_grad
    assert facts["self.config.size"].kind == "int"
    assert facts["self.config.size"].value is None
    assert not facts["self.config.size"].constant
    assert facts["self.config.rate"].kind == "float"
    assert facts["self.kind"].kind == "str"


@pytest.mark.parametrize("text", ["self.count", "self.missing", "self.config.asked"])
def test_what_is_set_missing_or_computed_is_not_known(facts: dict[str, Fact], text: str) -> None:
    assert text not in facts

"""Methods of a module that run in an operator, on an object made of the operator's arguments."""

from __future__ import annotations

import textwrap

import pytest
from gbfix_codemods.operator.wrap_piece import WrapPiece

from gbfix.analysis.own_methods import called_on_self
from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact

_MODULE = Fact("module", "example.Net", qualname="example.Net", in_project=True)
_FACTS = {
    "self": _MODULE,
    "self.lin": Fact("module", "torch.nn.Linear"),
    "self.mask": tensor(4),
    "self.count": tensor(1),
    "self.weight": tensor(4, requires_grad=True),
    "self.lin.weight": tensor(4, 4, requires_grad=True),
    "self.every": scalar(2),
    "self.history": Fact("list", "list", items=(scalar(1.0),)),
    "self._at_stage()": scalar(True),
    "x": tensor(4),
}
_CALL = "self._at_stage()"


def _source(prune: str, *, rest: str = "", after: str = "") -> str:
    body = textwrap.indent(textwrap.dedent(prune).strip(), " " * 8)
    return f"""
import numpy as np
import torch


def fill(values, at):
    values[at] = 0


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(4))
        self.register_buffer("count", torch.zeros(1))
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.lin = torch.nn.Linear(4, 4)
        self.every = 2
        self.history = []

    def _at_stage(self):
        return bool((self.count % self.every == 0).all())

    def _prune(self):
{body}

    def forward(self, x):
        with torch.no_grad():
            if {_CALL}:
                self._prune()
        return x * self.mask
{textwrap.indent(rest, "    ")}
{after}"""


def _operators(source: str) -> list[str]:
    case = Example(source, "", at=_CALL, facts=_FACTS, title="")
    found = WrapPiece().propose(example_site(case, "GB0170"))
    texts = [
        text
        for it in found
        if isinstance(it, Rewrite)
        for text in it.edits.values()
        if "_prune()" in text.partition("class Net")[0]
    ]
    return [text.partition("class Net")[0] for text in texts]


def test_a_method_runs_on_the_operators_arguments() -> None:
    first, *_ = _operators(_source("self.mask[self.weight.abs().argmin()] = 0.0"))
    assert 'mutates_args=("mask",)' in first
    assert "net = object.__new__(Net)" in first
    assert "net.__dict__.update(count=count, every=every, mask=mask, weight=weight)" in first
    assert "if net._at_stage(): net._prune()" in " ".join(first.split())


def test_a_function_may_count_for_itself() -> None:
    after = "\n\ndef least(values):\n    at = 0\n    at += 1\n    return values[at]\n"
    assert _operators(_source("self.mask[0] = least(self.count)", after=after))
    after = after.replace("at += 1", "values += 1")
    assert not _operators(_source("self.mask[0] = least(self.count)", after=after))


def test_a_count_grows_in_place() -> None:
    first, *_ = _operators(_source("self.count += 1"))
    assert 'mutates_args=("count",)' in first


def test_data_of_a_buffer_is_the_buffer() -> None:
    rest = "\n    def settle(self):\n        self.count.data.mul_(2)\n"
    source = _source("self.mask.data.copy_(self.weight)", rest=rest)
    first, *_ = _operators(source.replace("return x *", "self.settle()\n        return x *"))
    assert 'mutates_args=("mask",)' in first


def test_what_a_layer_holds_is_held_by_a_stand_in() -> None:
    first, *_ = _operators(_source("self.mask.copy_(self.lin.weight.sum(0))"))
    assert "lin=types.SimpleNamespace(weight=weight)" in first


@pytest.mark.parametrize(
    "prune",
    [
        "self.mask = torch.zeros(4)",  # another object, which an operator cannot give
        "self.every = 3",
        "self.every += 1",
        "self.mask, self.count = self.count, self.mask",
        "self.history.append(1.0)",
        "self.weight.mul_(2)",  # autograd would not see it
        "self.weight.data.mul_(2)",
        "row = self.mask[:2]\nrow[0] = 1",  # what is changed has another name
        "fill(self.mask, 0)",
        "torch.squeeze(self.mask)[0] = 1",
        "other = self.mask\nfill(other, 0)",
        "other = self.mask\ntorch.nn.init.zeros_(other)",
        "np.copyto(self.mask.numpy(), 0)",
        "self.mask.sort()\nleast = self.mask\nleast.sort()",
        "torch.nn.init.zeros_(self.mask)",
        "self.mask.copy_(self.lin(self.mask))",
        "report(self)",
        "self.mask.copy_(getattr(self, 'count'))",
        "super()._prune()",
        "self.mask.copy_(self.unknown)",
        "for self.every in range(3):\n    pass",
    ],
)
def test_what_else_a_method_does_is_refused(prune: str) -> None:
    assert not _operators(_source(prune))


def test_a_method_that_may_be_overridden_is_refused() -> None:
    after = "\n\nclass Other(Net):\n    def _prune(self):\n        self.mask.zero_()\n"
    assert _operators(_source("self.mask[0] = 0.0"))
    assert not _operators(_source("self.mask[0] = 0.0", after=after))


def test_a_method_that_an_object_may_have_of_its_own_is_refused() -> None:
    after = "\n\ndef patched(net):\n    net._prune = print\n"
    assert not _operators(_source("self.mask[0] = 0.0", after=after))


def test_a_method_fills_lists_of_its_own() -> None:
    prune = """
        rows = []
        for row in range(4):
            rows.append(self.mask[row] * 2)
        self.mask.copy_(torch.stack(rows))
        """
    first, *_ = _operators(_source(prune))
    assert 'mutates_args=("mask",)' in first
    assert not _operators(_source(prune.replace("rows = []", "rows = self.history")))


def test_sorted_values_are_new() -> None:
    prune = "least = (self.weight * self.mask).sort()[1]\nself.mask[least[0]] = 0.0"
    assert _operators(_source(prune))


@pytest.mark.parametrize("name", ["__getattr__", "__setattr__", "__del__"])
def test_a_class_that_acts_when_it_is_asked_is_refused(name: str) -> None:
    rest = f"\ndef {name}(self, *args):\n    return None\n"
    assert not _operators(_source("self.mask[0] = 0.0", rest=rest))


def test_a_property_is_asked_inside() -> None:
    text = _source("self.mask[0] = 0.0").replace(_CALL, "self._at_stage")
    text = text.replace("    def _at_stage", "    @property\n    def _at_stage")
    facts = _FACTS | {"self._at_stage": scalar(True)}
    case = Example(text, "", at="self._at_stage", facts=facts, title="")
    found = WrapPiece().propose(example_site(case, "GB0124"))
    first = next(iter(it for it in found if isinstance(it, Rewrite)))
    (after,) = first.edits.values()
    assert "if net._at_stage: net._prune()" in " ".join(after.split())


_SETTER = """

@property
def stage(self):
    return int(self.count[0])

@stage.setter
def stage(self, value):
    {}
"""


def test_a_property_that_is_asked_changes_nothing() -> None:
    rest = _SETTER.format("self.mask.fill_(value)")
    first, *_ = _operators(_source("self.count.mul_(self.stage)", rest=rest))
    assert 'mutates_args=("count",)' in first


def test_a_property_is_set_inside() -> None:
    text = _source("self.stage = self.stage + 1", rest=_SETTER.format("self.count.fill_(value)"))
    first, *_ = _operators(text)
    assert 'mutates_args=("count",)' in first


@pytest.mark.parametrize(
    "rest",
    [
        _SETTER.format("self.every = value"),
        _SETTER.format("self.count.fill_(value)")
        .partition("@stage.setter")[0]
        .replace("stage", "s"),
    ],
)
def test_a_setter_that_is_not_there_or_sets_an_attribute_is_refused(rest: str) -> None:
    assert not _operators(_source("self.stage = self.stage + 1", rest=rest))


_TEXT = """
class Net:
    def forward(self, x):
        self.update(x)
        return self.scale * x

    @property
    def scale(self):
        return 2

    def update(self, x):
        self.further(x)

    def further(self, x):
        self.update(x)

    def other(self):
        pass


def plain(self):
    self.other()
"""


def test_the_methods_that_a_method_reaches() -> None:
    lines = _TEXT.splitlines()
    found = [lines[line - 1].split("(")[0].split()[-1] for line in called_on_self(_TEXT, {4})]
    assert sorted(found) == ["further", "scale", "update"]
    assert called_on_self(_TEXT, {22}) == []
    assert called_on_self("def f(:", {1}) == []
    twice = _TEXT + "\n\nclass Other:\n    def update(self):\n        pass\n"
    assert len(called_on_self(twice, {4})) == 1


_SCORES = """
import torch

SCALE = torch.nn.Parameter(torch.ones(3))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.ones(5, 3))

    def _row(self, at):
        {}
        return self.table[at] * 2

    def forward(self, x, picks):
        rows = []
        for value, pick in zip(x, picks.tolist()):
            rows.append(value * self._row(pick))
        return torch.stack(rows)
"""


def _with_gradients(line: str) -> list[str]:
    facts = {
        "self": _MODULE,
        "self.table": tensor(5, 3, requires_grad=True),
        "x": tensor(4, 3, requires_grad=True),
        "picks": tensor(4, dtype="torch.int64"),
        "picks.tolist()": Fact("list", "list", items=(scalar(1),)),
        "rows": Fact("list", "list", items=()),
        "torch.stack(rows)": tensor(4, 3, requires_grad=True),
    }
    case = Example(_SCORES.format(line), "", at="picks.tolist()", facts=facts, title="")
    found = WrapPiece().propose(example_site(case, "GB0124"))
    return ["".join(it.edits.values()) for it in found if isinstance(it, Rewrite)]


def test_a_gradient_goes_to_what_a_method_reads() -> None:
    first, *_ = _with_gradients("pass")
    assert "torch.func.vjp(lambda x, table:" in first
    assert "net.__dict__.update(table=table)" in first


_PROPERTY = """return self.table[at] * self.noise

    @property
    def noise(self):
        return {}
"""


def test_what_a_property_does_counts() -> None:
    assert "get_rng_state" not in _with_gradients(_PROPERTY.format("torch.ones(3)"))[0]
    assert "get_rng_state" in _with_gradients(_PROPERTY.format("torch.rand(3)"))[0]
    assert not _with_gradients(_PROPERTY.format("self.table.detach().requires_grad_()"))


def test_no_gradient_goes_to_what_no_argument_gives() -> None:
    assert not _with_gradients("return self.table[at] * SCALE")
    assert not _with_gradients("self.table.data.zero_()")

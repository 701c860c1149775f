"""Statistics of an object, found by its identity: copies, lifetimes, resets, many objects."""

from __future__ import annotations

import copy
import pickle
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from effect_trials import BACKENDS
from gbfix_codemods.side_effects.effect_to_op import EffectToOp
from planted import Gbfix

from gbfix.codemod import example_site


@pytest.fixture
def program() -> Iterator[Any]:
    """The codemod's example of an object, rewritten, as a module."""
    case = next(item for item in EffectToOp.examples if item.title == "a list of the object")
    rewrite = next(EffectToOp().propose(example_site(case, "GB0124")))
    assert not hasattr(rewrite, "text")
    text = rewrite.edits["example.py"].replace("example::", f"own_state_{next(_numbers)}::")  # type: ignore[union-attr]
    module = types.ModuleType("own_state_program")
    sys.modules[module.__name__] = module
    exec(compile(text, "own_state_program.py", "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]
    torch._dynamo.reset()


_numbers = iter(range(100))


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_object_keeps_its_own_in_order(program: Any, backend: str) -> None:
    net = program.Net()
    step = torch.compile(net, backend=backend, fullgraph=True)
    leaf = torch.ones(3, requires_grad=True)
    for scale in (1.0, 2.0):
        step(leaf * scale, 1, []).backward()
    assert leaf.grad is not None and leaf.grad.tolist() == pytest.approx([1.0] * 3)
    twin, thawed = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    net.losses = []
    for number, one in enumerate((net, twin, thawed), 3):
        torch.compile(one, backend=backend, fullgraph=True)(torch.full((3,), float(number)), 1, [])
    assert (net.losses, twin.losses, thawed.losses) == ([3.0], [1.0, 2.0, 4.0], [1.0, 2.0, 5.0])


def test_any_copy_has_its_own(program: Any) -> None:
    net = program.Net()
    torch.compile(net, backend="eager", fullgraph=True)(torch.ones(3), 1, [])
    shallow = copy.copy(net)
    shallow.losses = []
    by_hand = type(net).__new__(type(net))
    by_hand.__dict__ = copy.deepcopy(net.__dict__)
    for number, one in enumerate((shallow, by_hand), 2):
        torch.compile(one, backend="eager", fullgraph=True)(torch.full((3,), float(number)), 1, [])
    assert (net.losses, shallow.losses, by_hand.losses) == ([1.0], [2.0], [1.0, 3.0])


def test_a_list_that_grows_compiles_nothing_anew(program: Any) -> None:
    net = program.Net()
    graphs = []

    def count(graph: torch.fx.GraphModule, inputs: object) -> Any:
        graphs.append(graph)
        return graph

    step = torch.compile(net, backend=count, fullgraph=True)
    for _ in range(4):
        step(torch.ones(3), 1, [])
    assert net.losses == [1.0] * 4 and len(graphs) == 1


def test_an_object_lives_no_longer_than_before(program: Any) -> None:
    net = program.Net()
    program.keep_forward(torch.ones(()), id(net))
    gone = weakref.ref(net)
    del net
    assert gone() is None


def test_neighbours_share_one_operator(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        """
        import torch


        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.losses = []
                self.total = 0.0

            def forward(self, x):
                self.losses.append((x.dim(), x.mean().item()))
                self.total += x.sum().item()
                return x * 2


        net = Net()
        step = torch.compile(net)
        step(torch.ones(3))
        step(torch.ones(3) * 2)
        print(net.losses, net.total)
        """
    )
    (patch,) = report.patches
    assert patch.diff.count("WeakValueDictionary()") == patch.diff.count("def __new__") == 1

"""What `torch.cond` traces of its branches is kept from call to call, and nothing else changes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_PROGRAM = """
import importlib, json, sys
import torch
from gbfix.worker.branch_graphs import keep_graphs_of_branches

home = importlib.import_module("torch._higher_order_ops.cond")
traced = []
inner = home.materialize_as_graph


def counted(*args, **kwargs):
    traced.append(1)
    return inner(*args, **kwargs)


home.materialize_as_graph = counted
asked = home.CondOp.gen_schema


def counted_schema(*args):
    traced.append(1)
    return asked(*args)


home.CondOp.gen_schema = counted_schema
if sys.argv[1] == "kept":
    keep_graphs_of_branches()
w = torch.nn.Parameter(torch.tensor([1.5, -2.0, 0.5]))


def f(x):
    def up():
        return (x * w).sin() * BODY

    def down():
        return x - w.cos()

    return torch.cond(x.sum() > 0, up, down)


torch.manual_seed(0)
found, counts = [], []
for sign in (1, 1, -1, 1):
    for twice in (False, True):
        x = (sign * torch.arange(3.0)).requires_grad_()
        before = len(traced)
        y = f(x)
        grads = torch.autograd.grad(y.square().sum(), (x, w), create_graph=twice)
        if twice and grads[0].requires_grad:
            grads += torch.autograd.grad(grads[0].sum(), (x, w))
        found += [t.tolist() for t in (y, *grads)]
        counts.append(len(traced) - before)
found.append(torch.rand(1).item())
print(json.dumps([found, counts]))
"""


def run(how: str, body: str) -> tuple[list[object], list[int]]:
    program = _PROGRAM.replace("BODY", body)
    done = subprocess.run(
        [sys.executable, "-c", program, how], capture_output=True, text=True, check=True
    )
    found, counts = json.loads(done.stdout)
    return found, counts


@pytest.mark.parametrize("body", ["1", "torch.rand(3)"])
def test_values_gradients_and_draws_are_the_same(body: str) -> None:
    plain, _ = run("plain", body)
    kept, counts = run("kept", body)
    assert kept == plain
    assert counts[0] and not any(counts[2:]), (
        "branches and gradients are traced in the first calls alone"
    )

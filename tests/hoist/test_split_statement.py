"""A statement that is cut evaluates what it did, in the order in which it did."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gbfix_codemods.hoist.split_statement import SplitStatement

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact

HEAD = """
import torch

seen = []

def bump(x):
    seen.append(float(x.detach().flatten()[0]))
    with torch.no_grad():
        x.add_(1)
    return x * 2

def fails(x):
    raise ValueError("odd")

class Box:
    total = 1.0
    weight = torch.ones(3)
    def take(self, *values, **options):
        seen.append(self.total)
        self.total += 1
        return sum(values) + sum(options.values())

box = Box()
step = 1.0

def tick(x):
    global step
    step += 1.0
    box.total += 1.0
    box.weight = box.weight + 1
    return x * step

@torch.compile(backend="aot_eager", fullgraph=True)
def f(x, w):
    h = x * 1
"""
X = Fact("tensor", "torch.Tensor", shape=(2, 3), dtype="torch.float32", strides=(3, 1))

SECOND = ("a call before it",)
#: Statement, what broke in it, and which expressions were recorded (all as tensors but numbers).
STATEMENTS = {
    "a name that the call changes": ("return h + bump(h)", "bump(h)", ()),
    "a view of it": ("return h[0] * bump(h)", "bump(h)", ("h[0]",)),
    "a value from before the change": ("return h.sum() * bump(h)", "bump(h)", ("h.sum()",)),
    "a call before it": ("return bump(h) - w * bump(h)", "bump(h)", ()),
    "arguments in order": (
        "return box.take(bump(h), h.sin(), k=h.cos()) + 1",
        "box.take(bump(h), h.sin(), k=h.cos())",
        ("h.sin()", "h.cos()"),
    ),
    "a number that the call counts": (
        "return box.total * box.take(h.sin()) + box.total",
        "box.take(h.sin())",
        ("h.sin()", "box.total * box.take(h.sin())"),
    ),
    "a global that the call binds anew": ("return step * tick(h) + step", "tick(h)", ("tick(h)",)),
    "a method of a tensor that the call sets": (
        "return box.weight.mul(tick(h)) * h",
        "tick(h)",
        ("box.weight",),
    ),
    "an argument that another one changes": (
        "return box.take(box.total, tick(h)) * 2 + h",
        "box.take(box.total, tick(h))",
        ("tick(h)", "box.take(box.total, tick(h)) * 2 + h"),
    ),
    "a tuple": ("return h * 2, bump(h), h * 3", "bump(h)", ("h * 2", "h * 3")),
    # (Facts are looked up by the text that LibCST gives, which has less indentation.)
    "over several lines": (
        "return (\n        h  # first\n        + bump(h)\n    )",
        "bump(h)",
        ("h  # first\n    + bump(h)",),
    ),
    "an operator over several lines": (
        "return (\n        h  # first\n        @ w.t()\n    ).sum() * w",
        "h  # first\n        @ w.t()",
        ("h  # first\n    @ w.t()", "w.t()", "(\n    h  # first\n    @ w.t()\n).sum() * w"),
    ),
    "an error": ("return h * 2 + fails(h.sin())", "fails(h.sin())", ("h.sin()", "h * 2")),
    "an assignment into": (
        "h[0] = bump(h)[1] * 3\n    return h",
        "bump(h)",
        ("bump(h)[1] * 3",),
    ),
}


def _rewritten(source: str, at: str, facts: dict[str, Fact], nth: int = 0) -> str:
    case = Example(source, "", at, facts=facts, nth=nth)
    (rewrite,) = [
        item
        for item in SplitStatement().propose(example_site(case, "GB0098"))
        if isinstance(item, Rewrite)
    ]
    return rewrite.edits["example.py"]


def _run(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program.py", "exec"), names)
    x = torch.linspace(0.5, 2.0, 6).reshape(2, 3).requires_grad_()
    w = torch.full((2, 3), 0.25)
    try:
        result = names["f"](x, w)
    except ValueError as error:
        return [], [str(error), *names["seen"]], x.grad, w
    leaves = result if isinstance(result, tuple) else (result,)
    sum(leaf.sum() for leaf in leaves).backward()
    return [leaf.detach() for leaf in leaves], names["seen"], x.grad, w


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_cut_statement_does_what_it_did(name: str) -> None:
    statement, at, tensors = STATEMENTS[name]
    source = HEAD.lstrip("\n") + f"    {statement}\n"
    value = statement.removeprefix("return ")
    facts = dict.fromkeys((*tensors, at, value, "bump(h) * 3", "h + bump(h)"), X)
    if name == "a number that the call counts":
        facts["box.total"] = scalar(1.0)
    facts["step"] = scalar(1.0)
    facts["w * bump(h)"] = facts["h.sum() * bump(h)"] = X
    text = _rewritten(source, at, facts, nth=int(name in SECOND))
    eager = source.replace('@torch.compile(backend="aot_eager", fullgraph=True)\n', "")
    torch._dynamo.reset()
    expected, found = _run(eager), _run(text)
    assert found[1] == expected[1]
    torch.testing.assert_close((found[0], found[2:]), (expected[0], expected[2:]))


def test_a_value_that_no_graph_can_take_stays_out_of_the_parts() -> None:
    source = HEAD.lstrip("\n") + "    return h * bump(h).to_sparse()\n"
    facts = {"h * bump(h).to_sparse()": tensor(2, 3), "bump(h).to_sparse()": tensor(2, 3)}
    case = Example(source, "", "bump(h).to_sparse()", facts=facts)
    assert not list(SplitStatement().propose(example_site(case, "GB0277")))

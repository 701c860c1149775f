"""Functions cut in `with`, `try`, loops, branches and methods do what they did, compiled."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch
from gbfix_codemods.hoist.split_function import SplitFunction

from gbfix.codemod import Example, Rewrite, example_site

HEAD = """
import contextlib
import time
import torch

log = []


class Noted:
    def __enter__(self):
        log.append("in")

    def __exit__(self, kind, error, traceback):
        log.append(kind)


def stop(value):
    log.append(float(value))
    time.sleep(0)


"""
DECORATOR = '@torch.compile(backend="aot_eager", fullgraph=True)\n'

PROGRAMS = {
    "in a with": """
        DECORATOR
        def f(x, w):
            x = x * 2
            with Noted():
                y = x @ w
                stop(y.sum())
                z = y + x.sum()
            return z * z
    """,
    "in a with that changes gradients": """
        DECORATOR
        def f(x, w):
            x = x @ w
            with torch.no_grad():
                y = x * 2
                stop(y.sum())
                z = y + 1
            return z * x
    """,
    "at the head of a with": """
        DECORATOR
        def f(x, w):
            with contextlib.ExitStack() as stack, contextlib.suppress(stop(1) or KeyError):
                y = (x @ w) * 2
            return y + 1
    """,
    "in a try whose handler reads": """
        DECORATOR
        def f(x, w, table={"a": 2.0}):
            for key in ("a", "b"):
                try:
                    y = x * 2
                    stop(y.sum())
                    z = (y @ w) * table[key]
                except KeyError as error:
                    log.append(str(error))
                    z = y - 1
                else:
                    z = z * 2
                finally:
                    log.append(key)
            return z + 1
    """,
    "in a loop with jumps": """
        DECORATOR
        def f(x, w):
            total = x.sum()
            for i in range(4):
                if i == 1:
                    continue
                y = x @ w + i
                stop(y.sum())
                if i == 2:
                    total = total + y.sum()
                    break
                total = total * y.mean()
            else:
                total = total + 1
            return total * 2
    """,
    "early returns": """
        DECORATOR
        def f(x, w, flag=False):
            if w is None:
                return x * 3
            if flag:
                return x
            y = x @ w
            stop(y.sum())
            if y.dim() > 2:
                return y * 2
            return y * y
    """,
    "in a branch": """
        DECORATOR
        def f(x, w):
            if x.dim() == 2:
                y = x @ w
                stop(y.sum())
                return y * y
            else:
                z = x - 1
            return z * 2
    """,
    "in a while": """
        DECORATOR
        def f(x, w):
            n = 0
            while n < 3:
                x = x + w.sum()
                n += 1
                stop(n)
                x = x * 2
            return x
    """,
    "changes in place across the parts": """
        DECORATOR
        def f(x, w):
            v = x[0]
            for _ in range(2):
                v.add_(1)
                stop(v.sum())
                v.mul_(2)
            return v, x.sum()
    """,
    "a method": """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                self.fc = torch.nn.Linear(3, 3)
                self.norm = torch.nn.BatchNorm1d(3)

            @torch.compile(backend="aot_eager", fullgraph=True)
            def forward(self, x, w=None):
                h = self.norm(self.fc(x))
                stop(h.sum())
                return self.fc(h)

        net = Net()

        def f(x, w):
            return net(x) + net.norm.running_mean
    """,
    "a list that grows": """
        DECORATOR
        def f(x, w):
            outs = []
            for i in range(3):
                x = x.tanh()
                stop(x.sum())
                outs.append(x)
            return torch.stack(outs)
    """,
}


def _run(text: str) -> Any:
    torch._dynamo.reset()
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program.py", "exec"), names)
    results = []
    for seed in range(2):
        torch.manual_seed(seed)
        x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
        result = names["f"](x, w)
        for leaf in torch.utils._pytree.tree_leaves(result):
            if leaf.requires_grad:
                leaf.sum().backward(retain_graph=True)
        results.append((result, x, w.grad))
    if "net" in names:
        results.append([parameter.grad for parameter in names["net"].parameters()])
    return results, names["log"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parts_do_what_the_whole_did(name: str) -> None:
    source = textwrap.dedent(PROGRAMS[name]).lstrip("\n").replace("DECORATOR\n", DECORATOR)
    before = HEAD.lstrip("\n") + source
    at = source[source.index("stop(") :].partition("\n")[0].partition(" or")[0]
    site = example_site(Example(before, "", at), "GB0007")
    (rewrite,) = [item for item in SplitFunction().propose(site) if isinstance(item, Rewrite)]
    after = rewrite.edits["example.py"]
    eager = before.replace(DECORATOR.strip(), "")
    wanted, noted = _run(eager)
    got, seen = _run(after)
    torch.testing.assert_close(got, wanted)
    for one, other in zip(seen, noted, strict=True):
        assert one == (pytest.approx(other) if isinstance(other, float) else other), after

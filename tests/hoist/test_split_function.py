"""The halves of a split function do what the whole did, gradients and changes in place included."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch
from gbfix_codemods.hoist.split_function import SplitFunction

from gbfix.codemod import Example, Rewrite, example_site

PROGRAMS = {
    "gradients": (
        """
        import time
        import torch

        @torch.compile(backend="aot_eager", fullgraph=True)
        def f(x, w):
            h = x @ w
            seen = time.sleep(0)
            return (h * h).sum(), seen
        """,
        "time.sleep(0)",
        lambda: (torch.randn(2, 3), torch.randn(3, 4, requires_grad=True)),
    ),
    "rebound parameters": (
        """
        import time
        import torch

        @torch.compile(backend="aot_eager", fullgraph=True)
        def f(x, w, *, scale=2.0):
            x = x * scale
            if scale > 1:
                w = w + 1
            time.sleep(0)
            x = x - w
            return x
        """,
        "time.sleep(0)",
        lambda: (torch.randn(3), torch.randn(3)),
    ),
    "changes in place": (
        """
        import time
        import torch

        @torch.compile(backend="aot_eager", fullgraph=True)
        def f(x, w):
            v = x[0]
            v.add_(1)
            time.sleep(0)
            v.mul_(w)
            return v
        """,
        "time.sleep(0)",
        lambda: (torch.randn(2, 3), torch.randn(3)),
    ),
    "nothing returned": (
        """
        import time
        import torch

        @torch.compile(backend="aot_eager", fullgraph=True)
        def f(x, w):
            x.add_(w)
            time.sleep(0)
            x.mul_(w)
        """,
        "time.sleep(0)",
        lambda: (torch.randn(3), torch.randn(3)),
    ),
    "other names shadow": (
        """
        import time
        import torch

        f_before = f_after = None

        @torch.compile(backend="aot_eager", fullgraph=True)
        def f(x, w):
            total = sum([x * k for k in (1, 2)])
            time.sleep(0)
            return total, [w + k for k in (1, 2)]
        """,
        "time.sleep(0)",
        lambda: (torch.randn(3), torch.randn(3)),
    ),
    "a lock that is taken and given back": (
        """
        import threading

        import torch

        lock = threading.Lock()
        seen = [0]

        @torch.compile(backend="aot_eager", fullgraph=True)
        def f(x, w):
            y = x.sin()
            lock.acquire()
            try:
                seen[0] += 1
            finally:
                lock.release()
            return (y * w).sum(), seen[0]
        """,
        "lock.acquire()",
        lambda: (torch.randn(3, requires_grad=True), torch.randn(3)),
    ),
}


def _run(text: str, arguments: tuple[torch.Tensor, ...]) -> Any:
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "program.py", "exec"), names)
    result = names["f"](*arguments)
    first = result[0] if isinstance(result, tuple) else result
    if isinstance(first, torch.Tensor) and first.requires_grad:
        first.backward()
    gradients = [argument.grad for argument in arguments]
    return result, [argument.detach() for argument in arguments], gradients


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_halves_do_what_the_whole_did(name: str) -> None:
    source, at, make = PROGRAMS[name]
    before = textwrap.dedent(source).lstrip("\n")
    site = example_site(Example(before, "", at), "GB0007")
    (rewrite,) = [item for item in SplitFunction().propose(site) if isinstance(item, Rewrite)]
    after = rewrite.edits["example.py"]
    eager = before.replace('@torch.compile(backend="aot_eager", fullgraph=True)\n', "")
    results = []
    for text in (eager, after):
        torch._dynamo.reset()
        torch.manual_seed(0)
        results.append(_run(text, make()))
    torch.testing.assert_close(results[1], results[0])

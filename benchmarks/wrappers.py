"""What each wrapper form costs for a call; ratios within one run.

    python benchmarks/wrappers.py [--rounds 7] [--calls 200] [--backend inductor]

Every form wraps the same small computation, as gbfix writes it.  A row gives the median time of a
call, first in plain eager against the plain call, then inside a function that is compiled with
``fullgraph=True`` against the same function with the plain call traced into the graph.
Forms with an effect are compared with the same function without the effect at all: the difference
is the price of keeping it.  Forms that keep a gradient are timed with their backward, too.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

SIZE = 256
LOG: list[float] = []
Function = Callable[[torch.Tensor], torch.Tensor]


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


@torch.library.custom_op("wrappers::pure", mutates_args=())
def pure(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


pure.register_fake(lambda x: torch.empty_like(x))


@torch.library.custom_op("wrappers::ordered", mutates_args=())
def ordered(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


ordered.register_fake(lambda x: torch.empty_like(x))
ordered.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("wrappers::keep", mutates_args=())
def keep(x: torch.Tensor) -> None:
    LOG.append(x[0].item())


keep.register_fake(lambda x: None)
keep.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("wrappers::guarded", mutates_args=())
def guarded(x: torch.Tensor) -> None:
    if torch.isnan(x).any():
        LOG.append(0.0)


guarded.register_fake(lambda x: None)
guarded.register_effect(torch.library.EffectType.ORDERED)


@torch.library.custom_op("wrappers::again", mutates_args=())
def again(x: torch.Tensor) -> torch.Tensor:
    return plain(x)


again.register_fake(lambda x: torch.empty_like(x))


@torch.library.custom_op("wrappers::again_backward", mutates_args=())
def again_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    _, pull = torch.func.vjp(plain, x)
    return pull(grad)[0].clone()


again_backward.register_fake(lambda grad, x: torch.empty_like(x))
again.register_autograd(
    lambda ctx, grad: again_backward(grad, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@torch.library.custom_op("wrappers::draw", mutates_args=())
def draw(anchor: torch.Tensor) -> torch.Tensor:
    return torch.tensor(random.randrange(3), dtype=torch.int64)


draw.register_fake(lambda anchor: torch.empty((), dtype=torch.int64))
draw.register_effect(torch.library.EffectType.ORDERED)

traced = torch._dynamo.nonstrict_trace(plain)


def shown(x: torch.Tensor) -> torch.Tensor:
    torch._higher_order_ops.print("{}", "")
    return x.sin() * 2


def kept(x: torch.Tensor) -> torch.Tensor:
    keep(x)
    return x.sin() * 2


def drawn(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * draw(torch.empty(0))


def checked(x: torch.Tensor) -> torch.Tensor:
    guarded(x)
    return x.sin() * 2


#: name, the wrapped call
FORMS: tuple[tuple[str, Function], ...] = (
    ("custom operator, pure", pure),
    ("custom operator, ordered effects", ordered),
    ("operator that draws a whole number", drawn),
    ("nonstrict_trace", traced),
    ("print operator (empty line)", shown),
    ("effect operator: statistics", kept),
    ("effect operator: a test that is false", checked),
)


#: Forms that keep a gradient, by a call with its backward.
DIFFERENTIABLE: tuple[tuple[str, Function], ...] = (
    ("with backward: nonstrict_trace", traced),
    ("with backward: runs again (vjp)", again),
)


def with_backward(call: Function) -> Function:
    def function(x: torch.Tensor) -> torch.Tensor:
        leaf = x.detach().requires_grad_()
        call(leaf).sum().backward()
        return leaf

    return function


def in_a_graph(call: Function) -> Function:
    def function(x: torch.Tensor) -> torch.Tensor:
        return call(x + 1) - 1

    return function


def split_in_two(backend: str) -> Function:
    """A function that was split: two graphs with Python between them."""
    before = torch.compile(lambda x: x + 1, backend=backend, fullgraph=True)
    after = torch.compile(lambda y: y.sin() * 2 - 1, backend=backend, fullgraph=True)
    return lambda x: after(before(x))


def measure(function: Function, x: torch.Tensor, rounds: int, calls: int) -> float:
    """Median seconds of a call, after a warm-up; output is not shown."""
    sys.stdout.flush()
    real, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        for _ in range(20):
            function(x)
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(calls):
                function(x)
            times.append((time.perf_counter() - start) / calls)
    finally:
        sys.stdout.flush()
        os.dup2(real, 1)
        os.close(real)
        os.close(null)
        LOG.clear()
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--backend", default="aot_eager")
    options = parser.parse_args()
    x = torch.randn(SIZE)

    def compiled(call: Function) -> Function:
        torch._dynamo.reset()  # all forms share one function's code, and its limit of compilations
        return torch.compile(in_a_graph(call), backend=options.backend, fullgraph=True)

    def timed(function: Function) -> float:
        return measure(function, x, options.rounds, options.calls)

    eager = timed(plain)
    graph = timed(compiled(plain))
    print(f"backend {options.backend}, {SIZE} floats; ratios to the plain call")
    print(f"{'form':40} {'eager':>10} {'compiled':>10}")
    for name, call in FORMS:
        print(f"{name:40} {timed(call) / eager:9.2f}x {timed(compiled(call)) / graph:9.2f}x")
    forward = timed(with_backward(compiled(plain)))
    for name, call in DIFFERENTIABLE:
        cost = timed(with_backward(compiled(call)))
        print(f"{name:40} {'':>10} {cost / forward:9.2f}x")
    split = timed(split_in_two(options.backend))
    print(f"{'split function (two graphs)':40} {'':>10} {split / graph:9.2f}x")


if __name__ == "__main__":
    main()

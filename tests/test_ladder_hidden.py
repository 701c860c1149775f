"""The ladder sees what hides: private state, settings, order, inputs that nobody gave."""

from __future__ import annotations

import pytest
from planted import HEAD, Gbfix, Planted, Wrong, assert_caught, run_planted

from gbfix import ladder, loop
from gbfix.worker.protocol import Outcome, Traced

BREAK = "    torch._dynamo.graph_break()\n"


def _f(body: str, call: str = "f(torch.ones(3))", before: str = "", signature: str = "x") -> str:
    """A program with one region ``f`` that breaks first of all."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{before}\n\n@torch.compile\ndef f({signature}):\n{BREAK}{lines}\n\n{call}\n"


HOOKED = """y = x * 2
y.register_hook(lambda gradient: print("gradient"))
return y.sum()"""

CASES = [
    Wrong(
        "what a hook prints",
        _f(HOOKED, "f(torch.ones(3, requires_grad=True))"),
        BREAK + '    y = x * 2\n    y.register_hook(lambda gradient: print("gradient"))\n',
        "    y = x * 2\n",
        "effects",
        "of the backward pass differ",
    ),
    Wrong(
        "an attribute that a hook sets",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 3)
                self.gradient = None

            def keep(self, gradient):
                self.gradient = gradient

            def forward(self, x):
                torch._dynamo.graph_break()
                y = self.layer(x)
                y.register_hook(self.keep)
                return y.sum()

        torch.compile(Net())(torch.ones(3))
        """,
        "        torch._dynamo.graph_break()\n        y = self.layer(x)\n"
        "        y.register_hook(self.keep)\n",
        "        y = self.layer(x)\n",
        "outputs",
    ),
    Wrong(
        "what a first call keeps of other inputs",
        """
        class Scaled(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.low = None

            def forward(self, x):
                if self.low is None:
                    torch._dynamo.graph_break()
                    self.low = min(x.min().item(), 0)
                return (x - self.low).sum()

        torch.compile(Scaled())(torch.ones(3))
        """,
        "            torch._dynamo.graph_break()\n            self.low = min(x.min().item(), 0)\n",
        "            self.low = 0\n",
        "outputs",
        "first-",
    ),
    Wrong(
        "what an object counts that a class holds",
        """
        class Meter:
            def __init__(self):
                self.count = 0


        class Net(torch.nn.Module):
            meter = Meter()

            def forward(self, x):
                torch._dynamo.graph_break()
                self.meter.count += 1
                return x * 2

        torch.compile(Net())(torch.ones(3))
        """,
        "        torch._dynamo.graph_break()\n        self.meter.count += 1\n",
        "",
        "outputs",
        "class.Net.meter",
    ),
    Wrong(
        "a number that is cut off only where it is no whole one",
        _f(
            "return x + (n.clamp(max=int(n)))",
            "f(torch.ones(3), torch.tensor(2))",
            signature="x, n",
        ),
        BREAK + "    return x + (n.clamp(max=int(n)))\n",
        "    return x + n\n",
        "outputs",
        "Where a whole number is given as a fraction",
        caveat=True,
    ),
    Wrong(
        "a private attribute of a module",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self._steps = 0

            def forward(self, x):
                torch._dynamo.graph_break()
                self._steps += 1
                return x * 2

        torch.compile(Net())(torch.ones(3))
        """,
        "        torch._dynamo.graph_break()\n        self._steps += 1\n",
        "        pass\n",
        "outputs",
        "self._steps afterwards",
    ),
    Wrong(
        "a class attribute",
        """
        class Net(torch.nn.Module):
            steps = 0

            def forward(self, x):
                torch._dynamo.graph_break()
                Net.steps += 1
                return x * 2

        torch.compile(Net())(torch.ones(3))
        """,
        "        torch._dynamo.graph_break()\n        Net.steps += 1\n",
        "        pass\n",
        "outputs",
        "class.Net.steps afterwards",
    ),
    Wrong(
        "an attribute of a helper function, and its default argument",
        _f(
            "return helper(x) * 2",
            before="def helper(x, seen=[]):\n    seen.append(1)\n    return x\n",
        ),
        "    seen.append(1)\n    return x\n\n\n@torch.compile\ndef f(x):\n" + BREAK,
        "    return x\n\n\n@torch.compile\ndef f(x):\n",
        "outputs",
        "default.helper.0",
    ),
    Wrong(
        "a global that the call makes, and a key of a global dictionary",
        _f("global LAST\nLAST = x.shape[0]\nSEEN[LAST] = True\nreturn x * 2", before="SEEN = {}\n"),
        BREAK + "    global LAST\n    LAST = x.shape[0]\n    SEEN[LAST] = True\n",
        "    SEEN.get(3)\n",
        "outputs",
        "global.SEEN",
    ),
    Wrong(
        "a global that the call makes",
        _f("global LAST\nLAST = x.shape[0]\nreturn x * 2"),
        BREAK + "    global LAST\n    LAST = x.shape[0]\n",
        "    global LAST\n    if x.dim() > 7:\n        LAST = 1\n",
        "outputs",
        "global.LAST is missing",
    ),
    Wrong(
        "a deleted attribute",
        """
        class Net(torch.nn.Module):
            def forward(self, x):
                torch._dynamo.graph_break()
                if hasattr(self, "note"):
                    del self.note
                return x * 2

        net = Net()
        net.note = 3
        torch.compile(net)(torch.ones(3))
        """,
        "        torch._dynamo.graph_break()\n"
        '        if hasattr(self, "note"):\n            del self.note\n',
        "        pass\n",
        "outputs",
        "self.note is still there",
    ),
    Wrong(
        "a private random stream",
        _f(
            "noise = RNG.random()\nRNG.random()\nreturn x * noise",
            before="import random\n\nRNG = random.Random(3)\n",
        ),
        BREAK + "    noise = RNG.random()\n    RNG.random()\n",
        "    noise = RNG.random()\n",
        "outputs",
        "global.RNG afterwards",
    ),
    Wrong(
        "a print before a log record instead of after it",
        _f(
            'logger.warning("first")\nprint("second")\nreturn x * 2',
            before='import logging\n\nlogger = logging.getLogger("planted")\n',
        ),
        BREAK + '    logger.warning("first")\n    print("second")\n',
        '    print("second")\n    logger.warning("first")\n',
        "effects",
        "in another order",
    ),
    Wrong(
        "gradients of a backward pass inside the region",
        _f(
            "loss = (weight * x).sum()\nloss.backward()\nreturn loss.detach()",
            before="weight = torch.ones(3, requires_grad=True)\n",
        ),
        BREAK + "    loss = (weight * x).sum()\n    loss.backward()\n",
        "    loss = (weight * x).sum()\n    (loss * 2).backward()\n",
        "outputs",
        "global.weight.grad",
    ),
    Wrong(
        "a gradient that a program under no_grad never asks for",
        _f(
            "return x * weight",
            "with torch.no_grad():\n    f(torch.ones(3))",
            before="weight = torch.ones(3, requires_grad=True)\n",
        ),
        BREAK + "    return x * weight",
        "    return x * weight.detach()",
        "gradients",
        "gradient of global.weight",
        caveat=True,
    ),
    Wrong(
        "gradient mode left off",
        _f("return x * 2"),
        BREAK,
        "    torch.set_grad_enabled(False)\n",
        "outputs",
        "grad mode afterwards differs",
    ),
    Wrong(
        "an environment variable",
        _f('os.environ["PLANTED"] = "1"\nreturn x * 2', before="import os\n"),
        BREAK + '    os.environ["PLANTED"] = "1"\n',
        "",
        "outputs",
        "environment afterwards differs",
    ),
    Wrong(
        "a list that no longer is the caller's",
        _f("xs.append(xs[0] * 2)\nreturn xs", "f([torch.ones(3)]).append(1)", signature="xs"),
        BREAK + "    xs.append(xs[0] * 2)\n    return xs",
        "    xs.append(xs[0] * 2)\n    return list(xs)",
        "outputs",
        "is now a new one",
        caveat=True,
    ),
    Wrong(
        "a number that was baked in",
        _f("return x * n", "f(torch.ones(3), 3)", signature="x, n"),
        BREAK + "    return x * n",
        "    return x * 3",
        "outputs",
        "(inputs: numbers)",
    ),
    Wrong(
        "what a function that is given back computes later",
        """
        @torch.compile
        def f(x):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x * 3
            return y, lambda z: z * y


        f(torch.ones(3))
        """,
        "    if x.sum() > 0:\n        y = x * 2\n    else:\n        y = x * 3\n"
        "    return y, lambda z: z * y",
        "    y = torch.where(x.sum() > 0, x * 2, x * 3)\n    return y, lambda z: z - y",
        "outputs",
        "the text of a function changed",
        caveat=True,
    ),
    Wrong(
        "what a function that is given back holds",
        """
        @torch.compile
        def f(x):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x * 3
            return lambda z: z * y


        f(torch.ones(3))
        """,
        "    if x.sum() > 0:\n        y = x * 2\n    else:\n        y = x * 3\n",
        "    y = torch.where(x.sum() > 0, x * 2, x * 4)\n",
        "outputs",
        "output: values differ",
    ),
    Wrong(
        "what a coroutine ends with",
        """
        import asyncio


        @torch.compile
        async def f(x):
            if x.sum() > 0:
                return x.exp()
            return x.sin()


        asyncio.run(f(torch.ones(3)))
        """,
        "    if x.sum() > 0:\n        return x.exp()\n    return x.sin()",
        "    return torch.where(x.sum() > 0, x.exp(), x.cos())",
        "outputs",
        "not deterministic",
        caveat=True,
    ),
    Wrong(
        "a result of integers that becomes one of floats",
        _f("if x.dim() == 1:\n    return x * 2\nreturn x * 0.5"),
        BREAK + "    if x.dim() == 1:\n        return x * 2\n    return x * 0.5",
        "    return torch.where(torch.tensor(x.dim() == 1), x * 2, x * 0.5)",
        "outputs",
        "For integer inputs, the result has dtype torch.float32 instead of torch.int64.",
        limit=True,
    ),
    Wrong(
        "a flag that may be a Python bool",
        _f(
            "if flag:\n    return x * 2\nreturn x * 3",
            "f(torch.ones(3), torch.tensor(True))",
            signature="x, flag",
        ),
        BREAK + "    if flag:\n        return x * 2\n    return x * 3",
        "    return torch.where(flag, x * 2, x * 3)",
        "outputs",
        "Where a Python number is given for a tensor, the patch raises an error",
        limit=True,
    ),
    Wrong(
        "an optional argument that was always given",
        _f(
            "if mask is None:\n    return x\nreturn x * mask",
            "f(torch.ones(3), torch.ones(3))",
            signature="x, mask=None",
        ),
        BREAK + "    if mask is None:\n        return x\n",
        "",
        "outputs",
        "(inputs: defaults)",
    ),
    Wrong(
        "two arguments that may be one tensor",
        _f("a.add_(1)\nreturn a * b", "f(torch.ones(3), torch.ones(3))", signature="a, b"),
        BREAK + "    a.add_(1)\n    return a * b",
        "    result = (a + 1) * b\n    a.add_(1)\n    return result",
        "outputs",
        "Where one tensor is given twice, the result has another value.",
        limit=True,
    ),
    Wrong(
        "a wrong value that is small",
        _f("return x * 3e-7"),
        BREAK + "    return x * 3e-7",
        "    return x * 2e-7",
        "outputs",
        "far apart for their size",
    ),
    Wrong(
        "what an exception carries",
        _f(
            'if x.shape[0] == 0:\n    raise Empty("none", x.dim())\nreturn x * 2',
            before="class Empty(ValueError):\n    def __init__(self, text, dims):\n"
            "        super().__init__(text)\n        self.dims = dims\n",
        ),
        BREAK + '    if x.shape[0] == 0:\n        raise Empty("none", x.dim())\n',
        '    if x.shape[0] == 0:\n        raise Empty("none", 0)\n',
        "outputs",
        "exception",
        caveat=True,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_patch_is_never_called_safe(
    case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))


@pytest.mark.parametrize(
    ("graphs", "passes"),
    [((1, 1, 0), True), ((1, 1, 1), False), ((1, 1), False), ((1, 2, 0), False), ((1, 0, 0), True)],
)
def test_one_recompile_that_makes_a_number_dynamic_passes(
    graphs: tuple[int, ...], passes: bool
) -> None:
    """Once more in the second call is right where a third call shows that it was the last."""
    key = "program.py::f"
    original = {(key, index): int(index == 0) for index in range(3)}
    baseline = ladder.Baseline({key: (0, 1)}, original, {}, b"", True, True, {})
    events = [Traced(key, index, "user", (), graphs=n) for index, n in enumerate(graphs)]
    rung = ladder._recompiles(Outcome(list(events)), baseline)
    assert rung.passed is passes, rung
    assert ("one more for a later call" in rung.detail) == (graphs == (1, 1, 0))


@pytest.mark.parametrize(
    ("graphs", "passes"), [((1, 1, 1), True), ((1, 0, 1), True), ((1, 2, 0), False)]
)
def test_a_graph_for_a_call_that_python_ran_is_no_recompile(
    graphs: tuple[int, ...], passes: bool
) -> None:
    """The original broke in its second call and was given up: what is compiled there is new."""
    key = "program.py::f"
    original = {(key, index): int(index == 0) for index in range(3)}
    baseline = ladder.Baseline(
        {key: (0, 1)}, original, {}, b"", True, True, {}, uncompiled=frozenset({(key, 1)})
    )
    events = [Traced(key, index, "user", (), graphs=n) for index, n in enumerate(graphs)]
    rung = ladder._recompiles(Outcome(list(events)), baseline)
    assert rung.passed is passes, rung


def test_inputs_on_which_the_program_never_ends_are_left_out(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _f("while x.max() > 1:\n    x = x - 1\nreturn x", "f(torch.full((3,), 4.0))")
    monkeypatch.setattr(loop, "discover", lambda: [Planted(BREAK, "")])
    report = gbfix_run(HEAD + source)
    assert not report.errors
    assert report.breaks[0].attempts

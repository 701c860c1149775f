"""The validation ladder catches wrong patches.

Each case pairs a program with a rewrite that removes its graph break and does something wrong on
the way.  The rewrite comes from a codemod made up for the test; all else is the real engine.
"""

from __future__ import annotations

import pytest
from planted import HEAD, Gbfix, Planted, Wrong, assert_caught, run_planted

from gbfix import branches, loop
from gbfix.schema import Safety, Span

CASES = [
    Wrong(
        "a comparison of two inputs that is wrong where they are near each other",
        """
        @torch.compile
        def f(a, b):
            torch._dynamo.graph_break()
            return torch.where(b.abs().sum() > a.abs().sum(), a + 1, b - 1)


        f(torch.ones(8), torch.full((8,), 100.0))
        """,
        "    torch._dynamo.graph_break()\n    return torch.where(b.abs().sum() > a.abs().sum(), ",
        "    return torch.where(b.abs().sum() > a.abs().mean(), ",
        "outputs",
        "values differ",
    ),
    Wrong(
        "wrong value in the branch not taken",
        """
        @torch.compile
        def f(x):
            if x.sum() > 0:
                return x + 1
            return x - 1

        print(f(torch.ones(3)))
        """,
        """    if x.sum() > 0:
        return x + 1
    return x - 1
""",
        """    return torch.where(x.sum() > 0, x + 1, x + 1)
""",
        "outputs",
        "values differ",
    ),
    Wrong(
        "a threshold a little off",
        """
        @torch.compile
        def f(x):
            if x.sum() > 0:
                return x.softmax(0) * x
            return (-x).softmax(0) * x

        torch.manual_seed(0)
        f(torch.randn(4, 3).abs())
        """,
        """    if x.sum() > 0:
        return x.softmax(0) * x
    return (-x).softmax(0) * x
""",
        """    return torch.where(x.sum() > 0.5, x.softmax(0) * x, (-x).softmax(0) * x)
""",
        "outputs",
        "(inputs: edge",
    ),
    Wrong(
        "lost print under aot_eager",
        """
        @torch.library.custom_op("planted::say", mutates_args=())
        def say() -> None:
            print("hello")


        say.register_fake(lambda: None)


        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x + 1

        f(torch.ones(3))
        """,
        "    torch._dynamo.graph_break()\n",
        "    print('hello') if not torch.compiler.is_compiling() else say()\n",
        "effects",
        "stdout",
    ),
    Wrong(
        "print that only aot_eager drops",
        """
        @torch.library.custom_op("planted::say", mutates_args=())
        def say() -> None:
            print("hello")


        say.register_fake(lambda: None)


        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            print("hello")
            return x + 1

        f(torch.ones(3))
        """,
        '    torch._dynamo.graph_break()\n    print("hello")\n',
        "    say()\n",
        "aot_eager",
        "stdout",
    ),
    Wrong(
        "lost gradient",
        """
        weight = torch.ones(3, requires_grad=True)


        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return (x * weight).sum() + weight.sum()

        f(torch.ones(3)).backward()
        """,
        "    torch._dynamo.graph_break()\n    return (x * weight).sum() + weight.sum()",
        "    return (x * weight.detach()).sum() + weight.sum()",
        "gradients",
        "gradient of global.weight",
    ),
    Wrong(
        "changed dtype",
        """
        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x * 2

        f(torch.ones(3))
        """,
        "    torch._dynamo.graph_break()\n    return x * 2",
        "    return x.double() * 2",
        "outputs",
        "dtype torch.float32 became torch.float64",
    ),
    Wrong(
        "changed exception",
        """
        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            if x.shape[0] == 0:
                raise ValueError("empty")
            return x * 2

        f(torch.ones(3))
        """,
        "    torch._dynamo.graph_break()\n"
        '    if x.shape[0] == 0:\n        raise ValueError("empty")\n',
        '    torch._check(x.shape[0] != 0, lambda: "empty")\n',
        "outputs",
        "instead of ValueError",
    ),
    Wrong(
        "a side that Python alone showed",
        """
        def low(x):
            return x.nan_to_num().clamp(-9, 9).sum() > -1e4

        @torch.compile
        def f(x, on):
            if on and low(x):
                x = x * 2
            else:
                x = x - 1
            return x

        f(torch.ones(3), True)
        f(torch.ones(3), False)
        """,
        "    if on and low(x):\n        x = x * 2\n    else:\n        x = x - 1\n",
        "    if on:\n        x = torch.where(low(x), x * 2, x * 7)\n    else:\n        x = x - 1\n",
        "branches",
        "values differ",
    ),
    Wrong(
        "lost in-place update of an input",
        """
        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            x.add_(1)
            return x * 2

        f(torch.ones(3))
        """,
        "    torch._dynamo.graph_break()\n    x.add_(1)\n",
        "    x = x + 1\n",
        "outputs",
        "input after the call",
    ),
    Wrong(
        "lost module state",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("total", torch.zeros(()))

            def forward(self, x):
                torch._dynamo.graph_break()
                self.total += x.sum()
                return x * 2

        torch.compile(Net())(torch.ones(3))
        """,
        "        torch._dynamo.graph_break()\n        self.total += x.sum()\n",
        "        pass\n",
        "outputs",
        "self.total afterwards",
    ),
    Wrong(
        "lost Python state",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.seen = []

            def forward(self, x):
                torch._dynamo.graph_break()
                self.seen.append(x.shape[0])
                return x * 2

        torch.compile(Net())(torch.ones(3))
        """,
        "        torch._dynamo.graph_break()\n        self.seen.append(x.shape[0])\n",
        "        pass\n",
        "outputs",
        "self.seen",
    ),
    Wrong(
        "changed consumption of random numbers",
        """
        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x * torch.rand(3)

        f(torch.ones(3))
        """,
        "    torch._dynamo.graph_break()\n    return x * torch.rand(3)",
        "    noise = torch.rand(3)\n    torch.rand(3)\n    return x * noise",
        "outputs",
        "torch random stream",
    ),
    Wrong(
        "a log record lost",
        """
        import logging

        logger = logging.getLogger("planted")


        @torch.compile
        def f(x):
            logger.warning("value %s", 3)
            torch._dynamo.graph_break()
            return x * 2

        f(torch.ones(3))
        """,
        '    logger.warning("value %s", 3)\n    torch._dynamo.graph_break()\n',
        "    pass\n",
        "effects",
        "logs differ",
    ),
    Wrong(
        "NaN gradient from the arm not taken",
        """
        @torch.compile
        def f(x):
            if x.sum() > 0:
                return x.sqrt()
            return x * 0.5

        x = torch.tensor([4.0, 9.0], requires_grad=True)
        f(x).sum().backward()
        """,
        """    if x.sum() > 0:
        return x.sqrt()
    return x * 0.5
""",
        """    return torch.where(x.sum() > 0, x.sqrt(), x * 0.5)
""",
        "gradients",
        "gradient of in.0.0",
    ),
    Wrong(
        "a broken program",
        """
        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x * 2

        f(torch.ones(3))
        """,
        "    torch._dynamo.graph_break()\n",
        "    y = undefined_name\n",
        "outputs",
        "NameError",
    ),
    Wrong(
        "the program prints something else",
        """
        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x * 2

        f(torch.ones(3))
        print("end")
        """,
        '    torch._dynamo.graph_break()\n    return x * 2\n\nf(torch.ones(3))\nprint("end")',
        '    return x * 2\n\nf(torch.ones(3))\nprint("finish")',
        "program",
        "'finish'",
    ),
    Wrong(
        "a result that no longer is its input",
        """
        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x

        f(torch.ones(3)).add_(1)
        """,
        "    torch._dynamo.graph_break()\n    return x\n",
        "    return x.clone()\n",
        "outputs",
        "is now a copy",
        caveat=True,
    ),
    Wrong(
        "a zero gradient instead of none",
        """
        unused = torch.ones((), requires_grad=True)


        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x * 2

        optimizer = torch.optim.SGD([unused], 0.1, weight_decay=0.1)
        f(torch.ones(3, requires_grad=True)).sum().backward()
        optimizer.step()
        """,
        "    torch._dynamo.graph_break()\n    return x * 2",
        "    return x * 2 + (0 * unused).to(x.dtype)",
        "gradients",
        "zero gradient",
        caveat=True,
    ),
]


CASES += [
    Wrong(
        "a number that torch.cond cannot take once it changes",
        """
        @torch.compile
        def f(x, limit: float):
            if x.max() > limit:
                return x * limit
            return x + limit

        f(torch.ones(3), 0.5)
        """,
        "    if x.max() > limit:\n        return x * limit\n    return x + limit",
        "    return torch.cond(x.max() > limit, lambda: x * limit, lambda: x + limit)",
        "eager",
        "(inputs: numbers)",
    ),
    Wrong(
        "an instance with another number",
        """
        class Net(torch.nn.Module):
            def __init__(self, factor=0.5):
                super().__init__()
                self.factor = factor

            @torch.compile
            def forward(self, x):
                if x.max() > 3:
                    return x * self.factor
                return x + self.factor

        Net()(torch.ones(3))
        """,
        "        if x.max() > 3:\n            return x * self.factor\n"
        "        return x + self.factor",
        "        return torch.cond(\n"
        "            x.max() > 3, lambda: x * self.factor, lambda: x + self.factor\n"
        "        )",
        "eager",
        "(inputs: instance)",
    ),
    Wrong(
        "a number that wraps around in eight bits",
        """
        @torch.compile
        def f(x):
            if x.max().item() > 1000:
                return x.float() / 4095
            return x.float() / 255

        f(torch.rand(4) * 2000)
        """,
        "    if x.max().item() > 1000:\n        return x.float() / 4095\n"
        "    return x.float() / 255",
        "    return torch.where(x.max() > 1000, x.float() / 4095, x.float() / 255)",
        "outputs",
        "For uint8 inputs: ",
        caveat=True,
    ),
    Wrong(
        "a promotion that only mixed dtypes show",
        """
        @torch.compile
        @torch.no_grad()
        def f(x, y):
            return x.sum() or y.sum()

        f(torch.rand(4), torch.rand(4))
        """,
        "    return x.sum() or y.sum()",
        "    return torch.where(x.sum() != 0, x.sum(), y.sum())",
        "outputs",
        "Where one input is float32 and the others are not: ",
        caveat=True,
    ),
]
#: What nobody in the program can tell: one plain sentence, and the patch stays safe.
LIMITS = [
    Wrong(
        "a copy that nobody changes",
        """
        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x

        f(torch.ones(3))
        """,
        "    torch._dynamo.graph_break()\n    return x\n",
        "    return x.clone()\n",
        "outputs",
        "The result is a copy and no longer an input itself.",
    ),
    Wrong(
        "a zero gradient that no optimizer takes",
        """
        unused = torch.ones((), requires_grad=True)


        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return x * 2

        f(torch.ones(3, requires_grad=True)).sum().backward()
        """,
        "    torch._dynamo.graph_break()\n    return x * 2",
        "    return x * 2 + (0 * unused).to(x.dtype)",
        "gradients",
        "`global.unused` gets a zero gradient instead of none.",
    ),
    Wrong(
        "an error where gradients are differentiated again",
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, grad):
                return grad * 2


        @torch.compile
        def f(x):
            torch._dynamo.graph_break()
            return (x * 2).sin()

        f(torch.ones(3, requires_grad=True))
        """,
        "    torch._dynamo.graph_break()\n    return (x * 2).sin()",
        "    return Double.apply(x).sin()",
        "gradients",
        "Where gradients are differentiated again, ",
    ),
]


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: case.name)
def test_what_nobody_in_the_program_can_tell_is_a_limit(
    case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    (patch,) = run_planted(case, gbfix_run, monkeypatch).patches
    assert patch.safety is Safety.SAFE, patch.verdict.caveats
    rung = patch.verdict.rung(case.rung)
    assert rung is not None
    assert any(text.startswith(case.says) for text in rung.limits), rung


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_patch_is_never_called_safe(
    case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))


def test_extra_recompiles_fail(gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = "@torch.compile(dynamic=False)\ndef f(x):\n"
    old = compiled + "    torch._dynamo.graph_break()\n    return x * 2"
    new = (
        "STEP = {'now': 0}\n\n\n"
        + compiled
        + "    STEP['now'] += 1\n    return x * 2 + 0 * STEP['now']"
    )
    monkeypatch.setattr(loop, "discover", lambda: [Planted(old, new)])
    report = gbfix_run(HEAD + old + "\n\n\nfor _ in range(2):\n    f(torch.ones(3))\n")
    (attempt,) = (attempt for item in report.breaks for attempt in item.attempts)
    assert not report.patches
    assert attempt.reason.startswith("recompiles: f: 1 graphs in call 1, 0 before")


def test_a_right_patch_is_safe_and_every_rung_was_run(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        HEAD + "@torch.compile\ndef f(x):\n    if x.sum() > 0:\n        return x + 1\n"
        "    return x - 1\n\n\nfor _ in range(2):\n    print(f(torch.ones(3)))\n"
    )
    old = "    if x.sum() > 0:\n        return x + 1\n    return x - 1\n"
    new = "    return torch.where(x.sum() > 0, x + 1, x - 1)\n"
    monkeypatch.setattr(loop, "discover", lambda: [Planted(old, new)])
    report = gbfix_run(source)
    (patch,) = report.patches
    assert patch.safety is Safety.SAFE, patch.verdict.caveats
    names = [rung.name for rung in patch.verdict.rungs]
    assert names == [
        "source", "outputs", "gradients", "effects", "eager", "aot_eager", "program", "recompiles",
        "branches",
    ]  # fmt: skip
    assert patch.verdict.branches == (2, 2)
    assert patch.verdict.perturbed > 10
    (region,) = report.regions
    assert (region.status, region.breaks_before, region.breaks_after) == ("fixed", 1, 0)
    assert (region.graphs_before, region.graphs_after) == (2, 1)


def test_a_branch_that_no_input_reaches_is_forced(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        HEAD + "@torch.compile\ndef f(x):\n    y = torch.zeros(3)\n    if y.sum() > 0:\n"
        "        return x + 1\n    return x - 1\n\n\nf(torch.ones(3))\n"
    )
    old = "    if y.sum() > 0:\n        return x + 1\n    return x - 1\n"
    for new, right in (
        ("    return torch.where(y.sum() > 0, x + 1, x - 1)\n", True),
        ("    return torch.where(y.sum() > 0, x + 2, x - 1)\n", False),
    ):
        monkeypatch.setattr(loop, "discover", lambda new=new: [Planted(old, new)])
        report = gbfix_run(source)
        assert bool(report.patches) == right
        if right:
            assert report.patches[0].verdict.branches == (2, 2)
        else:
            (attempt, *_) = report.breaks[0].attempts
            assert attempt.reason.startswith("branches: forced True"), attempt.reason


def test_a_branch_that_cannot_be_forced_makes_the_patch_unsafe(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        HEAD + "@torch.compile\ndef f(x):\n    y = torch.zeros(3)\n    if y.sum() > 0:\n"
        "        x = x + 1\n    return x * 2\n\n\nf(torch.ones(3))\n"
    )
    old = "    if y.sum() > 0:\n        x = x + 1\n"
    new = "    x = x + (y.sum() > 0).to(x.dtype)\n"
    monkeypatch.setattr(loop, "discover", lambda: [Planted(old, new)])
    report = gbfix_run(source)
    assert not report.patches
    (patch,) = report.unsafe_patches
    assert any("never ran" in text for text in patch.verdict.caveats)


_CHECKED = """
def f(self, x, flag):
    if flag and self.limit < x.sum():
        raise ValueError("large")
    return x
"""
_CHECKING = """
@torch.library.custom_op("m::check", mutates_args=())
def check(flag: bool, limit: float, x: torch.Tensor) -> None:
    if flag and limit < x.sum():
        raise ValueError("large")


def f(self, x, flag):
    check(flag, self.limit, x)
    return x
"""


@pytest.mark.parametrize(
    ("site", "moved"),
    [
        (Span(3, 16, 3, 36), Span(4, 16, 4, 31)),  # the comparison only
        (Span(3, 7, 3, 36), Span(4, 7, 4, 31)),
        (None, Span(4, 7, 4, 31)),
    ],
)
def test_a_test_that_moved_into_an_operator_is_forced_there(site: Span | None, moved: Span) -> None:
    test = Span(3, 7, 3, 36)
    seen, total, plan = branches.plan_branches(
        _CHECKED, _CHECKING, [Span(3, 4, 4, 33)], {(3, 7): (4, 0)}, [test], site
    )
    assert (seen, total) == (1, 2)
    assert plan == [branches.Forced(site or test, moved, True, moved=True)]


def test_the_new_of_two_calls_that_read_alike_is_forced() -> None:
    first = "def f(p):\n    return one if p > 0 else two\n"
    rest = "\n\ndef g(p):\n    return torch.where(p > 0, one, two)\n"
    second = first.replace("one if p > 0 else two", "torch.where(p > 0, one, two)")
    call = Span(2, 11, 2, 39)
    assert branches.new_conditionals(first + rest, second + rest) == [call]
    assert branches.new_conditionals(second + rest, second + rest) == []


def test_a_test_that_stays_as_it_is_is_forced_where_it_stands() -> None:
    test = Span(3, 7, 3, 36)
    seen, total, plan = branches.plan_branches(
        _CHECKED, "\n\n" + _CHECKED, [Span(3, 4, 4, 33)], {(3, 7): (4, 0)}, [test], None
    )
    assert (seen, total) == (1, 2)
    assert plan == [branches.Forced(test, Span(5, 7, 5, 36), True, moved=True)]


_ENDING = """\
def f(x):
    for i in range(3):
        x = x * 2
        if (x > 9).all().item():
            break
    return x
"""
_ENDLESS = """\
def f(x):
    done = torch.tensor(False)
    for i in range(3):
        x = torch.where(done, x, x * 2)
        done = done | (x > 9).all()
    return x
"""


def test_the_test_of_a_jump_is_forced_where_the_flag_is_set() -> None:
    test = Span(4, 11, 4, 31)
    seen, total, plan = branches.plan_branches(
        _ENDING, _ENDLESS, [Span(1, 0, 6, 12)], {(4, 11): (4, 0)}, [test], None
    )
    assert (seen, total) == (1, 2)
    assert plan == [branches.Forced(test, Span(5, 22, 5, 35), True, moved=True)]
    twice = _ENDLESS.replace("return x", "return x, (x > 9).all()")
    assert not branches.as_they_stand(_ENDING, twice, [test])


def test_the_part_that_a_tensor_decides_is_forced() -> None:
    old = "def f(x):\n    if x is not None and x.any():\n        raise ValueError\n"
    new = """
@torch.library.custom_op("a::check", mutates_args=())
def check(x):
    if x.any():
        raise ValueError

def f(x):
    if x is not None:
        check(x)
"""
    test, part = Span(2, 7, 2, 32), Span(2, 25, 2, 32)
    deciding = branches.deciding_parts(old, [test], {part, Span(2, 7, 2, 8)})
    assert deciding == {test: part}
    _, _, plan = branches.plan_branches(
        old, new, [Span(2, 0, 3, 40)], {(2, 7): (2, 0)}, [test], None, deciding
    )
    assert plan == [branches.Forced(part, Span(4, 7, 4, 14), True, moved=True)]


def test_what_one_call_joins_is_forced_as_a_whole() -> None:
    old = "def f(x):\n    if on and x.any():\n        x = -x\n    return x\n"
    new = "def f(x):\n    return torch.where(on & x.any(), -x, x)\n"
    test, part = Span(2, 7, 2, 21), Span(2, 14, 2, 21)
    _, _, plan = branches.plan_branches(
        old, new, [Span(2, 0, 3, 40)], {(2, 7): (2, 0)}, [test], None, {test: part}
    )
    assert [item.test for item in plan] == [test]


_TWICE = """\
def f(self, x, mask):
    if mask is not None and mask.any():
        x = -x
    elif not self.steps > 10:
        x = x * 2
    return x
"""
_ASKED_TWICE = """\
def f(self, x, mask):
    if mask is not None:
        mask_any = mask.any()
        x = torch.where(mask_any, -x, torch.where(self.steps > 10, x, x * 2))
    else:
        x = torch.where(self.steps > 10, x, x * 2)
    return x
"""


def test_a_test_that_the_patch_asks_in_two_places_is_forced_in_both() -> None:
    tests, part = [Span(2, 7, 2, 38), Span(4, 9, 4, 28)], Span(2, 28, 2, 38)
    seen, total, plan = branches.plan_branches(
        _TWICE,
        _ASKED_TWICE,
        [Span(2, 0, 5, 20)],
        {(2, 38): (1, 1), (4, 9): (0, 3)},
        tests,
        None,
        {tests[0]: part},
    )
    assert (seen, total) == (3, 4)
    places = Span(4, 50, 4, 65), Span(6, 24, 6, 39)
    held = Span(4, 13, 4, 28)
    assert plan == [branches.Forced(held, places[0], True, moved=True, again=(places[1],))]


def test_a_test_that_asks_about_another_value_in_its_second_place_is_not_forced() -> None:
    new = _ASKED_TWICE.replace("    else:\n", "    else:\n        self.steps += 1\n")
    tests, part = [Span(2, 7, 2, 38), Span(4, 9, 4, 28)], Span(2, 28, 2, 38)
    counts = {(2, 38): (1, 1), (4, 9): (0, 3)}
    spans = [Span(2, 0, 5, 20)]
    seen, _, plan = branches.plan_branches(
        _TWICE, new, spans, counts, tests, None, {tests[0]: part}
    )
    assert (seen, plan) == (3, [])


def test_a_test_that_two_conditions_read_like_is_not_forced_by_its_text() -> None:
    old = _TWICE.replace("mask is not None and mask.any()", "self.steps > 10")
    tests = [Span(2, 7, 2, 22), Span(4, 9, 4, 28)]
    new = _ASKED_TWICE.replace("mask is not None", "self.steps > 10")
    seen, total, plan = branches.plan_branches(old, new, [Span(2, 0, 5, 20)], {}, tests, None)
    assert (seen, total, plan) == (0, 4, [])


def test_a_test_in_one_line_that_stays_as_it_is_is_forced_where_it_stands() -> None:
    old = "def f(batch):\n    kind = torch.tensor(1 if batch.ndim == 2 else 2)\n    return kind\n"
    new = old.replace("torch.tensor(1 if batch.ndim == 2 else 2)", "1 if batch.ndim == 2 else 2")
    test = Span(2, 29, 2, 44)
    seen, total, plan = branches.plan_branches(
        old, new, [Span(2, 0, 2, 60)], {(2, 29): (0, 1)}, [test], None
    )
    assert (seen, total) == (1, 2)
    assert plan == [branches.Forced(test, Span(2, 16, 2, 31), False, moved=True)]


def test_a_test_without_a_place_in_the_patch_stays_unseen() -> None:
    test = Span(3, 7, 3, 36)
    twice = _CHECKING + _CHECKING.split("\n\n\n")[0].replace("check", "check_again")
    for new in (_CHECKED + _CHECKED, _CHECKED.replace("if", "while"), twice):
        _, total, plan = branches.plan_branches(
            _CHECKED, new, [Span(3, 4, 4, 33)], {(3, 7): (4, 0)}, [test], None
        )
        assert total == 2 and plan == []

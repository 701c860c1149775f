"""How far two gradients or outputs may be apart, and which warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gbfix.evidence import Kind
from gbfix.worker.afterlife import _tells_zeros
from gbfix.worker.compare import Comparison, moves, sensitivity
from gbfix.worker.effects import Effects
from gbfix.worker.shots import Shot
from gbfix.worker.values import Imager


def shot(label: str, gradient: list[float]) -> Shot:
    found = Shot(label, "values")
    found.grads = {"w": Imager().image(torch.tensor(gradient))}
    return found


@pytest.mark.parametrize(
    ("mode", "label", "old", "new", "alike"),
    [
        # Sums of large terms in another order.
        ("aot_eager", "base", [3.0, 0.0], [3.0, 4e-5], True),
        ("eager", "base", [3.0, 0.0], [3.0, 4e-5], False),
        ("aot_eager", "base", [3.0, 0.0], [3.0, 4e-4], False),
        # A sigmoid that scaled inputs saturate.
        ("aot_eager", "scaled", [0.0, 0.0], [0.0, 1.6e-5], True),
        ("inductor", "scaled", [0.0, 0.0], [0.0, 1.6e-5], True),
        ("aot_eager", "base", [0.0, 0.0], [0.0, 1.6e-5], False),
        ("eager", "scaled", [0.0, 0.0], [0.0, 1.6e-5], False),
        # A small gradient that is lost, which only inductor's scale sees.
        ("inductor", "base", [9e-6, 9e-6], [0.0, 0.0], False),
        ("eager", "base", [9e-6, 9e-6], [0.0, 0.0], False),
    ],
)
def test_gradients(mode: str, label: str, old: list[float], new: list[float], alike: bool) -> None:
    comparison = Comparison(mode)
    comparison.add(shot(label, old), shot(label, new))
    assert bool(comparison.differences) is not alike, comparison.differences


@pytest.mark.parametrize(
    ("part", "new", "alike"),
    [
        # A gradient is a sum for each use of a value, in the order of the uses.
        ("gradient", [20.0, 0.25], True),
        ("gradient", [20.0, 0.75], False),
        ("gradient", [21.0, 0.0], False),
        ("output", [20.0, 0.25], False),
        ("output", [20.0, 0.125], True),
    ],
)
def test_sums_of_bfloat16(part: str, new: list[float], alike: bool) -> None:
    def half(values: list[float]) -> Shot:
        image = Imager().image(torch.tensor(values, dtype=torch.bfloat16))
        found = Shot("half", "values")
        if part == "gradient":
            found.grads = {"w": image}
        else:
            found.result = image
        return found

    # A compiled sum is in no better order than one that runs eagerly.
    for backend in ("eager", "aot_eager") if part == "gradient" else ("eager",):
        comparison = Comparison(backend)
        comparison.add(half([20.0, 0.0]), half(new))
        assert bool(comparison.differences) is not alike, comparison.differences


def output(values: list[float], changed: tuple[str, ...] = ()) -> Shot:
    found = Shot("base", "values", changed=frozenset(changed))
    found.result = [Imager().image(torch.tensor(values)), {"more": 3}]
    return found


@pytest.mark.parametrize(
    ("nudged", "mode", "alike"),
    [
        # The last digit of the input moves the original as far: so may a compiled run.
        ([2.0, 1.0001], "aot_eager", True),
        ([2.0, 1.0], "aot_eager", False),
        # Eager runs the same operations, whatever the original makes of rounding.
        ([2.0, 1.0001], "eager", False),
    ],
)
def test_what_moves_with_the_last_digit(nudged: list[float], mode: str, alike: bool) -> None:
    comparison = Comparison(mode)
    comparison.sensitivity = sensitivity(output([2.0, 1.0]), output(nudged))
    comparison.add(output([2.0, 1.0]), output([2.0, 1.0003]))
    assert bool(comparison.differences) is not alike, comparison.differences


def _pair(label: str, values: list[float], gradient: list[float]) -> Shot:
    found = shot(label, gradient)
    found.result = [Imager().image(torch.tensor(values))]
    return found


@pytest.mark.parametrize("mode", ["eager", "aot_eager"])
def test_numbers_of_chaos_say_nothing_and_all_else_does(mode: str) -> None:
    before = {
        "state-scaled": _pair("state-scaled", [2.0], [5.0, 1.0]),
        "state-scaled-nudged": _pair("state-scaled-nudged", [2.0], [-3.0, 9.0]),
        "scaled": _pair("scaled", [2.0], [5.0, 1.0]),
        "scaled-nudged": _pair("scaled-nudged", [2.0], [5.0, 1.000001]),
    }
    found = moves(before)
    assert {label for (label, _), by in found.items() if by > 0.01} == {"state-scaled"}
    for label, values, gradient, alike in (
        ("state-scaled", [2.0], [70.0, -8.0], True),
        ("state-scaled", [2.5], [5.0, 1.0], False),
        ("state-scaled", [2.0], [float("nan"), 1.0], False),
        ("scaled", [2.0], [70.0, -8.0], False),
    ):
        comparison = Comparison(mode, moves=found)
        comparison.add(before[label], _pair(label, values, gradient))
        assert bool(comparison.differences) is not alike, (label, comparison.differences)


@pytest.mark.parametrize("mode", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("gradient", "alike"),
    [([5.0, 1.0012], True), ([5.0, 1.02], False), ([5.0, float("inf")], False)],
)
def test_small_inputs_of_which_a_sum_leaves_little(
    mode: str, gradient: list[float], alike: bool
) -> None:
    before = {
        "small": _pair("small", [2.0], [5.0, 1.0]),
        "small-nudged": _pair("small-nudged", [2.0], [5.0, 1.002]),
    }
    comparison = Comparison(mode, moves=moves(before))
    comparison.add(before["small"], _pair("small", [2.0], gradient))
    assert bool(comparison.differences) is not alike, comparison.differences
    other = Comparison(mode, moves=moves(before))
    other.add(_pair("negated", [2.0], [5.0, 1.0]), _pair("negated", [2.0], [5.0, 1.0012]))
    assert other.differences  # the others are compared as sharply as before


def test_how_far_the_last_digit_moves_it() -> None:
    assert sensitivity(output([4.0, 1.0]), output([4.0, 1.5])) == pytest.approx(0.125)
    assert sensitivity(output([4.0]), output([4.0, 1.0])) == 0  # another shape says nothing
    assert sensitivity(output([0.0]), output([0.0])) == 0
    # Where a call changes state, the next one differs anyway.
    assert sensitivity(output([4.0], ("self.n",)), output([5.0])) == 0
    comparison = Comparison("aot_eager")
    comparison.sensitivity = sensitivity(output([1.0]), output([0.0]))
    comparison.add(output([2.0, 1.0]), output([2.0, 1.1]))
    assert comparison.differences  # no rounding is as large


@pytest.mark.parametrize(
    ("label", "alike"), [("mixed-rest", True), ("mixed", True), ("double", False)]
)
def test_float64_that_came_from_float32_beside_it(label: str, alike: bool) -> None:
    """The last bit of float32 differs where a function computes an element at another place."""
    comparison = Comparison("eager")
    pair = []
    for last in (0.0, 1e-7):
        found = Shot(label, "dtype")
        found.result = Imager().image(torch.tensor([0.5 + last], dtype=torch.float64))
        pair.append(found)
    comparison.add(*pair)
    assert bool(comparison.differences) is not alike, comparison.differences


@pytest.mark.parametrize(
    ("mode", "label", "old", "new", "kind"),
    [
        ("inductor", "redrawn", [float("nan"), 1.0], [0.0, 1.0], Kind.VALUE_FOR_NAN),
        ("inductor", "redrawn", [float("nan"), 1.0], [0.0, 2.0], Kind.VALUE),
        ("inductor", "redrawn", [0.0, 1.0], [float("nan"), 1.0], Kind.VALUE),
        ("inductor", "base", [float("nan"), 1.0], [0.0, 1.0], Kind.VALUE),
        ("aot_eager", "redrawn", [float("nan"), 1.0], [0.0, 1.0], Kind.VALUE),
    ],
)
def test_numbers_of_inductor_for_nan(
    mode: str, label: str, old: list[float], new: list[float], kind: Kind
) -> None:
    """Some operations are taken apart, and their parts give 0 where the whole gives NaN."""
    comparison = Comparison(mode)
    pair = []
    for values in (old, new):
        found = Shot(label, "values")
        found.result = Imager().image(torch.tensor(values))
        pair.append(found)
    comparison.add(*pair)
    assert [finding.kind for finding in comparison.findings] == [kind]


@pytest.mark.parametrize(("graphs", "kind"), [(False, Kind.MISSING), (True, Kind.UNDONE)])
def test_what_a_call_set_before_it_raised(graphs: bool, kind: Kind) -> None:
    """A graph sets attributes at its end, and does not come there."""
    before, after = Shot("redrawn", "values"), Shot("redrawn", "values")
    before.error = after.error = ("ValueError", "no")
    before.tensors = {"self.h": Imager().image(torch.ones(2))}
    comparison = Comparison("eager", graphs=graphs)
    comparison.add(before, after)
    assert kind in [finding.kind for finding in comparison.findings]


_NAN, _INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("label", "own", "new", "kind"),
    [
        # Zero times what is no number, in a call that spoils the parameters in any case.
        ("nan", [_NAN, _NAN], [_NAN, 0.0], Kind.ZERO_OF_NO_NUMBER),
        ("-inf", [1.0, _INF], [_NAN, _NAN], Kind.ZERO_OF_NO_NUMBER),
        ("nan", [1.0, 2.0], [_NAN, 0.0], Kind.NEW),
        ("nan", [_NAN, _NAN], [_NAN, 1e-3], Kind.NEW),
        ("base", [_NAN, _NAN], [_NAN, 0.0], Kind.NEW),
        ("nan", [_NAN, _NAN], [0.0, 0.0], Kind.ZERO),
    ],
)
@pytest.mark.parametrize("place", ["self.w", "in.0"])
def test_a_gradient_where_there_was_none(
    label: str, own: list[float], new: list[float], kind: Kind, place: str
) -> None:
    before, after = shot(label, own), shot(label, own)
    before.grads = {place: before.grads["w"], "self.v": None}
    after.grads = {place: after.grads["w"], "self.v": Imager().image(torch.tensor(new))}
    comparison = Comparison("eager")
    comparison.add(before, after)
    if place == "in.0" and kind is Kind.ZERO_OF_NO_NUMBER:
        kind = Kind.NEW  # the parameters would have stayed numbers
    assert [finding.kind for finding in comparison.findings] == [kind]


@pytest.mark.parametrize(
    ("label", "new", "kinds"),
    [
        # The arm not taken sends zeros back, which add nothing to what others send.
        ("base", [0.0, 0.0], []),
        # Behind a square root of 0, zero times infinity.
        ("base", [_NAN, 0.0], [Kind.NEW]),
        ("base", [_INF, 0.0], [Kind.NEW]),
        # Given as an iterator, the original's inputs were not marked.
        ("base", [0.5, 0.0], []),
        ("nan", [_NAN, 0.0], []),
    ],
)
def test_a_gradient_where_no_result_had_any(
    label: str, new: list[float], kinds: list[Kind]
) -> None:
    before, after = Shot(label, "grad"), shot(label, new)
    comparison = Comparison("eager")
    comparison.add(before, after)
    assert [finding.kind for finding in comparison.findings] == kinds


@pytest.mark.parametrize(
    ("make", "tells"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), False),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), True),
        (lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1), True),
        (lambda p: torch.optim.SGD([{"params": p, "weight_decay": 0.1}], lr=0.1), True),
        (lambda p: torch.optim.AdamW(p), True),
        (lambda p: type("Own", (torch.optim.SGD,), {})(p, lr=0.1), True),
    ],
)
def test_which_optimizers_tell_zero_from_none(make: Any, tells: bool) -> None:
    parameter = torch.nn.Parameter(torch.tensor([1.0, -0.0, _NAN]))
    optimizer = make([parameter])
    assert _tells_zeros(optimizer) is tells
    if not tells:
        before = parameter.detach().clone()
        parameter.grad = torch.zeros(3)
        optimizer.step()
        assert torch.equal(parameter.view(torch.int32), before.view(torch.int32))


@pytest.mark.parametrize(
    ("mode", "old", "new", "alike"),
    [
        # What the decompositions of a graph round differently in a deep network.
        ("aot_eager", [3.0, 0.1], [3.0, 0.10004], True),
        ("aot_eager", [3.0, 0.1], [3.0, 0.1004], False),
        ("aot_eager", [0.2, 0.1], [0.2, 0.10004], False),
        ("eager", [3.0, 0.1], [3.0, 0.10004], False),
    ],
)
def test_outputs(mode: str, old: list[float], new: list[float], alike: bool) -> None:
    comparison, before, after = Comparison(mode), shot("redrawn", [0.0]), shot("redrawn", [0.0])
    before.result = [Imager().image(torch.tensor(old))]
    after.result = [Imager().image(torch.tensor(new))]
    comparison.add(before, after)
    assert bool(comparison.differences) is not alike, comparison.differences


_OLD = ("UserWarning", "indexing with uint8 is deprecated (Triggered internally at a.h:3.)")
_OWN = ("UserWarning", "the option is deprecated")
_MARKED = ("FutureWarning", "`torch.backends.cuda.sdp_kernel()` is deprecated. See `torch.nn`.")
_LIKE = ("FutureWarning", "`torchlike.old()` is deprecated.")


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [
        ([_OLD], [], True),
        ([_OLD, _OWN], [_OWN], True),
        ([_OLD, _OWN], [], False),
        ([_OLD, _OLD], [_OLD], False),
        ([], [_OLD], False),
        ([_OWN], [], False),
        ([_MARKED, _OWN], [_OWN], True),
        ([_LIKE], [], False),
        ([("UserWarning", _MARKED[1])], [], False),
    ],
)
def test_a_deprecated_use_of_torch_may_go(
    before: list[tuple[str, str]], after: list[tuple[str, str]], alike: bool
) -> None:
    """What torch's own C++ code says of it goes with it; nothing else that is warned of does."""
    shots = []
    for said in (before, after):
        one = Shot("base", "values")
        one.effects = Effects(warnings=said, order=[("warning", 0)] * len(said))
        shots.append(one)
    comparison = Comparison("eager")
    comparison.add(*shots)
    assert bool(comparison.differences) is not alike, comparison.differences


_NUMPY = ("RuntimeWarning", "divide by zero encountered in log")
_NUMPY_LIKE = ("RuntimeWarning", "divide by zero encountered in log of the losses")


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("said", [_NUMPY, _NUMPY_LIKE])
def test_what_numpy_says_of_numbers_no_graph_says(graphs: bool, said: tuple[str, str]) -> None:
    """Torch computes in its place there, with the patch and without it."""
    before, after = Shot("base", "values"), Shot("base", "values")
    before.effects = Effects(warnings=[said], order=[("warning", 0)])
    after.effects = Effects(warnings=[], order=[])
    comparison = Comparison("eager", graphs=graphs)
    comparison.add(before, after)
    assert bool(comparison.differences) is not (graphs and said == _NUMPY)


@pytest.mark.parametrize(
    ("graphs", "new", "alike"),
    [
        (True, np.array(0.5), True),
        (True, np.array(0.25), False),
        (True, np.array([0.5]), False),
        (True, np.array(0.5, dtype=np.float32), False),
        (True, 0.5, False),
        (False, np.array(0.5), False),
    ],
)
def test_a_graph_gives_arrays_for_numbers_of_numpy(graphs: bool, new: Any, alike: bool) -> None:
    shots = []
    for value in (np.float64(0.5), new):
        one = Shot("base", "values")
        one.result = Imager().image([value])
        shots.append(one)
    comparison = Comparison("eager", graphs=graphs)
    comparison.add(*shots)
    assert bool(comparison.differences) is not alike, comparison.differences


_SIZE = ("builtins.RuntimeError", "Runtime assertion failed for expression u0 >= 2 on node 'ge'")
_MINE = ("builtins.ValueError", "no end in sight")


@pytest.mark.parametrize(
    ("mode", "label", "before", "after", "outcome"),
    [
        ("aot_eager", "redrawn", _MINE, _SIZE, "caveat"),
        # The program's own call, whose error somebody catches.
        ("aot_eager", "base", _MINE, _SIZE, "difference"),
        # The backend of that name, or what torch.cond compiles.
        ("eager", "redrawn", _MINE, _SIZE, "caveat"),
        ("aot_eager", "redrawn", _MINE, ("builtins.RuntimeError", "no"), "difference"),
        ("aot_eager", "redrawn", None, _SIZE, "difference"),
        ("aot_eager", "redrawn", _MINE, None, "difference"),
    ],
)
def test_a_graph_may_refuse_a_size_before_the_program_does(
    mode: str,
    label: str,
    before: tuple[str, str] | None,
    after: tuple[str, str] | None,
    outcome: str,
) -> None:
    """On varied values that both refuse; never called safe."""
    shots = []
    for error in (before, after):
        one = Shot(label, "values")
        one.error = error
        shots.append(one)
    comparison = Comparison(mode)
    comparison.add(*shots)
    assert bool(comparison.differences) is (outcome == "difference"), comparison.differences
    assert bool(comparison.caveats) is (outcome == "caveat"), comparison.caveats


@pytest.mark.parametrize(("graphs", "kind"), [(False, Kind.STAYS), (True, Kind.UNDONE)])
def test_what_was_none_until_a_call_that_raised(graphs: bool, kind: Kind) -> None:
    """The original replaced it before it raised; a graph that raises has not come to that."""
    before, after = Shot("redrawn", "values"), Shot("redrawn", "values")
    before.error = after.error = ("ValueError", "no")
    before.gone = ("self.h",)
    after.state = {"self.h": None}
    comparison = Comparison("eager", graphs=graphs)
    comparison.add(before, after)
    assert kind in [finding.kind for finding in comparison.findings]

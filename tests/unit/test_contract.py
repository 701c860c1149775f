"""What a finding means for a patch: the contract, as a table."""

from __future__ import annotations

import dataclasses

import pytest

from gbfix import ladder, usage, wording
from gbfix.evidence import Finding, Kind, Kinds, Part, Usage, Weight, Zone, forgive, weigh, zone
from gbfix.schema import Rung
from gbfix.worker.protocol import Afterwards, CallKind, Compared, Outcome

KEY = "main.py::f"
NOBODY = Usage()
READS = Usage(reads_messages=True)


@pytest.mark.parametrize(
    ("label", "variation", "kinds", "expected"),
    [
        ("base", "values", Kinds(), Zone.INSIDE),
        ("nan", "values", Kinds(), Zone.INSIDE),
        ("state-scaled", "state", Kinds(), Zone.INSIDE),
        ("numbers", "numbers", Kinds(), Zone.INSIDE),
        ("instance", "instance", Kinds(), Zone.INSIDE),
        ("flags", "flags", Kinds(), Zone.INSIDE),
        ("defaults", "defaults", Kinds(), Zone.INSIDE),
        ("single", "shape", Kinds(), Zone.INSIDE),
        ("grown", "shape", Kinds(), Zone.INSIDE),
        ("grown", "shape", Kinds(one_row=True), Zone.NEXT),
        ("empty", "shape", Kinds(), Zone.FAR),
        ("empty", "shape", Kinds(asks_empty=True), Zone.INSIDE),
        ("grad", "grad", Kinds(), Zone.NEXT),
        ("grad", "grad", Kinds(gradients=True), Zone.INSIDE),
        ("twice", "grad", Kinds(gradients=True), Zone.FAR),
        ("twice", "grad", Kinds(second_order=True), Zone.INSIDE),
        ("mode", "mode", Kinds(modes=frozenset({True})), Zone.NEXT),
        ("mode", "mode", Kinds(modes=frozenset({True, False})), Zone.INSIDE),
        ("double", "dtype", Kinds(), Zone.NEXT),
        ("bytes", "dtype", Kinds(), Zone.NEXT),
        ("integer", "dtype", Kinds(), Zone.FAR),
        ("image", "dtype", Kinds(), Zone.FAR),
        ("aliased", "alias", Kinds(), Zone.FAR),
        ("expanded", "layout", Kinds(), Zone.FAR),
        ("plain", "plain", Kinds(), Zone.FAR),
    ],
)
def test_how_far_a_variation_is(label: str, variation: str, kinds: Kinds, expected: Zone) -> None:
    assert zone(label, variation, kinds) is expected


def value(label: str = "base", variation: str = "values", part: Part = Part.OUTPUT) -> Finding:
    return Finding(Kind.VALUE, part, "output", label, variation)


def finding(kind: Kind, label: str = "base", variation: str = "values", **more: str) -> Finding:
    parts = {Kind.ZERO: Part.GRADIENT, Kind.RAISES: Part.EXCEPTION}
    return Finding(kind, parts.get(kind, Part.OUTPUT), "self.w", label, variation, **more)


@pytest.mark.parametrize(
    ("found", "use", "expected"),
    [
        # Inside, a difference is a difference.
        (value(), NOBODY, Weight.DIFFERENCE),
        (finding(Kind.RAISES, "numbers", "numbers"), NOBODY, Weight.DIFFERENCE),
        (finding(Kind.RAISES, "defaults", "defaults"), NOBODY, Weight.DIFFERENCE),
        (finding(Kind.LOST), NOBODY, Weight.DIFFERENCE),
        (finding(Kind.RAISES, "empty", "shape"), NOBODY, Weight.LIMIT),
        (finding(Kind.DIFFERENTIABLE, before="True", after="False"), NOBODY, Weight.DIFFERENCE),
        (Finding(Kind.DIFFERS, Part.EFFECT, "stdout"), NOBODY, Weight.DIFFERENCE),
        # What comes with every choice is judged by what the program does with it.
        (finding(Kind.ALIAS), NOBODY, Weight.LIMIT),
        (finding(Kind.ALIAS), Usage(identity=True), Weight.CAVEAT),
        (finding(Kind.ALIAS), Usage(changes=frozenset({KEY})), Weight.CAVEAT),
        (finding(Kind.ALIAS), Usage(changes=frozenset({"other"})), Weight.LIMIT),
        (finding(Kind.ALIAS), Usage(any_callers=True), Weight.CAVEAT),
        (finding(Kind.ZERO), NOBODY, Weight.LIMIT),
        (finding(Kind.ZERO), Usage(steps=True), Weight.CAVEAT),
        # A step with what the original's own parameters got has spoilt the model, too.
        (finding(Kind.ZERO_OF_NO_NUMBER, "nan"), Usage(steps=True), Weight.LIMIT),
        (finding(Kind.ZERO_OF_NO_NUMBER, "nan"), Usage(any_callers=True), Weight.CAVEAT),
        (Finding(Kind.NEW, Part.GRADIENT, "self.w", "nan"), NOBODY, Weight.CAVEAT),
        (finding(Kind.DIFFERENTIABLE, before="False", after="True"), NOBODY, Weight.LIMIT),
        (
            finding(Kind.DIFFERENTIABLE, before="False", after="True"),
            Usage(leaves_autograd=True),
            Weight.CAVEAT,
        ),
        (finding(Kind.STRIDES), NOBODY, Weight.CAVEAT),
        (finding(Kind.MESSAGE), NOBODY, Weight.CAVEAT),
        (finding(Kind.NOT_COMPILED, "instance", "instance"), NOBODY, Weight.LIMIT),
        (value("instance", "instance"), NOBODY, Weight.CAVEAT),
        (finding(Kind.RAISES, "instance", "instance"), NOBODY, Weight.DIFFERENCE),
        # A tensor for a number that nothing names a number.
        (finding(Kind.RAISES, "arrays", "arrays"), NOBODY, Weight.CAVEAT),
        (finding(Kind.ZERO, "scalars", "arrays"), NOBODY, Weight.CAVEAT),
        (finding(Kind.RAISES, "texts", "arrays"), NOBODY, Weight.CAVEAT),
        (Finding(Kind.DIFFERS, Part.EFFECT, "stdout", "texts", "arrays"), NOBODY, Weight.CAVEAT),
        # Next to it, what nobody is told of is unsafe; what says so is a limit.
        (value("double", "dtype"), NOBODY, Weight.CAVEAT),
        (finding(Kind.DTYPE, "mixed", "dtype"), NOBODY, Weight.CAVEAT),
        (value("grad", "grad", Part.GRADIENT), NOBODY, Weight.CAVEAT),
        (value("twice", "grad", Part.GRADIENT), NOBODY, Weight.LIMIT),
        (finding(Kind.RAISES, "double", "dtype"), NOBODY, Weight.LIMIT),
        (finding(Kind.RAISES, "double", "dtype"), Usage(any_callers=True), Weight.CAVEAT),
        (finding(Kind.ZERO, "grad", "grad"), Usage(steps=True), Weight.LIMIT),
        # Far from it, all are limits, but for another value of another sort of number.
        (finding(Kind.RAISES, "integer", "dtype"), Usage(any_callers=True), Weight.LIMIT),
        (finding(Kind.DTYPE, "integer", "dtype"), NOBODY, Weight.LIMIT),
        (value("image", "dtype"), NOBODY, Weight.CAVEAT),
        (finding(Kind.NEW, "empty", "shape"), NOBODY, Weight.LIMIT),
        (value("aliased", "alias"), NOBODY, Weight.LIMIT),
    ],
)
def test_what_a_finding_means(found: Finding, use: Usage, expected: Weight) -> None:
    assert weigh(found, KEY, Kinds(), use, eager=True) is expected


@pytest.mark.parametrize(
    "after, use, expected",
    [
        ("Runtime assertion failed for expression Ne(u1, 0)", NOBODY, Weight.LIMIT),
        ("Runtime assertion failed for expression Ne(u1, 0)", READS, Weight.CAVEAT),
        ("another word", NOBODY, Weight.LIMIT),
        ("another word", READS, Weight.CAVEAT),
        ("another word", Usage(own_messages=frozenset({"never called"})), Weight.LIMIT),
        ("another word", Usage(own_messages=frozenset({"reshape"})), Weight.CAVEAT),
        ("another word", Usage(own_messages=frozenset({""})), Weight.CAVEAT),
    ],
)
def test_words_of_an_error_of_torch_count_where_somebody_reads_them(
    after: str, use: Usage, expected: Weight
) -> None:
    found = Finding(
        Kind.MESSAGE, Part.EXCEPTION, before="cannot reshape", after=after, detail="RuntimeError"
    )
    assert weigh(found, KEY, Kinds(), use, eager=True) is expected


def test_words_of_a_programs_own_errors_count() -> None:
    found = Finding(
        Kind.MESSAGE, Part.EXCEPTION, before="id 3 >= 2", after="id 5 >= 2", detail="ValueError"
    )
    assert weigh(found, KEY, Kinds(), NOBODY, eager=True) is Weight.CAVEAT


@pytest.mark.parametrize(
    "text, expected",
    [
        ("raise RuntimeError('You never called it.')", {"You never called it."}),
        ("raise RuntimeError(f'of {n} rows, {k} are bad')", {"are bad"}),
        ("raise RuntimeError('%d rows of %s' % (n, k))", {"rows of"}),
        ("raise RuntimeError(message)", {""}),
        ("torch._check(n > 0, lambda: 'none')", {""}),
        ("raise ValueError('bad')", set()),
        ("x = 'RuntimeError'", set()),
    ],
)
def test_pieces_of_own_messages(text: str, expected: set[str]) -> None:
    assert usage._own_messages(text) == expected


def test_a_gradient_of_nan_is_a_difference_only_where_both_are_compiled() -> None:
    found = value("nan", part=Part.GRADIENT)
    assert weigh(found, KEY, Kinds(), NOBODY, eager=True) is Weight.CAVEAT
    assert weigh(found, KEY, Kinds(), NOBODY, eager=False) is Weight.DIFFERENCE


def test_an_error_for_no_rows_is_no_wrong_result() -> None:
    asks = Kinds(asks_empty=True)
    fails, differs = (finding(kind, "empty", "shape") for kind in (Kind.RAISES, Kind.VALUE))
    assert weigh(fails, KEY, asks, NOBODY, eager=True) is Weight.CAVEAT
    assert weigh(differs, KEY, asks, NOBODY, eager=True) is Weight.DIFFERENCE


def test_who_trains_evaluates_one_day() -> None:
    raises = finding(Kind.RAISES, "mode", "mode")
    one = Kinds(modes=frozenset({True}))
    assert weigh(raises, KEY, one, NOBODY, eager=True) is Weight.CAVEAT
    assert weigh(finding(Kind.ALIAS, "mode", "mode"), KEY, one, NOBODY, eager=True) is Weight.LIMIT


def test_a_check_of_the_graph_may_come_before_an_error_of_a_library() -> None:
    of_library = finding(Kind.SIZE_ERROR, detail="of a library")
    own = finding(Kind.SIZE_ERROR)
    assert weigh(of_library, KEY, Kinds(), NOBODY, eager=False) is Weight.LIMIT
    assert weigh(of_library, KEY, Kinds(), READS, eager=False) is Weight.CAVEAT
    assert weigh(own, KEY, Kinds(), NOBODY, eager=False) is Weight.CAVEAT


def test_what_the_first_call_alone_started_may_start_at_the_import() -> None:
    def of(place: str, label: str, after: str = "") -> Finding:
        return Finding(Kind.DIFFERS, Part.EFFECT, place, label, "values", "[x]", after)

    first, order = of("events", "base", "[]"), of("order", "base")
    again, other = of("events", "again", "[]"), of("events", "base", "[y]")
    asks = ("asks-at-import",)
    assert forgive([first, order], asks, compiled=False).left == ()
    assert forgive([first, order], (), compiled=False).left == (first, order)
    # What each call starts is lost, and what another call starts is another thing.
    assert forgive([again], asks, compiled=False).left == (again,)
    assert forgive([other, order], asks, compiled=False).left == (other, order)
    printed = of("stdout", "base")
    assert forgive([first, order, printed], asks, compiled=False).left == (order, printed)


def test_an_iterator_that_became_a_list_is_forgiven_and_what_comes_with_it_is_not() -> None:
    place = "input after the call[0][1]"
    became = Finding(Kind.TYPE, Part.INPUT, f"{place}[0]", before="'zip'", after="'list'")
    parts = Finding(Kind.TYPE, Part.INPUT, f"{place}[2]", before="1 items", after="2")
    found = forgive([became, parts, value()], ("arguments-change",), compiled=False)
    assert found.left == (value(),)
    assert forgive([became, parts], (), compiled=False).left == (became, parts)


def test_texts_that_only_eager_code_says_are_one_caveat() -> None:
    texts = [Finding(Kind.DIFFERS, Part.EFFECT, name) for name in ("stdout", "logs", "files")]
    found = forgive(texts, ("texts-only-in-eager",), compiled=True)
    assert found.left == (texts[2],)
    assert found.caveats == (texts[0],)
    assert forgive(texts, ("texts-only-in-eager",), compiled=False).left == tuple(texts)


def test_a_flag_that_nobody_asks_for_is_forgiven_on_arguments_alone() -> None:
    def of(part: Part, kind: Kind, place: str, variation: str = "values") -> Finding:
        return Finding(kind, part, place, variation, variation, "True", "False")

    flag = of(Part.INPUT, Kind.DIFFERENTIABLE, "input after the call[0]")
    lost = of(Part.GRADIENT, Kind.LOST, "in.0.1", "mode")
    kept = [
        of(Part.OUTPUT, Kind.DIFFERENTIABLE, "output"),
        of(Part.GRADIENT, Kind.LOST, "self.weight"),
        of(Part.GRADIENT, Kind.LOST, "in.0.1", "grad"),
        of(Part.INPUT, Kind.VALUE, "input after the call[0]"),
    ]
    found = forgive([flag, lost, *kept], ("flags-unasked",), compiled=False)
    assert found.left == tuple(kept)
    assert forgive([flag, lost], (), compiled=False).left == (flag, lost)


def test_a_graph_that_is_still_there_is_forgiven() -> None:
    again = "RuntimeError(Trying to backward through the graph a second time)"
    used_up = Finding(Kind.DIFFERS, Part.GRADIENT, "backward", after=again, detail="original")
    others = [
        Finding(Kind.DIFFERS, Part.GRADIENT, "backward", after=again, detail="patched"),
        Finding(Kind.DIFFERS, Part.GRADIENT, "backward", after="ValueError()", detail="original"),
    ]
    found = forgive([used_up, *others], ("keeps-graph",), compiled=True)
    assert found.left == tuple(others)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            finding(Kind.DIFFERENTIABLE, "integer", "dtype", before="False", after="True"),
            "For integer inputs, the result (self.w) requires a gradient where it required none.",
        ),
        (
            finding(Kind.RAISES, "strided", "layout", after="RuntimeError(strides)"),
            "For tensors in another memory layout, the patch raises an error "
            "(RuntimeError(strides)).",
        ),
        (finding(Kind.ZERO), "`self.w` gets a zero gradient instead of none."),
    ],
)
def test_a_limit_is_one_plain_sentence(found: Finding, sentence: str) -> None:
    assert wording.limit(found) == sentence


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("part", list(Part))
def test_every_finding_has_words(kind: Kind, part: Part) -> None:
    one = Finding(kind, part, "place", "numbers", "numbers", "a", "b", "c")
    for say in (wording.limit, wording.caveat, wording.difference):
        assert say(one).strip()


@pytest.mark.parametrize(
    ("text", "identity", "empty", "twice", "leaves"),
    [
        ("if y is x:\n    pass\n", True, False, False, False),
        ("if y is None or type(x) is int:\n    pass\n", False, False, False, False),
        ("assert mode is Mode.TRAIN\n", False, False, False, False),
        ("k = x.data_ptr()\n", True, False, False, False),
        ("if x.numel() == 0:\n    pass\n", False, True, False, False),
        ("if x.shape[0] == 0:\n    pass\n", False, True, False, False),
        ("n = x.shape[0]\n", False, False, False, False),
        ("g = grad(y, x, create_graph=True)\n", False, False, True, False),
        ("print(y.numpy())\n", False, False, False, True),
        ("y.requires_grad = True\n", False, False, False, False),
    ],
)
def test_what_the_text_asks_for_itself(
    text: str, identity: bool, empty: bool, twice: bool, leaves: bool
) -> None:
    golden = Outcome([CallKind(KEY, 0, Kinds()), Afterwards((KEY,), True)])
    found = usage.usage(golden, [text], "program")
    assert (found.identity, found.leaves_autograd) == (identity, leaves)
    assert found.changes == {KEY} and found.steps
    kinds = usage.kinds(golden, [text])[KEY]
    assert (kinds.asks_empty, kinds.second_order) == (empty, twice)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("optimizer.step()\n", False),
        ("unused = [p for p in params if p.grad is None]\n", True),
        ("if w.grad is not None: w.grad.zero_()\n", True),
        ("w.grad = None\n", False),
    ],
)
def test_a_text_may_tell_a_zero_gradient_from_none(text: str, steps: bool) -> None:
    golden = Outcome([Afterwards((), steps=False, plain_steps=True)])
    assert usage.usage(golden, [text], "program").steps is steps


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("if w.grad is not None:\n    w.data -= rate * w.grad\n", True),
        ("if w.grad is None:\n    return\nw.sub_(w.grad, alpha=rate)\n", True),
        ("if w.grad is not None:\n    print(w.grad)\n", False),
        ("w.data -= rate * w.grad\n", False),
    ],
)
def test_a_step_may_be_taken_by_hand(text: str, steps: bool) -> None:
    golden = Outcome([Afterwards((), steps=False, plain_steps=False)])
    assert usage.usage(golden, [text], "program").steps is steps


def test_what_cannot_be_differentiated_in_the_original_is_no_loss_that_a_graph_says_so() -> None:
    loses = Finding(Kind.NOT_COMPILED, Part.RUN, label="grad", variation="grad", detail="no")
    raises = dataclasses.replace(loses, before="RuntimeError(modified by an inplace operation)")
    kinds = Kinds(gradients=True)
    for finding, weight in ((loses, Weight.CAVEAT), (raises, Weight.LIMIT)):
        assert weigh(finding, KEY, kinds, Usage(), eager=False) is weight
    assert "the original's backward pass raises there" in wording.limit(raises)


@pytest.mark.parametrize("assumes", [(), ("unset-at-errors",)])
def test_what_a_failed_check_leaves_behind(assumes: tuple[str, ...]) -> None:
    found = [
        Finding(Kind.TYPE, Part.STATE, "self.n", before="1", after="0", unset=True),
        Finding(Kind.DIFFERS, Part.SETTING, "grad mode", unset=True),
        Finding(Kind.TYPE, Part.STATE, "self.m", before="1", after="0"),
    ]
    kinds = [one.kind for one in forgive(found, assumes, compiled=True).left]
    left = [Kind.UNDONE, Kind.LEFT] if assumes else [Kind.TYPE, Kind.DIFFERS]
    assert kinds == [*left, Kind.TYPE]


def test_limits_of_many_places_are_one_sentence() -> None:
    places = [f"self.layers.{n}.weight" for n in range(5)]
    places += [place.replace("self.", "global.net.") for place in places]
    found = [Finding(Kind.ZERO, Part.GRADIENT, place, "base", "values") for place in places]
    assert wording.limits(found) == (
        "`self.layers.0.weight` (and 4 others) gets a zero gradient instead of none.",
    )
    assert wording.limits(found[:2]) == (
        "`self.layers.0.weight` gets a zero gradient instead of none.",
        "`self.layers.1.weight` gets a zero gradient instead of none.",
    )
    assert wording.limits(found[5:7]) == (
        "`global.net.layers.0.weight` gets a zero gradient instead of none.",
        "`global.net.layers.1.weight` gets a zero gradient instead of none.",
    )


def test_nothing_stands_too_far_back_to_be_judged() -> None:
    """Differences that a proof forgives hide none behind them."""
    place = "input after the call[0]"
    became = [
        Finding(Kind.TYPE, Part.INPUT, f"{place}[0]", f"values-{n}", before="'zip'", after="'list'")
        for n in range(30)
    ]
    event = Compared(KEY, 0, "eager", (*became, value("inf")), 31)
    verdict = ladder.judge(
        Rung("source", True),
        Outcome([event]),
        Outcome([]),
        ladder.Baseline({KEY: (0,)}, {}, {}, b"", False, True, {}),
        (),
        target=KEY,
        avoid=frozenset(),
        avoid_path="",
        avoid_code="",
        assumes=("arguments-change",),
    ).verdict
    assert verdict.failure == "outputs: output: values differ (inputs: inf)"


@pytest.mark.parametrize(
    ("variation", "after", "use", "expected"),
    [
        ("grad", "RuntimeError(Trying to backward through a::b.default but", NOBODY, Weight.LIMIT),
        ("grad", "NotImplementedError(no gradient for labels)", NOBODY, Weight.LIMIT),
        (
            "grad",
            "RuntimeError(Trying to backward through a::b.default but",
            Usage(any_callers=True),
            Weight.CAVEAT,
        ),
        ("grad", "RuntimeError(something else)", NOBODY, Weight.DIFFERENCE),
        # Where the program's own calls differentiate, an operator without a gradient is wrong.
        (
            "values",
            "RuntimeError(Trying to backward through a::b.default but",
            NOBODY,
            Weight.DIFFERENCE,
        ),
    ],
)
def test_an_input_that_never_asked_for_a_gradient_is_told_that_it_gets_none(
    variation: str, after: str, use: Usage, expected: Weight
) -> None:
    found = Finding(
        Kind.DIFFERS, Part.GRADIENT, "backward", "base", variation, after=after, detail="patched"
    )
    kinds = Kinds(gradients=True)
    assert weigh(found, KEY, kinds, use, eager=True) is expected


@pytest.mark.parametrize(
    ("part", "label", "before", "after", "expected"),
    [
        (Part.STATE, "lower", "torch.bfloat16", "torch.float32", Weight.LIMIT),
        (Part.STATE, "lower", "torch.float32", "torch.bfloat16", Weight.CAVEAT),
        (Part.STATE, "half", "torch.float16", "torch.float32", Weight.CAVEAT),
        (Part.STATE, "lower", "torch.bfloat16", "torch.int64", Weight.CAVEAT),
        (Part.OUTPUT, "lower", "torch.bfloat16", "torch.float32", Weight.CAVEAT),
    ],
)
def test_state_that_stays_as_precise_as_it_was_is_told(
    part: Part, label: str, before: str, after: str, expected: Weight
) -> None:
    found = Finding(Kind.DTYPE, part, "self.best", label, "dtype", before=before, after=after)
    assert weigh(found, KEY, Kinds(), NOBODY, eager=True) is expected
    if expected is Weight.LIMIT:
        anybody = Usage(any_callers=True)
        assert weigh(found, KEY, Kinds(), anybody, eager=True) is Weight.CAVEAT


def test_a_name_that_nothing_binds_is_no_limit() -> None:
    lost = finding(Kind.RAISES, "grad", "grad", after="NameError(name 'text' is not defined)")
    assert weigh(lost, KEY, Kinds(), NOBODY, eager=True) is Weight.DIFFERENCE
    other = dataclasses.replace(lost, after="RuntimeError(no gradient)")
    assert weigh(other, KEY, Kinds(), NOBODY, eager=True) is Weight.LIMIT


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("kept = x[x > 0]\nif kept.numel() == 0:\n    pass\n", False),
        ("kept = x[~mask]\nif len(kept) == 0:\n    pass\n", False),
        ("at = mask.nonzero().squeeze()\nif at.shape[0] == 0:\n    pass\n", False),
        ("kept = x[at]\nif kept.numel() == 0:\n    pass\n", True),  # a number, perhaps
        ("kept = x[x > 0]\nkept = x\nif kept.numel() == 0:\n    pass\n", True),
        ("def f(kept):\n    if kept.numel() == 0:\n        kept = kept[kept > 0]\n", True),
        ("kept = x[x > 0]\nif x.numel() == 0:\n    pass\n", True),
        ("kept = x[x > 0]\nif self.kept.numel() == 0:\n    pass\n", True),
        ("for kept in rows:\n    if len(kept) == 0:\n        kept = kept[kept > 0]\n", True),
    ],
)
def test_a_question_for_what_a_mask_selects_is_none_for_batches_without_rows(
    text: str, asks: bool
) -> None:
    golden = Outcome([CallKind(KEY, 0, Kinds())])
    assert usage.kinds(golden, [text])[KEY].asks_empty is asks

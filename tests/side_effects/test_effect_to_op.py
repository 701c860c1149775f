"""Which effects move, how an operator finds objects, and what keeps a statement where it is."""

from __future__ import annotations

import dataclasses

import pytest
from gbfix_codemods.side_effects.effect_to_op import EffectToOp

from gbfix.codemod import Advice, Example, Rewrite, Site, StatedFacts, example_site, scalar, tensor
from gbfix.schema import Fact, Frame

_FACTS = {
    "loss": tensor(requires_grad=True),
    "x": tensor(3),
    "loss.item()": scalar(1.0),
    "self": Fact("object", "example.Trainer"),
    "self.meter": Fact("object", "example.Meter"),
    "self.step": scalar(3),
    "bar": Fact("object", "example.Meter"),
}


def proposed(source: str, at: str) -> list[str]:
    case = Example(source, "", at=at, facts=_FACTS)
    found = EffectToOp().propose(example_site(case, "GB0124"))
    return [item.edits["example.py"] for item in found if isinstance(item, Rewrite)]


_CLASSES = """
import dataclasses
import torch


class Meter:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n


{decorator}class Trainer:
    def __init__(self):
        self.meter = Meter()
        self.step = 0

    def run(self, x, bar):
        loss = x.mean()
        {body}
        return loss
"""


def test_a_method_of_what_an_object_holds_runs_on_that_object() -> None:
    source = _CLASSES.format(decorator="", body="self.meter.update(loss.item(), self.step)")
    (text,) = proposed(source, "loss.item()")
    assert "owner.meter.update(loss.item(), step)" in text  # the number of this moment
    assert "update_run" not in source and "keep_run(loss, self.step, id(self))" in text


@pytest.mark.parametrize("made", ["0", "torch.zeros(())"])
def test_a_tensor_that_other_code_of_a_graph_may_read_stays_in_the_graph(made: str) -> None:
    source = _CLASSES.format(decorator="", body="print(loss.item()); self.seen += 1")
    source = source.replace("self.step = 0", f"self.step = 0\n        self.seen = {made}")
    texts = proposed(source, "loss.item()")
    assert any("owner.seen += 1" in text for text in texts) is (made == "0")


@pytest.mark.parametrize(
    ("decorator", "body"),
    [
        ("@dataclasses.dataclass(slots=True)\n", "self.meter.update(loss.item())"),
        ("@register\n", "self.meter.update(loss.item())"),
        ("", "self.meter.update(loss.item()); loss = loss * self.meter.total"),
        ("", "self.meter.update(loss)"),
        ("", "m = self.meter\n        m.update(loss.item())"),
    ],
)
def test_an_object_that_cannot_be_found_or_is_read_keeps_the_statement(
    decorator: str, body: str
) -> None:
    source = _CLASSES.format(decorator=decorator, body=body)
    assert not proposed(source, body.rpartition("\n")[2].strip().partition(";")[0])


_HELPER = """
import warnings
import torch


def deprecated(what):
    warnings.warn(f"{what} is deprecated", FutureWarning, stacklevel=2)


def f(x):
    deprecated("f")
    return x
"""


def test_a_warning_about_the_caller_moves_where_the_caller_is() -> None:
    inner = 'warnings.warn(f"{what} is deprecated", FutureWarning, stacklevel=2)'
    site = example_site(Example(_HELPER, "", at=inner), "GB0007")
    outer = example_site(Example(_HELPER, "", at='deprecated("f")'), "GB0007").frame
    frames = (dataclasses.replace(outer, function="f"), site.frame)
    found = dataclasses.replace(site.graph_break, frames=frames)
    facts = StatedFacts({"what": scalar("f")})
    whole = Site("example.py", site.source, found, facts, elsewhere={"example.py": facts})
    assert [view.frame.function for view in whole.callers()] == ["f"]
    first = next(item for item in EffectToOp().propose(whole) if isinstance(item, Rewrite))
    assert "    deprecated_f(torch.empty(0))\n    return x" in first.edits["example.py"]


def test_frames_outside_the_project_are_passed_over() -> None:
    site = example_site(Example(_HELPER, "", at='deprecated("f")'), "GB0007")
    library = Frame("lib.py", 1, "g", in_project=False)
    found = dataclasses.replace(site.graph_break, frames=(library, site.frame))
    whole = Site("example.py", site.source, found, StatedFacts({}), elsewhere={})
    assert not list(whole.callers())


def test_the_reason_is_a_sentence() -> None:
    case = Example(
        "import torch\n\n\ndef f(x, sink):\n    sink.write(x)\n    return x\n",
        "",
        at="sink.write(x)",
        facts={"x": tensor(3), "sink": Fact("object", "lib.Sink")},
    )
    (advice,) = EffectToOp().propose(example_site(case, "GB0007"))
    assert isinstance(advice, Advice) and advice.text.endswith(".") and "lib.Sink" in advice.text


@pytest.mark.parametrize(
    ("reader", "told"),
    [
        ("def rate(net, x):\n    return net(x) * net.seen\n", True),
        ("def rate(net, x):\n    return net(x) * net.lost\n", False),
        ("def shown(net):\n    print(net.seen)\n", False),
    ],
)
def test_who_reads_what_an_operator_sets_is_named(reader: str, told: bool) -> None:
    source = _CLASSES.format(decorator="", body="print(loss.item()); self.seen += 1")
    source = (
        source.replace("self.step = 0", "self.step = 0\n        self.seen = 0") + "\n\n" + reader
    )
    case = Example(source, "", at="loss.item()", facts=_FACTS)
    found = EffectToOp().propose(example_site(case, "GB0124"))
    notes = [note for item in found if isinstance(item, Rewrite) for note in item.notes]
    assert any("`rate` reads `seen`" in note for note in notes) is told


_REPORT = """
import torch


class Probe:
    def __init__(self, name=None):
        self.name = name

    def report(self, x):
        {}
        return x + 1
"""
_TEXTS = {
    "x": tensor(3),
    "x.mean()": tensor(),
    "self": Fact("object", "example.Probe"),
    "self.name": Fact("none", "NoneType"),
    "text": Fact("str", "str"),
}


def reported(lines: str) -> str:
    case = Example(_REPORT.format(lines), "", at="print(text)", facts=_TEXTS)
    found = [*EffectToOp().propose(example_site(case, "GB4841"))]
    texts = [item.edits["example.py"] for item in found if isinstance(item, Rewrite)]
    return texts[0] if texts else ""


def test_tensors_with_gradients_find_what_moved_along() -> None:
    text = reported('text = f"{x}"\n        print(text)')
    plain, _, operator = text.partition("    def report")[2].partition("else:")
    assert plain.count('text = f"{x}"') == 1 and "print(text)" in plain
    assert "text" not in operator.replace("context", "")


def test_what_is_none_at_times_is_read_where_its_object_is() -> None:
    text = reported(
        'text = f"{x.mean():.3f}"\n        if self.name is not None:\n'
        '            text = f"{self.name} {text}"\n        print(text)'
    )
    assert 'text = f"{owner.name} {text}"' in text and "if owner.name is not None" in text


def test_formats_of_numbers_show_no_gradient() -> None:
    plain = reported('text = "{:.3f}".format(x.mean())\n        print(text)')
    assert "requires_grad" not in plain and "print_report(x)" in plain
    shows = reported('text = "{}".format(x)\n        print(text)')
    assert "requires_grad" in shows
    rows = 'text = ""\n        for name, y in (("a", x), ("b", x)):\n            '
    rows += 'text += f"{name} {y.mean():.3f}"\n        print(text)'
    assert "requires_grad" not in reported(rows)


def with_losses(lines: str) -> str:
    losses = Fact("dict", "dict", keys=("a", "b"), items=(tensor(), tensor()))
    facts = {"losses": losses, "x": tensor(3), "text": Fact("str", "str")}
    source = "import torch\n\n\ndef report(x, losses):\n    {}\n    return x + 1\n"
    case = Example(source.format(lines), "", at="print(", facts=facts)
    found = [*EffectToOp().propose(example_site(case, "GB0059"))]
    texts = [item.edits["example.py"] for item in found if isinstance(item, Rewrite)]
    return texts[0] if texts else ""


def test_a_dictionary_of_tensors_is_its_names_and_its_values() -> None:
    loop = 'print(*(f"{k} {v.item()}" for k, v in losses.items()))'
    text = with_losses(loop)
    assert 'print_report(",".join(losses), list(losses.values()))' in text
    assert 'dict(zip(filter(None, losses_names.split(",")), losses, strict=True)).items()' in text
    assert "losses_names: str, losses: list[torch.Tensor]" in text


@pytest.mark.parametrize(
    "lines",
    [
        "print(losses)",  # another kind of dictionary shows its name
        'print(losses.pop("a").item())',
        "print(show(losses))",
        'print(*(f"{k} {v}" for k, v in losses.items()))',  # how autograd came to it
    ],
)
def test_dictionaries_that_do_more_stay(lines: str) -> None:
    assert not with_losses(lines)

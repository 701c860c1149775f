"""What the text of a project says of a patch that no run of the program shows."""

from __future__ import annotations

import pytest

from gbfix import unseen
from gbfix.schema import Span

OLD = "import torch\n\n\ndef scale(x):\n    return x\n"
NEW = "import torch\nimport weakref\n\n\ndef scale(x):\n    return x\n"


@pytest.mark.parametrize(
    "path, other, told",
    [
        ("net.py", "from net import *\nfrom mine import weakref\n", True),
        ("lib/__init__.py", "weakref = None\nfrom lib import *\n", True),
        ("lib/net.py", "weakref = None\nfrom .net import *\n", True),
        ("net.py", "from net import *\nprint(scale)\n", False),  # it has no such name
        ("net.py", "from net import scale\nfrom mine import weakref\n", False),
        ("net.py", "from other import *  # net\nweakref = None\n", False),
    ],
)
def test_names_that_a_patch_brings_to_others(path: str, other: str, told: bool) -> None:
    found = unseen.taken_names(path, OLD, NEW, {path: OLD, "main.py": other})
    assert bool(found) is told
    assert all("`main.py` imports all names" in text and "`weakref`" in text for text in found)


def test_a_file_that_lists_its_names_brings_no_others() -> None:
    listed = "__all__ = ['scale']\n"
    other = {"main.py": "from net import *\nweakref = None\n"}
    assert not unseen.taken_names("net.py", listed + OLD, listed + NEW, other)


def _net(made: str) -> str:
    return (
        "class Net(nn.Module):\n    def __init__(self, act):\n"
        f"        self.act = {made}\n\n    def forward(self, x):\n"
        "        if x.sum() > 0:\n            x = self.act(x)\n        return x\n"
    )


@pytest.mark.parametrize("made, told", [("act", True), ("nn.ReLU()", False)])
def test_a_layer_that_an_object_is_given_may_be_another_one(made: str, told: bool) -> None:
    old = _net(made)
    arm = "        if x.sum() > 0:\n            x = self.act(x)\n"
    new = old.replace(arm, "        x = torch.where(x.sum() > 0, self.act(x), x)\n")
    found = unseen.caveats(old, new, [Span(6, 0, 7, 27)], {"net.py": old})
    assert [("is given to the object" in text) for text in found] == [True] * told


@pytest.mark.parametrize("made, told", [("act or nn.ReLU()", True), ("nn.ReLU()", False)])
def test_a_layer_that_an_object_is_given_may_work_in_place(made: str, told: bool) -> None:
    old = _net(made)
    arm = "        if x.sum() > 0:\n            x = self.act(x)\n"
    new = old.replace(arm, "        x = torch.cond(x.sum() > 0, self.act, torch.clone, (x,))\n")
    *found, last = unseen.limits(old, new, [Span(6, 0, 7, 27)])
    assert [("raises an error" in text) for text in found] == [True] * told
    assert last.startswith("What a hook on `self.act` changes")
    assert not unseen.limits(old, old, [Span(6, 0, 7, 27)])


_DISPATCH = (
    "class Net:\n    def change(self, x):\n        return x\n\n"
    "    def forward(self, x):\n        if x.sum() > 0:\n            x = self.change(x)\n"
    "        return x\n"
)
_SUBCLASS = (
    "from net import Net\n\n\nclass Mine(Net):\n    def change(self, x):\n        return -x\n"
)


@pytest.mark.parametrize(
    "new, other, told",
    [
        (_DISPATCH.replace("self.change(x)", "Net.change(x)"), _SUBCLASS, "`Mine` in mine.py"),
        (_DISPATCH.replace("self.change(x)", "x"), _SUBCLASS, "`Mine` in mine.py"),
        (_DISPATCH.replace("self.change(x)", "x"), _SUBCLASS.replace("change", "other"), ""),
        (_DISPATCH.replace("return x\n\n    def f", "return x\n\n    def g"), _SUBCLASS, ""),
        (
            _DISPATCH.replace("    def change(self,", "    @staticmethod\n    def change("),
            "from net import Net\n\nNet.change(Net(), 1)\n",
            "uses `Net.change`, which is a static method now",
        ),
        # A mixin is asked first; what an object is given, or a class body binds again, as well.
        (
            _DISPATCH.replace("self.change(x)", "x"),
            "class Loud:\n    def change(self, x):\n        return -x\n\n\n"
            "class Mine(Loud, Net):\n    pass\n",
            "`Mine` in mine.py",
        ),
        (
            _DISPATCH.replace("self.change(x)", "x"),
            "def loud(net):\n    net.change = abs\n",
            "mine.py binds `change`",
        ),
        (
            _DISPATCH.replace("self.change(x)", "x"),
            "class Mine(Net):\n    def __init__(self):\n        self.change = abs\n",
            "mine.py binds `change`",
        ),
        (
            _DISPATCH.replace("self.change(x)", "x"),
            "class Other:\n    def __init__(self):\n        self.change = abs\n",
            "",
        ),
        (
            _DISPATCH.replace("self.change(x)", "x"),
            "class Net:\n    def change(self, x):\n        return x\n\n"
            "    change = checked(change)\n",
            "mine.py binds `change`",
        ),
    ],
)
def test_methods_of_subclasses_that_a_patch_does_not_ask(new: str, other: str, told: str) -> None:
    project = {"net.py": _DISPATCH, "mine.py": other}
    found = unseen.lost_dispatch(_DISPATCH, new, project)
    assert [text for text in found if told in text] == list(found)
    assert bool(found) is bool(told)


def test_a_mask_in_place_of_a_condition_runs_the_arm_in_every_call() -> None:
    old = (
        "class Net:\n    def change(self, x):\n        return 1.0\n\n"
        "    def forward(self, x):\n        if x.sum() > 0:\n"
        "            self.slots.fill_(self.change(x))\n        return x\n"
    )
    arm = "        if x.sum() > 0:\n            self.slots.fill_(self.change(x))\n"
    new = old.replace(arm, "        self.slots.masked_fill_(x.sum() > 0, self.change(x))\n")
    project = {"net.py": old, "mine.py": _SUBCLASS}
    (found,) = unseen.caveats(old, new, [Span(6, 0, 7, 44)], project)
    assert "`Mine` in mine.py overrides `change`" in found


_LOOP = """\
class Net(nn.Module):
    def __init__(self):
        self.act = {made}

    def forward(self, x):
        for i in range(3):
            x = self.act(x)
            if x.sum() > 9:
                break
        return x
"""


@pytest.mark.parametrize("more", ["", "net.register_forward_hook(count)\n", "spectral_norm(net)\n"])
def test_rounds_that_did_not_run_call_hooks(more: str) -> None:
    old = _LOOP.format(made="nn.ReLU()")
    new = old.replace("            if x.sum() > 9:\n                break\n", "")
    new = new.replace("x = self.act(x)", "x = torch.where(done, x, self.act(x))")
    found = unseen.caveats(old, new, [Span(5, 0, 10, 16)], {"net.py": old, "main.py": more})
    assert any("registers hooks" in text for text in found) is bool(more)


def test_what_a_loop_calls_before_its_end_may_be_another_model() -> None:
    old = _LOOP.format(made="act")
    new = old.replace("            if x.sum() > 9:\n                break\n", "")
    new = new.replace("return x", "return x.narrow(0, 0, count)")
    (found,) = unseen.caveats(old, new, [Span(5, 0, 10, 16)], {"net.py": old})
    assert "the loop calls" in found and "runs all rounds of it" in found
    other = {"net.py": old.replace("= act", "= nn.ReLU()"), "other.py": old}
    assert not unseen.caveats(other["net.py"], new, [Span(5, 0, 10, 16)], other)


def test_a_function_that_a_patch_brings_has_no_rounds_of_before() -> None:
    old = _LOOP.format(made="act")
    brought = (
        "def packed(x):\n    for n in (1, 2):\n        x = x.narrow(0, 0, n)\n    return x\n\n\n"
    )
    new = brought + old.replace("self.act(x)", "packed(x)")
    hooked = {"net.py": old, "main.py": "net.register_forward_hook(count)\n"}
    assert not unseen.caveats(old, new, [Span(7, 0, 7, 27)], hooked)


_SHARED = (
    "def scaled(v, floor):\n    if v.max() > floor:\n        v = v / v.max()\n    return v\n\n\n"
)


@pytest.mark.parametrize(
    "call, told",
    [
        ("scaled(np.asarray(rows), 0.5)", True),
        ("scaled(rows.numpy(), 0.5)", True),
        ("scaled(kept, 0.5)", True),
        ("scaled(rows, np.float32(0.5))", False),
        ("scaled(rows, float(rows.max()))", False),
        ("other(np.asarray(rows))", False),
        ("rows.kept.scaled(np.asarray(rows))", False),
    ],
)
def test_a_function_that_is_also_given_arrays_takes_no_patch_for_tensors(
    call: str, told: bool
) -> None:
    arm = "    if v.max() > floor:\n        v = v / v.max()"
    new = _SHARED.replace(arm, "    v = torch.where(v)")
    other = f"def report(rows):\n    kept = np.array(rows)\n    return {call}\n"
    project = {"net.py": _SHARED, "report.py": other, "old.py": "print 'scaled'\n"}
    found = unseen.given_no_tensors(_SHARED, [Span(2, 0, 3, 20)], new, project)
    assert bool(found) is told
    assert not unseen.given_no_tensors(_SHARED, [Span(2, 0, 3, 20)], _SHARED, project)

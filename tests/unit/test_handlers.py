"""Which handlers of a project may catch what a check raises inside a compiled region."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gbfix.codemod import Site
from gbfix.rewriting.handlers import (
    ancestry,
    goes_on_after,
    handlers_of,
    is_around,
    project_texts,
)
from gbfix.schema import Frame, FrameFacts, GraphBreak

CHECK = """
import torch


class Bad(ValueError):
    pass


def check(x):
    if (x < 0).any():
        raise Bad("negative")


def normalized(x):
    check(x)
    return x / x.sum()

"""


def found(code: str, kind: str = "Bad", frames: tuple[Frame, ...] = ()) -> list[str]:
    sources = {"a.py": CHECK + textwrap.dedent(code)}
    exceptions = ancestry(sources, kind)
    return [handler.function for handler in handlers_of(sources, ["check"], exceptions, frames)]


HANDLED = """
    try:
        return normalized(x)
    except ValueError:
        return x
"""


def test_a_handler_in_compiled_code_counts() -> None:
    assert found("@torch.compile\ndef f(x):" + HANDLED) == ["f"]


def test_a_handler_of_the_compiled_functions_caller_does_not() -> None:
    assert found("run = torch.compile(normalized)\n\ndef f(x):" + HANDLED) == []


def test_a_handler_below_a_compiled_function_counts() -> None:
    assert found("def f(x):" + HANDLED + "\n@torch.compile\ndef g(x):\n    return f(x)") == ["f"]


def test_a_module_handed_to_compile_brings_its_forward() -> None:
    layer = "class Layer:\n    def forward(self, x):" + textwrap.indent(HANDLED, "    ")
    assert found(layer + "\nlayer = torch.compile(Layer())") == ["forward"]
    assert found(layer) == []


def test_a_wrapper_of_compile_may_compile_anything() -> None:
    code = "def fast(fn):\n    return torch.compile(fn)\n\n@fast\ndef f(x):" + HANDLED
    assert found(code) == ["f"]


def test_other_exceptions_are_not_caught() -> None:
    code = "@torch.compile\ndef f(x):" + HANDLED.replace("ValueError", "(KeyError, TypeError)")
    assert found(code) == []
    assert found(code.replace("KeyError", "Exception")) == ["f"]


def test_a_check_that_is_handed_on_is_followed() -> None:
    code = """
        class Step:
            def __init__(self, verify=check):
                self.verify = verify

            def loss(self, x):
                return self.verify(x)

        @torch.compile
        def f(step, x):
            try:
                return step.loss(x)
            except Bad:
                return x
    """
    assert found(code) == ["f"]
    assert found(code.replace("verify=check", "verify=None")) == []


def test_what_cleans_up_counts() -> None:
    code = "@torch.compile\ndef f(x, lock):\n    with lock:\n        return normalized(x)\n"
    assert found(code) == ["f"]
    assert found(code.replace("with lock", "with torch.no_grad()")) == []


def test_lines_on_the_way_are_told_from_others() -> None:
    sources = {"a.py": CHECK + "@torch.compile\ndef f(x):" + HANDLED}
    (handler,) = handlers_of(sources, ["check"], ["Bad", "ValueError"])
    assert is_around(handler, [Frame("a.py", handler.line, "f")])
    assert not is_around(handler, [Frame("a.py", handler.end_line + 1, "f")])


def test_files_beside_the_program_count_where_they_may_load_it(tmp_path: Path) -> None:
    texts = {
        "main.py": "import layers\n",
        "other.py": "from layers import Layer\n" + CHECK,
        "further.py": "import other\n",
        "unrelated.py": CHECK,
        "plugins.py": "import importlib\n",
        "again.py": "import plugins\n",
        "venv/lib.py": "import layers\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = project_texts({str(tmp_path / "layers.py"): ""}, str(tmp_path / "main.py"))
    names = {Path(path).name for path in found}
    assert names == {"layers.py", "main.py", "other.py", "further.py", "plugins.py", "again.py"}


def test_a_package_counts_under_its_folders_name(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import parts\n")
    (tmp_path / "other.py").write_text("from parts import Layer\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "training.py").write_text("from . import Layer\n")
    loaded = {str(tmp_path / "parts" / name): "" for name in ("__init__.py", "layers.py")}
    found = project_texts(loaded, str(tmp_path / "main.py"))
    assert str(tmp_path / "other.py") in found
    assert str(tmp_path / "parts" / "training.py") in found  # it does not name its package


LAYERS = """
import torch
from torch import nn


class Checked(nn.Module):
    def forward(self, x):
        assert not torch.isnan(x).any()
        return x


class Other(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = {}

    def forward(self, x):
        try:
            return self.layer(x)
        except AssertionError:
            return x


{}
model = torch.compile(model)
"""


def around(layer: str, more: str = "") -> list[str]:
    """Handlers around ``Checked.forward``, where another module holds a layer."""
    sources = {"a.py": LAYERS.format(layer, more)}
    exceptions = ancestry(sources, "AssertionError")
    return [one.function for one in handlers_of(sources, ["forward"], exceptions, (), "Checked")]


def test_a_layer_that_a_constructor_makes_is_no_other() -> None:
    assert around("nn.Linear(2, 2)") == []
    assert around("nn.Sequential(nn.Linear(2, 2), nn.ReLU())") == []
    plain = "class Plain(nn.Module):\n    def forward(self, x):\n        return x"
    assert around("Plain()", plain) == []


def test_layers_that_may_be_the_checked_one_count() -> None:
    for layer in ("Checked()", "nn.Sequential(nn.ReLU(), Checked())", "layer", "made(layer)"):
        assert around(layer) == ["forward"], layer
    later = "model.layer = Checked()"
    assert around("nn.ReLU()", later) == ["forward"]
    assert around("nn.ReLU()", "setattr(model, 'layer', Checked())") == ["forward"]
    assert around("nn.ReLU()", "model.add_module('layer', Checked())") == ["forward"]
    assert around("nn.ReLU()", "def change(model, new):\n    model.layer = new") == ["forward"]


def test_layers_that_hold_the_checked_one_count() -> None:
    extends = "class More(Checked):\n    pass"
    assert around("More()", extends) == ["forward"]
    holds = """
class Holds(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = {}

    def forward(self, x):
        return self.inner(x)
"""
    assert around("Holds(4)", holds.format("Checked()")) == ["forward"]
    assert around("Holds(4)", holds.format("inner")) == ["forward"]
    assert around("Holds(4)", holds.format("nn.Linear(inner, inner)")) == []
    extended = holds.format("Checked()") + "\n\nclass Wide(Holds):\n    pass\n"
    assert around("Wide(4)", extended) == ["forward"]
    listed = holds.format("nn.ModuleList([])") + "        self.inner += [Checked()]\n"
    assert around("Holds(4)", listed) == ["forward"]


def test_layers_in_a_list_that_the_text_does_not_tell_count() -> None:
    wrapper = """
class Each(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = {}

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def made():
    return Checked()
"""
    assert around("Each([made()])", wrapper.format("layers")) == ["forward"]
    assert around("Each(3)", wrapper.format("nn.ModuleList(layers)")) == ["forward"]
    assert around("Each(3)", wrapper.format("nn.ModuleList([nn.ReLU()])")) == []
    numbered = wrapper.replace("layer in self.layers", "n in range(2)")
    numbered = numbered.replace("layer(x)", "self.layers[n](x)")
    assert around("Each([made()])", numbered.format("layers")) == ["forward"]


_CHECK = """
import torch


def check(x):
    if x.any():
        raise ValueError("no")
"""


@pytest.mark.parametrize(
    ("more", "goes_on"),
    [
        ("", False),
        ("try:\n    f()\nexcept KeyError:\n    pass\n", False),
        ("try:\n    f()\nexcept ValueError:\n    pass\n", True),
        ("try:\n    f()\nexcept Exception:\n    pass\n", True),
        ("try:\n    f()\nexcept:\n    pass\n", True),
        ("RARE = (ValueError, KeyError)\ntry:\n    f()\nexcept RARE:\n    pass\n", True),
        ("Bad = ValueError\ntry:\n    f()\nexcept Bad:\n    pass\n", True),
        ("try:\n    f()\nfinally:\n    print(n)\n", True),
        ("from contextlib import suppress as ignoring\n", True),
        ("class Quiet:\n    def __exit__(self, *error):\n        return True\n", True),
        ("import atexit\n", True),
        ("# %% [gbfix: cell 2]\nprint(n)\n", True),
        ("print('%d %%' % n)  # not a cell\n", False),
        ("from concurrent.futures import ThreadPoolExecutor\n", True),
        ("import unittest\n", True),
    ],
)
def test_whether_anything_goes_on_after_an_error(more: str, goes_on: bool) -> None:
    frame = Frame("net.py", 7, "check")
    found = GraphBreak("GB0170", "", "", "", (), (frame,), "net.py::check", frame)
    source = _CHECK + more
    site = Site("net.py", source, found, FrameFacts(), sources={"net.py": source})
    assert goes_on_after(site, ["ValueError"]) is goes_on

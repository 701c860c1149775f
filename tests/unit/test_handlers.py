"""Which handlers of a project may catch what a check raises inside a compiled region."""

from __future__ import annotations

import textwrap

from gbfix.rewriting.handlers import ancestry, handlers_of, is_around, project_texts
from gbfix.schema import Frame

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


def test_files_beside_the_program_count(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "main.py").write_text("import torch\n")
    (tmp_path / "other.py").write_text(CHECK)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "lib.py").write_text("x = 1\n")
    texts = project_texts({"a.py": ""}, str(tmp_path / "main.py"))
    assert {path.rpartition("/")[2] for path in texts} == {"a.py", "main.py", "other.py"}

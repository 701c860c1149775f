"""Log calls, warnings and writes that move into operators do what they did, in order."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from effect_trials import check, proposals
from gbfix_codemods.side_effects.logging_to_op import _FIND, LoggingToOp
from gbfix_codemods.side_effects.warning_to_op import WarningToOp
from gbfix_codemods.side_effects.write_to_op import WriteToOp

from gbfix.codemod import Example, Rewrite, example_site
from gbfix.schema import Fact

X = torch.arange(6.0).reshape(2, 3)
CALLS = [(X,), (X * 3,), (X[:, :2] + 1,)]
TRAIN = [(X.clone().requires_grad_(),), ((X + 1).clone().requires_grad_(),)]

PROGRAM = """
import logging
import sys
import warnings
import torch

logger = logging.getLogger("trial")


class Odd(RuntimeWarning):
    pass


def f(x, n=3, name="run"):
    y = x * 2
    for i in range(2):
        {}
        y = y + 1
    return y
"""


@pytest.mark.parametrize(
    "line",
    [
        'logger.warning("constant")',
        'logger.info("%s %s %d %.3f", name, y.detach(), i, y.mean().item())',
        'logging.error(f"{name}: {y.shape} {y.sum().item():.2f}")',
        'logger.debug("not shown %s", y.tolist())',
        "logger.log(logging.INFO, 'n %d', n)",
    ],
)
@pytest.mark.parametrize("calls", [CALLS, TRAIN], ids=["plain", "training"])
def test_log_calls(line: str, calls: list[tuple[torch.Tensor]]) -> None:
    check(LoggingToOp(), PROGRAM.format(line), line, calls)


@pytest.mark.parametrize("level", ["logging.INFO", "logging.DEBUG"])
def test_a_guarded_log_call(level: str) -> None:
    at = f"logger.isEnabledFor({level})"
    block = f"if {at}:  # costly\n            # why\n            logger.info('%s', y.tolist())"
    patched = check(LoggingToOp(), PROGRAM.format(block), at, CALLS)
    assert "# why" in patched


def test_a_logger_of_the_class() -> None:
    check(
        LoggingToOp(),
        """
        import logging
        import torch

        class Net:
            def __init__(self):
                self.log = logging.getLogger(__name__)

            def run(self, x):
                self.log.warning("mean %.2f", x.mean().item())
                return x + 1

        NET = Net()

        def f(x):
            return NET.run(x)
        """,
        'self.log.warning("mean %.2f", x.mean().item())',
        CALLS,
    )


@pytest.mark.parametrize(
    "line",
    [
        "logger.info('a', exc_info=True)",
        "logger.warning('%d', i, stack_info=True)",
        "logger.exception('a')",
    ],
)
def test_what_shows_an_exception_or_the_stack_gets_advice(line: str) -> None:
    rewrites, advice = proposals(LoggingToOp(), PROGRAM.format(line), line, CALLS)
    assert not rewrites
    assert ["exception or stack" in item.text for item in advice] == [True]


def test_formats_that_show_the_line_are_noted() -> None:
    source = PROGRAM.format("logger.info('a')") + '\nFORMAT = "%(lineno)d %(message)s"\n'
    rewrites, _ = proposals(LoggingToOp(), source, "logger.info('a')", CALLS)
    assert any("line or function" in note for note in rewrites[0].notes)


@pytest.mark.parametrize(
    "line",
    [
        'warnings.warn("once for each location")',
        'warnings.warn(f"{y.shape}", Odd)',
        'warnings.warn("sum %.1f" % y.sum().item(), category=DeprecationWarning, stacklevel=1)',
    ],
)
def test_warnings(line: str) -> None:
    # One shape: a recompilation changes the warning filters and so forgets what was shown once.
    check(WarningToOp(), PROGRAM.format(line), line, CALLS[:2])


@pytest.mark.parametrize(
    "line",
    [
        'sys.stdout.write(f"{y.mean().item():.3f}\\n")',
        "sys.stderr.write(str(y.tolist()))",
    ],
)
def test_streams(line: str) -> None:
    check(WriteToOp(), PROGRAM.format(line), line, CALLS)


def test_a_file_gets_the_same_lines_from_every_run(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    line = f'open({str(file)!r}, "a").write(f"{{i}} {{y.sum().item()}}\\n")'
    check(WriteToOp(), PROGRAM.format(line), line, TRAIN)
    text = file.read_text()
    # The run for the facts, the original, and the patched program plain and under three backends.
    assert text == text[: len(text) // 6] * 6 and text.count("\n") == 6 * 2 * len(TRAIN)


def test_torch_save_saves_the_value_of_the_moment(tmp_path: Path) -> None:
    line = f'torch.save({{"y": y.detach(), "n": n}}, f"{tmp_path}/{{i}}.pt")'
    check(
        WriteToOp(),
        PROGRAM.format(line).replace("y = y + 1", "y.add_(1)"),
        line,
        CALLS[:2],
    )
    assert torch.equal(torch.load(tmp_path / "0.pt")["y"], X * 6)
    assert torch.equal(torch.load(tmp_path / "1.pt")["y"], X * 6 + 1)


def test_saving_a_tensor_that_requires_a_gradient_is_refused() -> None:
    line = 'torch.save(y, "foo.pt")'
    source = PROGRAM.format(line).replace('"foo.pt"', "'/dev/null'")
    rewrites, advice = proposals(
        WriteToOp(), source, line.replace('"foo.pt"', "'/dev/null'"), TRAIN
    )
    assert not rewrites and advice


_KEPT = """import logging

import torch

{base}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x, n):
        {lines}
        return x + 1
"""
_MADE = "self.log = logging.getLogger(type(self).__name__)"


@pytest.mark.parametrize(
    ("lines", "made", "base"),
    [
        ("self.log.info('n')\n        self.log = n", _MADE, ""),
        ("self.log.info('n')\n        setattr(self, 'log', n)", _MADE, ""),
        ("self.log.info('n')\n        vars(self).update(n)", _MADE, ""),
        ("self.log.info('n')", "if self.training: " + _MADE, ""),
        ("self.log.info('n')", _MADE, "class Base:\n    log = logging.getLogger('b')\n\n"),
    ],
    ids=["bound again", "set by name", "by all names", "under a condition", "also of a class"],
)
def test_a_logger_of_which_the_text_does_not_tell_which_is_found_by_identity(
    lines: str, made: str, base: str
) -> None:
    source = _KEPT.format(lines=lines, made=made, base=base)
    facts = {"self.log": Fact("object", "logging.Logger")}
    site = example_site(Example(source, "", at="self.log.info('n')", facts=facts), "GB0291")
    (rewrite,) = (made for made in LoggingToOp().propose(site) if isinstance(made, Rewrite))
    (text,) = rewrite.edits.values()
    assert "log_forward(torch.empty(0), id(self.log))" in text
    assert "if id(known) == logger_id)" in text


def test_a_logger_is_found_among_those_that_logging_made() -> None:
    """The lines of the operator find any logger, the root's too, and nothing else."""
    space: dict[str, object] = {"logging": logging}
    for logger in (logging.getLogger("gbfix.tests.one"), logging.getLogger()):
        space["logger_id"] = id(logger)
        exec("\n".join(_FIND), space)
        assert space["logger"] is logger
    space["logger_id"] = id(logging.Logger("alone"))
    with pytest.raises(StopIteration):
        exec("\n".join(_FIND), space)

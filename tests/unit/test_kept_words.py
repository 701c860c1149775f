"""What a program keeps of warnings and of log records is compared by its words."""

from __future__ import annotations

import logging
import warnings

import pytest

torch = pytest.importorskip("torch")

from gbfix.worker.values import state_image  # noqa: E402


def caught(line: int, *texts: str) -> list[warnings.WarningMessage]:
    return [
        warnings.WarningMessage(UserWarning(text), UserWarning, "a.py", line + n)
        for n, text in enumerate(texts)
    ]


def test_lines_of_warnings_are_no_state() -> None:
    one, other = ({"seen": caught(line, "odd mask")} for line in (3, 30))
    assert state_image(one) == state_image(other)
    assert state_image(one) != state_image({"seen": caught(3, "even mask")})
    assert state_image(one) != state_image({"seen": caught(3, "odd mask", "odd mask")})


def test_what_torch_says_once_in_a_process_is_not_counted() -> None:
    torchs = "Converting ... (Triggered internally at Scalar.cpp:24.)"
    assert state_image({"seen": caught(3, torchs, "odd mask")}) == state_image(
        {"seen": caught(9, "odd mask")}
    )


def test_log_records_have_a_level_and_a_text() -> None:
    def record(level: int, line: int, text: str) -> logging.LogRecord:
        return logging.LogRecord("net", level, "a.py", line, "%s!", (text,), None)

    one, other = ({"kept": [record(logging.INFO, line, "slow")]} for line in (3, 30))
    assert state_image(one) == state_image(other)
    assert state_image(one) != state_image({"kept": [record(logging.WARNING, 3, "slow")]})
    assert state_image(one) != state_image({"kept": [record(logging.INFO, 3, "fast")]})
    more = record(logging.INFO, 3, "slow")
    more.step = 4
    assert state_image(one) != state_image({"kept": [more]})
    wrong = logging.LogRecord("net", logging.INFO, "a.py", 3, "%d %d", ("one",), None)
    assert state_image({"kept": [wrong]})  # its text cannot be made

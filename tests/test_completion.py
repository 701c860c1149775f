"""Shell completion, as bash asks for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def completed(words: str) -> list[str]:
    """What completes the last word (kinds and values, as click tells bash)."""
    environment = {
        **os.environ,
        "_GBFIX_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "gbfix"], env=environment, capture_output=True, text=True
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gbfix --app", ["plain,--apply"]),
        ("gbfix --format sa", ["plain,sarif"]),
        ("gbfix codes --form", ["plain,--format"]),
        ("gbfix codes --format mark", ["plain,markdown"]),
    ],
)
def test_options_and_their_values_are_completed(words: str, expected: list[str]) -> None:
    assert completed(words) == expected


def test_the_first_word_may_be_a_command_or_a_file() -> None:
    assert completed("gbfix exp") == ["plain,explain", "file,exp"]


def test_the_script_for_the_shell_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gbfix"], capture_output=True, text=True,
        env={**os.environ, "_GBFIX_COMPLETE": "zsh_source"},
    )  # fmt: skip
    assert "#compdef gbfix" in done.stdout

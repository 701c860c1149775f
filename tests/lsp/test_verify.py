"""`gbfix.verify` in the editor: an action on a compiled function, and a verdict in words."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from gbfix.changes import Change
from gbfix.lsp.measuring import Measuring
from gbfix.schema import Options, Target
from gbfix.verification import RegionVerdict, Verification

from .client import Client
from .conftest import BREAKING, FIXED

ASKED: list[tuple[Target, Change]] = []


@pytest.fixture
def opened(client: Client, program: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A committed program, open in the editor; the engine is a stand-in."""
    git = ["git", "-C", str(program.parent), "-c", "user.email=a@b", "-c", "user.name=a"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)

    async def verify(
        self: Measuring, target: Target, options: Options, change: Change, *rest: Any
    ) -> Verification:
        ASKED.append((target, change))
        part = RegionVerdict("k", "f", str(program), 8, "wrong", ("output: values differ",))
        return Verification(target.display, "HEAD", tuple(change.shown(target.cwd)), regions=[part])

    monkeypatch.setattr(Measuring, "verify", verify)
    ASKED.clear()
    client.initialize(program.parent)
    return client.open(program)


def test_the_head_of_a_compiled_function_offers_to_verify(client: Client, opened: str) -> None:
    kinds = {action.get("kind") for action in client.actions(opened, 4)}
    assert "source.verify.gbfix" not in kinds
    for line in (7, 8):  # the decorator and the def
        (action,) = client.actions(opened, line, only=["source.verify.gbfix"])
        assert action["title"] == "Verify my change of `f` against the last commit"
        assert action["command"]["arguments"] == [opened]
    assert ASKED == []


def test_what_is_typed_is_judged_against_the_last_commit(
    client: Client, opened: str, program: Path
) -> None:
    client.change(opened, 2, {"text": FIXED})
    answer = client.execute("gbfix.verify", opened)
    assert answer["status"] == "wrong"
    assert answer["summary"] == "The change is wrong: f does something else: output: values differ."
    assert answer["markdown"].startswith("### ❌ gbfix verify")
    assert answer["regions"][0]["name"] == "f"
    shown = client.until("window/showMessage")
    assert (shown["type"], "The change is wrong" in shown["message"]) == (1, True)
    ((target, change),) = ASKED
    assert target.value == "program.py"
    (file,) = change.files
    assert (file.before, file.after) == (BREAKING.encode(), FIXED.encode())
    assert program.read_text() == BREAKING


def test_outside_of_git_one_line_says_so(client: Client, program: Path) -> None:
    client.initialize(program.parent)
    uri = client.open(program)
    answer = client.execute("gbfix.verify", uri)
    assert answer["status"] == "error"
    assert "in no git repository" in client.until("window/showMessage")["message"]


def test_a_workspace_that_is_not_trusted_verifies_nothing(
    client: Client, opened: str, program: Path
) -> None:
    client.notify("workspace/didChangeConfiguration", {"settings": {"trusted": False}})
    assert client.execute("gbfix.verify", opened)["status"] == "error"
    assert client.actions(opened, 7, only=["source.verify.gbfix"]) == []
    assert ASKED == []

"""`gbfix mcp`, as an agent meets it: through the SDK's own client, over a pipe."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from reports import clean, unfixed

from gbfix import agents
from gbfix.schema import BreakReport, GraphBreak, Report

mcp = pytest.importorskip("mcp")

SOURCE = textwrap.dedent(
    """
    import torch


    @torch.compile
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1


    print(f(torch.ones(3)))
    """
).lstrip("\n")
BRANCH = "if x.sum() > 0:\n        return x + 1\n    return x - 1"
RIGHT = "return torch.where(x.sum() > 0, x + 1, x - 1)"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent")
    (folder / "f.py").write_text(SOURCE)
    git = ["git", "-C", str(folder), "-c", "user.email=a@b", "-c", "user.name=a"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    return folder


Call = Callable[[str, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


def _talk(folder: Path, work: Callable[[Any, Call], Coroutine[Any, Any, None]]) -> None:
    """Start the server as an agent does, and let ``work`` use it."""

    async def main() -> None:
        command = [sys.executable, "-m", "gbfix", "mcp"]
        parameters = mcp.StdioServerParameters(command=command[0], args=command[1:], cwd=folder)
        async with (
            mcp.stdio_client(parameters) as (read, write),
            mcp.ClientSession(read, write) as session,
        ):
            await session.initialize()

            async def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
                answer = await session.call_tool(name, given)
                found: dict[str, Any] = json.loads(answer.content[0].text)
                assert len(answer.content[0].text) < 2 * agents.MOST
                return found

            await work(session, call)

    asyncio.run(asyncio.wait_for(main(), 240))


def test_an_agent_finds_explains_proposes_and_verifies(project: Path) -> None:
    async def work(session: Any, call: Call) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {"find", "explain", "propose", "verify"}
        assert all(tool.description for tool in tools.values())

        found = await call("find", {"target": "f.py"})
        assert [item["code"] for item in found["breaks"]] == ["GB0170"]
        assert found["breaks"][0]["place"].endswith("f.py:6")
        assert "No fixes were looked for: `propose` does that." in found["summary"]

        told = await call("explain", {"codes": ["GB0170", "nonsense"]})
        assert "What to do" in told["explanations"]["GB0170"]
        assert "nonsense" in told["explanations"]["nonsense"]

        proposed = await call("propose", {"target": "f.py", "folder": str(project)})
        (patch,) = proposed["patches"]
        assert patch["safety"] == "safe" and "torch.where" in patch["diff"]

        verdict = await call("verify", {"target": "f.py", "patch": patch["diff"]})
        assert verdict["status"] == "safe", verdict
        (project / "f.py").write_text(SOURCE.replace(BRANCH, RIGHT.replace("x - 1", "x - 2")))
        verdict = await call("verify", {"target": "f.py", "save_counterexample": "shown"})
        assert verdict["status"] == "wrong"
        assert verdict["counterexample"]["reproduced"] is True
        assert (project / "shown" / "show.py").exists()

        mistake = await call("find", {"target": "nowhere.py"})
        assert "no such file" in mistake["error"]

    _talk(project, work)


def test_find_says_that_it_looked_for_no_fixes(tmp_path: Path) -> None:
    told = agents.found_dict(unfixed(tmp_path / "m.py"))
    assert told["summary"].startswith("Found 1 graph break in 1 region")
    assert told["summary"].endswith(". No fixes were looked for: `propose` does that.")
    assert "left" not in told["summary"] and told["regions"][0]["status"] == "breaks"
    assert "No fixes" not in agents.found_dict(clean(tmp_path / "m.py"))["summary"]


def test_answers_are_bounded_and_say_what_they_leave_out() -> None:
    cause = GraphBreak("GB0170", "t" * 500, "why " * 2000, "", (), (), "r", None)
    report = Report("x", breaks=[BreakReport(cause) for _ in range(500)])
    data = {"breaks": [agents._break(item) for item in report.breaks]}
    bounded = agents._bounded(data)
    assert len(json.dumps(bounded)) <= agents.MOST
    assert bounded["breaks"][-1].startswith("... and ")


def test_without_the_sdk_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(agents.GbfixError, match=r"pip install 'gbfix\[mcp\]'"):
        agents.server()

"""`pytest --gbfix`; the session is a stand-in, except in the one test that is slow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gbfix import session
from gbfix.schema import Options, Target

pytest_plugins = ["pytester"]

PASSING = "def test_it():\n    assert True\n"


class Session:
    def __init__(self) -> None:
        self.asked: list[tuple[Target, Options, session.Mode]] = []
        self.status = 0

    def run(self, targets: list[Target], options: Options, mode: session.Mode, **rest: Any) -> int:
        assert os.environ["GBFIX_INSIDE_PYTEST"] == "1"
        self.asked += [(target, options, mode) for target in targets]
        print("the report")
        return self.status


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Session:
    stand_in = Session()
    monkeypatch.setattr(session, "run", stand_in.run)
    return stand_in


def test_the_same_test_run_is_the_target(pytester: pytest.Pytester, fake: Session) -> None:
    pytester.makepyfile(test_a=PASSING)
    result = pytester.runpytest_inprocess("test_a.py", "-q", "--gbfix", "-k", "it")
    ((target, options, mode),) = fake.asked
    assert (target.kind, target.value, target.cwd) == ("module", "pytest", str(pytester.path))
    assert target.args[:4] == ("test_a.py", "-q", "-k", "it")
    assert "--gbfix" not in target.args and "--assert=plain" in target.args
    assert mode is session.Mode.CHECK and options.check_only
    result.stdout.fnmatch_lines(["*== gbfix ==*", "the report"])
    assert result.ret == 0


def test_breaks_fail_the_run(pytester: pytest.Pytester, fake: Session) -> None:
    pytester.makepyfile(PASSING)
    fake.status = 1
    assert pytester.runpytest_inprocess("--gbfix").ret == 1


def test_apply_writes(pytester: pytest.Pytester, fake: Session) -> None:
    pytester.makepyfile(PASSING)
    pytester.runpytest_inprocess("--gbfix-apply")
    assert [mode for _, _, mode in fake.asked] == [session.Mode.APPLY]


def test_the_projects_options_hold(pytester: pytest.Pytester, fake: Session) -> None:
    pytester.makepyfile(PASSING)
    pytester.makepyprojecttoml("[tool.gbfix]\ncalls = 5\n")
    pytester.runpytest_inprocess("--gbfix")
    assert fake.asked[0][1].calls == 5


def test_a_mistake_in_the_configuration_is_one_line(
    pytester: pytest.Pytester, fake: Session
) -> None:
    pytester.makepyfile(PASSING)
    pytester.makepyprojecttoml("[tool.gbfix]\ncals = 5\n")
    result = pytester.runpytest_inprocess("--gbfix")
    result.stdout.fnmatch_lines(["error: *did you mean 'calls'?"])
    assert result.ret == 1 and not fake.asked


@pytest.mark.parametrize("words", [(), ("--gbfix", "--collect-only")])
def test_nothing_happens_unasked_or_without_tests(
    pytester: pytest.Pytester, fake: Session, words: tuple[str, ...]
) -> None:
    pytester.makepyfile(PASSING)
    assert pytester.runpytest_inprocess(*words).ret == 0
    assert not fake.asked


def test_tests_that_fail_are_not_run_again(pytester: pytest.Pytester, fake: Session) -> None:
    pytester.makepyfile("def test_it():\n    assert False\n")
    result = pytester.runpytest_inprocess("--gbfix")
    result.stdout.fnmatch_lines(["not run: it needs tests that pass"])
    assert result.ret == 1 and not fake.asked


def test_the_runs_inside_are_not_checked_in_their_turn(
    pytester: pytest.Pytester, fake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GBFIX_INSIDE_PYTEST", "1")
    pytester.makepyfile(PASSING)
    pytester.makeini("[pytest]\naddopts = --gbfix\n")
    assert pytester.runpytest_inprocess().ret == 0
    assert not fake.asked


@pytest.mark.slow
def test_a_break_in_tested_code_is_fixed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        model="import torch\n\n\n@torch.compile\ndef f(x):\n    print('hello')\n    return x + 1\n",
        test_a="import torch\nfrom model import f\n\n\ndef test_f():\n"
        "    assert f(torch.ones(3)).sum() == 6\n",
    )
    result = pytester.runpytest_subprocess("--gbfix-apply", "-p", "no:cacheprovider")
    assert result.ret == 0, str(result.stdout)
    assert "    print('hello')" not in Path(pytester.path, "model.py").read_text()

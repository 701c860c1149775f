"""``pytest --gbfix``: what the tests compile is checked for graph breaks once they have passed.

The test run itself is the program: gbfix runs it again in its workers (as ``gbfix -m pytest``), so
that every region has the inputs that the tests give it.  Loaded into every pytest of the
environment, hence nothing is imported before it is asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gbfix.schema import Target

#: Set while gbfix runs the tests: these runs are not to be checked in their turn.
_INSIDE = "GBFIX_INSIDE_PYTEST"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gbfix", "graph breaks of torch.compile")
    group.addoption(
        "--gbfix",
        action="store_true",
        help="report graph breaks of what the tests compile, and fail where there are some",
    )
    group.addoption(
        "--gbfix-apply",
        action="store_true",
        help="the same, and write the fixes that were validated (`gbfix undo` takes them back)",
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    apply = config.getoption("--gbfix-apply")
    if not (config.getoption("--gbfix") or apply):
        return
    if os.environ.get(_INSIDE) or hasattr(config, "workerinput") or config.option.collectonly:
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is not None:
        reporter.line("")
        reporter.section("gbfix", sep="=")
    if exitstatus != pytest.ExitCode.OK:
        if reporter is not None:
            reporter.line("not run: it needs tests that pass")
        return
    if capture is not None:
        with capture.global_and_fixture_disabled():
            status = _check(config, apply=apply)
    else:
        status = _check(config, apply=apply)
    if status:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _check(config: pytest.Config, *, apply: bool) -> int:
    """Run gbfix on this test run; its exit status."""
    from gbfix import GbfixError, arguments, session
    from gbfix import config as configuration

    cwd = Path(config.invocation_params.dir)
    mode = session.Mode.APPLY if apply else session.Mode.CHECK
    os.environ[_INSIDE] = "1"
    try:
        options = arguments.options({"mode": mode.value}, configuration.load(cwd).options)
        return session.run([target_of(config)], options, mode, cwd=cwd)
    except GbfixError as error:
        print(f"error: {error}")
        return 2
    finally:
        del os.environ[_INSIDE]


def target_of(config: pytest.Config) -> Target:
    """The same test run as a target: in one process, with modules imported as Python does.

    pytest's own import of test modules, which rewrites assertions, would pass gbfix's by.
    """
    from gbfix.schema import Target

    own = ("--gbfix", "--gbfix-apply")
    words = [word for word in map(str, config.invocation_params.args) if word not in own]
    extra = ["--assert=plain", "-p", "no:cacheprovider"]
    if config.pluginmanager.has_plugin("xdist"):
        extra += ["-n", "0"]
    return Target("module", "pytest", (*words, *extra), cwd=str(config.invocation_params.dir))

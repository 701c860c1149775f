"""Every command of the guides is run, as written; so are the steps of the GitHub action."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from test_verify import BRANCH, NET, RIGHT, TRAIN

ROOT = Path(__file__).parent.parent
PAGES = ("index.md", "usage.md", "verify.md", "proof.md", "limits.md", "ci.md", "agents.md")
_BLOCK = re.compile(r"^<!-- run: (\w+) -->\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Commands that one run of the suite always makes; the others take long.
_ALWAYS = {"gbfix mcp --help", "gbfix verify train.py", "gbfix explain GB0170", "gbfix codes",
           "gbfix scan ."}  # fmt: skip
#: What a page is about beside the program, by setting.
_MORE = {
    "usage": {
        "targets.txt": "train.py\ntrain.py --epochs 2\n",
        "notebook.ipynb": json.dumps(
            {
                "cells": [{"cell_type": "code", "source": TRAIN, "metadata": {}, "outputs": [],
                           "execution_count": None}],
                "metadata": {"language_info": {"name": "python"}}, "nbformat": 4,
                "nbformat_minor": 5,
            }
        ),
    },
    "ci": {
        "pyproject.toml": '[tool.gbfix]\ntargets = ["train.py"]\n',
        "test_model.py": "def test_train():\n    import train\n\n    assert train.net\n",
    },
}  # fmt: skip


def _commands() -> list[tuple[str, str, str]]:
    found = []
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for setting, block in _BLOCK.findall(text):
            if setting:
                lines = [line.partition("  #")[0].rstrip() for line in block.splitlines()]
                script = "\n".join(line for line in lines if not line.startswith("pip "))
                found.append((page, setting, script))
    return found


def test_every_marked_block_is_a_test() -> None:
    marked = sum((ROOT / "docs" / page).read_text().count("<!-- run: ") for page in PAGES)
    assert marked == len(_commands()) > 30


def test_no_command_of_a_guide_is_without_a_mark() -> None:
    for page in PAGES:
        before, opened = "", ""
        for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
            if line.startswith("```"):
                opened = "" if opened else f"{before} {line}"
            elif opened.endswith("```") and line.startswith(("gbfix ", "pytest ", "python ")):
                assert opened.startswith("<!-- run: "), (page, line)
            before = line


def _project(folder: Path, after: str, more: dict[str, str] | None = None) -> None:
    for name, text in (more or {}).items():
        (folder / name).write_text(text)
    (folder / "model.py").write_text(NET.lstrip("\n"))
    (folder / "train.py").write_text(TRAIN.lstrip("\n"))
    git = ["git", "-C", str(folder), "-c", "user.email=a@b", "-c", "user.name=a"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    (folder / "model.py").write_text(after.lstrip("\n"))


def _environment(tmp_path: Path) -> dict[str, str]:
    """With `gbfix` and `python` as the ones that run these tests."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (("python", ""), ("gbfix", "-m gbfix"), ("pytest", "-m pytest")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def _cases() -> list[object]:
    return [
        pytest.param(
            setting, script, id=f"{page}:{script.splitlines()[0]}",
            marks=() if script in _ALWAYS else (pytest.mark.slow,),
        )
        for page, setting, script in _commands()
    ]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for one project after the other: what one command found out, the next is told."""
    home = tmp_path_factory.mktemp("guides")
    _environment(home)
    return home


@pytest.mark.parametrize(("setting", "script"), _cases())
def test_the_commands_of_the_guides_work(
    setting: str, script: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GBFIX_CACHE_DIR", str(home / "cache"))
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    folder = home / "project"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    wrong = NET.replace(BRANCH, RIGHT.replace("h - 1", "h + 1"))
    _project(folder, wrong if setting == "wrong" else NET, _MORE.get(setting))
    # 1 means that there is something to show.
    for line in script.splitlines():
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, text=True, capture_output=True, timeout=280,
        )  # fmt: skip
        assert done.returncode in (0, 1), (line, done.stderr)
        assert "Traceback" not in done.stderr, (line, done.stderr)
        silent = any(word in line for word in ("undo", ">", "git apply", "--quiet"))
        assert done.stdout or silent, (line, done.stderr)
    if "git apply" in script:
        assert "torch.where" in (folder / "model.py").read_text()
    if setting == "wrong":
        assert done.returncode == 1 and "The two differ." in done.stdout


def test_what_the_guides_install_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for name in re.findall(r"pip install '?gbfix\[(\w+)\]", text):
            assert name in extras["optional-dependencies"]


def test_the_guides_are_in_the_site_and_their_links_lead_to_pages() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        assert f": {page}" in site
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (ROOT / "docs" / link).exists(), (page, link)


def test_the_readme_is_one_screen_and_its_links_lead_to_pages() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 45
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / link).exists(), link
    assert text.count("```\n") == 4 and text.count("![") == 1


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_is_built_without_network(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-d",
        str(tmp_path / "site"),
    ]
    environment = {
        **os.environ,
        "http_proxy": "http://127.0.0.1:9",
        "NO_MKDOCS_2_WARNING": "1",
    }
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = {path.parent.name for path in (tmp_path / "site").glob("*/index.html")}
    assert {page.removesuffix(".md") for page in PAGES if page != "index.md"} <= pages
    assert {"codemods", "codes", "packages", "frameworks"} <= pages
    first = (tmp_path / "site" / "index.html").read_text()
    assert "pictures/first-fix.svg" in first
    assert (tmp_path / "site" / "pictures" / "first-fix.svg").exists()
    # Nothing but links leads out of it: fonts, scripts and styles are its own.
    outside = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"?(https?:[^\" >]*)", first)
    assert [one for one in outside if "localhost" not in one] == []


def test_the_options_of_readme_and_guides_are_known() -> None:
    """Each option and sub-command that they name is one that gbfix has."""
    import click

    from gbfix import cli

    known = {name for option in cli.run.params if isinstance(option, click.Option)
             for name in option.opts}  # fmt: skip
    for command in cli.COMMANDS.values():
        known |= {name for o in command.params if isinstance(o, click.Option) for name in o.opts}
    pages = [ROOT / "README.md", *(ROOT / "docs" / page for page in PAGES)]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    lines = re.findall(r"^gbfix .*$|(?<=`)gbfix [^`]*(?=`)", text, re.MULTILINE)
    assert len(lines) > 30
    for line in lines:
        words = line.partition("#")[0].split()
        for word in words[1:]:
            if word.startswith("--") and word not in ("--epochs", "--help"):
                assert word.partition("=")[0] in known, line


def _step(name: str) -> str:
    """The script of a step of the action, as its author wrote it."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    step = text[text.index(f"- name: {name}") :]
    lines = step[step.index("run: |\n") + 7 :].splitlines()
    body = []
    for line in lines:
        if line.strip() and not line.startswith(" " * 8):
            break
        body.append(line)
    return textwrap.dedent("\n".join(body))


@pytest.mark.slow
def test_the_steps_of_the_action_run_as_written(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    _project(folder, NET.replace(BRANCH, RIGHT.replace("h - 1", "h + 1")))
    environment = {
        **_environment(tmp_path),
        "GBFIX_TARGET": "train.py",
        "GBFIX_AGAINST": "HEAD",
        "GBFIX_OPTIONS": "--allow-breaks --timeout 200",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", _step("Judge the change")],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=model.py,line=9,title=gbfix verify%3A Net wrong")
    output = (tmp_path / "output").read_text()
    assert "status=wrong" in output
    assert "gbfix verify: The change is wrong" in (tmp_path / "summary.md").read_text()
    report = tmp_path / "gbfix-verify"
    assert {"verify.sarif", "verify.md", "verify.json", "counterexample"} <= {
        path.name for path in report.iterdir()
    }
    # What the comment says goes through `gh`, which stands in for itself here.
    (tmp_path / "bin" / "gh").write_text('#!/bin/sh\necho "$@" > "$RUNNER_TEMP/gh"\n')
    (tmp_path / "bin" / "gh").chmod(0o755)
    environment |= {"GH_TOKEN": "x", "NUMBER": "7", "REPORT": str(report)}
    step = _step("Comment on the pull request")
    subprocess.run(["bash", "-eo", "pipefail", "-c", step], env=environment, check=True)
    assert (tmp_path / "gh").read_text().startswith("pr comment 7 --body-file ")


@pytest.mark.slow
def test_the_picture_and_the_first_pages_text_are_what_gbfix_prints() -> None:
    drawing = runpy.run_path(str(ROOT / "docs" / "picture.py"))
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    example = page[page.index("corpus/GB0170/docs-cond/before.py:6:8 GB0170") :]
    example = example[: example.index("\n```")]
    printed = re.sub(r"\x1b\[[0-9;]*m", "", drawing["printed"]())
    svg = drawing["PICTURE"].read_text(encoding="utf-8")
    assert "@font-face" not in svg and "url(http" not in svg
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    drawn = {" ".join(html.unescape(one).split()) for one in shown}

    def lines(text: str) -> list[str]:
        # How many comparisons there are changes with what the ladder tries.
        return [re.sub(r"\d+ (comparisons|further)", r"N \1", " ".join(x.split()))
                for x in text.split("\n")]  # fmt: skip

    assert [line for line in lines(example) if line not in lines(printed)] == []
    words = {word for text in drawn for line in lines(text) for word in line.split()}
    missing = {word for line in lines(printed) for word in line.split()} - words
    assert missing == set()

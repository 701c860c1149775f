"""The loop and its ends: several breaks and regions, partial outcomes, odd files, the cache."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gbfix import engine, loop
from gbfix.analysis.tree import code
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Safety, Span, Target

Gbfix = Callable[..., Report]

SEVERAL = """
import torch


def helper(x):
    torch._dynamo.graph_break()
    return x * 2


@torch.compile
def f(x):
    torch._dynamo.graph_break()
    if x.sum() > 0:
        x = x + 1
    else:
        x = x - 1
    return helper(x)


class Net(torch.nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()
        return helper(x) + 1


net = torch.compile(Net())
print(f(torch.ones(3)))
print(net(torch.ones(3)))
"""


def test_several_breaks_in_several_regions_are_fixed_to_the_end(gbfix_run: Gbfix) -> None:
    report = gbfix_run(SEVERAL)
    assert {region.name: region.status for region in report.regions} == {
        "f": "fixed",
        "Net": "fixed",
    }
    assert all(region.breaks_after == 0 and region.graphs_after == 1 for region in report.regions)
    assert all(item.status == "fixed" and item.codemod for item in report.breaks)
    (patch,) = report.patches
    assert "graph_break" not in patch.after
    assert patch.safety is Safety.SAFE
    assert set(patch.codes) == {"GB0025", "GB0170"}


def test_a_break_that_a_patch_moves_is_one_entry_and_names_no_address(gbfix_run: Gbfix) -> None:
    case = Path(__file__).parent.parent / "corpus/GB0099/disabled-methods-one-after-another"
    report = gbfix_run((case / "before.py").read_text())
    assert [item.graph_break.site.line for item in report.breaks] == [21, 23]  # type: ignore[union-attr]
    assert [item.status for item in report.breaks] == ["fixed", "fixed"]
    assert [region.breaks_before for region in report.regions] == [2]
    for item in report.breaks:
        assert "0x" not in item.graph_break.message + item.graph_break.explanation


def test_what_cannot_be_fixed_leaves_a_partial_region_and_its_advice(gbfix_run: Gbfix) -> None:
    report = gbfix_run(
        """
        import torch


        class Net(torch.nn.Module):
            def forward(self, x):
                torch._dynamo.graph_break()
                y = x * 2
                add = lambda z: z + y  # shares a variable: the function cannot be cut
                sizes = torch.unique(y).tolist()
                for _ in range(int(y.sum())):
                    y = add(y)
                return y, sizes

        print(torch.compile(Net())(torch.ones(3)))
        """
    )
    (region,) = report.regions
    assert region.status == "partial"
    assert 0 < region.breaks_after < region.breaks_before
    left = [item for item in report.breaks if item.status == "unfixed"]
    assert left and all(item.advice for item in left)
    (patch,) = report.patches
    assert "graph_break" not in patch.after


def test_running_again_on_the_patched_text_finds_nothing(gbfix_run: Gbfix, tmp_path: Path) -> None:
    (patch,) = gbfix_run(SEVERAL).patches
    report = gbfix_run(patch.after)
    assert not report.breaks and not report.patches
    assert {region.status for region in report.regions} == {"clean"}


class TwoWays(Codemod):
    """First a way that breaks again, then an unsafe one, then the right one."""

    name = "two-ways"
    codes = ("GB0025",)

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        still = site.edit()
        still.insert_before(site.statement, *_parsed("y = 1"))
        yield still.rewrite("breaks again", rank=1)
        unsafe = site.edit()
        unsafe.remove(site.statement)
        yield unsafe.rewrite("unsafe", rank=2, safety=Safety.UNSAFE, notes=["because"])
        right = site.edit()
        right.replace(site.statement, *_parsed("z = 2"))
        yield right.rewrite("right", rank=3)


def _parsed(text: str) -> list[object]:
    import libcst as cst

    return [cst.parse_statement(text)]


ONE = "import torch\n\n\n@torch.compile\ndef f(x):\n    torch._dynamo.graph_break()\n    return x\n"


def test_the_first_safe_candidate_wins_and_the_others_are_told(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "discover", lambda: [TwoWays()])
    report = gbfix_run(ONE + "\n\nf(torch.ones(2))\n")
    (item,) = report.breaks
    assert [(a.title, a.passed) for a in item.attempts] == [
        ("breaks again", False),
        ("unsafe", True),
        ("right", True),
    ]
    assert report.patches[0].titles == ("right",)
    report = gbfix_run(ONE + "\n\nf(torch.ones(2))\n", unsafe_fixes=True)
    assert report.patches[0].titles == ("unsafe",)
    assert report.patches[0].safety is Safety.UNSAFE


class Picky(Codemod):
    """Removes the break on one line only."""

    name = "picky"
    codes = ("GB0025",)

    def __init__(self, line: int) -> None:
        self._line = line

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.frame.line == self._line:
            edit = site.edit()
            edit.remove(site.statement)
            yield edit.rewrite("it")
        else:
            yield Advice("not this one")


@pytest.mark.parametrize(("line", "other"), [(6, 8), (8, 6)])
def test_two_lines_of_one_text_are_two_breaks(
    line: int, other: int, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "discover", lambda: [Picky(line)])
    report = gbfix_run(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    torch._dynamo.graph_break()\n"
        "    x = x + 1\n    torch._dynamo.graph_break()\n    return x\n\n\nf(torch.ones(2))\n"
    )
    found = {item.graph_break.site.line: item for item in report.breaks if item.graph_break.site}
    assert {place: item.status for place, item in found.items()} == {
        line: "fixed",
        other: "unfixed",
    }
    assert found[other].advice == ("not this one",)
    assert not found[line].advice
    (region,) = report.regions
    assert (region.breaks_before, region.breaks_after, region.status) == (2, 1, "partial")


class Crashing(Codemod):
    name = "crashing"
    codes = ("GB0025",)

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        raise ZeroDivisionError("oh")
        yield


@pytest.mark.filterwarnings("ignore:codemod crashing failed")
def test_a_codemod_that_crashes_costs_the_others_nothing(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "discover", lambda: [Crashing(), TwoWays()])
    report = gbfix_run(ONE + "\n\nf(torch.ones(2))\n")
    assert report.patches
    assert any("crashing failed" in text for item in report.breaks for text in item.advice)


def test_select_and_ignore_take_codes_and_names(gbfix_run: Gbfix) -> None:
    program = ONE + "\n\nf(torch.ones(2))\n"
    assert gbfix_run(program, select=("GB0025",)).patches
    assert gbfix_run(program, select=("remove-graph-break",)).patches
    assert not gbfix_run(program, select=("GB0170",)).patches
    assert not gbfix_run(program, ignore=("remove-graph-break",)).patches
    report = gbfix_run(program, ignore=("GB0025",))
    assert not report.patches and not report.breaks


def test_check_only_proposes_nothing(gbfix_run: Gbfix) -> None:
    report = gbfix_run(ONE + "\n\nf(torch.ones(2))\n", check_only=True)
    assert [item.graph_break.code for item in report.breaks] == ["GB0025"]
    assert not report.patches and not report.breaks[0].attempts


def test_a_break_inside_an_installed_library_is_reported_at_the_call(
    gbfix_run: Gbfix, tmp_path: Path
) -> None:
    package = tmp_path / "site-packages" / "lib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import torch\n\n\ndef g(x):\n    torch._dynamo.graph_break()\n    return x\n"
    )
    report = gbfix_run(
        "import sys\nsys.path.insert(0, 'site-packages')\nimport torch\nimport lib\n\n\n"
        "@torch.compile\ndef f(x):\n    return lib.g(x) + 1\n\n\nf(torch.ones(2))\n"
    )
    (item,) = report.breaks
    assert item.graph_break.site is not None
    assert item.graph_break.site.path == str(tmp_path / "program.py")
    assert item.graph_break.frames[-1].path == str(package / "__init__.py")
    assert not any("site-packages" in patch.path for patch in report.patches)


# -- odd files ------------------------------------------------------------------------------------

TEXT = (
    "import torch\n\n\x0c\n@torch.compile\ndef f(x):\n\ttorch._dynamo.graph_break()\n"
    "\treturn x + 1  # gr\u00fc\u00dfe\n\n\nf(torch.ones(2))"
)

FILES = {
    "utf-8, tabs, form feed, no final newline": TEXT.encode(),
    "byte order mark": b"\xef\xbb\xbf" + TEXT.encode(),
    "CRLF": TEXT.replace("\n", "\r\n").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\n" + TEXT.encode("latin-1"),
    "astral characters before the break": TEXT.replace(
        "\ttorch._dynamo", "\t'\U0001f525'; torch._dynamo"
    ).encode(),
}


@pytest.mark.parametrize("name", FILES, ids=str)
def test_files_keep_their_encoding_newlines_and_odd_characters(
    name: str, tmp_path: Path, runner: Runner
) -> None:
    script = tmp_path / "program.py"
    script.write_bytes(FILES[name])
    report = engine.run(
        Target("script", "program.py", cwd=str(tmp_path)),
        Options(use_cache=False, timeout=120.0),
        runner=runner,
    )
    assert not report.errors
    (patch,) = report.patches
    line = "\ttorch._dynamo.graph_break()\n"
    crlf = "\r\n" in patch.before
    expected = patch.before.replace(line.replace("\n", "\r\n") if crlf else line, "")
    if "astral" in name:
        expected = patch.before.replace("; torch._dynamo.graph_break()", "")
    assert patch.after == expected
    assert script.read_bytes() == FILES[name]


# -- the command line, end to end ------------------------------------------------------------------


def _gbfix(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gbfix", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )


def test_diff_apply_undo_and_the_cache(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    before = ONE + "\n\nprint(f(torch.ones(2)))\n"
    script.write_text(before)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    shown = _gbfix(tmp_path, "--diff", "program.py")
    assert shown.returncode == 1
    assert script.read_text() == before
    applied = subprocess.run(
        ["git", "apply"], cwd=tmp_path, input=shown.stdout, text=True, capture_output=True
    )
    assert applied.returncode == 0, applied.stderr
    assert "graph_break" not in script.read_text()
    script.write_text(before)

    again = _gbfix(tmp_path, "--diff", "program.py")
    assert (again.returncode, again.stdout) == (1, shown.stdout)
    assert "from the cache" in again.stderr

    done = _gbfix(tmp_path, "--apply", "program.py")
    assert done.returncode == 0
    assert "graph_break" not in script.read_text()
    # The file changed: the cached answer no longer holds.
    clean = _gbfix(tmp_path, "--format", "json", "program.py")
    assert clean.returncode == 0
    report = json.loads(clean.stdout)
    assert not report["cached"] and report["regions"][0]["status"] == "clean"

    assert _gbfix(tmp_path, "undo").returncode == 0
    assert script.read_text() == before


def test_a_cached_answer_imports_neither_torch_nor_libcst(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ONE + "\n\nf(torch.ones(2))\n")
    _gbfix(tmp_path, "--diff", "program.py")
    script = (
        "import sys\nfrom gbfix.cli import main\nsys.argv = ['gbfix', '--diff', 'program.py']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'libcst'} & set(sys.modules)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.stdout.splitlines()[-1] == "[]", result.stderr
    assert "from the cache" in result.stderr


def test_another_imported_file_that_changed_makes_the_cache_stale(tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("SCALE = 2\n")
    (tmp_path / "program.py").write_text(
        ONE.replace("import torch\n", "import torch\nimport lib\n")
        + "\n\nf(torch.ones(lib.SCALE))\n"
    )
    _gbfix(tmp_path, "--check", "program.py")
    assert (
        "from the cache"
        in _gbfix(tmp_path, "--check", "program.py").stderr
        + _gbfix(tmp_path, "--check", "program.py").stdout
    )
    (tmp_path / "lib.py").write_text("SCALE = 3\n")
    result = _gbfix(tmp_path, "--check", "program.py")
    assert "from the cache" not in result.stderr + result.stdout


def test_a_file_that_another_process_writes_is_no_effect_of_the_program(
    gbfix_run: Gbfix, tmp_path: Path
) -> None:
    """Such as gbfix's own output, sent to a file in the program's folder."""
    ended = threading.Event()

    def write() -> None:
        with open(tmp_path / "other.log", "a", buffering=1) as file:
            while not ended.wait(0.001):
                file.write("still here\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        report = gbfix_run(
            "import torch\n\n\n@torch.compile\ndef f(x):\n    if x.sum() > 0:\n"
            "        return x + 1\n    return x - 1\n\n\nf(torch.ones(3))\n"
        )
    finally:
        ended.set()
        writer.join()
    (shown,) = report.breaks
    assert shown.status == "fixed", shown.attempts
    assert (tmp_path / "other.log").stat().st_size


def test_an_option_that_passes_and_is_unsafe_is_tried_once(tmp_path: Path, runner: Runner) -> None:
    # Two regions are compiled by calls, and one is handed on: the option would hold for both.
    (tmp_path / "main.py").write_text(
        "import torch\n\n\ndef f(x, y):\n    kept = x[x > 0]\n    places = y.nonzero()\n"
        "    return kept.cumsum(0), places\n\n\ndef other(x):\n    return x + 1\n\n\n"
        "g = torch.compile(f)\nh = torch.compile(other)\n"
        "run = [g]\n"
        "print(run[0](torch.tensor([1.0, -1.0, 2.0]), torch.tensor([0, 1, 1])), h(torch.ones(2)))\n"
    )
    said: list[str] = []
    target = Target("script", "main.py", cwd=str(tmp_path))
    report = engine.run(target, Options(use_cache=False), said.append, runner)
    assert sum("trying region-option" in line for line in said) == 1
    tried = [attempt for item in report.breaks for attempt in item.attempts]
    options = [attempt for attempt in tried if attempt.codemod == "region-option"]
    assert len(options) == 2
    assert all(attempt.passed and attempt.safety is Safety.UNSAFE for attempt in options)


DIVERGED = """
import torch


@torch.compile(backend="aot_eager")
def f(x, training):
    ok = torch.isfinite(x)
    if not ok.all():
        if training:
            {error}
        x = x[ok]
    return x * 2


f(torch.ones(3), {training})
"""


def test_a_rewrite_that_leaves_its_break_counts_with_the_one_that_removes_it(
    gbfix_run: Gbfix,
) -> None:
    source = DIVERGED.format(error='raise ValueError("not finite")', training=True)
    report = gbfix_run(source, select=("GB0170", "python-test-first", "raise-to-op"))
    (patch,) = report.patches
    assert patch.codemods == ("python-test-first", "raise-to-op")
    assert "elif not ok.all():" in patch.after
    assert [step.codemod for step in report.steps] == list(patch.codemods)
    assert all(step.verdict.passed for step in report.steps)


def test_a_rewrite_that_leaves_its_break_is_dropped_where_nothing_removes_it(
    gbfix_run: Gbfix,
) -> None:
    """Neither the patch nor a step is left of it, and the break has its advice."""
    source = DIVERGED.format(error="return x.tolist()", training=True)
    report = gbfix_run(source, select=("GB0170", "python-test-first", "raise-to-op"))
    tried = {attempt.codemod for shown in report.breaks for attempt in shown.attempts}
    assert "python-test-first" in tried
    used = {name for patch in report.patches for name in patch.codemods}
    assert "python-test-first" not in used
    assert "python-test-first" not in {step.codemod for step in report.steps}


class Twice(Codemod):
    """The same text, with a doubt and without one."""

    name = "twice"
    codes = ("GB0025",)

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        for rank, safety in ((1, Safety.UNSAFE), (2, Safety.SAFE)):
            edit = site.edit()
            edit.replace(site.statement, *_parsed("z = 2"))
            yield edit.rewrite(f"{safety}", rank=rank, safety=safety, notes=[f"{safety}"])


def test_of_two_rewrites_with_one_text_the_proved_one_counts(
    gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "discover", lambda: [Twice()])
    report = gbfix_run(ONE + "\n\nf(torch.ones(2))\n")
    (patch,) = report.patches
    assert patch.safety is Safety.SAFE
    assert len(report.breaks[0].attempts) == 1


class BlindAlley(Codemod):
    """A way that makes one break of two, of another code, and (where it ``ends``) one that mends
    each.
    """

    name = "blind-alley"
    codes = ("GB0025",)

    def __init__(self, *, ends: bool) -> None:
        self._ends = ends

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        assert site.function is not None
        alley = site.edit()
        alley.remove(site.statement)
        for line in site.function.body.body:
            if line is not site.statement and "graph_break" in code(line):
                alley.replace(line, *_parsed("len(x.tolist())"))
        yield alley.rewrite("alley", rank=1)
        if self._ends:
            right = site.edit()
            right.remove(site.statement)
            yield right.rewrite("right", rank=2)


TWO = (
    "import torch\n\n\n@torch.compile\ndef f(x):\n    torch._dynamo.graph_break()\n"
    "    torch._dynamo.graph_break()\n    return x\n\n\nf(torch.ones(2))\n"
)


@pytest.mark.parametrize("ends", [True, False])
def test_another_way_is_tried_where_the_first_leaves_a_break(
    ends: bool, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rewrite of two is safe, and what it leaves has no answer."""
    monkeypatch.setattr(loop, "discover", lambda: [BlindAlley(ends=ends)])
    report = gbfix_run(TWO)
    (region,) = report.regions
    titles = [title for patch in report.patches for title in patch.titles]
    if ends:
        assert region.status == "fixed"
        assert "right" in titles and region.breaks_after == 0
        assert [step.title for step in report.steps] == titles
    else:
        # Nothing better is there: what was taken first stays as it was.
        assert region.status in ("partial", "unfixed")
        assert "right" not in titles


_COUNTING = """
import torch


def shares(scores):
    if not torch.all((scores >= 0) * (scores <= 1)):
        scores = scores.sigmoid()
    return scores


class Hits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("hits", torch.zeros(2))
        self.updates = 0

    def update(self, scores):
        self.updates += 1
        right = shares(scores) > 0.5
        self.hits += torch.stack([right.sum(), (~right).sum()])


torch.manual_seed(0)
metric = Hits()
update = torch.compile(metric.update)
for call in range(CALLS):
    update(torch.rand(3, 4) if call % 2 else torch.randn(3, 4))
print(metric.updates, metric.hits.tolist())
"""


@pytest.mark.parametrize(("calls", "varies"), [(2, False), (4, True)])
def test_a_counter_may_vary_where_further_calls_would_compile_anew(
    calls: int, varies: bool, gbfix_run: Gbfix
) -> None:
    report = gbfix_run(_COUNTING.replace("CALLS", str(calls)))
    (patch,) = report.patches
    assert ("allow_unspec_int_on_nn_module = True" in patch.diff) is varies


BEHIND = """
import torch


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.GRU(4, 4)
        self.seen = 0
        self.scratch = torch.zeros(1)

    def forward(self, x):
        self.seen += 1
        out, _ = self.rnn(x)
        self.scratch.resize_(out.shape[0])
        return torch.autograd.Variable(out)


torch.manual_seed(0)
net = torch.compile(Tagger().eval())
with torch.no_grad():
    for _ in range(5):
        print(net(torch.randn(3, 2, 4)).sum())
"""


def test_what_lies_behind_a_removed_break_is_no_move_of_it(gbfix_run: Gbfix) -> None:
    report = gbfix_run(BEHIND)
    first, *others = report.breaks
    assert first.graph_break.code == "GB0014" and len(others) > 1
    # No other way was tried: the layer is allowed, and what was hidden is another matter.
    (attempt,) = first.attempts
    assert attempt.codemod == "allow-rnn"
    # The counter has to vary, in this patch and in all that follow.
    assert attempt.title.endswith("; let whole numbers of modules vary")
    (patch,) = report.patches
    assert patch.after.count("allow_unspec_int_on_nn_module") == 1


class Patient(Codemod):
    """Removes both breaks at once, or (of the second, where it has an answer) one alone."""

    name = "patient"
    codes = ("GB0025",)

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        assert site.function is not None
        lines = [it for it in site.function.body.body if "graph_break" in code(it)]
        if lines[0] is site.statement:
            both = site.edit()
            for line in lines:
                both.remove(line)
            yield dataclasses.replace(both.rewrite("all at once"), waits=True)
        elif self._answers:
            own = site.edit()
            own.remove(site.statement)
            yield own.rewrite("one alone")


@pytest.mark.parametrize("answers", [True, False])
def test_a_rewrite_that_waits_comes_behind_those_of_other_breaks(
    answers: bool, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "discover", lambda: [Patient(answers=answers)])
    report = gbfix_run(TWO)
    assert [region.status for region in report.regions] == ["fixed"]
    titles = ["one alone", "all at once"] if answers else ["all at once"]
    assert [step.title for step in report.steps] == titles
    assert len(report.breaks[0].attempts) == 1


@pytest.mark.parametrize(
    ("new", "inner", "line", "holds"),
    [
        ("torch.cond(p, a, b)", "GB0036", 5, True),
        ("torch.cond(p, a, b)", "GB0170", 5, False),  # the rewrite may lower it as well
        ("torch.cond(p, a, b)", "GB0036", 9, False),  # behind the branch
        ("torch.where(p, a, b)", "GB0036", 5, False),
    ],
)
def test_branches_hold_the_breaks_between_their_lines(
    new: str, inner: str, line: int, holds: bool
) -> None:
    rewrite = Rewrite("t", {"a.py": new}, {"a.py": (Span(4, 0, 7, 0),)})
    found, other = (
        types.SimpleNamespace(code=kind, site=frame, frames=(frame,))
        for kind, frame in (
            ("GB0170", types.SimpleNamespace(path="a.py", line=4)),
            (inner, types.SimpleNamespace(path="a.py", line=line)),
        )
    )
    one = object.__new__(loop.Loop)
    one._overlay = {}
    one._bench = types.SimpleNamespace(  # type: ignore[assignment]
        source=lambda path: types.SimpleNamespace(text="old")
    )
    assert one._holds_breaks(rewrite, found, [other]) is holds  # type: ignore[arg-type]

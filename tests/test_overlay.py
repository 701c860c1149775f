"""Overlays: patched texts that are served at import, and never written into a package."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gbfix
from gbfix import cli, overlays
from gbfix.overlay import MANIFEST, Manifest, OverlayError
from gbfix.patch import unified_diff
from gbfix.schema import Options, Patch, Report, Safety, Target, Verdict

ORIGINAL = '''"""A package."""


class Layer:
    def forward(self, x):
        return x + 1


def fails():
    raise ValueError("original")
'''
PATCHED = ORIGINAL.replace("return x + 1", "return x + 2  # patched").replace(
    '    raise ValueError("original")', '    text = "patched"\n    raise ValueError(text)'
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages with one in it, which python finds."""
    site = tmp_path / "lib" / "site-packages"
    (site / "toys" / "inner").mkdir(parents=True)
    (site / "toys" / "__init__.py").write_text("")
    (site / "toys" / "inner" / "__init__.py").write_text("from .layer import Layer\n")
    (site / "toys" / "inner" / "layer.py").write_text(ORIGINAL)
    (site / "toys-1.2.dist-info").mkdir()
    (site / "toys-1.2.dist-info" / "METADATA").write_text("Name: toys\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(str(site))
    for name in [name for name in sys.modules if name.split(".")[0] == "toys"]:
        monkeypatch.delitem(sys.modules, name)
    return site


@pytest.fixture
def overlay(site: Path, tmp_path: Path) -> Path:
    """The overlay of a patch to the package's module, saved as the command line saves it."""
    return saved(site, tmp_path, str(site / "toys" / "inner" / "layer.py"), ORIGINAL, PATCHED)


def saved(site: Path, tmp_path: Path, path: str, before: str, after: str) -> Path:
    script = tmp_path / "main.py"
    if not script.exists():
        script.write_text("print(1)\n")
    diff = unified_diff(before, after, "toys/inner/layer.py")
    verdict = Verdict()
    one = Patch(path, diff, before, after, ("where",), ("GB0170",), Safety.SAFE, verdict,
                ("the branch becomes torch.where",), ("costs both sides",))  # fmt: skip
    report = Report("main.py", "2.13.0", gbfix.__version__, patches=[one])
    target = Target("script", "main.py", cwd=str(tmp_path))
    overlays.save(report, [target], Options(include=("toys",), callers="any"), tmp_path / "over")
    return tmp_path / "over"


def python(site: Path, script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *words, str(script)] if words else [sys.executable, str(script)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=script.parent, timeout=120
    )


def with_overlay(site: Path, overlay: Path, script: Path) -> subprocess.CompletedProcess[str]:
    return python(site, script, "-m", "gbfix", "run", "--overlay", str(overlay))


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text).lstrip("\n"))
    return path


USES = """
    import inspect, pickle, sys
    from toys.inner import Layer
    import toys.inner.layer

    print(Layer().forward(1))
    module = inspect.getsource(toys.inner.layer)
    print("# patched" in inspect.getsource(Layer), "# patched" in module)
    print("# patched" in inspect.getsource(Layer.forward))
    print(type(pickle.loads(pickle.dumps(Layer()))) is Layer)
    print([name for name in ("torch", "libcst", "rich", "gbfix.engine") if name in sys.modules])
"""


def test_run_serves_the_patched_text(site: Path, overlay: Path, tmp_path: Path) -> None:
    done = with_overlay(site, overlay, write(tmp_path / "uses.py", USES))
    assert done.stdout.splitlines() == ["3", "True True", "True", "True", "[]"], done.stderr
    assert not done.stderr


def test_install_as_first_lines_of_a_script(site: Path, overlay: Path, tmp_path: Path) -> None:
    head = f"import gbfix.overlay\ngbfix.overlay.install({str(overlay)!r})\n"
    script = write(tmp_path / "uses.py", USES)
    script.write_text(head + script.read_text())
    done = python(site, script)
    assert done.stdout.splitlines() == ["3", "True True", "True", "True", "[]"], done.stderr


def test_the_installed_file_is_not_written(site: Path, overlay: Path, tmp_path: Path) -> None:
    with_overlay(site, overlay, write(tmp_path / "uses.py", USES))
    assert (site / "toys" / "inner" / "layer.py").read_text() == ORIGINAL
    without = python(
        site,
        write(tmp_path / "plain.py", "from toys.inner import Layer\nprint(Layer().forward(1))\n"),
    )
    assert without.stdout == "2\n"


def test_a_traceback_quotes_the_patched_text(site: Path, overlay: Path, tmp_path: Path) -> None:
    script = write(tmp_path / "uses.py", "from toys.inner.layer import fails\nfails()\n")
    done = with_overlay(site, overlay, script)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ValueError: patched"
    assert "    raise ValueError(text)" in lines
    assert "gbfix" not in done.stderr


def test_the_exit_status_is_the_programs(site: Path, overlay: Path, tmp_path: Path) -> None:
    script = write(tmp_path / "ends.py", "import sys\nprint(sys.argv)\nsys.exit(7)\n")
    done = with_overlay(site, overlay, script)
    assert (done.returncode, done.stdout) == (7, f"[{str(script)!r}]\n")


def test_an_upgraded_file_is_left_as_it_is_with_one_warning(
    site: Path, overlay: Path, tmp_path: Path
) -> None:
    path = site / "toys" / "inner" / "layer.py"
    path.write_text(ORIGINAL.replace("x + 1", "x + 10"))
    script = write(tmp_path / "uses.py", """
        import importlib
        import toys.inner.layer as layer
        importlib.reload(layer)
        print(layer.Layer().forward(1))
        """)  # fmt: skip
    done = with_overlay(site, overlay, script)
    assert done.stdout == "11\n"
    assert done.stderr.count("RuntimeWarning") == 1
    assert "is not the file that was patched (of toys 1.2)" in done.stderr
    assert "gbfix overlay check" in done.stderr


def test_what_was_imported_before_is_named(site: Path, overlay: Path, tmp_path: Path) -> None:
    script = write(tmp_path / "late.py", f"""
        import toys.inner
        import gbfix.overlay
        gbfix.overlay.install({str(overlay)!r})
        """)  # fmt: skip
    done = python(site, script)
    assert "toys.inner.layer was imported before the overlay" in done.stderr


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("starts", ["run", "install"])
def test_other_processes_get_the_patched_text(
    how: str, starts: str, site: Path, overlay: Path, tmp_path: Path
) -> None:
    first = f"import gbfix.overlay\ngbfix.overlay.install({str(overlay)!r})\n"
    script = write(tmp_path / "many.py", f"""
        import multiprocessing

        def work(queue):
            from toys.inner import Layer
            queue.put(Layer().forward(1))

        if __name__ == "__main__":
            context = multiprocessing.get_context({how!r})
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(queue.get(timeout=30))
            process.join()
        """)  # fmt: skip
    if starts == "install":
        script.write_text(first + script.read_text())
        done = python(site, script)
    else:
        done = with_overlay(site, overlay, script)
    assert done.stdout == "3\n", done.stderr


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_torch_saves_objects_and_workers_load_data(
    how: str, site: Path, overlay: Path, tmp_path: Path
) -> None:
    script = write(tmp_path / "loads.py", f"""
        import torch
        from torch.utils.data import DataLoader
        from toys.inner import Layer

        class Numbers(torch.utils.data.Dataset):
            def __init__(self, layer):
                self.layer = layer

            def __len__(self):
                return 2

            def __getitem__(self, at):
                return self.layer.forward(at)

        if __name__ == "__main__":
            torch.save(Layer(), "layer.pt")
            layer = torch.load("layer.pt", weights_only=False)
            print(type(layer) is Layer, layer.forward(torch.ones(1)).item())
            loader = DataLoader(Numbers(layer), num_workers=1, multiprocessing_context={how!r})
            print([item.item() for item in loader])
        """)  # fmt: skip
    done = with_overlay(site, overlay, script)
    assert done.stdout.splitlines() == ["True 3.0", "[2, 3]"], done.stderr
    # Nothing of the overlay is in what was saved: it loads without.
    plain = write(
        tmp_path / "plain.py",
        """
        import torch
        layer = torch.load("layer.pt", weights_only=False)
        print(layer.forward(torch.ones(1)).item())
        """,
    )
    assert python(site, plain).stdout == "2.0\n"


def test_a_script_of_the_project_is_served_too(site: Path, tmp_path: Path) -> None:
    before = "import sys\nprint(1, sys.argv[1:])\n"
    script = write(tmp_path / "main.py", before)
    over = saved(site, tmp_path, str(script), before, before.replace("1,", "2,"))
    done = with_overlay(site, over, script)
    assert done.stdout == "2 []\n", done.stderr


def test_loading_is_quick(site: Path, overlay: Path) -> None:
    code = (
        "import time; start = time.process_time(); import gbfix.overlay; "
        f"gbfix.overlay.install({str(overlay)!r}); print(time.process_time() - start)"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    times = [
        float(subprocess.check_output([sys.executable, "-c", code], text=True, env=environment))
        for _ in range(5)
    ]
    assert min(times) < 0.03, times


def test_the_manifest_says_what_was_measured(overlay: Path, site: Path) -> None:
    data = json.loads((overlay / MANIFEST).read_text())
    (entry,) = data["files"]
    assert entry["package"] == "toys" and entry["version"] == "1.2"
    assert entry["path"] == "toys/inner/layer.py"
    assert entry["sha256"] == hashlib.sha256(ORIGINAL.encode()).hexdigest()
    assert entry["limits"] == ["costs both sides"] and entry["safety"] == "safe"
    assert data["callers"] == "any" and data["targets"][0]["value"] == "main.py"
    assert (overlay / "changes.patch").read_text().startswith("--- a/toys/inner/layer.py\n")
    assert (overlay / "files" / "toys" / "inner" / "layer.py").read_text() == PATCHED


def test_check_names_what_does_not_fit(
    site: Path, overlay: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["overlay", "check", "--quick", str(overlay)]) == 0
    assert capsys.readouterr().out == "toys/inner/layer.py: fits\n"
    (site / "toys" / "inner" / "layer.py").write_text(ORIGINAL + "\n")
    (site / "toys-1.2.dist-info" / "METADATA").write_text("Name: toys\nVersion: 1.3\n")
    assert cli.main(["overlay", "check", str(overlay)]) == 1
    out = capsys.readouterr().out
    assert "is not the file that was patched (of toys 1.2)" in out
    assert "toys 1.3 is installed now" in out


MISPLACED = {
    "--quick": "--quick stands after {}; write `gbfix overlay check --quick {}`",
    "--timeout 5 main.py": "--timeout stands after {}; write "
    "`gbfix overlay check --timeout 5 {} main.py`",
    "-x": "-x stands after {}, where a target may begin (SCRIPT [ARGS] or -m MODULE); "
    "see `gbfix overlay check --help`",
}


@pytest.mark.parametrize("words", MISPLACED, ids=str)
def test_an_option_behind_the_folder_is_one_clear_line(
    words: str, overlay: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["overlay", "check", str(overlay), *words.split()]) == 2
    out, err = capsys.readouterr()
    says = MISPLACED[words].replace("{}", str(overlay))
    assert (out, err) == ("", f"error: {says}\n")


def test_a_mistake_points_to_the_help_of_its_own_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["overlay", "check"]) == 2
    assert capsys.readouterr().err.endswith(" (see `gbfix overlay check --help`)\n")
    assert cli.main(["overlay", "chekc"]) == 2
    assert capsys.readouterr().err.endswith(" (see `gbfix overlay --help`)\n")


BAD = {
    "no folder": (lambda over: (over / MANIFEST).unlink(), "is no overlay"),
    "no JSON": (lambda over: (over / MANIFEST).write_text("{"), "cannot be read"),
    "another version": (
        lambda over: (over / MANIFEST).write_text('{"version": 99}'),
        "another version of gbfix",
    ),
    "an entry without a path": (
        lambda over: (over / MANIFEST).write_text('{"version": 1, "files": [{"package": "x"}]}'),
        "has no 'path'",
    ),
}


@pytest.mark.parametrize("what", BAD, ids=str)
def test_a_broken_overlay_is_one_clear_line(
    what: str, overlay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    breaks, says = BAD[what]
    breaks(overlay)
    with pytest.raises(OverlayError, match=r"overlay|wrote"):
        Manifest(str(overlay))
    assert cli.main(["run", "--overlay", str(overlay), str(tmp_path / "main.py")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and says in line


def test_a_text_changed_by_hand_is_not_served(site: Path, overlay: Path, tmp_path: Path) -> None:
    text = overlay / "files" / "toys" / "inner" / "layer.py"
    text.write_text(text.read_text() + "\n")
    done = with_overlay(site, overlay, write(tmp_path / "uses.py", USES))
    assert done.stdout.splitlines()[0] == "2"
    assert "changed by hand" in done.stderr


def test_a_folder_with_other_files_is_not_overwritten(site: Path, tmp_path: Path) -> None:
    (tmp_path / "over").mkdir()
    (tmp_path / "over" / "thesis.txt").write_text("mine")
    with pytest.raises(overlays.SaveError, match="holds other files"):
        saved(site, tmp_path, str(site / "toys" / "inner" / "layer.py"), ORIGINAL, PATCHED)
    assert (tmp_path / "over" / "thesis.txt").read_text() == "mine"


def test_a_traceback_in_a_thread_quotes_the_patched_text(
    site: Path, overlay: Path, tmp_path: Path
) -> None:
    script = write(tmp_path / "uses.py", """
        import linecache, threading
        from toys.inner.layer import fails
        linecache.clearcache()
        thread = threading.Thread(target=fails, name="one")
        thread.start()
        thread.join()
        """)  # fmt: skip
    lines = with_overlay(site, overlay, script).stderr.splitlines()
    assert lines[:2] == ["Exception in thread one:", "Traceback (most recent call last):"]
    assert "    raise ValueError(text)" in lines and lines[-1] == "ValueError: patched"

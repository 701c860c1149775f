"""Applying is all or nothing, killed anywhere or not, and undo is exact."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gbfix import journal
from gbfix.journal import ApplyError, apply, recover, state_folder, undo
from gbfix.schema import Patch, Safety, Verdict
from gbfix.source import SourceFile

DRIVER = Path(__file__).with_name("apply_driver.py")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "project"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def patch_of(path: Path, after: str, before: str | None = None) -> Patch:
    text = SourceFile.read(path).text if before is None else before
    return Patch(str(path), "", text, after, (), (), Safety.SAFE, Verdict())


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if ".gbfix-" in path.name]


CONTENTS = {
    "plain": b"x = 1\n",
    "crlf": b"x = 1\r\ny = 2\r\n",
    "mixed": b"x = 1\r\ny = 2\n\x0c\tz = 3",
    "bom": b"\xef\xbb\xbfx = '\xc3\xa9'\n",
    "latin-1": b"# coding: latin-1\nx = '\xe9'\n",
}


@pytest.mark.parametrize("data", CONTENTS.values(), ids=CONTENTS)
def test_the_new_text_is_written_in_the_files_own_form_and_undone_exactly(
    project: Path, state: Path, data: bytes
) -> None:
    path = project / "x.py"
    path.write_bytes(data)
    text = SourceFile.read(path).text
    assert apply([patch_of(path, text + "new = 1\r\n")], state) == (str(path),)
    assert path.read_bytes() == data + b"new = 1\r\n"
    assert undo(state) == (str(path),)
    assert path.read_bytes() == data
    assert not leftovers(project)


def test_undo_goes_back_step_by_step(project: Path, state: Path) -> None:
    path = project / "x.py"
    path.write_text("1\n")
    for number in ("2\n", "3\n"):
        apply([patch_of(path, number)], state)
    undo(state)
    assert path.read_text() == "2\n"
    undo(state)
    assert path.read_text() == "1\n"
    with pytest.raises(ApplyError, match="nothing to undo"):
        undo(state)


def test_without_an_apply_there_is_nothing_to_undo(state: Path) -> None:
    with pytest.raises(ApplyError, match="nothing to undo"):
        undo(state)
    assert recover(state) is None
    assert not state.exists()


def test_no_patches_write_nothing(state: Path) -> None:
    assert apply([], state) == ()
    with pytest.raises(ApplyError, match="nothing to undo"):
        undo(state)


def test_mode_owner_and_attributes_stay(project: Path, state: Path) -> None:
    path = project / "run.py"
    path.write_text("x\n")
    path.chmod(0o4751)
    with contextlib.suppress(OSError):
        os.setxattr(path, "user.kept", b"yes")
    kept = os.listxattr(path)
    if os.geteuid() == 0:
        os.chown(path, 1234, 2345)
        path.chmod(0o4751)
    before = path.stat()
    apply([patch_of(path, "y\n")], state)
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o4751
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert os.listxattr(path) == kept
    undo(state)
    assert stat.S_IMODE(path.stat().st_mode) == 0o4751


def test_symlinks_stay_and_their_target_is_written(project: Path, state: Path) -> None:
    (project / "real").mkdir()
    target = project / "real" / "x.py"
    target.write_text("x\n")
    link = project / "link.py"
    link.symlink_to("real/x.py")
    assert apply([patch_of(link, "y\n")], state) == (str(target),)
    assert link.is_symlink() and target.read_text() == "y\n"
    undo(state)
    assert link.is_symlink() and target.read_text() == "x\n"


def test_two_patches_that_reach_one_file_are_refused(project: Path, state: Path) -> None:
    path, link = project / "x.py", project / "link.py"
    path.write_text("x\n")
    link.symlink_to("x.py")
    with pytest.raises(ApplyError, match="two patches for one file"):
        apply([patch_of(path, "y\n"), patch_of(link, "z\n")], state)
    assert path.read_text() == "x\n"


def test_one_changed_file_stops_the_whole_set(project: Path, state: Path) -> None:
    one, two = project / "one.py", project / "two.py"
    one.write_text("1\n")
    two.write_text("2\n")
    patches = [patch_of(one, "new\n"), patch_of(two, "new\n")]
    two.write_text("edited\n")
    with pytest.raises(ApplyError, match=r"two\.py: changed since .* run gbfix again"):
        apply(patches, state)
    assert (one.read_text(), two.read_text()) == ("1\n", "edited\n")
    assert not leftovers(project)


def test_a_change_while_writing_is_noticed(project: Path, state: Path) -> None:
    one, two = project / "one.py", project / "two.py"
    one.write_text("1\n")
    two.write_text("2\n")

    def edit(name: str) -> None:
        if name == "temporary":
            two.write_text("edited\n")

    with pytest.raises(ApplyError, match="changed while gbfix was writing"):
        apply([patch_of(one, "new\n"), patch_of(two, "new\n")], state, step=edit)
    assert (one.read_text(), two.read_text()) == ("1\n", "edited\n")
    assert not leftovers(project)


def make_read_only(path: Path) -> None:
    path.chmod(0o444 if path.is_file() else 0o555)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_read_only_places_are_refused_before_anything_is_written(
    project: Path, state: Path, what: str
) -> None:
    one = project / "one.py"
    locked = project / "locked"
    locked.mkdir()
    two = locked / "two.py"
    one.write_text("1\n")
    two.write_text("2\n")
    make_read_only(two if what == "file" else locked)
    try:
        with pytest.raises(ApplyError, match=f"read-only {what}; nothing was written; make it"):
            apply([patch_of(one, "new\n"), patch_of(two, "new\n")], state)
    finally:
        locked.chmod(0o755)
    assert (one.read_text(), two.read_text()) == ("1\n", "2\n")
    assert not list(state.glob("*.json"))


def test_missing_files_and_text_that_cannot_be_encoded_are_refused(
    project: Path, state: Path
) -> None:
    gone = project / "gone.py"
    with pytest.raises(ApplyError, match="no such file"):
        apply([patch_of(gone, "x\n", before="y\n")], state)
    path = project / "x.py"
    path.write_bytes(b"# coding: latin-1\n")
    with pytest.raises(ApplyError, match="cannot be written in iso-8859-1"):
        apply([patch_of(path, "# coding: latin-1\n# →\n")], state)


def test_files_outside_the_project_are_refused(project: Path, state: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("x\n")
    with pytest.raises(ApplyError, match=r"outside\.py: is outside the project"):
        apply([patch_of(outside, "y\n")], state, roots=[project])
    assert outside.read_text() == "x\n"
    apply([patch_of(outside, "y\n")], state, roots=[project, tmp_path])
    assert outside.read_text() == "y\n"


def test_relative_paths_count_from_the_given_folder(project: Path, state: Path) -> None:
    (project / "x.py").write_text("x\n")
    patch = Patch("x.py", "", "x\n", "y\n", (), (), Safety.SAFE, Verdict())
    apply([patch], state, cwd=project, roots=[project])
    assert (project / "x.py").read_text() == "y\n"


@pytest.mark.parametrize("how", ["edited", "removed"])
def test_undo_refuses_when_a_file_is_not_what_was_written(
    project: Path, state: Path, how: str
) -> None:
    one, two = project / "one.py", project / "two.py"
    one.write_text("1\n")
    two.write_text("2\n")
    apply([patch_of(one, "new 1\n"), patch_of(two, "new 2\n")], state)
    if how == "edited":
        two.write_text("mine\n")
    else:
        two.unlink()
    with pytest.raises(ApplyError, match=rf"two\.py: was {how} since .*--force"):
        undo(state)
    assert one.read_text() == "new 1\n"
    undo(state, force=True)
    assert (one.read_text(), two.read_text()) == ("1\n", "2\n")


def test_a_failing_rename_rolls_back(
    project: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = project / "one.py", project / "two.py"
    one.write_text("1\n")
    two.write_text("2\n")
    real = journal._rename
    calls = iter([real, None])

    def rename(file: journal._File) -> None:
        call = next(calls, real)
        if call is None:
            raise OSError(errno.ENOSPC, "No space left on device", file.path)
        call(file)

    monkeypatch.setattr(journal, "_rename", rename)
    with pytest.raises(ApplyError, match=r"two\.py: cannot be written: No space left"):
        apply([patch_of(one, "new\n"), patch_of(two, "new\n")], state)
    assert (one.read_text(), two.read_text()) == ("1\n", "2\n")
    assert not leftovers(project)
    assert recover(state) is None


def test_an_interrupt_rolls_back(project: Path, state: Path) -> None:
    one, two = project / "one.py", project / "two.py"
    one.write_text("1\n")
    two.write_text("2\n")
    steps = iter(["journal", "temporary", "temporary", "rename"])

    def interrupt(name: str) -> None:
        if next(steps, "") == "rename":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply([patch_of(one, "new\n"), patch_of(two, "new\n")], state, step=interrupt)
    assert (one.read_text(), two.read_text()) == ("1\n", "2\n")
    assert not leftovers(project)


def test_a_state_folder_that_cannot_be_written_is_a_clear_error(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    path = project / "x.py"
    path.write_text("x\n")
    with pytest.raises(ApplyError, match="set GBFIX_STATE_DIR"):
        apply([patch_of(path, "y\n")], tmp_path / "file" / "state")
    assert path.read_text() == "x\n"


def test_a_broken_journal_is_a_clear_error(project: Path, state: Path) -> None:
    state.mkdir(parents=True)
    (state / "000001.json").write_text("{")
    with pytest.raises(ApplyError, match="journal cannot be read"):
        recover(state)


def test_old_journals_are_dropped(
    project: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_KEPT", 3)
    path = project / "x.py"
    path.write_text("0\n")
    for number in range(1, 6):
        apply([patch_of(path, f"{number}\n")], state)
    assert len(list(state.glob("*.json"))) == 3
    for _ in range(3):
        undo(state)
    assert path.read_text() == "2\n"


def test_the_state_folder_is_the_projects_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GBFIX_STATE_DIR", str(tmp_path / "state"))
    one, two = state_folder(tmp_path / "a" / "p"), state_folder(tmp_path / "b" / "p")
    assert one != two
    assert one.parent == tmp_path / "state"
    assert one == state_folder(tmp_path / "a" / ".." / "a" / "p")
    monkeypatch.delenv("GBFIX_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_folder(tmp_path).is_relative_to(tmp_path / "xdg" / "gbfix")


# -- killed at every step ------------------------------------------------------------------------


def drive(action: str, state: Path, number: int, files: list[Path]) -> tuple[int, str]:
    command = [sys.executable, str(DRIVER), action, str(state), str(number), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, -9), done.stderr
    return done.returncode, done.stdout.strip()


def killed(action: str, project: Path, state: Path) -> Iterator[tuple[str, list[Path]]]:
    """The project after a SIGKILL at each step in turn, afresh each time."""
    for number in range(1, 100):
        folder = project / str(number)
        folder.mkdir()
        files = [folder / "one.py", folder / "two.py", folder / "three.py"]
        for file in files:
            file.write_bytes(file.name.encode() + b"\r\n")
        here = state / str(number)
        if action == "undo":
            assert drive("apply", here, 0, files)[0] == 0
        status, step = drive(action, here, number, files)
        if status == 0:
            assert number > 5
            return
        yield step, files
    raise AssertionError("the driver never finished")


def texts(files: list[Path]) -> list[str]:
    found = []
    for file in files:
        data = file.read_bytes()
        old = file.name.encode() + b"\r\n"
        assert data in (old, old + b"# new\n"), "a file is neither old nor new"
        found.append("old" if data == old else "new")
    return found


def test_killed_while_applying_each_file_is_old_or_new_and_recovery_makes_them_agree(
    project: Path, state: Path
) -> None:
    seen = []
    for number, (step, files) in enumerate(killed("apply", project, state), 1):
        seen.append((step, texts(files)))
        here = state / str(number)
        recovered = recover(here)
        after = texts(files)
        assert len(set(after)) == 1, (step, after)
        assert not leftovers(files[0].parent)
        assert recover(here) is None
        if after[0] == "new":
            assert recovered is None or not recovered.restored
            undo(here)
            assert texts(files) == ["old"] * 3
        else:
            assert recovered is not None and recovered.restored
        # Whatever happened, the next apply works.
        assert drive("apply", here, 0, files)[0] == 0
        assert texts(files) == ["new"] * 3
    assert ("rename", ["new", "old", "old"]) in seen
    assert ("rename", ["new", "new", "old"]) in seen
    assert [step for step, _ in seen][-1] == "applied"


def test_killed_while_undoing_the_next_run_finishes_it(project: Path, state: Path) -> None:
    seen = []
    for number, (step, files) in enumerate(killed("undo", project, state), 1):
        seen.append(texts(files))
        recover(state / str(number))
        assert texts(files) == ["old"] * 3, step
        assert not leftovers(files[0].parent)
        with pytest.raises(ApplyError, match="nothing to undo"):
            undo(state / str(number))
    assert ["old", "new", "new"] in seen


def test_killed_while_recovering_the_next_run_finishes_that(project: Path, state: Path) -> None:
    files = [project / "one.py", project / "two.py"]
    for file in files:
        file.write_bytes(file.name.encode() + b"\r\n")
    assert drive("apply", state, 4, files) == (-9, "rename")
    # Now the roll back is killed (undo recovers first), then a plain recover completes it.
    assert drive("undo", state, 1, files) == (-9, "temporary")
    assert len(leftovers(project)) >= 1
    assert recover(state) is not None
    assert texts(files) == ["old", "old"]
    assert not leftovers(project)


def test_edits_made_after_a_crash_are_never_overwritten(project: Path, state: Path) -> None:
    files = [project / "one.py", project / "two.py"]
    for file in files:
        file.write_bytes(file.name.encode() + b"\r\n")
    assert drive("apply", state, 4, files) == (-9, "rename")
    assert texts(files) == ["new", "old"]
    files[1].write_text("mine\n")
    recovered = recover(state)
    assert recovered is not None and str(files[1]) in recovered.message
    assert files[1].read_text() == "mine\n"
    assert texts(files[:1]) == ["old"]


def test_the_journal_holds_what_is_needed_before_the_first_file_changes(
    project: Path, state: Path
) -> None:
    files = [project / "one.py"]
    files[0].write_bytes(b"one.py\r\n")
    assert drive("apply", state, 1, files) == (-9, "journal")
    data = json.loads((state / "000001.json").read_text())
    assert data["state"] == "pending"
    assert [item["path"] for item in data["files"]] == [str(files[0])]
    assert texts(files) == ["old"]

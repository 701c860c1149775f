"""`gbfix verify` on what is known: what gbfix wrote holds, wrong patches do not."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path

import planted
import pytest
import test_ladder
import test_ladder_constants
import test_ladder_hidden
import test_ladder_splits

from gbfix import changes, counterexample, verify
from gbfix.runner import Runner
from gbfix.schema import Options, Target

CORPUS = Path(__file__).parent.parent / "corpus"
#: What a codemod may do to whoever reads less output, or calls with an iterator, is its own
#: decision; a judge of anybody's change holds it against it.
_OWN_DECISION = ("print", "log", "warn", "stdout", "trace")
#: And each of these, with what differs for whoever looks: the codemod says so in a note.
_DECIDED = {
    "GB0007/found-out-once": "a process starts at import and not at the first call",
    "GB0124/leaves-when-not-finite": "a program that ends has set its state before it ends",
    "GB0125/forces-from-an-energy": "the caller's tensor is not marked as requiring a gradient",
    "GB0170/batches-counted-before-a-check": "a count goes on where an input raises an error",
    "GB0170/constant-of-the-module": "a buffer that nothing writes is read once",
}
#: One in so many of them runs unmarked.
_SAMPLE = 50


def _fixed() -> list[object]:
    found = []
    for case in sorted(CORPUS.glob("*/*/case.toml")):
        about = tomllib.loads(case.read_text(encoding="utf-8"))
        plain = about.get("target", ["before.py"]) == ["before.py"] and not about.get("unsafe")
        if about["outcome"] == "fixed" and plain and (case.parent / "after.py").exists():
            name = f"{case.parent.parent.name}/{case.parent.name}"
            if any(word in case.parent.name for word in _OWN_DECISION) or name in _DECIDED:
                continue
            found.append(pytest.param(case.parent, id=name, marks=_slow(len(found))))
    return found


def _slow(number: int) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.slow,) if number % _SAMPLE else ()


def _judged(
    folder: Path, texts: dict[str, tuple[str, str]], target: str, runner: Runner
) -> verify.Verification:
    """The verdict, with its counterexample written and run where there is one."""
    (folder / "pyproject.toml").touch()
    for name, (before, _) in texts.items():
        (folder / name).write_text(before, encoding="utf-8")
    files = tuple(
        changes.ChangedFile(str(folder / name), before.encode(), after.encode())
        for name, (before, after) in texts.items()
        if before != after
    )
    wanted = Target("script", target, (), cwd=str(folder))
    options = Options(use_cache=False, timeout=120.0)
    change = changes.Change("before", files)
    found = verify.verify(wanted, options, change, runner=runner)
    counterexample.save(folder / "shown", found, change, wanted, 120.0)
    return found


@pytest.mark.parametrize("case", _fixed())
def test_what_gbfix_wrote_is_never_called_wrong(case: Path, tmp_path: Path, runner: Runner) -> None:
    texts = {}
    for path in case.glob("*.py"):
        if path.name.startswith("after"):
            continue
        before = path.read_text(encoding="utf-8")
        changed = case / path.name.replace("before", "after")
        after = changed.read_text(encoding="utf-8") if changed.exists() else before
        texts[path.name] = (before, after)
    found = _judged(tmp_path.resolve(), texts, "before.py", runner)
    assert found.status in ("safe", "unsafe", "still breaks"), [p.reasons for p in found.parts]


_PLANTED = [
    case
    for module in (test_ladder, test_ladder_constants, test_ladder_hidden, test_ladder_splits)
    for name, cases in vars(module).items()
    # Those are right: what they change is a limit, and no more.
    if isinstance(cases, list | tuple) and name != "LIMITS"
    for case in cases
    if isinstance(case, planted.Wrong)
]
_WRONG = [
    pytest.param(case, id=case.name, marks=_slow(number)) for number, case in enumerate(_PLANTED)
]


@pytest.mark.parametrize("case", _WRONG)
def test_a_wrong_patch_is_never_called_safe(
    case: planted.Wrong, tmp_path: Path, runner: Runner
) -> None:
    before = planted.HEAD + textwrap.dedent(case.source).strip("\n") + "\n"
    if case.old not in before:
        pytest.skip("made of more than one replacement")
    texts = {"program.py": (before, before.replace(case.old, case.new))}
    found = _judged(tmp_path.resolve(), texts, "program.py", runner)
    if case.limit:
        # It is right for all that the program does, and says for what it is not.
        said = [text for part in found.parts for rung in part.verdict.rungs for text in rung.limits]
        assert found.status == "safe" and any(case.says in text for text in said), said
        return
    assert found.status in (("unsafe",) if case.caveat else ("wrong", "unsafe")), found
    if found.status == "wrong":
        assert found.witness is not None
        assert found.reproduced is True, Path(found.counterexample, "counterexample.json")

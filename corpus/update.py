"""Runs gbfix on cases of the corpus and writes down what comes out, for a reader of the diff.

    python corpus/update.py [CASE ...] [K/N]

A CASE is ``CODE/NAME``; without one, all cases that gbfix runs on in the normal suite.  Writes
``after.py`` and the keys ``codemod``, ``unsafe`` and ``whole`` of ``case.toml``, and says of each
case what changed.  Nothing is written where nothing validated: such a case is LOST.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from gbfix import engine
from gbfix.runner import Runner
from gbfix.schema import Options, Report, Target

CORPUS = Path(__file__).parent


def run(case: Path, about: dict[str, object], unsafe: bool, runner: Runner) -> Report:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for path in case.iterdir():
            if path.name != "case.toml" and not path.name.startswith("after"):
                shutil.copy(path, folder / path.name)
        options = Options(use_cache=False, timeout=120.0, unsafe_fixes=unsafe)
        script, *arguments = about.get("target", ["before.py"])  # type: ignore[misc]
        kind = "callable" if "::" in script else "script"
        target = Target(kind, script, tuple(arguments), about.get("inputs"), cwd=str(folder))  # type: ignore[arg-type]
        return engine.run(target, options, runner=runner)


def update(case: Path, runner: Runner) -> str:
    """What changed, in a line; empty if nothing did."""
    about = tomllib.loads((case / "case.toml").read_text())
    report = run(case, about, False, runner)
    whole = _whole(report)
    if not report.patches or (not whole and about.get("whole", True)):
        again = run(case, about, True, runner)
        if again.patches and (not report.patches or _whole(again)):
            report, whole = again, _whole(again)
    if not report.patches:
        tried = [f"{a.codemod}: {a.reason}" for b in report.breaks for a in b.attempts]
        return f"LOST {tried[:4]} {[error.message for error in report.errors]}"
    names = [name for patch in report.patches for name in patch.codemods]
    said = []
    for patch in report.patches:
        after = case / Path(patch.path).name.replace("before", "after")
        if not after.exists() or after.read_text() != patch.after:
            after.write_text(patch.after)
            said.append("text")
    text = (case / "case.toml").read_text()
    new = text
    if about["outcome"] == "advice":
        new = re.sub(r'^outcome = .*$', 'outcome = "fixed"', new, flags=re.M)
    if about.get("codemod") not in names:
        new = re.sub(r'^codemod = .*\n', "", new, flags=re.M)
        new = re.sub(r'^(code = .*)$', rf'\1\ncodemod = "{names[0]}"', new, flags=re.M)
        said.append(f"{about.get('codemod', 'advice')} -> {', '.join(names)}")
    unsafe = any(str(patch.safety) == "unsafe" for patch in report.patches)
    new = _flag(new, "unsafe", unsafe, "true")
    new = _flag(new, "whole", not whole, "false")
    if new != text:
        (case / "case.toml").write_text(new)
        if unsafe != bool(about.get("unsafe")):
            said.append("unsafe now" if unsafe else "safe now")
        if whole != about.get("whole", True):
            said.append("whole now" if whole else "NOT WHOLE now")
    return ", ".join(said)


def _whole(report: Report) -> bool:
    return all(region.status in ("fixed", "split", "clean") for region in report.regions)


def _flag(text: str, name: str, wanted: bool, value: str) -> str:
    bare = re.sub(rf"^{name} = .*\n", "", text, flags=re.M)
    if not wanted:
        return bare
    return text if f"{name} = {value}" in text else bare.rstrip("\n") + f"\n{name} = {value}\n"


def main() -> int:
    names = [name for name in sys.argv[1:] if "/" in name and not name[0].isdigit()]
    cases = sorted(path.parent for path in CORPUS.glob("*/*/case.toml"))
    if names:
        cases = [case for case in cases if f"{case.parent.name}/{case.name}" in names]
    else:
        abouts = {case: tomllib.loads((case / "case.toml").read_text()) for case in cases}
        cases = [
            case
            for case in cases
            if abouts[case]["outcome"] == "fixed" and not abouts[case].get("slow")
        ]
    for argument in sys.argv[1:]:
        if argument[0].isdigit():
            number, count = map(int, argument.split("/"))
            cases = cases[number::count]
    with Runner() as runner:
        runner.wait_ready()
        for case in cases:
            print(f"{case.parent.name}/{case.name}: {update(case, runner) or 'same'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

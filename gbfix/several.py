"""Several targets: run side by side, their patches merged, and the whole checked on each of them.

A helper that twenty targets use is patched once.  A patch that one target asks for and another
does not survive is left out, and the report says for whom.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gbfix import packages, patch, tasks
from gbfix.schema import (
    ErrorReport,
    Options,
    Patch,
    Report,
    Rung,
    Safety,
    Target,
    TargetReport,
    Verdict,
)

Progress = Callable[[str], None]


def run(
    targets: Sequence[Target],
    options: Options,
    executor: concurrent.futures.Executor,
    cwd: Path,
    progress: Progress = lambda text: None,
) -> Report:
    """The targets' reports as one, its patches validated together on every target."""
    reports: list[Report] = []
    for target, result in zip(
        targets,
        _each(executor, tasks.run, [(target, options) for target in targets], progress, "run"),
        strict=True,
    ):
        reports.append(result if isinstance(result, Report) else _lost(target, result))

    def verify(wanted: Sequence[tuple[int, Mapping[str, str]]]) -> list[Verdict]:
        work = [(targets[number], options, dict(texts)) for number, texts in wanted]
        found = _each(executor, tasks.verify, work, progress, "checked with all patches")
        return [v if isinstance(v, Verdict) else tasks.lost(v) for v in found]

    return together(reports, verify, options, cwd)


def _each(
    executor: concurrent.futures.Executor,
    function: Callable[..., object],
    work: Sequence[tuple[object, ...]],
    progress: Progress,
    done: str,
) -> list[Report | Verdict | BaseException]:
    """The results of all work in its order; an exception stands for work that failed."""
    futures = [executor.submit(function, *arguments) for arguments in work]
    progress(f"0 of {len(futures)} targets {done}")
    try:
        for number, _ in enumerate(concurrent.futures.as_completed(futures), 1):
            progress(f"{number} of {len(futures)} targets {done}")
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    results: list[Report | Verdict | BaseException] = []
    for future in futures:
        problem = future.exception()
        if problem is not None:
            results.append(problem)
        else:
            result = future.result()
            assert isinstance(result, Report | Verdict)
            results.append(result)
    return results


def _lost(target: Target, problem: object) -> Report:
    what = f"{type(problem).__name__}: {problem}"
    return Report(target.display, errors=[ErrorReport("worker", f"{target.display}: {what}")])


# -- merging ---------------------------------------------------------------------------------------

Verify = Callable[[Sequence[tuple[int, Mapping[str, str]]]], list[Verdict]]


def together(reports: Sequence[Report], verify: Verify, options: Options, cwd: Path) -> Report:
    """One report of several.

    ``verify`` takes target numbers with texts by path and says whether each target does with them
    what it does without.  Only what is not known yet is asked.
    """
    if len(reports) == 1:
        return reports[0]
    result = dataclasses.replace(
        reports[0],
        target=", ".join(report.target for report in reports),
        regions=[region for report in reports for region in report.regions],
        breaks=[found for report in reports for found in report.breaks],
        errors=[error for report in reports for error in report.errors],
        unsafe_patches=_once([p for report in reports for p in report.unsafe_patches]),
        patches=[],
        steps=[],
        files=tuple(dict.fromkeys(path for report in reports for path in report.files)),
        seconds=sum(report.seconds for report in reports),
        cached=all(report.cached for report in reports),
    )
    merging = _Merging(reports, verify, options, cwd)
    merging.run()
    for number, why in merging.dropped.items():
        report = reports[number]
        for one in report.patches:
            result.errors.append(ErrorReport("patch-waits", why, one.path, fatal=False))
        for found in report.breaks:
            if found.status == "fixed":
                found.status = "unfixed"
        for region in report.regions:
            region.breaks_after, region.graphs_after = region.breaks_before, region.graphs_before
            region.status = "unfixed" if region.status in ("fixed", "partial") else region.status
    result.patches = merging.patches()
    result.targets = tuple(
        TargetReport(
            report.target,
            len(report.regions),
            len(report.breaks),
            sum(found.status == "fixed" for found in report.breaks),
            round(report.seconds, 3),
            any(error.fatal for error in report.errors),
        )
        for report in reports
    )
    return result


def _once(patches: Sequence[Patch]) -> list[Patch]:
    """Each patch once, however many targets it came from."""
    return list({(one.path, one.after): one for one in patches}.values())


class _Merging:
    """Which targets' patches go together.  ``dropped`` says by number why one does not."""

    def __init__(
        self, reports: Sequence[Report], verify: Verify, options: Options, cwd: Path
    ) -> None:
        self._reports = reports
        self._options = options
        self._cwd = cwd
        self._verify = verify
        self._taken: list[int] = []
        self._known: dict[tuple[int, tuple[tuple[str, str], ...]], Verdict | None] = {}
        self.dropped: dict[int, str] = {}
        for number, report in enumerate(reports):
            own = {one.path: one.after for one in report.patches}
            self._known[number, tuple(sorted(own.items()))] = None  # validated in its own run

    def run(self) -> None:
        """All at once where that holds; else one target's patches after the other."""
        every = [number for number, report in enumerate(self._reports) if report.patches]
        texts = self._merged(every)
        if isinstance(texts, dict) and self._problem(texts) is None:
            self._taken = every
            return
        for number in every:
            texts = self._merged([*self._taken, number])
            if isinstance(texts, str):
                self.dropped[number] = (
                    f"a patch for {self._reports[number].target} waits: {texts}; "
                    "run gbfix again after this one"
                )
                continue
            problem = self._problem(texts)
            if problem is None:
                self._taken.append(number)
                continue
            other, verdict = problem
            where = "with the other patches" if other == number else "with it"
            why = verdict.failure or verdict.caveats[0]
            self.dropped[number] = (
                f"a patch for {self._reports[number].target} is left out: {where}, "
                f"{self._reports[other].target} does something else ({why})"
            )

    def patches(self) -> list[Patch]:
        """The merged patches, each with the verdict of the target that it came from."""
        texts = self._merged(self._taken)
        assert isinstance(texts, dict)
        found = []
        for path, after in texts.items():
            same = [p for number in self._taken for p in self._reports[number].patches
                    if p.path == path]  # fmt: skip
            first = same[0]
            shown = packages.diff_path(path, str(self._cwd), self._options.include)
            count = sum(self._relevant(number, texts) != {} for number in range(len(self._reports)))
            rung = Rung("targets", True, f"all patches together, on {count} targets")
            unsafe = any(one.safety is Safety.UNSAFE for one in same)
            found.append(
                dataclasses.replace(
                    first,
                    after=after,
                    diff=patch.unified_diff(first.before, after, shown),
                    codemods=_joined(one.codemods for one in same),
                    codes=_joined(one.codes for one in same),
                    titles=_joined(one.titles for one in same),
                    notes=_joined(one.notes for one in same),
                    safety=Safety.UNSAFE if unsafe else Safety.SAFE,
                    verdict=first.verdict.with_rung(rung),
                )
            )
        return found

    def _merged(self, numbers: Sequence[int]) -> dict[str, str] | str:
        """Texts by path with the patches of these targets, or why they do not go together."""
        texts: dict[str, str] = {}
        paths = dict.fromkeys(p.path for n in numbers for p in self._reports[n].patches)
        for path in paths:
            same = [p for n in numbers for p in self._reports[n].patches if p.path == path]
            if len({one.before for one in same}) > 1:
                return f"{patch.display_path(path, self._cwd)} changed while gbfix ran"
            versions = dict.fromkeys(one.after for one in same)
            try:
                merged = same[0].before
                if len(versions) == 1:
                    (merged,) = versions
                else:
                    merged = patch.merge(same[0].before, *versions)
                texts[path] = merged
            except patch.ConflictError as error:
                return f"{error} of {patch.display_path(path, self._cwd)}"
        return texts

    def _relevant(self, number: int, texts: Mapping[str, str]) -> dict[str, str]:
        """Of these texts, the ones of files that a target loads."""
        own = {one.path for one in self._reports[number].patches}
        files = own | set(self._reports[number].files)
        return {path: text for path, text in texts.items() if path in files}

    def _problem(self, texts: Mapping[str, str]) -> tuple[int, Verdict] | None:
        """A target that does something else with these texts, and how; None if there is none."""
        asked: list[tuple[int, dict[str, str]]] = []
        for number, report in enumerate(self._reports):
            mine = self._relevant(number, texts)
            failed = any(error.fatal for error in report.errors)
            key = (number, tuple(sorted(mine.items())))
            if mine and not failed and key not in self._known:
                asked.append((number, mine))
        verdicts = self._verify(asked) if asked else []
        for (number, mine), verdict in zip(asked, verdicts, strict=True):
            doubtful = bool(verdict.caveats) and not self._options.unsafe_fixes
            bad = verdict if not verdict.passed or doubtful else None
            self._known[number, tuple(sorted(mine.items()))] = bad
        for number in range(len(self._reports)):
            mine = self._relevant(number, texts)
            bad = self._known.get((number, tuple(sorted(mine.items()))))
            if bad is not None:
                return number, bad
        return None


def _joined(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for group in groups for item in group))

"""gbfix's loop in small, inside one process: facts, break, proposals, comparison.

Fast enough for thousands of programs.  What the ladder does in forks and with far more inputs is
done here with the inputs given; the point is to look at *every* proposal, not only at the first
that passes.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import linecache
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from gbfix.codemod import Advice, Codemod, RecordedFacts, Rewrite, Site, SiteError
from gbfix.schema import FrameFacts, GraphBreak, Safety
from gbfix.worker import factlog, instrument, tracing
from gbfix.worker.protocol import Instrument
from gbfix.worker.values import Project

Inputs = Callable[[], tuple[Any, ...]]
_MAX_BREAKS = 12


@dataclasses.dataclass
class Attempt:
    """One proposal: ``verdict`` is "" where it holds, "refused: ..." by torch, or a difference."""

    codemod: str
    text: str
    verdict: str
    safety: Safety = Safety.SAFE

    @property
    def holds(self) -> bool:
        return not self.verdict

    @property
    def differs(self) -> bool:
        """Whether it does something else: an unsafe one may, where gradients are asked for."""
        warned = self.safety is Safety.UNSAFE and "grads=True" in self.verdict
        return bool(self.verdict) and not warned and not self.verdict.startswith("refused: ")


@dataclasses.dataclass
class Result:
    """What became of a program: its last text, every attempt, and the break that is left."""

    before: str
    after: str
    attempts: list[Attempt]
    advice: list[str]
    left: GraphBreak | None
    broke: bool

    @property
    def fixed(self) -> bool:
        return self.broke and self.left is None

    @property
    def wrong(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.differs]


class Lab:
    """Fixes programs: texts that define ``f``."""

    def __init__(self, folder: Path, codemods: Sequence[Codemod], *, backend: str = "aot_eager"):
        self._folder = folder
        self._codemods = codemods
        self._backend = backend
        self._count = 0
        self._project = Project(str(folder))
        #: Names of modules that programs may share.
        self._loaded: list[str] = []

    # -- the loop ----------------------------------------------------------------------------

    def fix(self, source: str, inputs: Sequence[Inputs], *, grads: bool = True) -> Result:
        """Removes break after break with the first proposal that holds, trying all of them."""
        result = Result(source, source, [], [], None, broke=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(_MAX_BREAKS):
                found = self.first_break(result.after, inputs)
                result.left = found
                if found is None:
                    return result
                result.broke = True
                text = self._better(result, found, inputs, grads)
                if text is None:
                    return result
                result.after = text
        return result

    def _better(
        self, result: Result, found: GraphBreak, inputs: Sequence[Inputs], grads: bool
    ) -> str | None:
        kept: str | None = None
        for codemod, rewrite in self._proposals(result, found, inputs):
            text = next(iter(rewrite.edits.values()))
            verdict = self.verdict(result.before, text, inputs, found, grads=grads)
            result.attempts.append(Attempt(codemod, text, verdict, rewrite.safety))
            if kept is None and not verdict:
                kept = text
        return kept

    def _proposals(
        self, result: Result, found: GraphBreak, inputs: Sequence[Inputs]
    ) -> list[tuple[str, Rewrite]]:
        if found.site is None:
            return []
        source = result.after
        try:
            facts = self.facts(source, inputs[:2], found.site.line)
            site = Site(found.site.path, source, found, RecordedFacts(facts))
        except SiteError:
            return []
        proposals: list[tuple[str, Rewrite]] = []
        for codemod in self._codemods:
            if found.code not in codemod.codes:
                continue
            for item in codemod.propose(site):
                if isinstance(item, Advice):
                    result.advice.append(item.text)
                elif all(item.edits != other.edits for _, other in proposals):
                    proposals.append((codemod.name, item))
        return sorted(proposals, key=lambda pair: pair[1].rank)

    # -- looking -----------------------------------------------------------------------------

    def load(self, source: str, tree: ast.Module | None = None) -> Callable[..., Any]:
        """The function ``f`` of a program, in a module and a file of its own."""
        self._count += 1
        name = f"in_process_{self._count}"
        path = self._folder / f"{name}.py"
        path.write_text(source)
        linecache.checkcache(str(path))
        module = sys.modules[name] = types.ModuleType(name)
        module.__file__ = str(path)
        self._loaded.append(name)
        exec(compile(tree or source, str(path), "exec"), vars(module))
        return module.f  # type: ignore[no-any-return]

    def forget(self) -> None:
        """Drops what earlier programs left in the process."""
        torch._dynamo.reset()
        linecache.clearcache()
        for name in self._loaded:
            sys.modules.pop(name, None)
            (self._folder / f"{name}.py").unlink(missing_ok=True)
        self._loaded.clear()

    def first_break(self, source: str, inputs: Sequence[Inputs]) -> GraphBreak | None:
        """The first thing that keeps ``f`` from being one graph, on any input."""
        torch._dynamo.reset()
        run = torch.compile(self.load(source), backend="eager", fullgraph=True)
        for given in inputs:
            torch.manual_seed(0)
            try:
                run(*given())
            except Exception as error:
                if tracing.is_break(error):
                    return tracing.extract(error, "f", self._project)
        return None

    def facts(self, source: str, inputs: Sequence[Inputs], line: int) -> FrameFacts:
        """What the function that covers the line does on the inputs."""
        path = str(self._folder / f"in_process_{self._count + 1}.py")
        log = factlog.FactLog(self._project)
        tree = instrument.transform(ast.parse(source), [Instrument(path, "facts", line)])
        ast.fix_missing_locations(tree)
        hooks = {
            instrument.SEE: log.see,
            instrument.LOCALS: log.locals,
            instrument.TEST: log.test,
            instrument.HELD: log.held,
        }
        for name, hook in hooks.items():
            setattr(builtins, name, hook)
        try:
            run = self.load(source, tree)
            for given in inputs:
                torch.manual_seed(0)
                try:
                    run(*given())
                except Exception:  # the original's own error: what was seen until then counts
                    continue
            return log.seen(path, line).facts
        finally:
            for name in hooks:
                delattr(builtins, name)

    # -- judging -----------------------------------------------------------------------------

    def verdict(
        self,
        before: str,
        after: str,
        inputs: Sequence[Inputs],
        found: GraphBreak | None = None,
        *,
        grads: bool = True,
    ) -> str:
        """How the second program differs from the first; "" where it does not."""
        both = (False, True) if grads else (False,)
        refused = ""
        for backend in (None, self._backend):
            # Uncompiled, a call with gradients computes all that one without them does.
            for with_grads in both[-1:] if backend is None else both:
                torch._dynamo.reset()
                original, run = self.load(before), self.load(after)
                if backend is not None:
                    run = torch.compile(run, backend=backend, fullgraph=True)
                for number, given in enumerate(inputs):
                    expected = outcome(original, given, grads=with_grads)
                    actual = outcome(run, given, grads=with_grads)
                    where = f"{backend or 'uncompiled'}, grads={with_grads}, input {number}"
                    error = actual.get("error")
                    if isinstance(error, Exception) and "error" not in expected:
                        if not _is_refusal(error):
                            return f"{where}: raises {type(error).__name__}: {error}"
                        same = self._is_same_break(error, found)
                        if not (backend and not same and _is_next_break(error)):
                            return f"refused: {where}: {str(error)[:300]}"
                        refused = "next"  # another break: what it computes is compared later
                        break
                    difference = _difference(expected, actual)
                    if difference:
                        return f"{where}: {difference}"
                if refused:
                    return ""
        return ""

    def _is_same_break(self, error: Exception, found: GraphBreak | None) -> bool:
        if found is None or found.site is None:
            return True
        again = tracing.extract(error, "f", self._project)
        return again.site is not None and (again.code, again.site.text.strip()) == (
            found.code,
            found.site.text.strip(),
        )


def _is_next_break(error: Exception) -> bool:
    """Whether the program broke somewhere else, rather than in what a rewrite wrote."""
    return type(error).__name__ in ("Unsupported", "UserError")


def _is_refusal(error: Exception) -> bool:
    return tracing.is_break(error) or "torch.cond" in str(error) or "while_loop" in str(error)


def outcome(function: Callable[..., Any], inputs: Inputs, *, grads: bool) -> dict[str, Any]:
    """Everything that a call can be told by: result, changed inputs, gradients, random stream."""
    torch.manual_seed(0)
    arguments = inputs()
    leaves = [t for t in torch.utils._pytree.tree_leaves(arguments) if isinstance(t, torch.Tensor)]
    floating = [leaf for leaf in leaves if leaf.is_floating_point()]
    if grads:
        for leaf in floating:
            leaf.requires_grad_()
    try:
        result = function(*arguments)
    except Exception as error:
        return {"error": error}
    seen: dict[str, Any] = {
        "result": _detached(result),
        "inputs": [leaf.detach().clone() for leaf in leaves],
        "random": torch.get_rng_state(),
    }
    if grads:
        outputs = [
            t
            for t in torch.utils._pytree.tree_leaves(result)
            if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        if outputs:
            try:
                torch.autograd.backward([_weighted(t) for t in outputs])
            except Exception as error:
                return {"error": error}
        # A gradient of zero stands for none: see the codemods' notes.
        seen["grads"] = [
            None if leaf.grad is None or not (leaf.grad != 0).any() else leaf.grad
            for leaf in floating
        ]
    return seen


def _weighted(t: torch.Tensor) -> torch.Tensor:
    weights = torch.linspace(0.5, 1.5, max(1, t.numel()))[: t.numel()].reshape(t.shape)
    return (t * weights.to(t.dtype)).sum()


def _detached(value: Any) -> Any:
    return torch.utils._pytree.tree_map(
        lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, value
    )


def _difference(expected: dict[str, Any], actual: dict[str, Any]) -> str:
    if "error" in expected or "error" in actual:
        one, other = (type(side.get("error", "")).__name__ for side in (expected, actual))
        if one == other or (one != "str" and other != "str"):
            return ""  # compiled code wraps some errors
        return f"{expected.get('error', 'no error')!r} became {actual.get('error', 'no error')!r}"
    for key, value in expected.items():
        try:
            torch.testing.assert_close(actual[key], value, equal_nan=True)
        except (AssertionError, TypeError) as error:
            if actual[key] is None and value is None:
                continue
            plain = [repr(side) for side in (actual[key], value)]
            if isinstance(error, TypeError) and plain[0] == plain[1]:
                continue
            return f"{key}: {str(error).splitlines()[0][:120]} {plain[1][:200]} -> {plain[0][:200]}"
    return ""

"""Calls of regions as the user compiles them: all breaks, the number of graphs, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.utils import clear_compilation_metrics, counters, get_compilation_metrics

from gbfix.schema import each_once
from gbfix.worker import tracing
from gbfix.worker.protocol import RegionCalled, Traced
from gbfix.worker.recorder import Region, real_compile
from gbfix.worker.values import Project

#: Dynamo's own hint, in the reason for which it compiles anew.
_STATIC = "allow_unspec_int_on_nn_module"


def _fallen_back() -> int:
    """Frames that Dynamo began to compile and then left to Python."""
    frames = counters["frames"]
    return int(frames["total"] - frames["ok"])


class AsUser:
    """Compiles with the user's own options, but for a backend that counts graphs."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._compiled: dict[tuple[int, str], tuple[tracing.GraphCounter, Any, Any]] = {}

    def call(
        self,
        region: Region,
        index: int,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        write: Callable[[RegionCalled | Traced], None],
    ) -> Any:
        """What the program gets from its call; uncompiled where the compiler refuses it."""
        tracing.set_quiet()
        counter, compiled, _ = self._get(region, target)
        found: list[BaseException] = []
        before, fallen = counter.graphs, _fallen_back()
        error, raised = "", True
        clear_compilation_metrics()
        write(RegionCalled(region.key, index))
        try:
            try:
                with tracing.all_breaks(found.append):
                    result = compiled(*args, **kwargs)
            except Exception as failure:
                error = f"{type(failure).__name__}: {failure}"
                if tracing.is_break(failure):
                    found.append(failure)
                elif not tracing.is_from_tracing(failure):
                    raise
                # Where the program raises by itself, what only tracing met is no break.
                result = target(*args, **kwargs)
                if failure not in found:
                    found.append(failure)
            raised = False
            return result
        finally:
            breaks = [tracing.extract(item, region.key, self._project) for item in found]
            write(
                Traced(
                    region.key,
                    index,
                    "user",
                    tuple(each_once(breaks).values()),
                    graphs=counter.graphs - before,
                    sizes=tuple(counter.sizes[before:]),
                    fallbacks=_fallen_back() - fallen,
                    fullgraph=bool(region.options.get("fullgraph")),
                    error=error[:2000],
                    conditionals=counter.conditionals,
                    raised=raised,
                    counts=any(
                        _STATIC in (made.recompile_reason or "")
                        for made in get_compilation_metrics()
                    ),
                )
            )

    def _get(self, region: Region, target: Any) -> tuple[tracing.GraphCounter, Any, Any]:
        key = (id(target), region.key)
        if key not in self._compiled:
            counter = tracing.GraphCounter()
            options = {
                name: value
                for name, value in region.options.items()
                if name in ("fullgraph", "dynamic")
            }
            compiled = real_compile(target, backend=counter, **options)
            # The target is kept: another object must not get its address.
            self._compiled[key] = (counter, compiled, target)
        return self._compiled[key]

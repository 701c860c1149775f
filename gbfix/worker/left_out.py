"""What a region that a patch has cut still does outside of graphs.

A function whose parts are compiled runs in Python itself.  Where that Python computes nothing on
tensors, and every call runs one part, all that a graph could hold is in one graph: nothing was
split.  One uncompiled call, with every operator seen, tells.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from gbfix.worker.recorder import Region, definition

#: Reads all values of a tensor, of which the dispatcher sees nothing.
_READS = (torch.Tensor.tolist,)


class Outside:
    """Counts the operators that run outside of a region's parts, and the parts that a call runs."""

    def __init__(self, target: Any) -> None:
        self.operators = 0
        self.parts = 0
        self._depth = 0
        self._passed_over = passed_over(target)

    def part(self, target: Any, region: Region) -> Callable[..., Any]:
        """What is called in place of a part."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.parts += not self._depth
            self._depth += 1
            try:
                return target(*args, **kwargs)
            finally:
                self._depth -= 1

        return call

    def watched(self, invoke: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with _Dispatched(self), _Called(self):
                return invoke(*args, **kwargs)

        return call

    def note(self) -> None:
        """One operator runs here."""
        if not self._depth and (self._passed_over is None or self._is_its_own()):
            self.operators += 1

    def _is_its_own(self) -> bool:
        """Whether the function that Dynamo passes over calls torch itself.

        What it calls of other Python code is compiled, as a frame of its own.
        """
        frame: Any = sys._getframe(1)
        while frame is not None and _is_torch(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        return frame is not None and frame.f_code is self._passed_over


def passed_over(target: Any) -> Any:
    """The code of the function with which the region begins, where Dynamo passes over its frame."""
    function = target
    if isinstance(target, torch.nn.Module):
        function = vars(target).get("forward", type(target).forward)
    function = getattr(function, "__func__", function)
    if getattr(function, "_torchdynamo_disable_recursive", True):
        return None
    return definition(target)[0]


def _is_torch(module: str) -> bool:
    return module.partition(".")[0] == "torch" or module == __name__


class _Dispatched(TorchDispatchMode):
    def __init__(self, outside: Outside) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._outside = outside

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._outside.note()
        return func(*args, **(kwargs or {}))


class _Called(TorchFunctionMode):
    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self._outside = outside

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _READS:
            self._outside.note()
        return func(*args, **(kwargs or {}))

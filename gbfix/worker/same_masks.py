"""Which sizes of a graph are decided by the same data, so that they are equal whatever it holds.

``x[mask]`` and ``y[mask]`` are as long as the mask counts, and so are ``x[~(a | b)]`` and
``y[~(a | b)]`` where the mask is computed twice.  Nodes of a graph are compared by what they
compute: the same operation of the same values, none of which was changed in place in between.
"""

from __future__ import annotations

import re
from collections.abc import Hashable

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

_RANDOM = re.compile(
    r"rand|dropout|bernoulli|multinomial|normal|uniform|exponential|poisson|geometric|cauchy|sample"
    r"|empty|seed"
)
#: Modules whose functions give the same for the same values, unless they are random.
_KNOWN = ("torch", "_operator", "builtins", "math")


def origins(graph: torch.fx.GraphModule) -> dict[sympy.Symbol, Hashable]:
    """By symbol of a size that data decides: what is counted.  Equal values mean equal sizes."""
    numbers: dict[Hashable, int] = {}
    keys: dict[torch.fx.Node, int] = {}
    changes: dict[int, int] = {}
    found: dict[sympy.Symbol, Hashable] = {}

    def number(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    def now(value: object) -> Hashable:
        """What a value is at this point of the graph."""
        if isinstance(value, torch.fx.Node):
            return keys[value], changes.get(_storage(value), 0)
        if isinstance(value, tuple | list):
            return type(value).__name__, tuple(now(item) for item in value)
        if isinstance(value, slice):
            return "slice", now(value.start), now(value.stop), now(value.step)
        if isinstance(value, dict):
            return "dict", tuple((str(name), now(item)) for name, item in value.items())
        return "constant", repr(value)

    for node in graph.graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if node.op not in ("call_function", "call_method") or _is_own(node, name):
            keys[node] = number(("own", node.name))
        else:
            given = now(node.args), now(node.kwargs)
            keys[node] = number((node.op, str(node.target), given))
            counted = _counted(node, name)
            if counted is not None:
                for symbol in _symbols(node):
                    found.setdefault(symbol, (counted[0], now(counted[1])))
        for symbol in _symbols(node):
            # What is made in any other way is itself, and what is derived comes later.
            found.setdefault(symbol, ("own", node.name))
        if _changes(node, name):
            written = node.kwargs.get("out", node.args[0] if node.args else None)
            for each in written if isinstance(written, tuple | list) else (written,):
                if isinstance(each, torch.fx.Node):
                    changes[_storage(each)] = changes.get(_storage(each), 0) + 1
    return found


def _is_own(node: torch.fx.Node, name: str) -> bool:
    """Whether a node may give something else each time, or is not known."""
    if _RANDOM.search(name):
        return True
    if isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        # A custom operator may count, draw or read a file.
        return str(node.target).partition(".")[0] not in ("aten", "prims")
    home = getattr(node.target, "__module__", "torch") or "torch"
    return node.op == "call_function" and home.partition(".")[0] not in _KNOWN


def _changes(node: torch.fx.Node, name: str) -> bool:
    inplace = name.endswith("_") and not name.endswith("__")
    return (
        inplace
        or node.op == "call_module"
        or bool(node.kwargs.get("inplace"))
        or any(arg is True for arg in node.args)  # ``relu(x, True)``
        or name in ("setitem", "copy_")
        or (name.startswith("i") and name in _IN_PLACE)
        or (name.startswith("__i") and name.endswith("__"))
        or "out" in node.kwargs
    )


_IN_PLACE = frozenset(
    [
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
        "iand",
        "ior",
        "ixor",
        "ilshift",
        "irshift",
        "imatmul",
    ]
)


def _counted(node: torch.fx.Node, name: str) -> tuple[str, object] | None:
    """What decides how large a node's result is: a mask that is counted."""
    if name in ("nonzero", "argwhere") or (name == "where" and len(node.args) == 1):
        return "mask", node.args[0]
    if name == "getitem" and len(node.args) == 2 and _is_mask(node.args[1]):
        return "mask", node.args[1]
    return None


def _is_mask(value: object) -> bool:
    held = value.meta.get("example_value") if isinstance(value, torch.fx.Node) else None
    return isinstance(held, torch.Tensor) and held.dtype == torch.bool and held.dim() > 0


def _symbols(node: torch.fx.Node) -> list[sympy.Symbol]:
    """The sizes that data decides, of all tensors of a node's value, and numbers."""
    value = node.meta.get("example_value")
    found: list[sympy.Symbol] = []
    for item in value if isinstance(value, tuple | list) else (value,):
        sizes = (
            item.shape if isinstance(item, torch.Tensor) and item.layout is torch.strided else ()
        )
        for size in (item, *sizes):
            if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
                found += free_unbacked_symbols(size)
    return found


def _storage(node: torch.fx.Node) -> int:
    """The memory of a tensor, which its views share."""
    value = node.meta.get("example_value")
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        return int(value.untyped_storage()._cdata)
    return id(node)

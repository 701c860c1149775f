"""Notes how large the tensors of a graph come out whose sizes the data decides.

While it traces, torch does not know such a size: it takes it to be that of whatever it meets, and
neither 0 nor 1.  What it took for granted is in the graph's symbols, and what the sizes then were
is seen where the graph runs as written.
"""

from __future__ import annotations

import collections
import os
import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from gbfix.worker.protocol import SizesSeen
from gbfix.worker.same_masks import origins
from gbfix.worker.values import Project

#: Places of a graph: where each comes from, and which sizes of which of its tensors data decides.
_Places = dict[str, tuple[str, tuple[tuple[int, int], ...]]]
_FRAME = re.compile(r'File "(?P<path>.+)", line (?P<line>\d+), in ')


class Sizes:
    """A backend that runs graphs as they are, and what it saw of sizes that data decides.

    ``seen`` has, by place (``path:line``) and size (0 and 1, as far as it can be that), the labels
    of the variations in which it was.  ``equal`` says where a size was taken to be another one.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self.label = ""
        self.seen: dict[str, dict[int, set[str]]] = {}
        self.equal: set[str] = set()
        self.alike: dict[str, tuple[str, ...]] = {}
        self.made: dict[str, str] = {}
        self.sources: dict[str, set[str]] = {}
        self.raised: set[str] = set()

    def backend(self, graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        """A backend of `torch.compile`."""
        places: _Places = {}
        squeezes = any(_is_squeeze(node) for node in graph.graph.nodes)
        sizes: set[sympy.Expr] = set()
        made: dict[sympy.Expr, str] = {}
        never_empty = {symbol for node in graph.graph.nodes for symbol in _never_empty(node)}
        for node in graph.graph.nodes:
            for symbol in _symbols(node):
                made.setdefault(symbol, self._place(node))
            found = dict(_decided(node))
            if found:
                place = self._place(node)
                sources = self.sources.setdefault(place, set())
                sources |= {
                    made[one] for size in found.values() for one in size.free_symbols & {*made}
                }
                places[node.name] = place, tuple(found)
                seen = self.seen.setdefault(place, {})
                sizes |= set(found.values())
                for size in found.values():
                    least = _least(node, size)
                    for special in _possible(size, squeezes):
                        if special >= least and (special or size not in never_empty):
                            seen.setdefault(special, set())
        counted = origins(graph)
        for text, symbols, every in _taken_as_equal(graph, sizes):
            if symbols and len({counted.get(symbol, symbol) for symbol in symbols}) == 1:
                continue  # of one mask, however often it was computed
            self.equal.add(text)
            self.alike[text] = _places_of(symbols, made)
            # Two that were 1 in one call, each by itself, show nothing of one that is 1 alone.
            alone = len(every) == 1 and every <= made.keys()
            self.made[text] = made[next(iter(every))] if alone else ""
        if not places:
            return graph.forward
        return lambda *args: _Noting(graph, places, self).run(*args)

    def note(self, place: str, size: int) -> None:
        """A size at a place, as it is in this call."""
        if size in self.seen[place]:
            self.seen[place][size].add(self.label)

    def event(self, key: str, index: int) -> SizesSeen:
        """What was seen, for the engine."""
        seen = {
            place: {size: frozenset(labels) for size, labels in sizes.items()}
            for place, sizes in self.seen.items()
        }
        sources = {place: tuple(sorted(found)) for place, found in self.sources.items()}
        equal, raised = tuple(sorted(self.equal)), frozenset(self.raised)
        return SizesSeen(
            key, index, seen, equal, sources, raised, dict(self.alike), dict(self.made)
        )

    def _place(self, node: torch.fx.Node) -> str:
        frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
        own = [frame for frame in frames if self._project.owns(frame["path"])]
        if not frames:
            return str(node.target)
        frame = (own or frames)[-1]
        return f"{frame['path']}:{frame['line']}"


def _tensors(value: object) -> Iterator[tuple[int, torch.Tensor]]:
    items = value if isinstance(value, tuple | list) else (value,)
    for number, item in enumerate(items):
        if isinstance(item, torch.Tensor):
            yield number, item


def _symbols(node: torch.fx.Node) -> Iterator[sympy.Expr]:
    """What the data decides of the node's numbers and sizes.

    Torch forgets a number that it takes to be another one, but not which node made it.
    """
    yield from node.meta.get("unbacked_bindings") or ()
    value = node.meta.get("example_value")
    for item in value if isinstance(value, tuple | list) else (value,):
        if isinstance(item, torch.SymInt | torch.SymFloat):
            yield from free_unbacked_symbols(item)
    for _, size in _decided(node):
        yield from free_unbacked_symbols(size)


def _decided(node: torch.fx.Node) -> Iterator[tuple[tuple[int, int], sympy.Expr]]:
    """Tensor and dimension of each size that data decides, and what torch knows of it."""
    for number, tensor in _tensors(node.meta.get("example_value")):
        if tensor.layout is not torch.strided:
            continue
        for dim, size in enumerate(tensor.shape):
            if isinstance(size, torch.SymInt) and free_unbacked_symbols(size):
                yield (number, dim), size.node.expr


def _least(node: torch.fx.Node, size: sympy.Expr) -> int:
    """The least that a size is said to be, by ``torch._check`` or by a fake.

    What is checked raises an error in eager, too, and the operator whose fake says so is the one
    that decides on the size.
    """
    for _, tensor in _tensors(node.meta.get("example_value")):
        environment = getattr(getattr(tensor, "fake_mode", None), "shape_env", None)
        bounds = _bounds(environment, size)
        if bounds is not None and bounds.lower.is_number and bounds.lower.is_finite:
            return int(bounds.lower)
    return 0


def _bounds(environment: Any, size: sympy.Expr) -> Any:
    """What torch knows of the least and the greatest of a size, of a sum, too."""
    if environment is None:
        return None
    known = environment.var_to_range.get(size)
    if known is not None or not size.is_Add:
        return known
    return environment.bound_sympy(size)


def _never_empty(node: torch.fx.Node) -> Iterator[sympy.Expr]:
    """Sizes of the node's result that are not 0: some value is there where there are values."""
    name = getattr(node.target, "__name__", str(node.target))
    if not name.lstrip("_").startswith("unique") or not node.args:
        return
    first = node.args[0]
    given = first.meta.get("example_value") if isinstance(first, torch.fx.Node) else None
    if not isinstance(given, torch.Tensor) or given.layout is not torch.strided:
        return
    for size in given.shape:
        # What the caller's tensors have is 0 in graphs of its own.
        if isinstance(size, torch.SymInt):
            if free_unbacked_symbols(size):
                return
        elif size == 0:
            return
    for (_, _), size in _decided(node):
        if size.is_Symbol:
            yield size


def _possible(size: sympy.Expr, squeezes: bool) -> tuple[int, ...]:
    """Which of 0 and 1 a size can be and has to be seen as.

    One more than a number is not 0, where the number is no index from the end; a multiple is no 1.
    Sizes that are joined have been seen one by one; of their sum, only ``squeeze`` asks again.
    """
    constant, rest = size.as_coeff_Add()
    factor, symbol = rest.as_coeff_Mul()
    if not symbol.is_Symbol:
        return (1,) if squeezes else ()
    if constant.is_positive:
        return (1,) if factor == 1 else ()
    return (0, 1) if factor == 1 else (0,)


def _is_squeeze(node: torch.fx.Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return "squeeze" in name and "unsqueeze" not in name


def _taken_as_equal(
    graph: torch.fx.GraphModule, seen: Set[sympy.Expr]
) -> Iterator[tuple[str, frozenset[sympy.Expr], frozenset[sympy.Expr]]]:
    """What the graph's symbols say of sizes that have to agree, in torch's words.

    With it come the two sizes, where they are such and nothing else, and all that data decides in
    it.  Of those that are ``seen`` where
    they are 0 and 1, it may say that they are not.
    """
    environments = {
        id(tensor.fake_mode.shape_env): tensor.fake_mode.shape_env  # type: ignore[attr-defined]
        for node in graph.graph.nodes
        for _, tensor in _tensors(node.meta.get("example_value"))
        if getattr(getattr(tensor, "fake_mode", None), "shape_env", None) is not None
    }
    for environment in environments.values():
        for symbol, other in environment.replacements.items():
            if free_unbacked_symbols(symbol):
                every = frozenset({symbol, *free_unbacked_symbols(other)})
                yield f"{symbol} == {other}", _both(symbol, other), every
        for assertions in environment.deferred_runtime_asserts.values():
            for assertion in assertions:
                expr = assertion.expr
                if _is_checked_in_eager(assertion):
                    continue
                if isinstance(expr, sympy.Ne) and _is_special(expr, seen):
                    continue
                if isinstance(expr, sympy.Eq | sympy.Ne):
                    both = _both(*expr.args) if isinstance(expr, sympy.Eq) else frozenset()
                    yield str(expr), both, frozenset(free_unbacked_symbols(expr))


def _places_of(symbols: frozenset[sympy.Expr], made: Mapping[sympy.Expr, str]) -> tuple[str, ...]:
    """Where each of the sizes is decided; nothing where that is not one place for one size.

    What decides on two sizes of a graph has run twice, in a loop or in two calls of a helper: its
    mask may have been another one each time.
    """
    places = tuple(sorted(made.get(symbol, "") for symbol in symbols))
    often = collections.Counter(made.values())
    return places if places and all(often[place] == 1 for place in places) else ()


def _both(one: sympy.Expr, other: sympy.Expr) -> frozenset[sympy.Expr]:
    """Two sizes that data decides; nothing where either is more than that."""
    each = (one, other)
    if all(it.is_Symbol and free_unbacked_symbols(it) for it in each):
        return frozenset(each)
    return frozenset()


#: Where torch says of an operator's sizes what the operator itself checks in eager, too: parts that
#: add up, tensors that are joined, views.  (What broadcasts is asked in other places.)
_SAME_CHECK = frozenset(
    {
        ("_refs", "split_with_sizes"),
        ("_prims", "_cat_meta"),
        ("_prims_common", "infer_size"),
        ("_subclasses", "_view_unbacked_meta"),
    }
)
#: Where every assertion passes through on its way to the symbols.
_PLUMBING = re.compile(r"torch/(?:__init__|fx/experimental/\w+)\.py$")


def _is_checked_in_eager(assertion: Any) -> bool:
    """Whether an operator makes this check of its own, so that eager raises an error, too."""
    try:
        frames = list(assertion.stack.summary())
    except Exception:
        return False
    for frame in reversed(frames):
        name = frame.filename.replace(os.sep, "/")
        if _PLUMBING.search(name):
            continue
        folder = name.rpartition("/")[0].rpartition("/")[2]
        return (folder, frame.name) in _SAME_CHECK
    return False


def _is_special(assertion: sympy.Ne, seen: Set[sympy.Expr]) -> bool:
    """``u0 != 0``, ``u0 != 1``: of a size by itself."""
    left, right = assertion.args
    return bool(left in seen and left.is_Symbol and right in (0, 1))


class _Noting(torch.fx.Interpreter):
    """Runs a graph node by node; sizes that data decides are noted."""

    def __init__(self, graph: torch.fx.GraphModule, places: _Places, sizes: Sizes) -> None:
        super().__init__(graph)
        self.extra_traceback = False  # errors say what they say in the original
        self._places = places
        self._sizes = sizes

    def run(self, *args: Any, **options: Any) -> Any:
        try:
            return super().run(*args, **options)
        except Exception:
            self._sizes.raised.add(self._sizes.label)
            raise

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.name in self._places:
            place, decided = self._places[n.name]
            tensors = dict(_tensors(result))
            for number, dim in decided:
                if number in tensors and dim < tensors[number].dim():
                    self._sizes.note(place, tensors[number].shape[dim])
        return result

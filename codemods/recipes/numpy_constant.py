"""Numbers that numpy made long before the compiled function runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import call as call_of
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import dotted, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.carried import carried
from gbfix.schema import Fact, Safety, Span

#: One or two numbers in, a float out.
_FLOATS = words(
    """sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh
    cosh tanh hypot deg2rad rad2deg radians degrees float64"""
)
_NUMPY = "numpy.float64"
_FACTS = {"x": tensor(2, 3), "gain": Fact("object", _NUMPY), "self.gain": Fact("object", _NUMPY)}


def _source(table: str, init: str = "", use: str = "GAINS['relu']", imports: str = "") -> str:
    return f"""{imports}import numpy as np
import torch

GAINS = {{'linear': 1, 'relu': {table}}}


class Scale(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width{init}

    def forward(self, x):
        return scaled(x, gain={use})


def scaled(x, gain):
    if gain != 1:
        x = x * gain
    return x
"""


class NumpyConstant(Codemod):
    """*What it does.*  Makes a number that numpy computed when the file was imported, or in
    ``__init__``, one of Python's: ``GAINS = {"relu": float(np.sqrt(2))}``.

    Dynamo takes numpy's numbers for tensors, so that a test such as ``if gain != 1`` asks for data.
    The value stays the same to the last bit; only its type is another.

    *When it applies.*  The number is made of literals outside of functions (also as a default or
    a keyword of a call), or ``__init__`` keeps it as an attribute that was recorded as
    ``numpy.float64``; and the function that breaks meets it, by whatever names it was handed on. A
    square root of a literal that compiled code hands on is computed with ``math``.

    *Fix safety.*  Safe where all places to which the project carries it treat both kinds alike:
    arithmetic with tensors, sums and products, comparisons, ``float``. Unsafe where it meets texts,
    types, methods, containers, divisions of numbers or numpy again.

    *Refuses.*  Integers, which wrap around in numpy; arrays; numbers in half or single precision.
    """

    name = "numpy-constant"
    codes = (
        "GB0170",
        "GB0033",
        "GB0208",
        "GB0059",
        "GB4315",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
        "torch-runtime-error",
    )
    examples = (
        Example(
            _source("np.sqrt(2)"),
            _source("float(np.sqrt(2))"),
            at="gain != 1",
            facts=_FACTS,
            title="a table",
        ),
        Example(
            _source("2", "\n        self.gain = 1 / np.sqrt(width)", "self.gain"),
            _source("2", "\n        self.gain = float(1 / np.sqrt(width))", "self.gain"),
            at="gain != 1",
            facts=_FACTS,
            title="an attribute",
        ),
        Example(
            _source("2", "\n        gain = scale(width)\n        self.gain = gain", "self.gain"),
            _source(
                "2",
                "\n        gain = scale(width)\n"
                "        self.gain = float(gain) if isinstance(gain, np.float64) else gain",
                "self.gain",
            ),
            at="gain != 1",
            facts=_FACTS,
            title="an attribute that another function made",
        ),
        Example(
            _source("2", use="np.sqrt(0.5)"),
            _source("2", use="math.sqrt(0.5)").replace(
                "import torch\n", "import torch\nimport math\n"
            ),
            at="scaled(x, gain=math.sqrt(0.5))".replace("math", "np"),
            facts=_FACTS,
            title="an argument",
        ),
    )
    near_misses = (
        NearMiss(
            _source("np.prod([2, 2])"), at="gain != 1", facts=_FACTS, why="an integer wraps around"
        ),
        NearMiss(
            _source("np.sqrt(2)", use="2"),
            at="gain != 1",
            facts=_FACTS,
            why="the function that breaks does not meet it",
        ),
        NearMiss(
            _source("2", "\n        self.gain = np.sqrt(width)", "self.gain"),
            at="gain != 1",
            facts={**_FACTS, "gain": Fact("ndarray"), "self.gain": Fact("ndarray")},
            why="an array",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None or "numpy" not in import_map(site.module).values():
            return
        views = [site, *(one for one in site.callers() if one.path == site.path)]
        texts = {site.path: site.source, **site.sources}
        edit, changed, told = site.edit(), [], []
        for node in _origins(site, views):
            found = carried(texts, site.path, site.span(node), lambda *at: _kind(views, *at))
            if (site.path, function.name.value) not in found.functions:
                continue
            if _takes_math(site, node):
                assert isinstance(node, cst.Call)
                edit.add_import("math")
                edit.replace(node, node.with_changes(func=cst.parse_expression("math.sqrt")))
            elif isinstance(node, cst.Name):
                edit.replace(node, cst.parse_expression(_where_numpy(site, node.value)))
            else:
                edit.replace(node, call_of("float", node.with_changes(lpar=(), rpar=())))
            changed.append(node)
            told += [found.told] if found.told else []
        if not changed:
            return
        notes = [f"at {place}, a number of Python's may differ from numpy's" for place in told[:2]]
        yield edit.rewrite(
            f"keep a number of Python's: `{site.text(changed[0])}`",
            safety=Safety.UNSAFE if notes else Safety.SAFE,
            notes=notes or ("the number loses NumPy's type and methods",),
            rank=16,
        )


def _where_numpy(site: Site, name: str) -> str:
    """Python's number where it is numpy's: another object may hold None, or a whole number."""
    numpy = next(word for word, home in import_map(site.module).items() if home == "numpy")
    return f"float({name}) if isinstance({name}, {numpy}.float64) else {name}"


def _origins(site: Site, views: list[Site]) -> Iterator[cst.BaseExpression]:
    """Numbers of numpy's that are made at import, in ``__init__``, or of a literal."""
    ran = {site.span(view.function) for view in views if view.function is not None}
    numpy = _were_numpy(views)
    found: list[cst.BaseExpression] = []
    for node in walk(site.module):
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Attribute() as kept)],
                value=cst.Name() as name,
            ) if dotted(kept) in numpy and _is_made_in_init(site, node):
                yield name  # another function made it
        if not isinstance(node, cst.Call) or not _is_number(site, node):
            continue
        function = site.function_of(node)
        if _is_literal(site, node) and function is not None and _takes_math(site, node):
            if site.span(function) in ran:
                yield node
        elif _is_literal(site, node) and function is None:
            whole = _outermost(site, node)
            # The outer one of two comes first in the walk.
            if whole is not None and whole not in found:
                found.append(whole)
                yield whole
        elif function is not None and function.name.value == "__init__":
            match site.statement_of(node):
                case cst.SimpleStatementLine(
                    body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
                ) if not _is_float(value) and dotted(target) in numpy:
                    yield value


def _is_made_in_init(site: Site, node: cst.CSTNode) -> bool:
    function = site.function_of(node)
    return function is not None and function.name.value == "__init__"


def _outermost(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The largest arithmetic of literals around it; None where a conversion takes that."""
    whole = node
    for holder in site.ancestors(node):
        if isinstance(holder, cst.Arg):
            continue
        if isinstance(holder, cst.Call) and dotted(holder.func) in ("float", "int", "bool"):
            return None
        if not isinstance(holder, cst.BaseExpression) or not _is_literal(site, holder):
            break
        whole = holder
    return whole


def _is_float(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) or (
        isinstance(node, cst.Call) and dotted(node.func) == "float"
    )


def _is_number(site: Site, call: cst.Call) -> bool:
    match call.func:  # most calls are none, and are dear to look up
        case cst.Attribute(attr=cst.Name(value=name)) if name not in _FLOATS:
            return False
        case cst.Name(value=name) if name not in import_map(site.module):
            return False
    home, _, last = (resolve(site.module, call.func) or "").rpartition(".")
    plain = all(not arg.star and arg.keyword is None for arg in call.args)
    return home == "numpy" and last in _FLOATS and plain and bool(call.args)


def _is_literal(site: Site, node: cst.BaseExpression) -> bool:
    """Whether it is arithmetic of literals and of numpy's and ``math``'s constants."""
    match node:
        case cst.Integer() | cst.Float():
            return True
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return _is_literal(site, inner)
        case cst.BinaryOperation(left=left, right=right):
            return _is_literal(site, left) and _is_literal(site, right)
        case cst.Call(args=args):
            return _is_number(site, node) and all(_is_literal(site, arg.value) for arg in args)
        case cst.Attribute():
            return resolve(site.module, node) in ("numpy.pi", "numpy.e", "math.pi", "math.e")
    return False


def _takes_math(site: Site, node: cst.BaseExpression) -> bool:
    """Whether compiled code computes a square root, which ``math`` rounds as numpy does."""
    match node:
        case cst.Call(args=[cst.Arg(value=cst.Integer() | cst.Float())]):
            free = import_map(site.module).get("math", "math") == "math"
            inside = site.function_of(node) is not None
            return inside and free and resolve(site.module, node.func) == "numpy.sqrt"
    return False


def _were_numpy(views: list[Site]) -> frozenset[str]:
    """The attributes, as they are written, that were recorded as numbers of numpy's."""
    return frozenset(
        text
        for number, view in enumerate(views)
        for node in walk((number and view.function) or view.module)
        if isinstance(node, cst.Attribute) and (text := dotted(node))
        for fact in [view.fact(node)]
        if fact is not None and fact.type == _NUMPY
    )


def _kind(views: list[Site], path: str, node: ast.expr) -> str | None:
    """ "tensor", "number" (Python's, numpy's or a size), another kind, or None where unseen."""
    where = Span(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
    if isinstance(node, ast.Constant):
        return "number" if isinstance(node.value, int | float) else "constant"
    text = ast.get_source_segment(views[0].source, node) if path == views[0].path else None
    for view in views if text is not None else ():
        fact = view.facts.expression(where, text or "")
        if fact is not None:
            number = fact.kind in ("int", "float", "bool") or fact.type == _NUMPY
            return "number" if number else fact.kind
    return None

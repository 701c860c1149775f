"""Places that a mask hits, which are only an index: the mask is one as well."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..api.splice import Splice
from .python_metadata import is_bound_once

_SOURCE = """
import torch


def f(x, y, det, m, t):
    {}
"""
_FACTS = {
    "x": tensor(6),
    "y": tensor(6, 3),
    "t": tensor(6, dtype="torch.int64"),
    "det": tensor(6),
    "m": tensor(6, dtype="torch.bool"),
    "det > 0": tensor(6, dtype="torch.bool"),
    "long": tensor(9),
    "y > 0": tensor(6, 3, dtype="torch.bool"),
    "other": tensor(6, dtype="torch.bool"),
}


def _text(*lines: str) -> str:
    return _SOURCE.format("\n    ".join(lines))


def _example(title: str, before: tuple[str, ...], after: tuple[str, ...], at: str) -> Example:
    return Example(_text(*before), _text(*after), at=at, facts=_FACTS, title=title)


def _near_miss(why: str, *lines: str, at: str = "m.nonzero().squeeze(1)") -> NearMiss:
    return NearMiss(_text(*lines), at=at, why=why, facts=_FACTS)


class PlacesToMask(Codemod):
    """*What it does.*  Indexes by the mask itself where its places are only an index:

    ```python
    valid = det.nonzero()
    x[valid] = a[valid] / det[valid]
    ```
    becomes ``valid = det != 0``, with the rest as it is; ``h.index_select(0, places)`` becomes
    ``h[places]``, ``out.index_copy_(0, places, new)`` becomes ``out[places] = new``, and
    ``places.numel() == 0`` becomes ``not places.any()``.  How much a mask selects is data as well:
    others then keep the whole tensor, and take of it with ``torch.where``.

    *When it applies.*  A name is given what ``nonzero`` or ``torch.where`` finds in a tensor of one
    dimension, is bound once, and is only such an index in its function; or two names are given the
    rows and the columns in a tensor of two dimensions, and only ``x[rows, columns]`` uses them.
    All places together, in a tensor of any dimensions, may be one name, or stand in the index:
    ``x[torch.where(mask)] = 0`` becomes ``x[mask] = 0``.

    *Fix safety.*  Safe: the same elements, in the same order.

    *Refuses.*  Tensors of more dimensions, places that are calculated with or given away, and
    columns of places (``nonzero`` alone) of which more than elements of one dimension are taken.
    """

    name = "places-to-mask"
    codes = (
        "GB0036",
        "GB0170",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
    )
    examples = (
        _example(
            "elements that are no zeros",
            ("places = det.nonzero()", "x[places] = t[places] / det[places]", "return x"),
            ("places = det != 0", "x[places] = t[places] / det[places]", "return x"),
            "det.nonzero()",
        ),
        _example(
            "rows, if there are any",
            (
                "places = torch.nonzero(det > 0).squeeze(1)  # valid",
                "if places.numel() == 0:",
                "    return x",
                "new = y.index_select(0, places) * 2",
                "y.index_copy_(0, places, new)",
                "return y",
            ),
            (
                "places = det > 0  # valid",
                "if not places.any():",
                "    return x",
                "new = y[places] * 2",
                "y[places] = new",
                "return y",
            ),
            "torch.nonzero(det > 0)",
        ),
        _example(
            "of a mask that has a name",
            ("places = torch.where(m)[0]", "return y[places].sum(0) if len(places) else x"),
            ("places = m", "return y[places].sum(0) if places.any() else x"),
            "torch.where(m)",
        ),
        _example(
            "rows and columns",
            ("rows, columns = torch.where(y > 0)", "y[rows, columns] = y[rows, columns] * 2",
             "return y"),
            ("hits = y > 0", "y[hits] = y[hits] * 2", "return y"),
            "torch.where(y > 0)",
        ),
        _example(
            "all places in an index",
            ("x[torch.where(m)] = 0", "y[(y > 0).nonzero(as_tuple=True)] += 1", "return x, y",),
            ("x[m] = 0", "y[y > 0] += 1", "return x, y"),
            "torch.where(m)",
        ),
        _example(
            "a name for all places",
            ("places = torch.nonzero(t, as_tuple=True)", "return y[places].sum() + x[places]"),
            ("places = t != 0", "return y[places].sum() + x[places]"),
            "torch.nonzero(t, as_tuple=True)",
        ),
    )  # fmt: skip
    near_misses = (
        _near_miss(
            "a longer one, by all places", "return long[torch.where(m)]", at="torch.where(m)"
        ),
        _near_miss(
            "all places and another index", "return y[torch.where(m), 0]", at="torch.where(m)"
        ),
        _near_miss(
            "as many as there are dimensions", "places = torch.where(m)",
            "return x[places] / len(places)", at="torch.where(m)",
        ),
        _near_miss(
            "one of them", "places = torch.where(y > 0)", "return y[places].sum() + x[places[0]]",
            at="torch.where(y > 0)",
        ),
        _near_miss("in a column", "return y[m.nonzero()]", at="m.nonzero()"),
        _near_miss("calculated with", "places = m.nonzero().squeeze(1)", "return x[places + 1]"),
        _near_miss("given back", "places = m.nonzero().squeeze(1)", "return x[places], places"),
        _near_miss("a count", "places = m.nonzero().squeeze(1)", "return x / len(places)"),
        _near_miss(
            "one place would have no dimension", "places = m.nonzero().squeeze()",
            "return x[places]", at="m.nonzero()",
        ),
        _near_miss(
            "rows in a column", "places = m.nonzero()", "return y[places].sum(0)", at="m.nonzero()"
        ),
        _near_miss(
            "a dimension of its own", "places = m.nonzero()", "return x[places].sum(1)",
            at="m.nonzero()",
        ),
        _near_miss(
            "bound again", "places = m.nonzero().squeeze(1)", "places = t", "return x[places]"
        ),
        _near_miss(
            "the mask changes", "places = torch.where(m)[0]", "m[0] = True", "return x[places]",
            at="torch.where(m)",
        ),
        _near_miss(
            "another name of the mask changes", "places = torch.where(m)[0]", "other = m",
            "other[0] = True", "return x[places]", at="torch.where(m)",
        ),
        _near_miss("a longer one", "places = m.nonzero().squeeze(1)", "return long[places]"),
        _near_miss(
            "rows alone", "rows, columns = torch.where(y > 0)", "return y[rows, columns] + x[rows]",
            at="torch.where(y > 0)",
        ),
        _near_miss(
            "the other way round", "rows, columns = torch.where(y > 0)", "return y[columns, rows]",
            at="torch.where(y > 0)",
        ),
        _near_miss(
            "another tensor's", "rows, columns = torch.where(y > 0)", "return long[rows, columns]",
            at="torch.where(y > 0)",
        ),
        _near_miss("behind others", "places = m.nonzero().squeeze(1)", "return y[0, places]"),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        splice, names = Splice(site), []
        for node in walk(site.function.body):
            if isinstance(node, cst.Assign) and site.function_of(node) is site.function:
                found = _found(site, site.function, node)
                if found is not None and found.rewrite(splice):
                    names.append(found.name)
                    continue
                pair = _pair(site, site.function, node)
                if pair is not None and pair.rewrite(splice):
                    names.append(pair.names[0])
        for node in walk(site.function.body):
            if isinstance(node, cst.Subscript) and site.function_of(node) is site.function:
                places = _indexed(site, site.function, node)
                if places is not None:
                    places.in_index(splice)
                    names.append(code(places.mask))
        if names:
            yield splice.rewrite(
                f"index by the mask of `{names[0]}`", rank=14, prepares=True,
                # The same questions are asked of the mask.
                assumes=["same-questions"],
            )  # fmt: skip


@dataclasses.dataclass
class _Places:
    """A name for the places, what finds them, and whether they stand in a column, or whether it is
    a tuple for all dimensions of the mask.
    """

    site: Site
    function: cst.FunctionDef
    name: str
    found: cst.BaseExpression
    mask: cst.BaseExpression
    column: bool
    whole: bool = False

    def rewrite(self, splice: Splice) -> bool:
        """Make the changes, if all uses allow it."""
        edits: list[tuple[cst.CSTNode, str]] = []
        for node in self.site.places_of(self.name, self.function):
            if self.site.statement_of(node) is self.site.statement_of(self.found):
                continue
            edit = self._use(splice, node)
            if edit is None:
                return False
            edits += edit
        if not edits and not any(True for _ in self.site.places_of(self.name, self.function.body)):
            return False
        self.in_index(splice)
        for old, text in edits:
            splice.replace(old, text)
        return True

    def in_index(self, splice: Splice) -> None:
        """Put the mask where its places were found."""
        splice.replace(self.found, self._mask_text(splice))

    def _mask_text(self, splice: Splice) -> str:
        fact = self.site.fact(self.mask)
        text = splice.source_of(self.mask)
        if fact is not None and fact.dtype == "torch.bool":
            alone = len(self.mask.lpar) == 1 and "\n" not in text
            return text[1:-1].strip() if alone else text
        plain = isinstance(self.mask, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
        return f"{text} != 0" if plain else f"({text}) != 0"

    def _use(self, splice: Splice, node: cst.Name) -> list[tuple[cst.CSTNode, str]] | None:
        """What a use becomes: nothing where it stays as it is; None where it is no index."""
        site, holder = self.site, self.site.parent(node)
        if isinstance(holder, cst.Index):
            element = site.parent(holder)
            whole = site.parent(element) if element is not None else None
            if isinstance(whole, cst.Subscript) and len(whole.slice) == 1:
                return [] if self._takes_elements(whole) else None
            return None
        if self.whole:
            return None
        call = site.parent(holder) if isinstance(holder, cst.Arg) else None
        if isinstance(holder, cst.Attribute):
            call = site.parent(holder)
            counts = isinstance(call, cst.Call) and (
                (holder.attr.value == "numel" and not call.args)
                or (holder.attr.value == "size" and [code(arg) for arg in call.args] == ["0"])
            )
            if counts and isinstance(call, cst.Call):
                return self._asked(call)
            if holder.attr.value == "shape" and isinstance(call, cst.Subscript):
                first = [code(item.slice) for item in call.slice] == ["0"]
                return self._asked(call) if first else None
            return None
        if not isinstance(call, cst.Call):
            return None
        if code(call.func) == "len":
            return self._asked(call)
        return self._called(splice, call)

    def _takes_elements(self, whole: cst.Subscript) -> bool:
        """Whether a column takes elements of one dimension, for arithmetic with others."""
        if not self.fits(whole.value):
            return False
        if not self.column:
            return True
        fact = self.site.fact(whole.value)
        flat = fact is not None and fact.is_tensor and len(fact.shape or ()) == 1
        node: cst.CSTNode = whole
        holder = self.site.parent(node)
        while isinstance(holder, cst.BinaryOperation | cst.UnaryOperation):
            node, holder = holder, self.site.parent(holder)
        if isinstance(holder, cst.AssignTarget):
            return flat
        stored = holder.targets[0].target if isinstance(holder, cst.Assign) else None
        index = f"[{self.name}]"
        return flat and isinstance(stored, cst.Subscript) and code(stored).endswith(index)

    def fits(self, base: cst.BaseExpression) -> bool:
        """Whether a tensor has as many rows as the mask: places are within a longer one, too."""
        fact, mask = self.site.fact(base), self.site.fact(self.mask)
        if fact is None or mask is None or not fact.shape or not mask.shape:
            return False
        return fact.is_tensor and fact.shape[: len(mask.shape)] == mask.shape

    def _called(self, splice: Splice, call: cst.Call) -> list[tuple[cst.CSTNode, str]] | None:
        """``x.index_select(0, places)`` and ``x.index_copy_(0, places, new)`` as a statement."""
        match call:
            case cst.Call(
                func=cst.Attribute(value=base, attr=cst.Name("index_select")), args=[dim, _]
            ) if code(dim.value) == "0" and self.fits(base):
                return [(call, f"{splice.source_of(base)}[{self.name}]")]
            case cst.Call(
                func=cst.Attribute(value=base, attr=cst.Name("index_copy_")), args=[dim, _, new]
            ) if (
                code(dim.value) == "0"
                and self.fits(base)
                and isinstance(self.site.parent(call), cst.Expr)
            ):
                text = f"{splice.source_of(base)}[{self.name}] = {splice.source_of(new.value)}"
                return [(call, text)]
        return None

    def _asked(self, count: cst.CSTNode) -> list[tuple[cst.CSTNode, str]] | None:
        """A count of which only is asked whether it is none."""
        holder = self.site.parent(count)
        some = f"{self.name}.any()"
        match holder:
            case cst.Comparison(
                left=left, comparisons=[cst.ComparisonTarget(operator, cst.Integer(value="0"))]
            ) if left is count:
                if isinstance(operator, cst.Equal):
                    outer = self.site.parent(holder)
                    tight = isinstance(outer, cst.If | cst.While | cst.BooleanOperation)
                    return [(holder, f"not {some}" if tight else f"(not {some})")]
                if isinstance(operator, cst.GreaterThan | cst.NotEqual):
                    return [(holder, some)]
            case cst.If(test=test) | cst.IfExp(test=test) | cst.While(test=test) if test is count:
                return [(count, some)]
            case cst.UnaryOperation(operator=cst.Not()):
                return [(count, some)]
        return None


@dataclasses.dataclass
class _Pair:
    """Two names for the places in a mask of two dimensions: its rows and its columns."""

    site: Site
    function: cst.FunctionDef
    names: tuple[str, str]
    assign: cst.Assign
    mask: cst.BaseExpression

    def rewrite(self, splice: Splice) -> bool:
        """Make the changes, if both names are used for nothing but ``x[rows, columns]``."""
        wholes: list[cst.Subscript] = []
        own = set(walk(self.assign))
        for name in self.names:
            for node in self.site.places_of(name, self.function):
                if node in own:
                    continue
                index = self.site.parent(node)
                element = self.site.parent(index) if isinstance(index, cst.Index) else None
                whole = self.site.parent(element) if element is not None else None
                if not isinstance(whole, cst.Subscript) or not self._picks(whole):
                    return False
                wholes.append(whole)
        if not wholes:
            return False
        text = self._text(splice)
        fact = self.site.fact(self.mask)
        if isinstance(self.mask, cst.Name) and fact is not None and fact.dtype == "torch.bool":
            name = self.mask.value
            splice.remove(self.assign)
        else:
            name = fresh("hits", names_in(self.function))
            splice.replace(self.assign, f"{name} = {text}")
        for whole in dict.fromkeys(wholes):
            splice.replace(whole, f"{splice.source_of(whole.value)}[{name}]")
        return True

    def _text(self, splice: Splice) -> str:
        return _Places(
            self.site, self.function, "", self.assign.value, self.mask, column=False
        )._mask_text(splice)

    def _picks(self, whole: cst.Subscript) -> bool:
        """``x[rows, columns]`` of a tensor whose first dimensions are those of the mask."""
        if [code(element.slice) for element in whole.slice] != list(self.names):
            return False
        held, mask = self.site.fact(whole.value), self.site.fact(self.mask)
        if held is None or mask is None or held.shape is None or mask.shape is None:
            return False
        return held.is_tensor and held.shape[:2] == mask.shape


def _pair(site: Site, function: cst.FunctionDef, assign: cst.Assign) -> _Pair | None:
    """``rows, columns = torch.where(mask)``"""
    match assign.targets:
        case [
            cst.AssignTarget(
                target=cst.Tuple(
                    elements=[cst.Element(cst.Name(rows)), cst.Element(cst.Name(columns))]
                )
            )
        ] if rows != columns:
            pass
        case _:
            return None
    does = activity(function.body)
    if {rows, columns} & (does.captures | does.mutates):
        return None
    if not all(is_bound_once(site, function, name) for name in (rows, columns)):
        return None
    first = _places_of(site, _first_of(assign.value))
    if first is None or first[1]:
        return None
    mask = first[0]
    fact = site.fact(mask)
    if fact is None or not fact.is_tensor or len(fact.shape or ()) != 2:
        return None
    names = (rows, columns)
    return _Pair(site, function, names, assign, mask) if _stays(site, function, mask) else None


def _first_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """The first of the tensors that a call gives: ``torch.where(mask)[0]``."""
    zero = cst.SubscriptElement(slice=cst.Index(cst.Integer("0")))
    return cst.Subscript(node, [zero])


def _found(site: Site, function: cst.FunctionDef, assign: cst.Assign) -> _Places | None:
    match assign.targets:
        case [cst.AssignTarget(target=cst.Name(value=name))]:
            pass
        case _:
            return None
    if not is_bound_once(site, function, name) or name in activity(function.body).captures:
        return None
    found = _places_of(site, assign.value)
    whole = found is None
    found = found or _places_of(site, _first_of(assign.value))
    if found is None:
        return None
    mask, column = found
    fact = site.fact(mask)
    if fact is None or not fact.is_tensor or (len(fact.shape or ()) != 1 and not whole):
        return None
    if not _stays(site, function, mask):
        return None
    return _Places(site, function, name, assign.value, mask, column, whole)


def _indexed(site: Site, function: cst.FunctionDef, node: cst.Subscript) -> _Places | None:
    """``x[torch.where(mask)]``, of an ``x`` whose first dimensions are those of the mask."""
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=cst.Call() as call))]:
            found = _places_of(site, _first_of(call))
        case _:
            return None
    if found is None or found[1]:
        return None
    places = _Places(site, function, "", call, found[0], column=False, whole=True)
    return places if places.fits(node.value) else None


def _stays(site: Site, function: cst.FunctionDef, mask: cst.BaseExpression) -> bool:
    """Whether a mask may stand, by its name or another one, where its places were used."""
    fact = site.fact(mask)
    if not isinstance(mask, cst.Name) or fact is None or fact.dtype != "torch.bool":
        return isinstance(
            mask, cst.Name | cst.Comparison | cst.BinaryOperation | cst.UnaryOperation
        )
    # The name of the places becomes another one for the mask: nobody may change it.
    params = {param.name.value for param in params_of(function.params)}
    does = activity(function.body)
    if mask.value in does.mutates or (mask.value in does.writes & params):
        return False
    if any(_is_bool(site, function, name) for name in does.mutates):
        return False  # it may be the mask by another name
    return mask.value in params or is_bound_once(site, function, mask.value)


def _is_bool(site: Site, function: cst.FunctionDef, name: str) -> bool:
    facts = [site.fact(place) for place in site.places_of(name, function.body)]
    return any(fact is not None and fact.dtype == "torch.bool" for fact in facts)


def _places_of(site: Site, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool] | None:
    """The tensor whose places an expression finds, and whether they stand in a column."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(method)), args=args):
            given = [code(arg.value) for arg in args]
            if method == "nonzero" and not args:
                return inner, True
            if (method == "nonzero" or resolve(site.module, node.func) == "torch.argwhere") and (
                resolve(site.module, node.func) in ("torch.nonzero", "torch.argwhere")
                and len(args) == 1
            ):
                return args[0].value, True
            found = _places_of(site, inner)
            flat = (method, given) in (
                ("squeeze", ["1"]), ("squeeze", ["-1"]), ("view", ["-1"]), ("reshape", ["-1"]),
                ("flatten", []),
            )  # fmt: skip
            return (found[0], False) if found is not None and found[1] and flat else None
        case cst.Subscript(value=cst.Call() as call, slice=[cst.SubscriptElement(slice=index)]):
            if code(index) != "0":
                return None
            name = resolve(site.module, call.func)
            if name == "torch.where" and len(call.args) == 1:
                return call.args[0].value, False
            tuples = [
                arg for arg in call.args
                if arg.keyword is not None and arg.keyword.value == "as_tuple"
            ]  # fmt: skip
            if len(tuples) != 1 or code(tuples[0].value) != "True":
                return None
            rest = [arg for arg in call.args if arg is not tuples[0]]
            if name == "torch.nonzero" and len(rest) == 1:
                return rest[0].value, False
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "nonzero":
                return (call.func.value, False) if not rest else None
        case cst.Subscript(value=inner, slice=[first, second]):
            if code(first).strip(" ,") == ":" and code(second).strip(" ,") == "0":
                found = _places_of(site, inner)
                return (found[0], False) if found is not None and found[1] else None
    return None

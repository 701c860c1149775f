"""``self.total += loss.item()``: a number that is read from a tensor and only kept."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.tree import walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.settings import add_setting, entry_of
from gbfix.schema import Fact, Safety

from .numbers_used import NumbersUsed

_OPTION = "capture_scalar_outputs"
_SETTING = "torch._dynamo.config.capture_scalar_outputs = True"
_READS = words("item float int bool")


def _source(statement: str, setting: str = "") -> str:
    return f"""
import torch
{setting}

@torch.compile
def f(self, x, d):
    loss = x.mean()
    {statement}
    return loss
"""


_FACTS = {"x": tensor(3), "loss": tensor(), "loss.item()": scalar(1.0), "self.total": scalar(0.0)}
_FACTS |= {"self": Fact("module", "Net"), "self.seen": scalar(3), "self.losses": Fact("list")}


def _example(title: str, statement: str, at: str = "loss.item()") -> Example:
    after = _source(statement, f"\n{_SETTING}\n")
    return Example(_source(statement), after, at=at, facts=_FACTS, title=title)


def _near_miss(statement: str, why: str, setting: str = "", at: str = "loss.item()") -> NearMiss:
    return NearMiss(_source(statement, setting), at=at, why=why, facts=_FACTS)


class CaptureScalars(Codemod):
    """*What it does.*  Lets Dynamo keep reads of single values in the graph.

    ```python
    self.total += loss.item()
    ```
    stays as it is, and ``torch._dynamo.config.capture_scalar_outputs = True`` goes into the script
    that was started, after its imports.

    *When it applies.*  ``.item()`` (or ``float``, ``int`` of a tensor) breaks the graph, and its
    value is only kept: assigned to an attribute or an entry of a dict, added to a float, handed to
    a method of an object that keeps it, or returned.

    *Fix safety.*  Safe where the program's functions only keep such values: they are read and kept
    as before, when the graph has run.  The setting holds for the whole program, so that it is
    unsafe where another value may be used, as a size for one.

    *Refuses.*  Values that decide something, that are printed or formatted (see ``print-to-op``),
    and what grows: a list, or an integer of a module, is guarded by its length or value, so that
    every call would compile anew.
    """

    name = "capture-scalars"
    codes = ("GB0124",)
    examples = (
        _example("added to a float", "self.total += loss.item()"),
        _example("an attribute", "self.last = loss.item()"),
        _example("a dict that is returned", "logs = {'l': loss.item()}; return x, logs"),
        _example("an entry", "d['loss'] = float(loss)", at="float(loss)"),
    )
    near_misses = (
        _near_miss("logs = {'l': loss.item()}; d.update(logs)", "goes into a call"),
        _near_miss("self.losses.append(loss.item())", "its length is guarded"),
        _near_miss("self.seen += loss.item()", "an integer of a module is guarded"),
        _near_miss("if loss.item() > 0: x = x + 1", "decides"),
        _near_miss("n = loss.item()", "may decide later"),
        _near_miss("print(loss.item())", "printed"),
        _near_miss("self.text = f'{loss.item()}'", "formatted"),
        _near_miss("self.big = loss.item() > 3", "compared"),
        _near_miss("self.x = x[: loss.item()]", "a size"),
        _near_miss("self.last = loss.item()", "set already", f"\n{_SETTING}\n"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if not _only_kept(site):
            return
        entry = entry_of(site)
        # A library may speak of the option, or set it where nobody goes.
        if entry is None or any(_OPTION in text for text in (site.source, entry.source)):
            return
        edit = entry.edit()
        if add_setting(entry, edit, _SETTING):
            yield edit.rewrite(
                "let Dynamo keep single values in the graph (capture_scalar_outputs)",
                rank=55,
                safety=Safety.UNSAFE if _other_reads(site) else Safety.SAFE,
                notes=("the setting holds for everything that the program compiles",),
            )


def _only_kept(site: Site) -> bool:
    """Whether the value, or what arithmetic makes of it, is only kept or returned."""
    value = site.node
    if not isinstance(value, cst.Call) or not _reads(value):
        return False
    for parent in site.ancestors(site.node):
        if isinstance(parent, cst.BinaryOperation | cst.UnaryOperation):
            if isinstance(getattr(parent, "operator", None), cst.Not):
                return False
            value = parent
            continue
        if isinstance(parent, cst.Assign):
            targets = [target.target for target in parent.targets]
            local = isinstance(value, cst.Dict | cst.List | cst.Tuple) and _only_returned(
                site, targets
            )
            return local or all(_is_kept_at(site, target) for target in targets)
        if isinstance(parent, cst.AugAssign):
            return _is_kept_at(site, parent.target) and _is_float(site, parent.target)
        if isinstance(parent, cst.Return):
            return True
        if isinstance(parent, cst.Tuple | cst.List | cst.Dict):
            value = parent
        elif not isinstance(parent, cst.Element | cst.DictElement):
            return False
    return False


def _only_returned(site: Site, targets: list[cst.BaseAssignTargetExpression]) -> bool:
    """Whether a collection gets a local name, is filled by key, and is returned."""
    match targets:
        case [cst.Name(name) as target] if site.function is not None:
            places = [place for place in site.places_of(name, site.function) if place is not target]
        case _:
            return False
    return bool(places) and all(_returns(site, place) for place in places)


def _returns(site: Site, place: cst.CSTNode) -> bool:
    holder = site.parent(place)
    if isinstance(holder, cst.Subscript) and holder.value is place:
        return isinstance(site.parent(holder), cst.AssignTarget)
    while isinstance(holder, cst.Tuple | cst.List | cst.Dict | cst.Element | cst.DictElement):
        holder = site.parent(holder)
    return isinstance(holder, cst.Return)


def _is_float(site: Site, target: cst.BaseExpression) -> bool:
    """Whether what is added to is a float: as seen, or as everybody in the file sets it."""
    fact = site.fact(target)
    if fact is not None:
        return fact.kind == "float"
    if not isinstance(target, cst.Attribute):
        return False
    found = re.findall(rf"\.{target.attr.value}\s*=\s*([^=\n]+)", site.source)
    return bool(found) and all(re.fullmatch(r"-?\d+\.\d*", text.strip()) for text in found)


def _other_reads(site: Site) -> bool:
    """Whether a function of the program may use such a value as a size or an index.

    Of a size that it has not seen, Dynamo assumes that it does not broadcast.
    """
    names = {frame.function.rpartition(".")[2] for frame in site.graph_break.frames}
    try:
        used = NumbersUsed((site.source, *site.sources.values()), names)
    except (SyntaxError, ValueError):
        return True
    fact, span = site.fact(site.node), site.span(site.node)
    place = (site.source, span.line, span.column)
    if fact is not None and fact.kind == "float":
        return used.sizes(place)
    leaves = next(site.callers(), None) is None
    return used.sizes(place if leaves else None, leaves=leaves)


def _reads(node: cst.Call) -> bool:
    func = node.func
    last = func.attr if isinstance(func, cst.Attribute) else func
    return isinstance(last, cst.Name) and last.value in _READS


def _is_kept_at(site: Site, target: cst.BaseExpression) -> bool:
    """An attribute or entry that the function itself never reads otherwise."""
    if not isinstance(target, cst.Attribute | cst.Subscript) or site.function is None:
        return False
    if not isinstance(target, cst.Attribute):
        return all(isinstance(node, cst.Call) is False for node in walk(target))
    name = target.attr.value
    mentions = [
        node
        for node in walk(site.function.body)
        if isinstance(node, cst.Attribute) and node.attr.value == name
    ]
    return len(mentions) == 1

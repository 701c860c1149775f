"""Statements that only make what a check or an effect reads, and that no graph can hold.

``found = torch.unique(labels)``, ``count = bad.sum().item()``: where nothing but the check that
follows reads the name, the statement moves into the operator with the check.
"""

from __future__ import annotations

import dataclasses
import re

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import live_after
from gbfix.analysis.torch_names import DECIDED_BY_DATA
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Site

from .effect_operator import Effect

#: Calls whose result no graph holds, or whose size the data decides.
_UNFIT = DECIDED_BY_DATA | words("int float bool numpy")


@dataclasses.dataclass(frozen=True)
class Feeding:
    """Lines that stand before a check, with the name that each binds and its value."""

    lines: tuple[cst.SimpleStatementLine, ...] = ()
    bound: tuple[tuple[str, cst.BaseExpression], ...] = ()

    def into(self, site: Site, effect: Effect) -> Effect:
        """The effect with these statements before it, in the operator."""
        count = len(self.bound)
        template = re.sub(
            r"BODY(\d+)", lambda found: f"BODY{int(found[1]) + count}", effect.template
        )
        lines = [f"{name} = BODY{index}" for index, (name, _) in enumerate(self.bound)]
        values = [value for _, value in self.bound]
        kept = dict(effect.kept)
        for name, _ in self.bound:
            for node in (*values, *effect.expressions):
                kept |= {place: place for place in site.places_of(name, node)}
        return dataclasses.replace(
            effect,
            expressions=[*values, *effect.expressions],
            kept=kept,
            template="\n    ".join([*lines, template]),
            feeding=self.lines,
        )


def feeding_of(site: Site, check: cst.BaseStatement) -> Feeding:
    """The statements directly before the check that may move with it, from the first unfit one."""
    if site.function is None:
        return Feeding()
    lines: list[cst.SimpleStatementLine] = []
    bound: list[tuple[str, cst.BaseExpression]] = []
    block = list(site.block_of(check))
    after = live_after(site.function, check)
    outside = {
        item.name.value
        for node in walk(site.function.body)
        if isinstance(node, cst.Global | cst.Nonlocal)
        for item in node.names
    }
    inside: list[cst.CSTNode] = [check]
    for line in reversed(block[: block.index(check)]):
        match line:
            case cst.SimpleStatementLine(
                body=[
                    cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value)
                ]
            ):
                pass
            case _:
                break
        places = {part for node in (*inside, line) for part in site.places_of(name, node)}
        others = any(part not in places for part in site.places_of(name, site.function))
        if name in after or others or name in outside or name in {known for known, _ in bound}:
            break
        if comments_in(value) or line.trailing_whitespace.comment:
            break
        lines.insert(0, line)
        bound.insert(0, (name, value))
        inside.append(line)
    while bound and not is_unfit(site, bound[0][1]):
        del lines[0], bound[0]
    return Feeding(tuple(lines), tuple(bound))


def _assigned(line: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """Of ``name = value`` alone on its line."""
    match line:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[target], value=value)]):
            match target.target:
                case cst.Name(value=name):
                    return name, value
    return None


def check_after(site: Site) -> cst.BaseStatement | None:
    """The ``if`` or ``assert`` that a plain assignment at the site feeds."""
    block = list(site.block_of(site.statement))
    if site.statement not in block:
        return None
    for line in block[block.index(site.statement) :]:
        match line:
            case cst.If() | cst.SimpleStatementLine(body=[cst.Assert()]):
                fed = feeding_of(site, line)
                return line if site.statement in fed.lines else None
            case cst.SimpleStatementLine(body=[cst.Assign()]):
                continue
        return None
    return None


def is_unfit(site: Site, value: cst.CSTNode) -> bool:
    """Whether no graph holds the value: a number that data decides, or a size that it decides."""
    for node in walk(value):
        match node:
            case cst.Call(func=cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name))):
                if name in _UNFIT:
                    return True
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
                fact = site.fact(index)
                if fact is not None and fact.is_tensor and fact.dtype == "torch.bool":
                    return True
    return False

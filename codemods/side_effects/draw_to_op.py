"""A number that numpy or Python draws, and that decides something, drawn by an operator."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar
from gbfix.schema import Fact

from ..wrap.operator_text import define, namespace, operator_name, place, torch_alias

#: Draws of one float in float64, and how many numbers they may be given.
_DRAWS = {
    "numpy.random.uniform": (0, 2),
    "numpy.random.random": (0,),
    "numpy.random.random_sample": (0,),
    "numpy.random.rand": (0,),
    "random.random": (0,),
    "random.uniform": (2,),
}
_COMPARES = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_DRAW = "np.random.uniform(0, 1)"
_SKIPS = "skip = self.training and (chance < self.rate)"
_FACTS = {
    "self.training": scalar(False),
    "self.rate": scalar(0.1),
    "chance": Fact("float", "float"),
    "chance < self.rate": scalar(False),
}


def _source(
    draw: str = _DRAW, skips: str = _SKIPS, test: str = "not skip", more: str = "return x"
) -> str:
    return f"""import random

import numpy as np
import torch


def f(self, x):
    for layer in self.layers:
        chance = {draw}
        {skips}
        if {test}:
            x = layer(x)
    {more}
"""


def _operator(draw: str, name: str) -> str:
    return f"""@torch.library.custom_op("example::{name}", mutates_args=())
def {name}(anchor: torch.Tensor) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor({draw}, dtype=torch.float64, device="cpu")


{name}.register_fake(lambda anchor: torch.empty((), dtype=torch.float64, device="cpu"))
{name}.register_effect(torch.library.EffectType.ORDERED)


def f("""


def _near_miss(why: str, at: str = _DRAW, **parts: str) -> NearMiss:
    return NearMiss(_source(**parts), at=at, why=why, facts=_FACTS)


class DrawToOp(Codemod):
    """*What it does.*  Lets an operator draw a number that numpy or ``random`` drew.

    ```python
    chance = np.random.uniform(0, 1)
    if not (self.training and chance < self.layerdrop):
        x = layer(x)
    ```
    becomes ``chance = draw_forward(torch.empty(0))``, a tensor in which the operator hands on what
    it drew.  Where the number does not count, in evaluation, the draw is no break any more; where
    it does, the question about it is a question about a tensor, for which other codemods exist.

    *When it applies.*  A name is bound to one draw between written-out bounds, and is only compared
    with numbers that the program holds, in a test (or for a name that is only tested).

    *Fix safety.*  Safe: the same generator draws the same numbers in the same order, also where
    they do not count, and a comparison of float64 answers alike.

    *Refuses.*  Draws of several numbers, of integers and of other distributions, other uses of the
    number, and names that inner functions read.
    """

    name = "draw-to-op"
    codes = ("data-dependent-guard", "GB0033", "GB0007", "GB0059", "GB0298", "GB0170")

    examples = (
        Example(
            _source(),
            _source("draw_f(torch.empty(0))").replace("def f(", _operator(_DRAW, "draw_f")),
            at=_DRAW,
            code="data-dependent-guard",
            facts=_FACTS,
            title="layers that are left out by chance",
        ),
        Example(
            _source("random.random()", "pass", "not self.training or chance > 0.5"),
            _source("draw_f(torch.empty(0))", "pass", "not self.training or chance > 0.5").replace(
                "def f(", _operator("random.random()", "draw_f")
            ),
            at="random.random()",
            code="GB0007",
            facts=_FACTS,
            title="asked about at once",
        ),
    )
    near_misses = (
        _near_miss("an array of numbers", "np.random.rand(3)", draw="np.random.rand(3)"),
        _near_miss("an integer", "np.random.randint(3)", draw="np.random.randint(3)"),
        _near_miss(
            "bounds that may change",
            "np.random.uniform(0, self.rate)",
            draw="np.random.uniform(0, self.rate)",
        ),
        _near_miss("the number is used", more="return x * chance"),
        _near_miss("the answer is used", more="return x, skip"),
        _near_miss("compared with what was not seen", skips="skip = chance < other"),
        _near_miss("compared for equality", skips="skip = chance == self.rate"),
        _near_miss("the answer of one name goes into a number", skips="skip = 1 + (chance < 0.5)"),
        _near_miss("a name of an inner function", more="return lambda: chance"),
        _near_miss("bound twice", skips="chance = 0.5; skip = chance < self.rate"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        for line in walk(site.function.body):
            if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
                continue
            match line.body[0]:
                case cst.Assign(
                    targets=[cst.AssignTarget(cst.Name() as name)], value=cst.Call() as call
                ) if _is_draw(site, call):
                    pass
                case _:
                    continue
            if not _concerns(site, line, name.value) or not _is_only_asked(site, name):
                continue
            edit = site.edit()
            torch = torch_alias(site, edit)
            operator = operator_name(site, f"draw_{site.function.name.value}")
            float64 = f'dtype={torch}.float64, device="cpu"'
            text = f'''@{torch}.library.custom_op("{namespace(site)}::{operator}", mutates_args=())
def {operator}(anchor: {torch}.Tensor) -> {torch}.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return {torch}.tensor({code(call)}, {float64})


{operator}.register_fake(lambda anchor: {torch}.empty((), {float64}))
{operator}.register_effect({torch}.library.EffectType.ORDERED)
'''
            place(site, edit, define(site, text))
            edit.replace(call, cst.parse_expression(f"{operator}({torch}.empty(0))"))
            yield edit.rewrite(
                f"draw `{name.value}` in a custom operator",
                rank=40,
                notes=("CUDA graphs do without a graph that holds a tensor of the CPU",),
            )
            return


def _is_draw(site: Site, call: cst.Call) -> bool:
    counts = _DRAWS.get(resolve(site.module, call.func) or "")
    if counts is None or len(call.args) not in counts or comments_in(call):
        return False
    root = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    if site.function is None or not isinstance(root, cst.Name):
        return False
    if root.value in function_scope(site.function).locals:
        return False  # imported here: the operator would not see it
    return all(
        not arg.star and arg.keyword is None and isinstance(arg.value, cst.Integer | cst.Float)
        for arg in call.args
    )


def _concerns(site: Site, line: cst.SimpleStatementLine, name: str) -> bool:
    """Whether the break is the draw, or a question about the number."""
    if site.statement is line:
        return True
    return (
        isinstance(site.statement, cst.SimpleStatementLine)
        and name in activity(site.statement).reads
    )


def _is_only_asked(site: Site, name: cst.Name) -> bool:
    """Whether the number is only compared with numbers, and the answers are only asked for."""
    uses = _uses(site, name)
    if not uses:
        return False
    for use in uses:
        comparison = site.parent(use)
        if isinstance(comparison, cst.ComparisonTarget):
            comparison = site.parent(comparison)
        if not isinstance(comparison, cst.Comparison) or len(comparison.comparisons) != 1:
            return False
        target = comparison.comparisons[0]
        other = target.comparator if comparison.left is use else comparison.left
        fact = site.fact(other)
        number = isinstance(other, cst.Integer | cst.Float) or (
            fact is not None and fact.kind in ("int", "float") and fact.type == fact.kind
        )
        # What an object holds was not seen where the question was not asked, as in evaluation.
        number = number or (fact is None and (dotted(other) or "").startswith("self."))
        if not number or not isinstance(target.operator, _COMPARES):
            return False
        if not _is_asked(site, comparison):
            return False
    return True


def _uses(site: Site, name: cst.Name) -> list[cst.Name]:
    """Where the name is read; nothing where it is bound again, or read by an inner function."""
    assert site.function is not None
    if name.value in activity(site.function.body).captures:
        return []
    found = []
    for node in walk(site.function):
        if not isinstance(node, cst.Name) or node.value != name.value or node is name:
            continue
        holder = site.parent(node)
        if isinstance(holder, cst.Attribute) and holder.attr is node:
            continue
        if isinstance(holder, cst.Arg) and holder.keyword is node:
            continue
        if not isinstance(
            holder,
            cst.Comparison | cst.ComparisonTarget | cst.UnaryOperation | cst.BooleanOperation
            | cst.If | cst.While | cst.IfExp,
        ):  # fmt: skip
            return []
        found.append(node)
    return found


def _is_asked(site: Site, node: cst.CSTNode) -> bool:
    """Whether only the truth of a value counts."""
    parent = site.parent(node)
    match parent:
        case cst.If() | cst.While() | cst.IfExp():
            return parent.test is node
        case cst.BooleanOperation():
            return _is_asked(site, parent)
        case cst.UnaryOperation(operator=cst.Not()):
            return True
        case cst.Assign(targets=[cst.AssignTarget(cst.Name() as name)]):
            uses = _uses(site, name)
            return bool(uses) and all(_is_asked(site, use) for use in uses)
    return False

"""``if draw < chance``: a chance of zero is decided in Python, and the draw is not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import definitely_bound_before
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor

from .refusal import Refusal
from .values import Values


class ZeroChance(Codemod):
    """Decides in Python that something with a chance of zero does not happen.

    **What it does**

    ``if draw < self.layerdrop:`` becomes ``if self.layerdrop > 0 and draw < self.layerdrop:``, so
    that Dynamo reads the number, and never the draw.  The draw itself stays, and with it all random
    numbers that come after it: a check that cannot fail keeps it in the compiled graph.

    **When it applies**

    ``draw`` is one number of ``torch.rand``, bound once and only compared; the chance is a Python
    number, and zero (or less) in the recorded calls.  Layer drop in transformers is the usual case.

    **Fix safety**

    ``torch.rand`` gives numbers from 0 up to 1, so a draw is below the chance only where the chance
    is above zero.  With such a chance the program still breaks at this place.

    **Refuses**

    Draws of another kind, of several numbers, changed afterwards or used otherwise; ``<=``, which
    holds for a draw of exactly zero; comparisons that are kept rather than decided on.
    """

    name = "zero-chance"
    codes = ("GB0170", "data-dependent-guard")
    examples = (
        Example(
            """
            import torch

            def f(self, x):
                for layer in self.layers:
                    # LayerDrop
                    if self.training:
                        draw = torch.rand([])
                        if draw < self.layerdrop:  # skip the layer
                            continue
                    x = layer(x)
                return x
            """,
            """
            import torch

            def f(self, x):
                for layer in self.layers:
                    # LayerDrop
                    if self.training:
                        draw = torch.rand([])
                        # Keeps the draw where it is compiled, and so the random numbers after it.
                        torch._assert_async(draw >= 0, "torch.rand gives no number below 0")
                        if self.layerdrop > 0 and draw < self.layerdrop:  # skip the layer
                            continue
                    x = layer(x)
                return x
            """,
            at="draw < self.layerdrop",
            facts={"self.layerdrop": scalar(0.0), "draw": tensor()},
        ),
        Example(
            """
            from torch import rand

            def f(self, x, chance):
                draw = rand(1, device=x.device)
                skip = True if self.training and (chance > draw) else False
                return x if skip else x + 1
            """,
            """
            from torch import rand
            import torch

            def f(self, x, chance):
                draw = rand(1, device=x.device)
                # Keeps the draw where it is compiled, and so the random numbers after it.
                torch._assert_async(draw >= 0, "torch.rand gives no number below 0")
                skip = True if self.training and (chance > 0 and chance > draw) else False
                return x if skip else x + 1
            """,
            at="chance > draw",
            facts={"chance": scalar(0), "draw": tensor(1), "x": tensor(3)},
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"import torch\n\ndef f(self, x, chance):\n    {before}\n    {test}\n"
            f"        x = x + 1\n    return x{after}\n",
            at=at,
            why=why,
            facts={"chance": scalar(value), "draw": fact, "x": tensor(3)},
        )
        for before, test, at, value, fact, after, why in (
            ("draw = torch.rand([])", "if draw < chance:", "draw < chance", 0.1, tensor(), "",
             "the chance is not zero: the draw decides"),
            ("draw = torch.rand([])", "if draw <= chance:", "draw <= chance", 0.0, tensor(), "",
             "a draw may be exactly zero"),
            ("draw = torch.rand([])", "if chance < draw:", "chance < draw", 0.0, tensor(), "",
             "nearly always true"),
            ("draw = torch.randn([])", "if draw < chance:", "draw < chance", 0.0, tensor(), "",
             "half of these draws are below zero"),
            ("draw = torch.rand(2)", "if draw < chance:", "draw < chance", 0.0, tensor(2), "",
             "the truth of two numbers is an error"),
            ("draw = torch.rand([], dtype=chance)", "if draw < chance:", "draw < chance", 0.0,
             tensor(), "", "of a dtype that may have no order"),
            ("draw = torch.rand([]) - 1", "if draw < chance:", "draw < chance", 0.0, tensor(), "",
             "no plain draw"),
            ("draw = torch.rand([])\n    draw -= 1", "if draw < chance:", "draw < chance", 0.0,
             tensor(), "", "changed afterwards"),
            ("draw = torch.rand([])\n    draw.sub_(1)", "if draw < chance:", "draw < chance", 0.0,
             tensor(), "", "changed in place"),
            ("draw = torch.rand([])\n    self.shift(draw)", "if draw < chance:", "draw < chance",
             0.0, tensor(), "", "handed to code that may change it"),
            ("draw = torch.rand([])", "if draw < chance:", "draw < chance", 0.0, tensor(), ", draw",
             "used for something else, too"),
            ("if self.training:\n        draw = torch.rand([])\n    else:\n        draw = x.sum()",
             "if draw < chance:", "draw < chance", 0.0, tensor(), "", "bound in two places"),
            ("if self.training:\n        draw = torch.rand([])", "if draw < chance:",
             "draw < chance", 0.0, tensor(), "", "not bound on every path"),
            ("draw = torch.rand([])", "for _ in [draw < chance]:", "draw < chance", 0.0, tensor(),
             "", "the comparison is kept, and is a tensor"),
            ("draw = torch.rand([])", "if bool(draw < chance):", "draw < chance", 0.0, tensor(),
             "", "handed to a call, which may tell a tensor from a bool"),
            ("draw = torch.rand([])", "if draw < self.chance():", "draw < self.chance()", 0.0,
             tensor(), "", "the chance is computed, once or twice"),
            ("draw = torch.rand([])", "if not draw < chance:", "draw < chance", 0.0, tensor(), "",
             "a `not` that would bind to the first part only"),
            ("draw = torch.rand([])", "if 0 < draw < chance:", "0 < draw < chance", 0.0, tensor(),
             "", "more than one comparison"),
        )
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        try:
            yield _rewrite(site)
        except Refusal:
            return


def _rewrite(site: Site) -> Rewrite:
    test, values = site.node, Values(site)
    if not isinstance(test, cst.Comparison) or not _is_decided_on(site, test):
        raise Refusal("")
    draw, chance = _sides(test)
    fact = site.fact(chance)
    if fact is None or fact.kind not in ("int", "float") or not isinstance(fact.value, int | float):
        raise Refusal("")
    if dotted(chance) is None or not values.effects(chance).pure or not fact.value <= 0:
        raise Refusal("")
    asked = f"{code(chance)} > 0"
    if asked in (
        code(node.left) for node in site.ancestors(test) if isinstance(node, cst.BooleanOperation)
    ):
        raise Refusal("")
    home = _home(site, draw)
    check = cst.parse_statement(
        f'{values.torch}._assert_async({draw.value} >= 0, "torch.rand gives no number below 0")'
    )
    assert isinstance(check, cst.SimpleStatementLine)
    why = "# Keeps the draw where it is compiled, and so the random numbers after it."
    edit = site.edit()
    edit.insert_after(
        home, check.with_changes(leading_lines=[cst.EmptyLine(comment=cst.Comment(why))])
    )
    plain = test.with_changes(lpar=(), rpar=())
    both = cst.parse_expression(f"{asked} and {code(plain)}")
    edit.replace(test, both.with_changes(lpar=test.lpar, rpar=test.rpar))
    if values.torch_missing:
        edit.add_import("torch")
    return edit.rewrite(
        "decide a chance of zero in Python",
        notes=[f"With `{code(chance)}` above 0 the graph still breaks here."],
        rank=10,
        assumes=["one-sided"],
    )


def _is_decided_on(site: Site, test: cst.Comparison) -> bool:
    """Whether nothing but the truth of the comparison is used."""
    child: cst.CSTNode = test
    for parent in site.ancestors(test):
        match parent:
            case cst.If() | cst.IfExp() | cst.While() | cst.Assert():
                return parent.test is child
            case cst.BooleanOperation():
                child = parent
            case cst.UnaryOperation(operator=cst.Not()) if test.lpar or child is not test:
                child = parent
            case _:
                return False
    return False


def _sides(test: cst.Comparison) -> tuple[cst.Name, cst.BaseExpression]:
    """The draw and the chance of ``draw < chance``, or `Refusal`."""
    if comments_in(test) or len(test.comparisons) != 1:
        raise Refusal("")
    (target,) = test.comparisons
    match target.operator:
        case cst.LessThan():
            draw, chance = test.left, target.comparator
        case cst.GreaterThan():
            draw, chance = target.comparator, test.left
        case _:
            raise Refusal("")
    if not isinstance(draw, cst.Name):
        raise Refusal("")
    return draw, chance


def _home(site: Site, draw: cst.Name) -> cst.SimpleStatementLine:
    """The line that draws: the only one that binds the name, which is else compared only."""
    if site.function is None or draw.value in parameters_of(site.function.params):
        raise Refusal("")
    name, does = draw.value, activity(site.function.body)
    if name in does.captures | does.globals | does.nonlocals | does.deletes:
        raise Refusal("")
    if name not in definitely_bound_before(site.function, site.statement):
        raise Refusal("")
    homes: list[cst.SimpleStatementLine] = []
    for node in site.places_of(name, site.function.body):
        holder = site.parent(node)
        if isinstance(holder, cst.AssignTarget):
            homes.append(_drawing(site, holder))
        elif not isinstance(holder, cst.Comparison | cst.ComparisonTarget):
            raise Refusal("")
    if len(homes) != 1:
        raise Refusal("")
    return homes[0]


def _drawing(site: Site, target: cst.AssignTarget) -> cst.SimpleStatementLine:
    """``draw = torch.rand([])`` on a line of its own, or `Refusal`."""
    assign = site.parent(target)
    line = site.parent(assign) if assign is not None else None
    match assign:
        case cst.Assign(targets=[_], value=cst.Call(func=func, args=[size, *others])):
            one = not size.star and size.keyword is None and code(size.value) in _ONE
            plain = all(arg.keyword is not None and arg.keyword.value == "device" for arg in others)
            drawn = resolve(site.module, func) == "torch.rand"
            alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
            if one and plain and drawn and alone:
                return cast(cst.SimpleStatementLine, line)
    raise Refusal("")


#: Sizes of one number.
_ONE = words("[] () 1 [1] (1,)")

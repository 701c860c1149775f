"""Advice for tests on data that stand where no rewrite is right."""

from __future__ import annotations

import itertools

import libcst as cst

from gbfix.codemod import Site

from .texts import number_of


def elsewhere(site: Site) -> str:
    """Advice for a test that belongs to no `if` statement; "" where there is none."""
    line = site.span(site.node).line
    chain: list[cst.CSTNode] = [site.node, *site.ancestors(site.node)]
    chosen: cst.IfExp | None = None
    if _counts_some(site.node):
        return (
            f"Data decides which items line {line} counts. Add up the tests themselves:"
            " `torch.stack([test(x) for x in xs]).sum()` is the number as a tensor, good for"
            " arithmetic with tensors."
        )
    for child, parent in itertools.pairwise(chain):
        match parent:
            case cst.CompIf():
                return (
                    f"How many items the comprehension on line {line} keeps depends on data, and a"
                    " list in a graph has one length. Keep all of them beside a mask"
                    " (`keep = torch.stack([test(x) for x in xs])`) and let it weigh them"
                    " (`(torch.stack(xs) * keep[:, None]).sum(0) / keep.sum()`), or filter outside"
                    " of the compiled function."
                )
            case cst.MatchCase() if child is parent.guard:
                return (
                    f"Data decides about the guard on line {line}, and with it about all cases"
                    " below. Let the pattern stand alone, and choose in its body: `case kind:"
                    " y = torch.where(test, a, b)`, or torch.cond."
                )
            case cst.Match():
                return (
                    f"Python compares the tensor with every case of the `match` on line {line}."
                    " Write `if x == 1: ... elif x == 2: ...`, which gbfix can rewrite."
                )
            case cst.IfExp():
                chosen = parent if chosen is None and child is parent.test else chosen
            case cst.Lambda() if chosen is not None:
                return (
                    f"The lambda on line {line} chooses by data. Make it a `def` with an `if`,"
                    " which gbfix can rewrite, or choose in it with `torch.where(test, a, b)` (both"
                    " are computed) or `torch.cond(test, lambda: a, lambda: b)`."
                )
            case cst.BaseStatement():
                return "" if chosen is None else _of_arms(chosen, line)
    return ""


def _counts_some(node: cst.CSTNode) -> bool:
    """``sum(1 for x in xs if test)``."""
    match node:
        case cst.Call(
            func=cst.Name(value="sum"),
            args=[cst.Arg(value=cst.GeneratorExp(elt=cst.Integer()) | cst.ListComp() as made)],
        ):
            return bool(made.for_in.ifs)
    return False


def _of_arms(node: cst.IfExp, line: int) -> str:
    """What to do about a conditional expression between texts, or between numbers."""
    arms = (node.body, node.orelse)
    if all(isinstance(arm, cst.BaseString) for arm in arms):
        return (
            f"Data chooses a text on line {line}, and a graph has no texts: give the test as a"
            " tensor, and choose the text outside of the compiled function."
        )
    if all(number_of(arm) is not None for arm in arms):
        return (
            f"Data chooses a number on line {line}. Where arithmetic with a tensor uses it,"
            " `torch.where(test, a, b)` is as good; where a function takes a number, select between"
            " its results: `torch.where(test, function(x, a), function(x, b))`."
        )
    return ""


#: A coroutine is not seen from inside: Dynamo follows it, and it was not recorded.
IN_COROUTINE = (
    "A coroutine runs in pieces. Put what tensors decide into a plain function, compile that one,"
    " and let the coroutine call it."
)


def instead(kind: str) -> str:
    """What could stand for a branch's result that is no tensor; "" where nothing comes to mind."""
    return _INSTEAD.get(kind, "")


_INSTEAD = {
    "none": (
        "; give a tensor in both branches (zeros where there is none), or move what uses it into"
        " the branch"
    ),
    "int": (
        "; where only arithmetic uses it, `torch.where(test, a, b)` gives the number as a tensor;"
        " a size or a bound has to be known before: take the largest, and mask the rest"
    ),
    "float": "; where only arithmetic uses it, `torch.where(test, a, b)` gives it as a tensor",
    "str": "; choose the text outside of the compiled function",
    "list": (
        "; a list in a graph has one length: append in both branches (`torch.zeros_like(x)` where"
        " there is nothing to append), and keep the tests beside it to tell which count"
    ),
    "dict": ("; a dict in a graph has the same keys on both paths: set the key in both branches"),
}

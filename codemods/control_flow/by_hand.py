"""Advice for tests on data that stand where no rewrite is right."""

from __future__ import annotations

import itertools

import libcst as cst

from gbfix.codemod import Site


def elsewhere(site: Site) -> str:
    """What to do where the test that broke is that of no statement; "" where there is no advice."""
    line = site.span(site.node).line
    chain: list[cst.CSTNode] = [site.node, *site.ancestors(site.node)]
    chosen = False
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
            case cst.IfExp():
                chosen = chosen or child is parent.test
            case cst.Lambda() if chosen:
                return (
                    f"The lambda on line {line} chooses by data. Make it a `def` with an `if`,"
                    " which gbfix can rewrite, or choose in it with `torch.where(test, a, b)` (both"
                    " are computed) or `torch.cond(test, lambda: a, lambda: b)`."
                )
            case cst.BaseStatement():
                return ""
    return ""


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

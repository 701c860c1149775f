"""Which nested functions count as kept: branches of torch.cond are called where they stand."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest
from gbfix_codemods.control_flow.closures import captured_for_later

from gbfix.codemod import NearMiss, example_site

CALLED_AT_ONCE = {
    "lambdas of a cond": """
        y = torch.cond(p, lambda: x + 1, lambda: x.clone())
    """,
    "functions that the next statement hands to cond": """
        def taken():
            return x + 1

        def otherwise():
            return x.clone()

        y = torch.cond(p, taken, otherwise)
    """,
    "functions that the next statement hands to cond under a Python test": """
        def taken():
            return x + 1

        def otherwise():
            return x.clone()

        if flag:
            y = torch.cond(p, taken, otherwise)
        else:
            y = otherwise()
    """,
    "a cond in a branch of a cond": """
        y = torch.cond(p, lambda: torch.cond(q, lambda: x, lambda: -x), lambda: x.clone())
    """,
    "a while_loop": """
        y = torch.while_loop(lambda y: (y < x).all(), lambda y: (y + x,), (p,))
    """,
}
KEPT = {
    "a lambda in a name": """
        y = lambda: x + 1
    """,
    "a lambda for another function": """
        y = keep(p, lambda: x + 1, lambda: x.clone())
    """,
    "a cond of something else": """
        y = thing.cond(p, lambda: x + 1, lambda: x.clone())
    """,
    "an operand": """
        y = torch.cond(p, keep, keep, (lambda: x,))
    """,
    "a branch that gives a closure": """
        y = torch.cond(p, lambda: lambda: x + 1, lambda: x.clone())
    """,
    "a branch that gives a generator": """
        y = torch.cond(p, lambda: (i for i in x), keep)
    """,
    "a function used twice": """
        def taken():
            return x + 1

        y = torch.cond(p, taken, taken)
        keep(taken)
    """,
    "a function that is called after something else": """
        def taken():
            return x + 1

        z = 1
        y = torch.cond(p, taken, keep)
    """,
    "a function that is called late in an if": """
        def taken():
            return x + 1

        if flag:
            z = 1
            y = torch.cond(p, taken, keep)
    """,
    "a function used after the block": """
        if flag:
            def taken():
                return x + 1

            y = taken()
        taken()
    """,
    "a decorated function": """
        @keep
        def taken():
            return x + 1

        y = torch.cond(p, taken, keep)
    """,
    "a torch of its own": """
        torch = thing
        y = torch.cond(p, lambda: x + 1, lambda: x.clone())
    """,
}


def kept(body: str) -> frozenset[str]:
    function = "def f(p, q, x, flag, keep, thing):\n" + textwrap.indent(
        textwrap.dedent(body).strip("\n"), "    "
    )
    case = NearMiss(f"import torch\n\n{function}\n    return y\n", "y", "", nth=0)
    site = example_site(case, "GB0170")
    (found,) = (node for node in site.module.body if isinstance(node, cst.FunctionDef))
    return captured_for_later(site, found)


@pytest.mark.parametrize("body", CALLED_AT_ONCE.values(), ids=CALLED_AT_ONCE)
def test_called_at_once(body: str) -> None:
    assert "x" not in kept(body)


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_kept(body: str) -> None:
    assert "x" in kept(body)

"""What is known about values where the recorded run did not go."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest
from gbfix_codemods.control_flow.values import Values

from gbfix.analysis.tree import walk
from gbfix.codemod import NearMiss, example_site, scalar, tensor

FACTS = {"x": tensor(3), "t": tensor(), "flag": scalar(True)}
STILL_A_TENSOR = {
    "first read": "if t > 0:\n    print(x)",
    "in the other branch": "if t > 0:\n    x = 1\nelse:\n    print(x)",
    "after another name": "if t > 0:\n    y = 1\n    print(x)",
    "its own new value": "if t > 0:\n    x = print(x)",
    "inside with": "if t > 0:\n    with torch.no_grad():\n        print(x)",
}
NOT_KNOWN = {
    "rebound before": "if t > 0:\n    x = g()\n    print(x)",
    "rebound in a part before": "if t > 0:\n    if flag:\n        x = g()\n    print(x)",
    "rebound later in a loop": "if t > 0:\n    for i in g():\n        print(x)\n        x = g()",
    "rebound by the loop": "if t > 0:\n    for x in g():\n        print(x)",
    "rebound by with": "if t > 0:\n    with g() as x:\n        print(x)",
    "rebound in the expression": "if t > 0:\n    y = (x := g()) + print(x)",
    "rebound by the test": "if (x := g()) and t > 0:\n    print(x)",
    "a parameter": "if t > 0:\n    y = lambda x: print(x)",
    "a comprehension": "if t > 0:\n    y = [print(x) for x in g()]",
}
TUPLES = {
    "z = (x,)\nz += (x,)": True,
    "z = 1\nz += 2": True,
    "z = 'a'\nz += 'b'": True,
    "z = [x]\nz += [x]": False,
    "z = x + 1\nz += 1": False,
    "z = 0\nz += x": False,
    "z = (x,)\nz = g()\nz += (x,)": False,
    "z, y = g()\nz += (x,)": False,
    "for z in g():\n    z += (x,)": False,
    "with g() as z:\n    z += (x,)": False,
}


def values(body: str, at: str) -> tuple[Values, cst.Module]:
    source = "import torch\n\ndef f(x, t, flag, g):\n" + textwrap.indent(body, "    ") + "\n"
    # Facts hold before the statement that broke, not wherever the name stands.
    site = example_site(NearMiss(source, at, "", facts={}), "GB0170")
    found = Values(site)
    found.outside = FACTS.get  # type: ignore[method-assign]
    return found, site.module


def printed(module: cst.Module) -> cst.BaseExpression:
    for node in walk(module):
        match node:
            case cst.Call(func=cst.Name(value="print"), args=[arg]):
                return arg.value
    raise AssertionError("nothing is printed")


@pytest.mark.parametrize("body", STILL_A_TENSOR.values(), ids=STILL_A_TENSOR)
def test_a_name_holds_what_it_held_before(body: str) -> None:
    known, module = values(body, "t > 0")
    fact = known.fact(printed(module))
    assert fact is not None and fact.shape == (3,)


@pytest.mark.parametrize("body", NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_a_name_may_hold_something_else(body: str) -> None:
    known, module = values(body, "t > 0")
    assert known.fact(printed(module)) is None


@pytest.mark.parametrize(("body", "expected"), TUPLES.items())
def test_augmenting_rebinds_what_cannot_change(body: str, expected: bool) -> None:
    known, _ = values(f"if t > 0:\n    pass\n{body}", "t > 0")
    assert known.is_rebound_by_augmenting("z") == expected

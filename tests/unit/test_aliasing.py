"""Through which names later code changes what certain names hold."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from gbfix.analysis.aliasing import changed_in_place


def changed(body: str, *held: str) -> frozenset[str]:
    text = "def f(x, y, z):\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
    function = cst.ensure_type(cst.parse_module(text).body[0], cst.FunctionDef)
    return changed_in_place([function.body], held, _makes_new, function)


def _makes_new(node: cst.BaseExpression) -> bool:
    clones = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return isinstance(node, cst.BinaryOperation) or (
        clones and node.func.attr.value == "clone"  # type: ignore[union-attr]
    )


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("x.add_(1)", {"x"}),
        ("x[0] = 1", {"x"}),
        ("x += 1", {"x"}),
        ("w = x\nw.add_(1)", {"w"}),
        ("w = x[0]\nv = w.view(-1)\nv.mul_(2)", {"v"}),
        ("for row in x:\n    row.zero_()", {"row"}),
        ("outs = [x]\nouts[0].add_(1)", {"outs"}),
        ("outs = []\nouts.append(x)\nouts[0] += 1", {"outs"}),
        ("kept = {}\nkept['a'] = x\nv = kept['a']\nv.add_(1)", {"v"}),
        ("outs = []\nouts += [x]\nfor t in outs:\n    t.zero_()", {"t"}),
        ("if (w := x).sum() > 0:\n    w.zero_()", {"w"}),
        ("F.relu(x, True)", {"x"}),
        ("w = x\nF.dropout(w, 0.5, self.training, True)", {"w"}),
        ("while x.add_(1).sum() < 3:\n    pass", {"x"}),
        ("pairs = [(x, i) for i in range(3)]\npairs[0][0].zero_()", {"pairs"}),
    ],
)
def test_what_leads_to_the_tensor_counts(body: str, names: set[str]) -> None:
    assert changed(body, "x") == names


@pytest.mark.parametrize(
    "body",
    [
        "y.add_(1)",
        "w = x + 1\nw.add_(1)",
        "w = x.clone()\nw[0] = 2",
        "kept = {'a': x}\nkept['a'] = y",
        "outs = [x]\nouts.append(y)\nouts.reverse()",
        "outs = []\nouts.append(x + 1)\nouts[0].add_(1)",
    ],
)
def test_what_is_new_or_a_container_does_not_count(body: str) -> None:
    assert changed(body, "x") == frozenset()


def test_a_container_that_came_from_elsewhere_is_no_container() -> None:
    assert changed("z['a'] = y", "z") == {"z"}

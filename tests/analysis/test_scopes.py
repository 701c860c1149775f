"""What names stand for."""

from __future__ import annotations

import libcst as cst
import pytest

from gbfix.analysis.scopes import (
    enclosing_functions,
    function_scope,
    import_map,
    module_bindings,
    resolve,
)
from gbfix.analysis.tree import code, walk


def resolved(source: str, text: str, nth: int = 0) -> str | None:
    """The resolution of the nth expression with this text."""
    module = cst.parse_module(source)
    nodes = [
        node
        for node in walk(module)
        if isinstance(node, cst.Name | cst.Attribute) and code(node) == text
    ]
    return resolve(module, nodes[nth])


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("import torch as T\nT.save(x)", "T.save", "torch.save"),
        ("from torch._dynamo import graph_break as gb\ngb()", "gb", "torch._dynamo.graph_break"),
        ("import torch.nn.functional as F\nF.relu(x)", "F.relu", "torch.nn.functional.relu"),
        ("import torch.nn\ntorch.nn.Linear", "torch.nn.Linear", "torch.nn.Linear"),
        ("import torch\nimport torch.nn\ntorch.sum", "torch.sum", "torch.sum"),
        ("from . import ops\nops.f()", "ops.f", ".ops.f"),
        ("from ..a.b import c\nc()", "c", "..a.b.c"),
        ("print(1)", "print", "builtins.print"),
        ("def print(x): pass\nprint(1)", "print", None),
        ("from torch import *\nsum(x)", "sum", None),
        ("unknown()", "unknown", None),
        ("try:\n  import np\nexcept E:\n  np = None\nnp.x", "np.x", None),
        ("if a:\n  import m\nelse:\n  import n as m\nm.x", "m.x", None),
        ("try:\n  import m\nexcept E:\n  import m\nm.x", "m.x", "m.x"),
        ("import m\ndef f(m): return m.x", "m.x", None),
        ("import m\ndef f(): return m.x", "m.x", "m.x"),
        ("import m\ndef f():\n  m = 1\n  return m.x", "m.x", None),
        ("import m\ndef f():\n  return m.x\n  m = 1", "m.x", None),
        ("def f():\n  import m as k\n  return k.x", "k.x", "m.x"),
        ("def f():\n  import m\n  def g(): return m.x", "m.x", "m.x"),
        ("import m\ndef f():\n  global m\n  return m.x", "m.x", "m.x"),
        ("import m\ndef f():\n  global m\n  m = 1\nm.x", "m.x", None),
        ("import m\nf = lambda m: m.x", "m.x", None),
        ("import m\n[m.x for m in y]", "m.x", None),
        ("import m\nclass A:\n  m = 1\n  def f(self): return m.x", "m.x", "m.x"),
        ("import m\nclass A:\n  m = 1\n  y = m.x", "m.x", None),
        ("import m\nm.x = 1\ndel m\nm.x", "m.x", None),
        ("import m\nfor m in y: m.x", "m.x", None),
        ("import m\nwith y as m: m.x", "m.x", None),
        ("import m\n(m := 1)\nm.x", "m.x", None),
        ("import m\nm[0].x", "m[0].x", None),
        ("import m\ndef f(m=m.x): pass", "m.x", "m.x"),
        ("import m\nx.m", "m", None),
    ],
)
def test_resolve(source: str, text: str, expected: str | None) -> None:
    nth = -1 if text in ("m", "c") else 0
    assert resolved(source, text, nth) == expected


def test_a_name_that_is_no_variable_is_not_resolved() -> None:
    source = "import m\nx.m\nf(m=1)"
    module = cst.parse_module(source)
    names = [node for node in walk(module) if isinstance(node, cst.Name) and node.value == "m"]
    assert [resolve(module, node) for node in names] == [None, None, None]


def test_a_foreign_node_needs_a_place() -> None:
    module = cst.parse_module("import m\ndef f(m):\n  pass\n")
    function = module.body[1]
    assert isinstance(function, cst.FunctionDef)
    node = cst.parse_expression("m.x")
    assert resolve(module, node) is None
    assert resolve(module, node, at=function) == "m.x"
    assert resolve(module, node, at=function.body.body[0]) is None


def test_import_map_leaves_out_what_is_not_certain() -> None:
    module = cst.parse_module(
        "import torch, a.b as c\nfrom x import y\nif z:\n  import w\n"
        "from q import y as y\nimport a.d\n"
    )
    assert import_map(module) == {"torch": "torch", "c": "a.b", "w": "w", "a": "a"}


def test_module_bindings_name_the_statement() -> None:
    module = cst.parse_module(
        "x = 1\nif a:\n  x = 2\nfor i in y:\n  j = i\ndef f():\n  global g\n  g = 1\n"
        "try:\n  k = 1\nexcept E as e:\n  pass\nwith a as b: pass\n"
        "if c:\n  pass\nelif (n := 1):\n  m = 2\n"
    )
    found = {name: [type(s).__name__ for s in v] for name, v in module_bindings(module).items()}
    assert found == {
        "x": ["Assign", "Assign"],
        "i": ["For"],
        "j": ["Assign"],
        "f": ["FunctionDef"],
        "g": ["FunctionDef"],
        "k": ["Assign"],
        "e": ["Try"],
        "b": ["With"],
        "n": ["If"],
        "m": ["Assign"],
    }


def test_function_scope() -> None:
    module = cst.parse_module(
        "def outer(a):\n  k = 1\n  def inner(b, /, *c, d=2, **e):\n    nonlocal k\n    global g\n"
        "    g = k = a\n    x: int\n    return lambda: b + len(c) + x\n"
    )
    (outer,) = module.body
    assert isinstance(outer, cst.FunctionDef)
    inner = outer.body.body[1]
    assert isinstance(inner, cst.FunctionDef)
    assert enclosing_functions(module, inner.body.body[0]) == (inner, outer)
    scope = function_scope(inner, (outer,))
    assert scope.parameters == ("b", "c", "d", "e")
    assert scope.locals == {"b", "c", "d", "e", "x"}
    assert scope.cells == {"b", "c", "x"}
    assert scope.free == {"a", "k"}
    assert scope.nonlocals == {"k"}
    assert scope.globals == {"g", "len"}
    assert scope.declared_globals == {"g"}
    assert function_scope(outer).cells == {"a", "k"}

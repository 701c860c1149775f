"""Live and bound names at marked places: ``# HERE`` marks the statement that is asked about."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from gbfix.analysis.liveness import (
    definitely_bound_after,
    definitely_bound_before,
    live_after,
    live_before,
    live_on_error,
    maybe_bound_before,
)
from gbfix.analysis.tree import walk


def marked(source: str) -> tuple[cst.FunctionDef, cst.CSTNode]:
    module = cst.parse_module(textwrap.dedent(source))
    (function,) = module.body
    assert isinstance(function, cst.FunctionDef)
    for node in walk(function):
        lines = getattr(node, "leading_lines", ())
        if any(line.comment and line.comment.value == "# HERE" for line in lines):
            return function, node
    raise AssertionError("no statement is marked")


# what, source, live before (of a b c d), live after
LIVE = [
    ("straight", "def f(a, b):\n  # HERE\n  c = a\n  return c", "a", "c"),
    ("overwritten", "def f(a):\n  # HERE\n  b = a\n  b = 1\n  return b", "a", ""),
    (
        "one branch overwrites",
        "def f(a):\n  # HERE\n  b = a\n  if a:\n    b = 1\n  return b",
        "a",
        "a b",
    ),
    (
        "both branches overwrite",
        "def f(a):\n  # HERE\n  b = a\n  if a:\n    b = 1\n  else:\n    b = 2\n  return b",
        "a",
        "a",
    ),
    (
        "the next round of a loop",
        "def f(a):\n  b = 0\n  for i in a:\n    print(b)\n    # HERE\n    b = i\n",
        "",
        "b",
    ),
    (
        "a loop may not run",
        "def f(a):\n  # HERE\n  b = 0\n  for i in a:\n    b = i\n  return b",
        "a",
        "a b",
    ),
    (
        "break skips the else",
        "def f(a):\n  while a:\n    # HERE\n    b = 1\n    break\n  else:\n    b = 2\n  return b",
        "",
        "b",
    ),
    (
        "while True ends by break alone",
        "def f(a, c):\n  # HERE\n  b = 1\n  while True:\n    b = a\n    if a: break\n  return b",
        "a",
        "a",
    ),
    (
        "a handler reads what was before the error",
        "def f(a):\n  b = 0\n  try:\n    # HERE\n    b = a()\n  except E:\n    return b",
        "a b",
        "",
    ),
    (
        "finally reads on every way",
        "def f(a, b):\n  try:\n    # HERE\n    return a\n  finally:\n    print(b)",
        "a b",
        "b",
    ),
    (
        "a context manager may swallow the error",
        "def f(a, b):\n  with cm():\n    # HERE\n    b = a()\n  return b",
        "a b",
        "b",
    ),
    (
        "no_grad swallows nothing",
        "def f(a, b):\n  with torch.no_grad():\n    # HERE\n    b = a()\n  return b",
        "a",
        "b",
    ),
    (
        "a closure made earlier",
        "def f(a):\n  b = 1\n  g = lambda: b\n  # HERE\n  b = a\n  b = 3\n  return g()",
        "a b",
        "b",
    ),
    (
        "a closure made later",
        "def f(a):\n  # HERE\n  b = a\n  b = 3\n  g = lambda: b\n  return g()",
        "a",
        "",
    ),
    (
        "a generator is lazy",
        "def f(a, b):\n  g = (b for _ in a)\n  # HERE\n  b = 1\n  return g",
        "b",
        "b",
    ),
    (
        "locals() reads everything",
        "def f(a, b):\n  # HERE\n  c = 1\n  return locals()",
        "a b",
        "a b c",
    ),
    ("a global", "def f(a):\n  global b\n  # HERE\n  b = a\n", "a b", "b"),
    ("del needs the name", "def f(a, b):\n  # HERE\n  a = 1\n  del b", "b", "b"),
    ("raise ends", "def f(a, b):\n  # HERE\n  raise a\n  return b", "a", ""),
    (
        "walrus in a condition",
        "def f(a, b):\n  # HERE\n  if (b := a):\n    pass\n  return b",
        "a",
        "b",
    ),
    (
        "walrus that may be skipped",
        "def f(a, b):\n  # HERE\n  if a and (b := 1):\n    pass\n  return b",
        "a b",
        "b",
    ),
    (
        "match",
        "def f(a, b, c):\n  # HERE\n  match a:\n    case [b]: return b\n    case _: return c",
        "a c",
        "",
    ),
    ("super reads the first parameter", "def f(a, b):\n  # HERE\n  b = 1\n  super().f()", "a", "a"),
    (
        "elif",
        "def f(a, b, c):\n  # HERE\n  if a:\n    c = 1\n  elif b:\n    c = 2\n  return c",
        "a b c",
        "c",
    ),
]


@pytest.mark.parametrize(
    ("source", "before", "after"), [c[1:] for c in LIVE], ids=[c[0] for c in LIVE]
)
def test_live(source: str, before: str, after: str) -> None:
    function, statement = marked(source)
    names = {"a", "b", "c", "d"}
    assert live_before(function, statement) & names == set(before.split())
    assert live_after(function, statement) & names == set(after.split())


def test_what_a_handler_reads_is_live_on_error() -> None:
    function, statement = marked(
        """
        def f(a, b, c):
            try:
                # HERE
                b = a()
            except E:
                print(c)
            finally:
                print(b)
        """
    )
    assert live_on_error(function, statement) & {"a", "b", "c"} == {"b", "c"}


# what, source, definitely bound, maybe bound on top (parameters aside)
BOUND = [
    ("one branch", "def f(a):\n  if a:\n    b = 1\n  # HERE\n  pass", "", "b"),
    ("both", "def f(a):\n  if a:\n    b = 1\n  else:\n    b = 2\n  # HERE\n  pass", "b", ""),
    ("one leaves", "def f(a):\n  if a:\n    b = 1\n  else:\n    return\n  # HERE\n  pass", "b", ""),
    ("del", "def f(a):\n  b = 1\n  del b\n  # HERE\n  pass", "", ""),
    ("for", "def f(a):\n  for b in a:\n    c = 1\n  # HERE\n  pass", "", "b c"),
    ("in for", "def f(a):\n  for b in a:\n    # HERE\n    c = 1", "b", "c"),
    (
        "except",
        "def f(a):\n  try:\n    b = a()\n    c = a()\n  except E:\n    # HERE\n    pass",
        "",
        "b c",
    ),
    (
        "after except",
        "def f(a):\n  try:\n    b = 1\n  except E as e:\n    b = 2\n  # HERE\n  pass",
        "b",
        "",
    ),
    ("swallowed", "def f(a):\n  with a:\n    b = 1\n  # HERE\n  pass", "", "b"),
    ("not swallowed", "def f(a):\n  with no_grad():\n    b = 1\n  # HERE\n  pass", "b", ""),
    ("walrus", "def f(a):\n  if a and (b := a):\n    # HERE\n    pass", "b", ""),
    ("walrus or", "def f(a):\n  if a or (b := a):\n    # HERE\n    pass", "", "b"),
    ("not walrus", "def f(a):\n  if not (a and (b := a)):\n    return\n  # HERE\n  pass", "b", ""),
    ("import", "def f(a):\n  import b.c\n  # HERE\n  pass", "b", ""),
    ("match", "def f(a):\n  match a:\n    case [b]:\n      # HERE\n      pass", "b", ""),
    (
        "closure",
        "def f(a):\n  def g():\n    nonlocal b\n    b = 1\n  # HERE\n  g()\n  b = 2",
        "g",
        "b",
    ),
    (
        "closure del",
        "def f(a):\n  b = 1\n  def g():\n    nonlocal b\n    del b\n  # HERE\n  g()",
        "g",
        "b",
    ),
    (
        "while True",
        "def f(a):\n  while True:\n    b = 1\n    if a: break\n  # HERE\n  pass",
        "b",
        "",
    ),
]


@pytest.mark.parametrize(
    ("source", "definite", "maybe"), [c[1:] for c in BOUND], ids=[c[0] for c in BOUND]
)
def test_bound(source: str, definite: str, maybe: str) -> None:
    function, statement = marked(source)
    found = definitely_bound_before(function, statement) - {"a"}
    assert found == set(definite.split())
    assert maybe_bound_before(function, statement) - {"a"} - found == set(maybe.split())


def test_bound_after() -> None:
    function, statement = marked("def f(a):\n  # HERE\n  if a:\n    b = c = 1\n  else:\n    b = 2")
    assert definitely_bound_after(function, statement) == {"a", "b"}


def test_unreachable_code_binds_everything_and_nothing() -> None:
    function, statement = marked("def f(a):\n  return a\n  # HERE\n  b = 1")
    assert definitely_bound_before(function, statement) == {"a", "b"}
    assert maybe_bound_before(function, statement) == set()


def test_blocks_and_small_statements_are_places_too() -> None:
    function = cst.parse_module("def f(a):\n  b = a; c = b\n  return c").body[0]
    assert isinstance(function, cst.FunctionDef)
    line = function.body.body[0]
    assert isinstance(line, cst.SimpleStatementLine)
    assert live_before(function, function.body) & {"a", "b", "c"} == {"a"}
    assert live_after(function, line.body[0]) & {"a", "b", "c"} == {"b"}


def test_a_statement_of_another_function_is_an_error() -> None:
    module = cst.parse_module("def f():\n  x = 1\ndef g():\n  y = 2")
    one, other = module.body
    assert isinstance(one, cst.FunctionDef) and isinstance(other, cst.FunctionDef)
    for ask in (live_before, live_after, definitely_bound_before, maybe_bound_before):
        with pytest.raises(ValueError, match="does not stand in this function"):
            ask(one, other.body.body[0])

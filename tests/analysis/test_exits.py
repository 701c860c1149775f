"""How control leaves statements."""

from __future__ import annotations

import libcst as cst
import pytest

from gbfix.analysis.exits import always_exits, always_returns, exits, falls_through, ways_out


def body(source: str) -> cst.IndentedBlock:
    lines = "".join(f"    {line}\n" for line in source.splitlines())
    (function,) = cst.parse_module(f"async def f():\n{lines}").body
    assert isinstance(function, cst.FunctionDef) and isinstance(function.body, cst.IndentedBlock)
    return function.body


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ("return 1", {"returns": 1}),
        ("if a:\n  return 1\nelse:\n  raise E", {"returns": 1, "raises": 1}),
        ("for x in y:\n  break", {}),
        ("for x in y:\n  return x\nelse:\n  break", {"returns": 1, "breaks": 1}),
        ("while a:\n  while b:\n    break\n  continue", {}),
        ("break", {"breaks": 1}),
        ("if a:\n  continue", {"continues": 1}),
        ("def g():\n  return 1", {}),
        ("def g(x=(yield)):\n  return 1", {"yields": 1}),
        ("class A:\n  def g(self): return 1", {}),
        ("g = lambda: (yield)", {}),
        ("x = yield 1", {"yields": 1}),
        ("yield from a", {"yields": 1}),
        ("await a", {"awaits": 1}),
        ("async for x in y:\n  pass", {"awaits": 1}),
        ("async with x: pass", {"awaits": 1}),
        ("z = [x async for x in y]", {"awaits": 1}),
        ("assert a", {"raises": 1}),
        ("try:\n  return 1\nfinally:\n  return 2", {"returns": 2}),
        ("match a:\n  case 1: return 1", {"returns": 1}),
        ("with a: return 1", {"returns": 1}),
    ],
)
def test_counts(source: str, counts: dict[str, int]) -> None:
    found = exits(body(source))
    assert {k: v for k, v in vars(found).items() if v} == counts
    assert found.any == bool(counts)


@pytest.mark.parametrize(
    ("source", "ways"),
    [
        ("pass", "fall"),
        ("return 1", "return"),
        ("return 1\nx = 1", "return"),
        ("if a: return 1", "fall return"),
        ("if a: return 1\nelse: raise E", "return raise"),
        ("if a: return 1\nelif b: raise E", "fall return raise"),
        ("if True: return 1", "return"),
        ("if 0: return 1", "fall"),
        ("while True: pass", ""),
        ("while 1:\n  if a: break", "fall"),
        ("while a: return 1", "fall return"),
        ("while a: return 1\nelse: return 2", "return"),
        ("while a: break\nelse: return 2", "fall return"),
        ("for x in y: continue\nelse: return 2", "return"),
        ("try: return 1\nexcept E: pass", "fall return"),
        ("try: return 1\nexcept E: raise", "return raise"),
        ("try: return 1\nfinally: pass", "return"),
        ("try: pass\nfinally: return 1", "return"),
        ("try: raise E\nfinally: return 1", "return"),
        ("try: return 1\nfinally:\n  if a: raise E", "return raise"),
        ("try: pass\nexcept E: return 1\nelse: return 2", "return"),
        ("with a: return 1", "return"),
        ("with a: raise E", "fall raise"),
        ("match a:\n  case 1: return 1", "fall return"),
        ("match a:\n  case 1: return 1\n  case _: return 2", "return"),
        ("match a:\n  case _ if b: return 2", "fall return"),
        ("match a:\n  case x: return 2", "return"),
        ("assert a", "fall raise"),
        ("break", "break"),
        ("if a: break\nelse: continue", "break continue"),
    ],
)
def test_ways_out(source: str, ways: str) -> None:
    block = body(source)
    assert ways_out(block) == set(ways.split())
    assert falls_through(block) == ("fall" in ways)
    assert always_exits(block) == ("fall" not in ways)
    assert always_returns(block) == (ways == "return")


def test_statements_sequences_and_one_line_suites_are_taken() -> None:
    block = body("x = 1\nreturn x")
    assert always_returns(block.body)
    assert always_returns(block.body[1])
    assert falls_through(block.body[:1])
    branch = body("if a: x = 1; return x").body[0]
    assert isinstance(branch, cst.If)
    assert always_returns(branch.body)
    assert exits(branch.body).returns == 1

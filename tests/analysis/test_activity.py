"""What statements read, bind, delete and change."""

from __future__ import annotations

import libcst as cst
import pytest

from gbfix.analysis.activity import Activity, activity


def of(source: str) -> Activity:
    return activity(cst.parse_module(source).body)


# source, reads, writes, deletes, mutates
CASES = [
    ("x = y", "y", "x", "", ""),
    ("x += y", "x y", "x", "", "x"),
    ("x: int", "", "", "", ""),
    ("x: T = y", "y", "x", "", ""),
    ("self.x: T = y", "self y", "", "", "self"),
    ("x, (y, *z) = a", "a", "x y z", "", ""),
    ("x[i], y.b = a", "x i y a", "", "", "x y"),
    ("x.a[0].b = c", "x c", "", "", "x"),
    ("x[0] += y", "x y", "", "", "x"),
    ("del x", "", "", "x", ""),
    ("del x[0], y.a, z", "x y", "", "z", "x y"),
    ("[x for x in x]", "x", "", "", ""),
    ("[x + k for x in y if x for z in x]", "y k", "", "", ""),
    ("{k: v for k, v in d.items()}", "d", "", "", ""),
    ("[(n := i) for i in xs]", "xs", "n", "", ""),
    ("print([last for i in xs if (last := i)])", "print xs last", "last", "", ""),
    ("f = lambda x, y=d: x + y + k", "d k", "f", "", ""),
    ("lambda: (n := a)", "a", "", "", ""),
    ("for i in xs:\n  s = i\nelse:\n  e = s", "xs i s", "i s e", "", ""),
    ("for a.b in xs: pass", "a xs", "", "", "a"),
    ("with f(x) as (y, z.w): pass", "f x z", "y", "", "z"),
    ("try:\n  a = 1\nexcept E as e:\n  b = e", "E e", "a b e", "e", ""),
    ("import a.b.c, d as e", "", "a e", "", ""),
    ("from . import a as b, c", "", "b c", "", ""),
    ("f'{x!r:>{w}} {y=}'", "x w y", "", "", ""),
    ("if (n := f(x)) > 1: pass", "f x", "n", "", ""),
    (
        "def f(a: T, b=c, *, k: U = d) -> R:\n  z = a\n  return z + free",
        "T c U d R free",
        "f",
        "",
        "",
    ),
    ("@deco(x)\ndef f(): pass", "deco x", "f", "", ""),
    ("def f():\n  nonlocal x\n  x = 1", "", "x f", "", ""),
    ("def f():\n  nonlocal x\n  del x", "", "f", "x", ""),
    ("def f():\n  def g():\n    nonlocal x\n    x = 1\n  x = 2", "", "f", "", ""),
    ("def f():\n  def g():\n    nonlocal x\n    x = 1", "", "f x", "", ""),
    ("def f():\n  global x\n  x = x + 1", "", "f", "", ""),
    ("def f():\n  x.append(1)", "x", "f", "", "x"),
    ("def f(x):\n  x.append(1)", "", "f", "", ""),
    ("class A(B, k=c):\n  x = y\n  def f(self): return x", "B c y x", "A", "", ""),
    ("class A:\n  def f(self):\n    nonlocal n\n    n = 1", "", "A n", "", ""),
    ("match p:\n  case C(x=0, y=b) | [b, *_]: q = b", "p C b", "b q", "", ""),
    ("match p:\n  case {'k': v, **rest} if v: pass", "p v", "v rest", "", ""),
    ("match p:\n  case m.K | 1: pass", "p m", "", "", ""),
    ("x.add_(y)", "x y", "", "", "x"),
    ("x.view(-1).add_(y)", "x y", "", "", "x"),
    ("x.clone().add_(y)", "x y", "", "", ""),
    ("x[0].mul_(2)", "x", "", "", "x"),
    ("torch.relu_(x)", "torch x", "", "", "x"),
    ("nn.init.normal_(self.w)", "nn self", "", "", "self"),
    ("relu_(x)", "relu_ x", "", "", "x"),
    ("F.relu(x, inplace=True)", "F x", "", "", "x"),
    ("F.relu(x, inplace=False)", "F x", "", "", ""),
    ("F.relu(x, inplace=flag)", "F x flag", "", "", "x"),
    ("torch.add(a, b, out=c[0])", "torch a b c", "", "", "c"),
    ("torch.max(a, 1, out=(v, i))", "torch a v i", "", "", "v i"),
    ("torch.add(a, b, out=None)", "torch a b", "", "", ""),
    ("torch._foreach_add_([a, b], 1)", "torch a b", "", "", "a b"),
    ("x.__init__()", "x", "", "", ""),
    ("x.__setitem__(0, y)", "x y", "", "", "x"),
    ("x.append(y); y.pop()", "x y", "", "", "x y"),
    ("setattr(x, 'a', y)", "setattr x y", "", "", "x"),
    ("next(it)", "next it", "", "", "it"),
    ("(a or b).append(c)", "a b c", "", "", "a b"),
    ("x = True and None", "", "x", "", ""),
    ("f(key=value, **more)", "f value more", "", "", ""),
    ("a.b.c", "a", "", "", ""),
    ("return_ = (yield x)", "x", "return_", "", ""),
    ("print(*x)", "print x", "", "", ""),
    ("a = b = c = d", "d", "a b c", "", ""),
    ("type(x)._cache = y", "type x y", "", "", "type x"),
]


@pytest.mark.parametrize(("source", "reads", "writes", "deletes", "mutates"), CASES)
def test_names(source: str, reads: str, writes: str, deletes: str, mutates: str) -> None:
    found = of(source)
    assert found.reads == set(reads.split())
    assert found.writes == set(writes.split())
    assert found.deletes == set(deletes.split())
    assert found.mutates == set(mutates.split())


@pytest.mark.parametrize(
    ("source", "dynamic", "frame"),
    [
        ("locals()", True, True),
        ("vars()", True, True),
        ("vars(x)", False, False),
        ("dir(x)", False, False),
        ("eval('x')", True, True),
        ("exec(code, scope)", True, True),
        ("super().forward(x)", True, False),
        ("super(A, self).forward(x)", False, False),
        ("__class__", True, False),
        ("from m import *", True, False),
        ("sys._getframe(1)", True, True),
        ("model.eval()", False, False),
        ("self.locals()", False, False),
        ("f = lambda: locals()", True, True),
    ],
)
def test_dynamic_code_is_flagged(source: str, dynamic: bool, frame: bool) -> None:
    found = of(source)
    assert (found.dynamic, found.frame_access) == (dynamic, frame)


def test_closures_are_told_from_code_that_runs_at_once() -> None:
    assert of("f = lambda: a + b").captures == {"a", "b"}
    assert of("g = (x + k for x in xs)").captures == {"k"}
    assert of("g = [x + k for x in xs]").captures == set()
    assert of("def f(x=a):\n  return b").captures == {"b"}
    assert of("def f():\n  nonlocal n\n  n += 1").closure_writes == {"n"}


def test_texts_of_attributes_calls_and_items() -> None:
    found = of("self.n.m = self.training\nd['k'][0] = f(x).y\nself.norm(x).sum()\n(lambda: 0)()")
    assert found.attribute_writes == {"self.n.m"}
    assert found.attribute_reads == {"self.n", "self.training", "self.norm"}
    assert found.subscript_writes == {"d['k'][0]"}
    assert found.calls == {"f", "self.norm", "?.sum", "?"}


def test_an_inner_scope_hides_its_own_roots() -> None:
    found = of("def f(self):\n  self.x = self.y\n  other.z = 1")
    assert found.attribute_writes == {"other.z"}
    assert found.attribute_reads == set()


def test_global_writes() -> None:
    assert of("def f():\n  global n\n  n = 1").global_writes == {"n"}
    assert of("global n\nn = 1").global_writes == {"n"}
    assert of("n = 1").global_writes == set()


def test_changes_that_no_name_leads_to() -> None:
    assert of("f()[0] = 1").mutates_unknown
    assert of("make().append(1)").mutates_unknown
    assert not of("x.y.append(1)").mutates_unknown


def test_augmented_names_are_told_apart() -> None:
    found = of("n += 1\nx += y\nx.add_(1)")
    assert found.augments == {"n"}
    assert found.mutates == {"n", "x"}


def test_expressions_blocks_and_sequences_are_taken() -> None:
    module = cst.parse_module("if a:\n  b = c\nelse:\n  d = e")
    branch = module.body[0]
    assert isinstance(branch, cst.If) and branch.orelse is not None
    assert activity(branch.test).reads == {"a"}
    assert activity(branch.body).writes == {"b"}
    assert activity(branch.body, branch.orelse).writes == {"b", "d"}
    assert activity([branch.body, branch.orelse]).writes == {"b", "d"}
    assert activity().reads == set()


def test_a_type_alias_and_type_parameters() -> None:
    if not hasattr(cst, "TypeAlias"):
        pytest.skip("this LibCST does not parse type aliases")
    module = cst.parse_module(
        "type A[T] = list[T] | B", cst.PartialParserConfig(python_version="3.12")
    )
    found = activity(module.body)
    assert found.writes == {"A"}
    assert found.reads == {"list", "B"}

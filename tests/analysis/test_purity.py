"""What evaluating code may do besides giving a value."""

from __future__ import annotations

from typing import Any

import libcst as cst
import pytest

from gbfix.analysis.purity import Effects, effects_of
from gbfix.codemod import function, scalar, tensor
from gbfix.schema import Fact

from .test_kinds import facts_of, kind_of_names, values_and_sources


def module(kind: str) -> Fact:
    return Fact("module", f"torch.nn.modules.any.{kind}")


FACTS: dict[str, Fact] = {
    "x": tensor(2, 3),
    "y": tensor(2, 3),
    "mask": tensor(2, 3, dtype="torch.bool"),
    "n": scalar(3, constant=False),
    "s": scalar("a"),
    "names": Fact("list", "list"),
    "d": Fact("dict", "dict"),
    "counts": Fact("dict", "collections.defaultdict"),
    "it": Fact("iterator", "list_iterator"),
    "thing": Fact("object", "mine.Thing"),
    "sub": Fact("tensor", "mine.MyTensor"),
    "logger": Fact("object", "logging.Logger"),
    "helper": function("mine.helper", in_project=True),
    "relu": function("torch.nn.functional.relu"),
    "sum": function("mine.sum", in_project=True),
    "self.linear": module("Linear"),
    "self.dropout": module("Dropout"),
    "self.norm": module("BatchNorm1d"),
    "self.mine": Fact("module", "mine.Block"),
    "TF": Fact("pymodule", "module", qualname="torchvision.transforms.functional"),
}


def of(source: str, **facts: Fact) -> Effects:
    block = cst.parse_module(source).body
    return effects_of(list(block), kind_of_names(**{**FACTS, **facts}))


@pytest.mark.parametrize(
    "source",
    [
        "x + y",
        "x.sum() > 0",
        "torch.where(mask, x, y)",
        "F.relu(x)",
        "relu(x)",
        "x[0].view(-1)",
        "x.add(y)",
        "x.sort()",
        "torch.add(x, y)",
        "x.item() * n",
        "len(names) > n",
        "names[0]",
        "d['k']",
        "d.get(s)",
        "s.upper()",
        "f'{x} {n:>3}'",
        "[i for i in names]",
        "min(n, 3)",
        "nn.functional.relu(x)",
        "math.sqrt(n)",
        "self.linear(x)",
        "z = x + 1",
        "n += 1",
        "for i in range(n):\n  z = x",
        "with torch.no_grad():\n  z = x + y",
        "if n > 1:\n  z = x\nelse:\n  raise ValueError",
        "f = lambda: print(x)",
        "def f():\n  print(x)",
        "isinstance(thing, T)",
        "thing is None",
        "not x.any()",
        "F.dropout(x, 0.5, training=False)",
        "F.batch_norm(x, a, b, training=False)",
        "self.weight",
        "tuple(names)",
        "y = x if n else x.T",
    ],
)
def test_pure(source: str) -> None:
    found = of(source)
    if source == "if n > 1:\n  z = x\nelse:\n  raise ValueError":
        assert found.raises
    assert found.pure, found


@pytest.mark.parametrize(
    ("source", "effects"),
    [
        ("x.add_(y)", {"mutates": {"x"}}),
        ("x += y", {"mutates": {"x"}}),
        ("n += 1; n.add_(x)", {"mutates": {"n"}, "unknown": True}),
        ("names += [1]", {"mutates": {"names"}}),
        ("x[0] = 1", {"mutates": {"x"}}),
        ("self.n = 1", {"mutates": {"self"}}),
        ("names.append(x)", {"mutates": {"names"}}),
        ("torch.add(x, y, out=y)", {"mutates": {"y"}}),
        ("F.relu(x, inplace=True)", {"mutates": {"x"}}),
        ("F.batch_norm(x, self.m, self.v, training=t)", {"mutates": {"self"}}),
        ("F.batch_norm(x, m, v)", {"mutates": {"m", "v"}}),
        ("F.embedding(x, w, None, 1.0)", {"mutates_unknown": True}),
        ("global g\ng = 1", {"mutates": {"g"}}),
        ("for i in it: pass", {"mutates": {"it"}, "unknown": True}),
        ("list(it)", {"mutates": {"it"}, "unknown": True}),
        ("torch.rand(2)", {"rng": True}),
        ("F.dropout(x)", {"rng": True}),
        ("F.dropout(x, training=self.training)", {"rng": True}),
        ("F.scaled_dot_product_attention(x, y, y, None, 0.1)", {"rng": True}),
        ("x.bernoulli()", {"rng": True}),
        ("x.uniform_()", {"rng": True, "mutates": {"x"}}),
        ("nn.init.normal_(x)", {"rng": True, "mutates": {"x"}}),
        ("random.random()", {"rng": True}),
        ("np.random.rand()", {"rng": True}),
        ("self.dropout(x)", {"rng": True}),
        ("torch.manual_seed(0)", {"rng": True}),
        ("print(x)", {"io": True}),
        ("logging.info(s)", {"io": True}),
        ("logger.info(s)", {"io": True}),
        ("time.time()", {"io": True}),
        ("torch.save(x, s)", {"io": True}),
        ("helper(x)", {"unknown": True}),
        ("unknown(x)", {"unknown": True}),
        ("sum(x)", {"unknown": True}),
        ("self.norm(x)", {"unknown": True}),
        ("self.mine(x)", {"unknown": True}),
        ("self.method(x)", {"unknown": True}),
        ("thing + 1", {"unknown": True}),
        ("thing == 1", {"unknown": True}),
        ("thing[0]", {"unknown": True}),
        ("f'{thing}'", {"unknown": True}),
        ("len(thing)", {"unknown": True}),
        ("not thing", {"unknown": True}),
        ("if thing: pass", {"unknown": True}),
        ("sub + 1", {"unknown": True}),
        ("counts['k']", {"unknown": True}),
        ("TF.adjust_hue(x)", {"unknown": True}),
        ("x.register_hook(s)", {"unknown": True}),
        ("x.backward()", {"unknown": True, "mutates": {"x"}}),
        ("sorted(names, key=helper)", {"unknown": True}),
        ("with thing: pass", {"unknown": True}),
        ("import m", {"unknown": True}),
        ("for i in thing: pass", {"unknown": True}),
        ("a, b = thing", {"unknown": True}),
        ("f(*thing)", {"unknown": True}),
        ("await x", {"suspends": True}),
        ("z = yield x", {"suspends": True}),
    ],
)
def test_effects(source: str, effects: dict[str, Any]) -> None:
    found = of(source)
    assert not found.pure
    assert found.mutates == effects.get("mutates", frozenset())
    assert found.mutates_unknown == effects.get("mutates_unknown", False)
    assert found.rng == effects.get("rng", False)
    assert found.io == effects.get("io", False)
    assert found.suspends == effects.get("suspends", False)
    assert bool(found.unknown) == effects.get("unknown", False), found


@pytest.mark.parametrize(
    ("source", "raises"),
    [
        ("1 + 2", False),
        ("n + 1", False),
        ("n / n", True),
        ("x + 1", False),
        ("x + y", False),
        ("x > 0", False),
        ("x & y", True),
        ("mask - 1", True),
        ("x + tensor_of_another_shape", True),
        ("x[0]", True),
        ("x.sum()", True),
        ("assert n", True),
        ("not x", True),
        ("not n", False),
        ("names == names", True),
        ("z = x", False),
        ("z = n if n > 1 else 2", False),
    ],
)
def test_what_may_raise(source: str, raises: bool) -> None:
    assert of(source, tensor_of_another_shape=tensor(4)).raises == raises


def test_calls_of_modules_are_listed() -> None:
    assert of("self.linear(x)").modules == ("self.linear",)
    assert of("self.mine(x)").modules == ("self.mine",)


@pytest.mark.filterwarnings("ignore")
def test_what_is_said_never_to_raise_does_not() -> None:
    values, sources = values_and_sources()
    kinds = facts_of(values)
    total = 0
    for source in sources:
        if effects_of(cst.parse_expression(source), kinds).raises:
            continue
        try:
            eval(source, dict(values))
        except Exception as error:
            raise AssertionError(f"{source} raises {error!r}") from error
        total += 1
    assert total > 100

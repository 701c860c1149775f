"""Kinds of expressions that were not observed: by table, and against torch itself."""

from __future__ import annotations

import itertools
import math
from typing import Any

import libcst as cst
import pytest

from gbfix.analysis.kinds import infer, merge
from gbfix.analysis.tree import code
from gbfix.codemod import scalar, tensor
from gbfix.schema import Fact


def kind_of_names(**facts: Fact) -> Any:
    return lambda node: facts.get(code(node))


@pytest.mark.parametrize(
    ("source", "kind", "value"),
    [
        ("True", "bool", True),
        ("None", "none", None),
        ("-3", "int", None),
        ("3.5", "float", 3.5),
        ("'a'", "str", "a"),
        ("f'{x}'", "str", None),
        ("not x", "bool", None),
        ("not True", "bool", False),
        ("x is None", "bool", False),
        ("n is not None", "bool", False),
        ("unknown is None", "bool", None),
        ("x in y", "bool", None),
        ("len(x)", "int", None),
        ("isinstance(x, T)", "bool", None),
        ("x.shape[0]", "int", 2),
        ("x.shape[0] > 1", "bool", None),
        ("x.size(0) * 2", "int", None),
        ("i / 2", "float", None),
        ("i ** 2", "int", None),
        ("i // 2 + 1.0", "float", None),
        ("a if c else b", None, None),
        ("1 if c else 2", "int", None),
        ("x.sum() > 0", "tensor", None),
        ("x.sum().item() > 0", "bool", None),
        ("x and i", None, None),
        ("x.any() and x.all()", "tensor", None),
        ("x.dtype", "object", None),
        ("x.device.type", None, None),
        ("x == array", None, None),
        ("array > 0", None, None),
        ("x + 'a'", None, None),
        ("math.sqrt(i)", "float", None),
        ("math.floor(i)", "int", None),
        ("unknown(x)", None, None),
        ("x.unknown()", None, None),
        ("torch.sum(x)", "tensor", None),
        ("F.relu(x)", "tensor", None),
        ("max(i, 3)", "int", None),
        ("max(x, 3)", None, None),
        ("min(i, 2.0)", None, None),
        ("(-2.0) ** 0.5", None, None),
        ("x.max(1)", "tuple", None),
        ("x.max()", "tensor", None),
        ("x.max(dim=1)[0]", None, None),
        ("x.where(x > 0, 0)", "tensor", None),
        ("torch.where(x > 0)", None, None),
        ("x.split(1)", "tuple", None),
        ("x.grad", None, None),
        ("(n := i)", "int", None),
        ("lambda: 0", "function", None),
        ("d['k']", None, None),
    ],
)
def test_kinds(source: str, kind: str | None, value: object) -> None:
    kinds = kind_of_names(
        x=tensor(2, 3),
        i=scalar(4, constant=False),
        n=scalar(None),
        array=Fact("ndarray", "numpy.ndarray"),
        d=Fact("dict", "dict"),
        a=scalar(1),
        b=tensor(),
    )
    found = infer(cst.parse_expression(source), kinds)
    assert (found.kind if found else None) == kind
    if value is not None:
        assert found is not None and found.constant and found.value == value


def test_a_recorded_fact_wins_over_the_usual_meaning() -> None:
    kinds = kind_of_names(len=Fact("object", "Length"), x=scalar("abc"))
    assert infer(cst.parse_expression("len(x)"), kinds) is None
    kinds = kind_of_names(torch=Fact("object", "Torch"), x=tensor(2))
    assert infer(cst.parse_expression("torch.sum(x)"), kinds) is None
    kinds = kind_of_names(F=Fact("pymodule", "module", qualname="mine.functional"), x=tensor(2))
    assert infer(cst.parse_expression("F.relu(x)"), kinds) is None


def test_merging_keeps_what_both_say() -> None:
    both = merge(tensor(2, 3), tensor(2, 4))
    assert both is not None and both.shape == (2, None) and both.dtype == "torch.float32"
    both = merge(tensor(2), tensor(2, 4, dtype="torch.int64"))
    assert both is not None and both.shape is None and both.dtype is None
    assert merge(tensor(2), scalar(1)) is None
    assert merge(None, scalar(1)) is None


# -- against torch ---------------------------------------------------------------------------

UNARY = """
-{0} | ~{0} | not {0} | abs({0}) | {0}.sum() | {0}.any() | {0}.all() | {0}.max() | {0}.argmax() |
{0}.mean() | {0}.float() | {0}.long() | {0}.bool() | {0}.isnan() | {0}.abs() | {0}.sqrt() |
{0}.exp() | {0}.shape | {0}.shape[0] | {0}.size() | {0}.size(0) | {0}.dim() | {0}.numel() |
{0}.item() | {0}.tolist() | {0}.T | {0}.ndim | {0}.requires_grad | {0}.clone() | {0}.detach() |
{0}.view(-1) | {0}.sum(0) | {0}.sum(dim=0) | {0}.max(0) | {0}.sort() | {0}.topk(1) |
{0}.nonzero() | {0}[0] | {0}[None] | {0}[..., 0] | {0}.to("cpu") | {0}.relu() | {0}.clamp(0, 1) |
{0}.unbind() | {0}.norm() | {0}.std() | {0}.prod() | {0}.count_nonzero() | {0}.logical_not() |
{0}.cumsum(0) | torch.sum({0}) | torch.any({0}) | torch.relu({0}) | torch.isnan({0}) |
torch.zeros_like({0}) | torch.stack([{0}, {0}]) | torch.max({0}) | torch.nonzero({0}) |
torch.is_tensor({0}) | F.relu({0}) | F.softmax({0}, dim=-1) | {0}.is_floating_point() |
bool({0}) | int({0}) | float({0}) | len({0}) | str({0}) | {0} is None | {0}.softmax(-1) |
{0}.clone().add_(1) | {0}.sum(dtype=torch.int64) | {0}.clone().squeeze_() | {0}.unsqueeze(0) |
{0}.type_as({0}) | {0}.double() | {0}.median() | {0}.flip(0) | {0}.round() | {0}.reciprocal() |
{0}.square() | math.floor({0}) | math.sqrt({0}) | {0}.logsumexp(0) |
torch.where({0} > 0, {0}, 0) | {0}.masked_fill({0} > 0, 0) | torch.split({0}, 1)
"""
BINARY = """
{0} + {1} | {0} - {1} | {0} * {1} | {0} / {1} | {0} // {1} | {0} % {1} | {0} ** {1} | {0} & {1} |
{0} < {1} | {0} == {1} | {0} != {1} | {0} >= {1} | {0} @ {1} | {0} and {1} | {0} or {1} |
{0} << {1} | {0} if {1} else {0} | {0} is {1} | {0} < {1} < {0} | torch.maximum({0}, {1}) |
{0}.eq({1}) | {0}.max({1}) | max({0}, {1}) | torch.add({0}, {1}) | torch.logical_and({0}, {1}) |
{0}.isclose({1}) | torch.equal({0}, {1}) | {0}.pow({1}) | {0}.where({1} > 0, {1})
"""


def fact_of(value: Any) -> Fact:
    torch = pytest.importorskip("torch")
    if isinstance(value, torch.Tensor):
        return tensor(*value.shape, dtype=str(value.dtype))
    kind = {bool: "bool", int: "int", float: "float", str: "str", list: "list", complex: "complex"}
    if value is None:
        return scalar(None)
    if isinstance(value, tuple):
        return Fact("tuple", "tuple")
    return Fact(kind.get(type(value), "object"), type(value).__name__)


def values_and_sources() -> tuple[dict[str, Any], list[str]]:
    """Values by name, and expressions over them (many of which raise)."""
    torch = pytest.importorskip("torch")
    values = {
        "matrix": torch.tensor([[1.5, -2.0], [0.0, 3.0]]),
        "vector": torch.tensor([1.0, 2.0]),
        "zero_d": torch.tensor(2.0),
        "one": torch.tensor([3.0]),
        "ints": torch.tensor([[1, 2], [3, 4]]),
        "bools": torch.tensor([True, False]),
        "halves": torch.tensor([0.5], dtype=torch.float16),
        "empty": torch.zeros(0, 2),
        "number": 2,
        "fraction": 0.5,
        "truth": True,
        "text": "ab",
        "nothing": None,
    }
    sources = [t.strip().format(a) for t in UNARY.split("|") for a in values if "{" in t]
    for template in BINARY.split("|"):
        sources += [template.strip().format(a, b) for a, b in itertools.product(values, values)]
    return {**values, "torch": torch, "F": torch.nn.functional, "math": math}, sources


def facts_of(values: dict[str, Any]) -> Any:
    modules = ("torch", "F", "math")
    return kind_of_names(**{n: fact_of(v) for n, v in values.items() if n not in modules})


@pytest.mark.filterwarnings("ignore")
def test_what_is_inferred_is_what_torch_gives() -> None:
    values, sources = values_and_sources()
    kinds = facts_of(values)
    inferred = 0
    for source in sources:
        found = infer(cst.parse_expression(source), kinds)
        if found is None:
            continue
        try:
            value = eval(source, dict(values))
        except Exception:
            continue  # what is inferred holds where evaluation succeeds
        inferred += 1
        truth = fact_of(value)
        assert found.kind == truth.kind, f"{source} is {value!r}, not {found}"
        if found.constant:
            assert found.value == value, source
        if found.dtype is not None:
            assert found.dtype == truth.dtype, f"{source} is {truth}, not {found}"
        if found.shape is not None:
            assert truth.shape is not None and len(found.shape) == len(truth.shape), source
            for size, real in zip(found.shape, truth.shape, strict=True):
                assert size is None or size == real, f"{source} is {truth}, not {found}"
        if found.items is not None:
            assert [item.value for item in found.items] == list(value), source
    assert inferred > 700

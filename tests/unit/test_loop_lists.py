"""What a loop that fills a list behind a test becomes, and where that is no safe patch."""

from __future__ import annotations

import pytest
from gbfix_codemods.choice.loops import LoopToBound

from gbfix.codemod import Example, Rewrite, example_site, tensor
from gbfix.schema import Fact, Safety

_LIST = Fact("list", "list", items=())
_FACTS = {
    "x": tensor(4, 3),
    "y": tensor(4),
    "y[i]": tensor(),
    "y[i] > 0": tensor(dtype="torch.bool"),
    "total": tensor(),
    "first": _LIST,
    "kept": _LIST,
    "x[i].sum()": tensor(),
    "x[i].double().sum()": tensor(dtype="torch.float64"),
}


def _made(body: str, end: str) -> list[Rewrite]:
    source = (
        "import torch\n\n\ndef f(x, y, total):\n    kept = []\n    first = []\n"
        f"    for i in range(4):\n        {body}\n{end}"
    )
    case = Example(source, "", at="y[i] > 0", facts=_FACTS, title="")
    made = LoopToBound().propose(example_site(case, "GB0170"))
    return [it for it in made if isinstance(it, Rewrite)]


_APPEND = "if y[i] > 0: kept.append(x[i].sum())"


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("    return sum(kept) / len(kept)\n", Safety.SAFE),
        ("    if not kept: return total\n    return sum(kept)\n", Safety.SAFE),
        ("    return sum(kept) if kept else total\n", Safety.SAFE),
        # With nothing in it, Python's sum is the number 0.
        ("    return sum(kept) * 2\n", Safety.UNSAFE),
        ("    return sum(kept) / max(len(kept), 1)\n", Safety.UNSAFE),
    ],
)
def test_a_sum_of_nothing(end: str, expected: Safety) -> None:
    assert [it.safety for it in _made(_APPEND, end)] == [expected]


def test_what_is_asked_afterwards_guards_nothing() -> None:
    end = "    mean = torch.stack(kept).mean()\n    if not kept: return total\n    return mean\n"
    (made,) = _made(_APPEND, end)
    (text,) = made.edits.values()
    assert text.index("raise RuntimeError") < text.index("mean =") < text.index("return total")


def test_what_is_printed_comes_before_the_error() -> None:
    (made,) = _made(_APPEND, "    print('done')\n    return torch.stack(kept).mean()\n")
    (text,) = made.edits.values()
    assert text.index("print(") < text.index("raise RuntimeError")


def test_a_tensor_over_no_count_is_no_error() -> None:
    (made,) = _made(_APPEND, "    return total / len(kept)\n")
    (text,) = made.edits.values()
    assert "total / kept_kept.sum()\n" in text and "raise" not in text


def test_another_list_guards_where_it_is_as_long() -> None:
    value = "x[i].sum()"
    both = f"if y[i] > 0:\n            first.append({value})\n            {{}}kept.append({value})"
    end = "    if not first: return total\n    return torch.stack(kept).mean() + sum(first)\n"
    (made,) = _made(both.format(""), end)
    assert "raise" not in "".join(made.edits.values())
    skip = "if x[i].sum() < 0: continue\n            "
    texts = ["".join(it.edits.values()) for it in _made(both.format(skip), end)]
    assert all("raise RuntimeError" in text for text in texts)


def test_values_of_two_dtypes_are_left_alone() -> None:
    body = (
        "if y[i] > 0:\n            kept.append(x[i].sum())\n        else:\n"
        "            kept.append(x[i].double().sum())"
    )
    assert not _made(body, "    return torch.stack(kept).mean()\n")

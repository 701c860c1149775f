"""What the fake of an operator says of lists that the data shortens."""

from __future__ import annotations

import re
import textwrap

import pytest
from gbfix_codemods.operator.wrap_piece import WrapPiece

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor
from gbfix.schema import Fact, Safety

_LONGS = tensor(5, dtype="torch.int64")
_FACTS = {
    "ids": _LONGS,
    "others": _LONGS,
    "ids.tolist()": Fact("list", "list", items=(scalar(1),)),
    "others.tolist()": Fact("list", "list", items=(scalar(1),)),
    "found": Fact("list", "list", items=()),
    "torch.tensor(found)": _LONGS,
    "i": scalar(1),
    "j": scalar(1),
    "zlib.crc32": Fact("function", "function", qualname="zlib.crc32"),
}
_CRC = "zlib.crc32(str(i).encode())"
_OF_V = "zlib.crc32(str(v).encode())"
_EACH = "for i in ids.tolist():\n"


def _fake(body: str) -> str:
    """The size in the fake of the operator that takes the place of the body."""
    lines = textwrap.indent(f"found = []\n{body}\nreturn torch.tensor(found)\n", "    ")
    source = f"import zlib\n\nimport torch\n\n\ndef hashed(ids, others):\n{lines}"
    case = Example(source, "", at=_CRC, facts=_FACTS, title="")
    (made, *_) = WrapPiece().propose(example_site(case, "GB0007"))
    assert isinstance(made, Rewrite)
    (text,) = made.edits.values()
    (size,) = re.findall(r"torch\.empty\((.*), dtype=.*torch\.int64", text)
    return str(size)


@pytest.mark.parametrize(
    "body",
    [
        f"{_EACH}    if i != 102:\n        found += [{_CRC}]",
        f"{_EACH}    found.append({_CRC})\n    if i == 102:\n        break",
        f"{_EACH}    found.append({_CRC})\n    if i == 102:\n        return torch.tensor(found)",
        f"{_EACH}    try:\n        found.append({_CRC} + TABLE[i])\n"
        "    except KeyError:\n        pass",
        f"{_EACH}    found.append({_CRC})\n    if i == 102:\n        found.clear()",
    ],
)
def test_lists_that_data_shortens(body: str) -> None:
    assert _fake(body) == "(size,)"


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (f"{_EACH}    found.append({_CRC})", "ids.shape"),
        (f"{_EACH}    found += [{_CRC}]", "ids.shape"),
        (
            f"{_EACH}    try:\n        found.append({_CRC} + TABLE[i])\n"
            "    except KeyError:\n        found.append(0)",
            "ids.shape",
        ),
        (
            f"{_EACH}    try:\n        found.append({_CRC} + TABLE[i])\n"
            "    except KeyError as error:\n        raise ValueError(i) from error",
            "ids.shape",
        ),
        (
            f"for i, j in zip(ids.tolist(), others.tolist()):\n    found.append({_CRC} + j)",
            "(min(ids.shape[0], others.shape[0]),)",
        ),
        (
            f"for i, j in zip(ids.tolist(), ids.tolist()):\n    found.append({_CRC} + j)",
            "ids.shape",
        ),
    ],
)
def test_lists_of_a_known_length(body: str, size: str) -> None:
    assert _fake(body) == size


@pytest.mark.parametrize(
    "call",
    [
        "np.squeeze(np.argwhere(ids.numpy()))",
        "np.flatnonzero(ids.numpy())",
        "np.unique(ids.numpy())",
        "np.where(ids.numpy())[0]",
        "np.nonzero(ids.numpy())[0]",
        "np.intersect1d(ids.numpy(), others.numpy())",
        "np.compress(ids.numpy() > 0, ids.numpy())",
    ],
)
def test_what_data_picks_is_not_safe_as_large_as_it_was(call: str) -> None:
    text = f"torch.tensor({call})"
    source = (
        "import numpy as np\nimport torch\n\n\n@torch.compile\ndef places(ids, others):\n"
        f"    found = {text}\n    return ids.sum() + found\n"
    )
    array = Fact("ndarray", "numpy.ndarray", shape=(5,), dtype="int64")
    facts = {
        "ids": _LONGS,
        "others": _LONGS,
        "ids.numpy()": array,
        "others.numpy()": array,
        call: array,
        text: _LONGS,
    }
    case = Example(source, "", at=call, facts=facts, title="")
    made = [
        it for it in WrapPiece().propose(example_site(case, "GB0007")) if isinstance(it, Rewrite)
    ]
    assert made
    safe = [it for it in made if it.safety is Safety.SAFE]
    assert all("new_dynamic_size" in new for it in safe for new in it.edits.values())


def test_what_is_cut_off_is_the_smaller_size() -> None:
    assert _fake(f"{_EACH}    found.append({_CRC})\nfound = found[:100]") == (
        "(min(ids.shape[0], 100),)"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("key / 2", Safety.SAFE),
        ("max(v, 0.0)", Safety.SAFE),
        ("v * 2 + 1", Safety.SAFE),
        ("max(v, 0)", Safety.UNSAFE),
        ("v if v > 0 else -1", Safety.UNSAFE),
        ("round(v, 2) or 0", Safety.UNSAFE),
        ("best", Safety.UNSAFE),
    ],
)
def test_numbers_of_which_the_data_decide_whether_they_are_whole(
    value: str, expected: Safety
) -> None:
    source = (
        "import zlib\n\nimport torch\n\n\ndef f(x):\n    found = []\n    best = 0\n"
        f"    for v in x.tolist():\n        key = {_OF_V}\n"
        f"        found.append({value})\n        if v > best:\n            best = v\n"
        "    return torch.tensor(found)\n"
    )
    facts = {
        **_FACTS,
        "x": tensor(5),
        "x.tolist()": Fact("list", "list", items=(scalar(1.5),)),
        "torch.tensor(found)": tensor(5),
        "v": scalar(1.5),
        "key": scalar(3),
    }
    case = Example(source, "", at=_OF_V, facts=facts, title="")
    made, *_ = WrapPiece().propose(example_site(case, "GB0007"))
    assert isinstance(made, Rewrite)
    assert made.safety is expected

"""Examples and near misses of `lookup_by_tensor`."""

from __future__ import annotations

import textwrap
from typing import Any

from gbfix.codemod import scalar, tensor

#: What looks up; ``{name}`` and ``{torch}`` are what the file calls it and torch.
ENTRY = '''def {name}(table, index):
    """``table[index]``; a tensor without dimensions is no number that has to be read."""
    whole = ({torch}.int64, {torch}.int32, {torch}.int16, {torch}.int8)
    both = isinstance(table, {torch}.Tensor) and isinstance(index, {torch}.Tensor)
    if both and index.dim() == 0 and index.dtype in whole:
        return table[index.long()[None]].squeeze(0)
    return table[index]
'''


def _after(body: str) -> str:
    body = textwrap.dedent(body)
    head, function = "\nimport torch\n\n", ENTRY.format(name="entry", torch="torch")
    return f"{head}{function}\n\n{body.removeprefix(head)}"


_WHOLE = tensor(dtype="torch.int64")
_FACTS = {
    "x": tensor(3),
    "t": _WHOLE,
    "t - 1": _WHOLE,
    "p": _WHOLE,
    "table": tensor(20),
    "self.table": tensor(20),
    "self.last": tensor(),
    "row": tensor(),
}

EXAMPLES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        """
        import torch

        def f(x, table, t):
            row = table[t - 1]  # the time before
            return x * row + table[t] ** 0.5
        """,
        _after(
            """
        import torch

        def f(x, table, t):
            row = entry(table, t - 1)  # the time before
            return x * row + entry(table, t) ** 0.5
        """
        ),
        {"at": "table[t - 1]", "facts": _FACTS},
    ),
    (
        """
        import torch

        def f(x, table, t: torch.Tensor):
            return x * table[t - 1]
        """,
        _after(
            """
        import torch

        def f(x, table, t: torch.Tensor):
            return x * entry(table, t - 1)
        """
        ),
        {"at": "table[t - 1]", "facts": _FACTS},
    ),
    (
        """
        import torch

        def f(self, x, t):
            p = t - 1
            now = self.table[t]
            row = self.table[p] if p >= 0 else self.last
            return x * now / row
        """,
        _after(
            """
        import torch

        def f(self, x, t):
            p = t - 1
            now = entry(self.table, t)
            row = torch.where(
                torch.as_tensor(p) >= 0,
                entry(self.table, torch.as_tensor(p).clamp(min=0)),
                self.last,
            )
            return x * now / row
        """
        ),
        {"at": "p >= 0", "facts": _FACTS},
    ),
    (
        """
        import torch

        def f(self, x, p):
            row = self.last if x.sum() > 30000 else self.table[p]
            return x / row
        """,
        _after(
            """
        import torch

        def f(self, x, p):
            row = torch.cond(
                x.sum() > 30000,
                lambda: self.last.clone(),
                lambda: entry(self.table, p),
            )
            return x / row
        """
        ),
        {"at": "x.sum() > 30000", "facts": _FACTS},
    ),
)

_IF = "self.table[p] if p >= 0 else self.last"


def _case(body: str, why: str, at: str = "table[t]", **facts: Any) -> tuple[str, dict[str, Any]]:
    lines = "".join(f"    {line}\n" for line in body.split("; "))
    source = f"import torch\n\ndef f(self, x, table, t, p, g):\n{lines}"
    return source, {"at": at, "why": why, "facts": {**_FACTS, **facts}}


NEAR_MISSES = (
    _case("return table[t]", "the row is a view that the caller gets"),
    _case("row = table[t]; x = x * row; return x, row", "the name is returned, too"),
    _case("row = table[t]; row += 1; return x", "the table is changed through the row"),
    _case("row = table[t]; table.mul_(2); return x * row", "the view sees the change"),
    _case("row = table[t]; table[0] = 2; return x * row", "the view sees the store"),
    _case("row = table[t]; torch.neg(x, out=table); return x * row", "the view sees the result"),
    _case("row = table[t]; both = row; return x * row", "another name for the row"),
    _case("row = table[t]; return lambda: x * row", "a closure reads it later"),
    _case("return g(table[t]) * x", "who knows what becomes of it"),
    _case("self.row = table[t]; return x", "it is kept"),
    _case("row = +table[t]; return x * row, row", "a plus hands on the very tensor"),
    _case("row = table[t]; zeros_(table); return x * row", "the view sees the zeros"),
    _case("return x if x is not table[t] else t", "asks for the very object"),
    _case("return x * table[t + g()]", "who knows what is called", "table[t + g()]",
          **{"t + g()": _WHOLE}),
    _case("return x * table[t]", "a list", table=scalar(2)),
    _case("return x * table[t]", "an index of one dimension", t=tensor(1, dtype="torch.int64")),
    _case("return x * table[t]", "a mask", t=tensor(dtype="torch.bool")),
    _case("return x * table[t]", "a byte is a mask",
          t=tensor(dtype="torch.uint8")),
    _case("return x * table[t]", "a number of Python", t=scalar(2)),
    _case("return x * table[t]", "an index elsewhere",
          t=tensor(dtype="torch.int64", device="cuda:0")),
    _case("return (x * table[t]).sum()", "rows of two dimensions, whose strides differ",
          table=tensor(4, 3, 2)),
    _case("row = table[t]; yield x; yield x * row", "the caller may change the table meanwhile"),
    _case(f"return {_IF}", "the row is a result", "p >= 0"),
    _case("row = self.table[p] if p >= 0 else 1.0; return x * row", "a number", "p >= 0"),
    _case("row = self.table[p] if p >= 0 else g(x); return x * row", "unknown code", "p >= 0"),
    _case(f"row = {_IF}; return x * row", "gradients of the arm not taken would be zeros",
          "p >= 0", **{"self.table": tensor(20, requires_grad=True)}),
    _case(f"row = {_IF}; self.table.add_(1); return x * row", "the view sees the change",
          "p >= 0"),
    _case("row = self.table[p] if g and p >= 0 else self.last; return x * row",
          "Python decides, too", "p >= 0"),
)  # fmt: skip

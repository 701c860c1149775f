"""Examples and near misses of `loops_places`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_FACTS = {
    "load": tensor(4, dtype="torch.int64"),
    "owner": tensor(6, dtype="torch.int64"),
    "owner == number": tensor(6, dtype="torch.bool"),
    "mine": tensor(6, dtype="torch.bool"),
    "x": tensor(6, 8),
    "out": tensor(6, 8),
    "table": tensor(4, 8),
    "big": tensor(4000, dtype="torch.int64"),
    "total": tensor(8),
    "rank": scalar(1, constant=False),
    "self.experts": Fact("module", "torch.nn.ModuleList"),
}


def _source(before: str, loop: str, end: str = "out") -> str:
    lines = "".join(f"    {line}\n" for line in f"{before}\n{loop}".strip("\n").splitlines())
    return (
        "import torch\n\n\n"
        "def f(x, out, owner, load, big, table, total):\n"
        f"{lines}    return {end}\n"
    )


_PLACES = "torch.nonzero(load, as_tuple=True)[0].tolist()"
_BODY = "    out[owner == number] = torch.tanh(x[owner == number]) + table[number]"
_MASKED = (
    "    chosen = (owner == number) & places[number]\n"
    "    out[chosen] = torch.tanh(x[chosen]) + table[number]"
)
_NAMED = "    mine = owner == number\n    out[mine] *= x[mine]  # theirs"
_NAMED_AFTER = (
    "    mine = owner == number\n    chosen = mine & hit[number]\n"
    "    out[chosen] *= x[chosen]  # theirs"
)
_TOP = "    out[owner == number] = x[owner == number].max()"
_RANK = "    rank = rank + 1\n    out[owner == number] = rank"
_SUM = "    total = total + table[number]"
_OVER = "for number in places:"
_ALL = "for number in range(places.shape[0]):"

EXAMPLES = (
    Example(
        _source(f"places = {_PLACES}", f"{_OVER}\n{_BODY}"),
        _source("places = load != 0", f"{_ALL}\n{_MASKED}"),
        at="torch.nonzero(load, as_tuple=True)",
        facts=_FACTS,
        title="rows that a mask picks",
    ),
    Example(
        _source("", f"for number in (load > 1).nonzero().flatten().tolist():\n{_NAMED}"),
        _source("hit = (load > 1)", f"for number in range(hit.shape[0]):\n{_NAMED_AFTER}"),
        at="(load > 1).nonzero()",
        facts={**_FACTS, "load > 1": tensor(4, dtype="torch.bool")},
        title="a mask with a name",
    ),
    Example(
        _source(f"places = {_PLACES}", f"{_OVER}\n{_TOP}"),
        _source(
            "places = load != 0",
            f"{_ALL}\n    if places[number]:\n        {_TOP.strip()}",
        ),
        at="torch.nonzero(load, as_tuple=True)",
        facts=_FACTS,
        title="what needs rows",
    ),
    Example(
        _source(f"rank = 0\nplaces = {_PLACES}", f"{_OVER}\n{_RANK}"),
        _source(
            "rank = 0\nplaces = load != 0",
            f"{_ALL}\n    if places[number]:\n        rank = rank + 1\n"
            "        out[owner == number] = rank",
        ),
        at="torch.nonzero(load, as_tuple=True)",
        facts=_FACTS,
        title="a count of the rounds",
    ),
    Example(
        _source(f"places = {_PLACES}", f"{_OVER}\n{_SUM}", "total"),
        _source(
            "places = load != 0",
            f"{_ALL}\n    if places[number]:\n        total = total + table[number]",
            "total",
        ),
        at="torch.nonzero(load, as_tuple=True)",
        facts=_FACTS,
        title="a sum",
    ),
)
NEAR_MISSES = tuple(
    NearMiss(_source(before, loop, end), at=at, why=why, facts=_FACTS)
    for before, loop, end, at, why in (
        (
            f"places = {_PLACES}",
            f"{_OVER}\n{_BODY}",
            "out, len(places)",
            "torch.nonzero(load, as_tuple=True)",
            "the list is read besides",
        ),
        (
            f"places = {_PLACES}",
            f"{_OVER}\n{_BODY}",
            "out, number",
            "torch.nonzero(load, as_tuple=True)",
            "the last place is read",
        ),
        (
            "places = torch.nonzero(big, as_tuple=True)[0].tolist()",
            f"{_OVER}\n{_SUM}",
            "total",
            "torch.nonzero(big, as_tuple=True)",
            "too many places",
        ),
        (
            "places = torch.nonzero(x, as_tuple=True)[0].tolist()",
            f"{_OVER}\n{_SUM}",
            "total",
            "torch.nonzero(x, as_tuple=True)",
            "places of several dimensions",
        ),
        (
            f"places = {_PLACES}",
            f"{_OVER}\n{_SUM}\nelse:\n    total = table",
            "total",
            "torch.nonzero(load, as_tuple=True)",
            "an else",
        ),
        (
            "places = torch.nonzero(load, as_tuple=True)[1].tolist()",
            f"{_OVER}\n{_SUM}",
            "total",
            "torch.nonzero(load, as_tuple=True)",
            "another column",
        ),
    )
)

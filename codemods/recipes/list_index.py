"""A list of numbers as an index, given as a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..api.splice import Splice
from ..data_dependent.flow import torch_name

_NUMBERS = Fact("list", "list", items=(scalar(1), scalar(0)))
_FACTS = {"x": tensor(5), "picks": _NUMBERS, "x[picks]": tensor(2)}


def _source(line: str) -> str:
    return f"import torch\n\n\ndef f(x, picks):\n    {line}\n"


class ListIndex(Codemod):
    """*What it does.*  Indexes by a tensor of the numbers that a list holds: ``x[picks]`` becomes
    ``x[torch.tensor(picks, dtype=torch.int64, device=x.device)]``.

    *When it applies.*  The list was recorded with whole numbers alone, and the compiler would need
    to know them: they come out of tensors.

    *Fix safety.*  Safe: torch makes the same tensor of the list, of an empty one, too.

    *Refuses.*  Lists that were empty when recorded, lists that hold truth values or
    slices, and indices of several dimensions.
    """

    name = "list-index"
    codes = ("data-dependent-specialization", "data-dependent-guard", "GB0170")
    examples = (
        Example(
            _source("return x[picks].flatten()"),
            _source("return x[torch.tensor(picks, dtype=torch.int64, device=x.device)].flatten()"),
            at="x[picks].flatten()",
            facts=_FACTS,
            title="numbers that were read from tensors",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(line), at=line, why=why, facts={**_FACTS, **facts})
        for why, line, facts in (
            ("a list of nothing", "return x[picks]", {"picks": Fact("list", "list", items=())}),
            (
                "truth values",
                "return x[picks]",
                {"picks": Fact("list", "list", items=(scalar(True), scalar(False)))},
            ),
            ("an index", "return x[n]", {"n": scalar(1)}),
            ("it is written to", "x[picks] = 0", {}),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        splice = Splice(site)
        torch = torch_name(site)
        found = False
        for node in walk(site.statement):
            match node:
                case cst.Subscript(
                    value=cst.Name() | cst.Attribute() as owner,
                    slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Name() as index))],
                ) if not comments_in(node) and not isinstance(
                    site.parent(node), cst.AssignTarget | cst.AugAssign | cst.Del
                ):
                    whole, numbers = site.fact(owner), site.fact(index)
                case _:
                    continue
            if whole is None or not whole.is_tensor or numbers is None or numbers.kind != "list":
                continue
            if not numbers.items or any(item.kind != "int" for item in numbers.items):
                continue
            device = f"{splice.source_of(owner)}.device"
            splice.replace(
                index, f"{torch}.tensor({index.value}, dtype={torch}.int64, device={device})"
            )
            found = True
        if found:
            yield splice.rewrite("index by a tensor of the numbers", rank=12)

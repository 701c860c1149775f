"""A tensor to which each round of a loop adds one slice, as a text that is written word by word.

```python
for _ in range(limit):
    token = model(ids)[:, -1].argmax(-1, keepdim=True)
    ids = torch.cat([ids, token], dim=1)
    if (token == end).all():
        break
```
The rounds after the end add slices, too, and these are cut off behind the loop: what counts comes
first, and nothing of it changes.
"""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.exits import exits
from gbfix.analysis.liveness import definitely_bound_before, live_after
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code
from gbfix.codemod import Site

from ..control_flow.values import Values
from .loops_lists import Kept, may_be_idle
from .loops_width import JOINS, is_one_wide, joined, times_bound


def grown_tensors(
    site: Site,
    loop: cst.For | cst.While,
    function: cst.FunctionDef,
    values: Values,
    taken: set[str],
    *,
    tested: bool,
) -> dict[str, Kept]:
    """The tensors that each round of the loop makes longer by one, at their end.

    ``tested``: the test of a ``while`` asks data, and may end the loop before its first round.
    """
    if not isinstance(loop.body, cst.IndentedBlock):
        return {}
    used = live_after(function, loop)
    before = definitely_bound_before(function, loop)
    found: dict[str, Kept] = {}
    for number, line in enumerate(loop.body.body):
        longer = joined(site, line)
        if longer is None:
            continue
        name, added, dim = longer
        fact = values.outside(name)
        alone = times_bound(loop, name) == 1 and name in before
        if not alone or fact is None or not fact.is_tensor or fact.shape is None:
            continue
        if not is_one_wide(site, loop, added, int(dim) % len(fact.shape), len(fact.shape), values):
            continue
        kept = Kept(name, fresh(f"{name}_kept", taken), [], [], grows=line, dim=dim)
        if name in used:  # else it may be as long as it gets
            kept.rounds, kept.start = fresh(f"{name}_count", taken), fresh(f"{name}_start", taken)
            taken.update((kept.flags, kept.rounds, kept.start))
        kept.jumps = tested + sum(exits([other]).jumps > 0 for other in loop.body.body[:number])
        kept.torch = values.torch
        kept.idle = may_be_idle(loop, values)
        kept.read = f"{values.torch}.stack({kept.flags})"
        found[name] = kept
    return found


def joins_itself(site: Site, value: cst.BaseExpression | None, name: str) -> bool:
    """``torch.cat([word, ids])``: a value for ``ids`` that is longer than ``ids``."""
    match value:
        case cst.Call(func=func, args=[cst.Arg(value=cst.List() | cst.Tuple() as parts), *_]):
            return resolve(site.module, func) in JOINS and name in map(
                code, (element.value for element in parts.elements)
            )
    return False

"""What `gbfix.worker.witness` is asked for; this module imports no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from gbfix.schema import Target


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Which call of which region, under which variation, and where its inputs go."""

    target: Target
    root: str
    files: Mapping[str, bytes]
    key: str
    index: int
    label: str
    out: str
    exclude: tuple[str, ...] = ()

"""How a run of the engine ends early."""

from __future__ import annotations

from gbfix.schema import ErrorReport


class Stop(Exception):
    """The run cannot go on; ``error`` is what the report says."""

    def __init__(self, error: ErrorReport) -> None:
        super().__init__(error.message)
        self.error = error

"""Where the time of a run goes, by phase."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Clock:
    """Adds up seconds by phase; phases inside others count for the innermost alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running: list[str] = []
        self._since = time.monotonic()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block's time for a phase."""
        self._note()
        self._running.append(name)
        try:
            yield
        finally:
            self._note()
            self._running.pop()

    def _note(self) -> None:
        now = time.monotonic()
        if self._running:
            name = self._running[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now

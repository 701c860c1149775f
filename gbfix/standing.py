"""Where a run stands, in one line: the break that it works on, what it does, the time left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Standing:
    """Puts what is known of the way ahead before each text that goes to ``show``.

    The time left is what the breaks before took, on the average, for each that is open: nothing is
    said before the first is done, and it is about as good as breaks are alike.
    """

    def __init__(
        self, show: Callable[[str], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._show = show
        self._now = now
        self._where = ""
        self._open = 0
        self._since = 0.0
        self._spent = 0.0
        self._done = 0

    def __call__(self, text: str) -> None:
        self._show(f"{self._left()}{self._where}{text}")

    def at(self, number: int, total: int, still_open: int, what: str) -> None:
        """A break is begun; ``still_open`` counts it and all that are to be tried after it."""
        self._where = f"break {number} of {total}: "
        self._open = still_open
        self._since = self._now()
        self(what)

    def done(self) -> None:
        """The break that was begun is fixed, or given up."""
        if self._where:
            self._spent += self._now() - self._since
            self._done += 1
        self.elsewhere()

    def elsewhere(self) -> None:
        """What follows is not about one break."""
        self._where = ""

    def _left(self) -> str:
        if not self._done or not self._where:
            return ""
        each = self._spent / self._done
        here = max(each - (self._now() - self._since), 0.0)
        return f"about {_duration(here + each * (self._open - 1))} left, "


def _duration(seconds: float) -> str:
    """Rounded up, as coarse as the guess is."""
    if seconds <= 90:
        return f"{max(math.ceil(seconds / 5), 1) * 5} s"
    return f"{math.ceil(seconds / 60)} min"

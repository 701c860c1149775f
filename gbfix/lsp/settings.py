"""What the client asks for.  Running a program needs its trust, and a command or a setting."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any


class Run(enum.StrEnum):
    """When programs are run: never, when somebody asks for it, or also on every save."""

    NEVER = "never"
    ON_COMMAND = "onCommand"
    ON_SAVE = "onSave"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The section ``gbfix`` of a client's configuration, checked.

    ``trusted`` is what the client says of the workspace (VS Code's restricted mode sends false):
    without it nothing is ever run.  ``targets`` are command lines as in ``[tool.gbfix]``, and take
    their place.
    """

    run: Run = Run.ON_COMMAND
    trusted: bool = True
    hints: bool = True
    code_lens: bool = True
    targets: tuple[str, ...] = ()
    idle_minutes: float = 10.0
    shows_explanations: bool = False

    @property
    def may_run(self) -> bool:
        return self.trusted and self.run is not Run.NEVER

    @property
    def runs_on_save(self) -> bool:
        return self.trusted and self.run is Run.ON_SAVE

    @property
    def refusal(self) -> str:
        """Why nothing may be run, and what to do about it."""
        if not self.trusted:
            return "the workspace is not trusted: trust it in the editor to let gbfix run programs"
        return 'running is switched off: set gbfix.run to "onCommand" or "onSave"'


_KEYS = {
    "run": "run",
    "trusted": "trusted",
    "hints": "hints",
    "codeLens": "code_lens",
    "targets": "targets",
    "idleMinutes": "idle_minutes",
    "showsExplanations": "shows_explanations",
}


def read(given: object, before: Settings) -> tuple[Settings, list[str]]:
    """The settings with what a client sent, and what was wrong with it.

    A value of the wrong kind leaves the setting as it was; ``gbfix``, ``settings`` around the
    values are taken off.  Keys that belong to a client's own side are passed over.
    """
    for wrapper in ("settings", "gbfix"):
        if isinstance(given, Mapping) and isinstance(given.get(wrapper), Mapping):
            given = given[wrapper]
    if not isinstance(given, Mapping):
        return before, []
    values: dict[str, Any] = {}
    problems: list[str] = []
    for key, field in _KEYS.items():
        if key not in given or given[key] is None:
            continue
        try:
            values[field] = _checked(key, given[key])
        except ValueError as error:
            problems.append(f"setting gbfix.{key}: {error}")
    return dataclasses.replace(before, **values), problems


def _checked(key: str, value: object) -> object:
    if key == "run":
        try:
            return Run(str(value))
        except ValueError:
            names = ", ".join(Run)
            raise ValueError(f"{value!r} is not one of {names}") from None
    if key == "targets":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"{value!r} is not a list of command lines")
        return tuple(value)
    if key == "idleMinutes":
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise ValueError(f"{value!r} is not a number of minutes")
        return float(value)
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not true or false")
    return value

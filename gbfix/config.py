"""``[tool.gbfix]`` of pyproject.toml: what to run and how, when the command line does not say.

The nearest pyproject.toml above the working folder that has the table counts.  Unknown keys and
values of the wrong kind are errors, not silence.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gbfix import GbfixError

_LISTS = ("exclude", "include", "select", "ignore", "backend")
_SECONDS = ("timeout", "inductor-timeout", "budget")
_NUMBERS = ("calls", "jobs", *_SECONDS)
_FLAGS = ("unsafe-fixes", "cache", "measure", "only-if-faster")
_CALLERS = ("program", "any")
_KEYS = ("targets", *_LISTS, *_NUMBERS, *_FLAGS, "memory-limit", "callers")


class ConfigError(GbfixError):
    """What is wrong with the table, in one line that names the file and the key."""


@dataclasses.dataclass(frozen=True)
class ConfiguredTarget:
    """A target as words of a command line, with the inputs of a ``PATH::QUALNAME``."""

    words: tuple[str, ...]
    inputs: str | None = None


@dataclasses.dataclass(frozen=True)
class Config:
    """The table, checked.  ``options`` holds the keys that were given, spelt as in the file."""

    folder: Path
    targets: tuple[ConfiguredTarget, ...] = ()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def load(start: Path) -> Config:
    """The configuration that holds in a folder; an empty one where there is none."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            table = _table(path)
            if table is not None:
                return _config(path, table)
    return Config(start)


def _table(path: Path) -> dict[str, Any] | None:
    import tomllib

    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    if "gbfix" not in text:
        return None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    table = data.get("tool", {}).get("gbfix")
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{path}: tool.gbfix must be a table")
    return table


def _config(path: Path, table: dict[str, Any]) -> Config:
    for key in table:
        if key not in _KEYS:
            import difflib

            close = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(_KEYS)}"
            raise ConfigError(f"{path}: [tool.gbfix] has an unknown key {key!r}; {hint}")
    options: dict[str, Any] = {}
    for key, value in table.items():
        if key in _LISTS:
            options[key] = _strings(path, key, value)
        elif key in _FLAGS:
            _require(path, key, isinstance(value, bool), "true or false", value)
            options[key] = value
        elif key in _NUMBERS:
            kind = int | float if key in _SECONDS else int
            right = isinstance(value, kind) and not isinstance(value, bool) and value >= 0
            _require(path, key, right, "a number that is not negative", value)
            options[key] = value
        elif key == "memory-limit":
            right = isinstance(value, str) or type(value) is int
            _require(path, key, right, "a size such as '8G'", value)
            options[key] = str(value)
        elif key == "callers":
            _require(path, key, value in _CALLERS, "'program' or 'any'", value)
            options[key] = value
    items = table.get("targets", [])
    _require(path, "targets", isinstance(items, list), "a list", items)
    return Config(path.parent, tuple(_target(path, item) for item in items), options)


def _target(path: Path, item: object) -> ConfiguredTarget:
    """``"train.py --epochs 1"`` or ``{target = "model.py::Net", inputs = "..."}``."""
    if isinstance(item, dict):
        known = item.keys() <= {"target", "inputs"}
        strings = all(isinstance(value, str) for value in item.values())
        shape = "a string or a table with 'target' and 'inputs'"
        _require(path, "targets", known and strings and "target" in item, shape, item)
        return ConfiguredTarget(_words(path, item["target"]), item.get("inputs"))
    _require(path, "targets", isinstance(item, str), "a list of strings or tables", item)
    return ConfiguredTarget(_words(path, str(item)))


def _words(path: Path, text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{path}: [tool.gbfix] target {text!r}: {error}") from error
    _require(path, "targets", bool(words), "commands, not empty strings", text)
    return words


def _strings(path: Path, key: str, value: object) -> tuple[str, ...]:
    right = isinstance(value, list) and all(isinstance(item, str) for item in value)
    _require(path, key, right, "a list of strings", value)
    assert isinstance(value, list)
    return tuple(value)


def _require(path: Path, key: str, right: bool, wanted: str, value: object) -> None:
    if not right:
        raise ConfigError(f"{path}: [tool.gbfix] {key} must be {wanted}, not {value!r}")

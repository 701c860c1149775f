"""From words on a command line to records: targets, codes, backends, sizes."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gbfix import GbfixError, catalog, launchers, packages, registry
from gbfix.config import Config
from gbfix.schema import Options, Target
from gbfix.source import SourceError, SourceFile, check_syntax
from gbfix.words import ArgumentError, Words, split

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_BACKENDS = ("eager", "aot_eager", "inductor")


def target(words: Words, inputs: str | None, cwd: str, commands: Iterable[str] = ()) -> Target:
    """The target that the words name, after looking at what can be known without running it.

    Raises `ArgumentError`, or `SourceError` for a file that is missing or does not parse.
    """
    launched = launchers.behind(words, cwd)
    if launched is not None:
        behind = target(launched.words, inputs, cwd, commands)
        return dataclasses.replace(
            behind, environment=launched.environment, launcher=launched.command
        )
    if words.module is not None:
        if not all(part.isidentifier() for part in words.module.split(".")):
            raise ArgumentError(f"-m {words.module}: not the name of a module; use dots, no .py")
        _no_inputs(inputs)
        return Target("module", words.module, words.rest, cwd=cwd)
    if not words.rest:
        raise ArgumentError("names no target: write SCRIPT [ARGS], -m MODULE or PATH::QUALNAME")
    first, *args = words.rest
    if first == "-":
        raise ArgumentError("a program on standard input cannot be patched; save it to a file")
    path, colons, qualname = first.partition("::")
    _check_file(path, cwd, first in commands)
    if not colons:
        _no_inputs(inputs)
        return Target("script", first, tuple(args), cwd=cwd)
    if not all(part.isidentifier() for part in qualname.split(".")):
        raise ArgumentError(f"{first}: {qualname!r} is not a qualified name such as Model.forward")
    if args:
        raise ArgumentError(
            f"{first} takes no arguments ({args[0]!r}); pass them with --inputs, before the target"
        )
    if inputs is None:
        raise ArgumentError(
            f"{first} needs --inputs, a Python expression for its arguments, "
            'for example --inputs "(torch.randn(4, 8),)"'
        )
    try:
        compile(inputs.strip(), "--inputs", "eval")
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", error)
        raise ArgumentError(f"--inputs {inputs!r} is not a Python expression: {reason}") from None
    return Target("callable", first, (), inputs, cwd)


def options(given: Mapping[str, Any], configured: Mapping[str, Any]) -> Options:
    """The words given first, then ``[tool.gbfix]``, then the defaults."""
    defaults = Options()

    def value(key: str, default: Any) -> Any:
        from_words = given.get(key.replace("-", "_"))
        return configured.get(key, default) if from_words in (None, ()) else from_words

    include = tuple(dict.fromkeys(_items(value("include", ()))))
    for name in include:
        packages.find(name)
    return Options(
        calls=value("calls", defaults.calls),
        backends=backends(value("backend", ())),
        inductor=not value("backend", ()),
        jobs=value("jobs", defaults.jobs),
        timeout=float(value("timeout", defaults.timeout)),
        inductor_timeout=float(value("inductor-timeout", defaults.inductor_timeout)),
        budget=float(value("budget", defaults.budget)),
        memory_limit=size(value("memory-limit", "0")),
        select=selection("--select", value("select", ())),
        ignore=selection("--ignore", value("ignore", ())),
        unsafe_fixes=value("unsafe-fixes", defaults.unsafe_fixes),
        check_only=given.get("mode") == "check",
        use_cache=not given.get("no_cache") and configured.get("cache", True),
        measure=value("measure", defaults.measure),
        only_if_faster=value("only-if-faster", defaults.only_if_faster),
        exclude=tuple(configured.get("exclude", ())),
        include=include,
        # Whoever patches a package does not know all that calls it.
        callers=value("callers", "any" if include else defaults.callers),
        verbose=given.get("verbose", 0),
    )


def configured_targets(settings: Config) -> list[Target]:
    """The targets of ``[tool.gbfix]``; they count from the folder of its file."""
    return [
        target(split(item.words, {}), item.inputs, str(settings.folder))
        for item in settings.targets
    ]


def listed_targets(path: Path) -> list[Target]:
    """The targets of a file: the words of a command line each, ``#`` starts a comment.

    They count from the folder of the file; ``--inputs EXPR`` may stand before a PATH::QUALNAME.
    Raises `ArgumentError` with the number of the line.
    """
    text = SourceFile.read(path).text
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{path.name}:{number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise ArgumentError(f"{where}: {error}") from None
        if not words:
            continue
        inputs = None
        if words[0] == "--inputs" and len(words) > 1:
            inputs, words = words[1], words[2:]
        try:
            named = split(words, {})
            if not named.names_target or named.options:
                raise ArgumentError("is not SCRIPT [ARGS], -m MODULE or PATH::QUALNAME")
            found.append(target(named, inputs, str(path.absolute().parent)))
        except GbfixError as error:
            raise ArgumentError(f"{where}: {error}") from None
    if not found:
        raise ArgumentError(f"{path.name} lists no targets; write one a line, as for `gbfix`")
    return found


def file_of(wanted: Target) -> Path | None:
    """The file that a target names; None for a module."""
    if wanted.kind == "module":
        return None
    return Path(wanted.cwd, wanted.value.partition("::")[0])


def selection(option: str, values: Iterable[str]) -> tuple[str, ...]:
    """Codes, families and codemod names from comma lists, codes in their full form."""
    names = {info.name for info in catalog.codemods()}
    found: list[str] = []
    for item in _items(values):
        if item in names:
            found.append(item)
            continue
        try:
            found.append(registry.Registry.load().resolve(item))
        except registry.UnknownCodeError as error:
            import difflib

            close = difflib.get_close_matches(item, names, n=3)
            hint = f"; codemods with such a name: {', '.join(close)}" if close else ""
            raise ArgumentError(f"{option}: {error}{hint}") from None
    return tuple(dict.fromkeys(found))


def backends(values: Iterable[str]) -> tuple[str, ...]:
    """The backends to validate under: eager and aot_eager always, others as asked for."""
    asked = _items(values)
    for name in asked:
        if name not in _BACKENDS:
            raise ArgumentError(f"--backend: {name!r} is not one of {', '.join(_BACKENDS)}")
    return tuple(name for name in _BACKENDS if name != "inductor" or name in asked)


def size(text: str) -> int:
    """Bytes from ``8G``, ``512MB``, ``1.5GiB`` or a plain number; 0 means no limit."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if found is None:
        raise ArgumentError(f"--memory-limit: {text!r} is not a size such as 8G or 512M")
    return int(float(found.group(1)) * _UNITS[found.group(2).lower()])


def _items(values: Iterable[str]) -> list[str]:
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _no_inputs(inputs: str | None) -> None:
    if inputs is not None:
        raise ArgumentError("--inputs goes with a PATH::QUALNAME target; a program makes its own")


def _check_file(path: str, cwd: str, is_command: bool) -> None:
    try:
        source = SourceFile.read(Path(cwd, path))
    except SourceError as error:
        step = error.next_step
        if not os.path.lexists(Path(cwd, path)):
            if is_command:
                step = f"for the command write `gbfix {path} ...`, without options before it"
            elif "/" not in path and not path.endswith((".py", ".pyw", ".ipynb")):
                step = f"for a module write `gbfix -m {path}`"
        raise SourceError(path, error.cause, step, line=error.line) from None
    if path.endswith(".ipynb"):
        return  # read, cell by cell, by `gbfix.notebooks`
    check_syntax(source.text, path)

"""A command whose options end where the target begins, as python's do."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from gbfix import words as command_line

if TYPE_CHECKING:
    from gbfix.schema import Asked

#: Options that a command proposed next does without: how to show, what to write, what to do.
_OWN = frozenset(
    {
        "mode", "style", "save", "repro", "verbose", "quiet", "timings", "from_log", "from_trace",
    }
)  # fmt: skip


class TargetCommand(click.Command):
    """Parses its own options; ``ctx.obj`` holds the words of the target."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS] (SCRIPT | -m MODULE | PATH::QUALNAME --inputs EXPR) [ARGS]..."]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {
            name: not (option.is_flag or option.count)
            for option in self.params
            if isinstance(option, click.Option)
            for name in (*option.opts, *option.secondary_opts)
        }
        ctx.obj = command_line.split(args, takes_value)
        return super().parse_args(ctx, list(ctx.obj.options))


def asked(ctx: click.Context, saved: str = "", only: Collection[str] = ()) -> Asked:
    """The command line of a `TargetCommand` as `gbfix` takes it again, ``only`` these options."""
    from gbfix import launchers
    from gbfix.schema import Asked

    words: command_line.Words = ctx.obj
    options = [
        (option.opts[-1], *value)
        for option in ctx.command.params
        if isinstance(option, click.Option)
        and (option.name in only if only else option.name not in _OWN)
        for value in _given(option, ctx.params.get(str(option.name)))
    ]
    named = list(words.rest) if words.module is None else ["-m", words.module, *words.rest]
    first = named[0] if named else ""
    runs = bool(named) and "::" not in first and not first.endswith(".ipynb")
    runs = runs and launchers.behind(words, os.getcwd()) is None
    return Asked(shlex.join(named), tuple(options), saved, runs)


def _given(option: click.Option, value: object) -> list[tuple[str, ...]]:
    """The words behind an option, once for each time that it was given."""
    if value is None or value is False:
        return []
    if option.is_flag or option.count:
        return [()] * (value if isinstance(value, int) and option.count else 1)
    values = value if isinstance(value, tuple) else (value,)
    return [(str(item).removesuffix(".0") if isinstance(item, float) else str(item),)
            for item in values]  # fmt: skip

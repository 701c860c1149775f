"""A command whose options end where the target begins, as python's do."""

from __future__ import annotations

import click

from gbfix import words as command_line


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

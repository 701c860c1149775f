"""`gbfix verify`: is a change that somebody else made right?"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gbfix import words as command_line
from gbfix.target_command import TargetCommand, asked
from gbfix.words import ArgumentError

if TYPE_CHECKING:
    from gbfix.changes import Change
    from gbfix.config import Config
    from gbfix.schema import Options, Target
    from gbfix.verification import Verification
    from gbfix.verify import Progress

_SECONDS = click.FloatRange(0, min_open=True)
_FORMATS = ("text", "json", "sarif", "github", "markdown")
#: Options that a run of `gbfix` on the same target takes as well.
_SHARED = ("inputs", "calls", "backend", "jobs", "timeout", "inductor_timeout", "memory_limit")
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_EPILOG = """Exit status: 0 the change is safe (or nothing that runs changed), 1 it is unsafe, wrong
or leaves graph breaks, 2 it could not be judged."""


@click.command("verify", cls=TargetCommand, context_settings=_CONTEXT, epilog=_EPILOG)
@click.option("-m", "module", metavar="MODULE", expose_value=False, help="Run a module, as python.")
@click.option("--inputs", metavar="EXPR", help="Arguments for PATH::QUALNAME: a tuple or a dict.")
@click.option(
    "--against", metavar="REV|DIR", help="The version before: a git revision (HEAD), or a folder."
)
@click.option("--patch", metavar="FILE", help="Judge this diff on top of the files; - reads stdin.")
@click.option(
    "--save-counterexample",
    "save",
    metavar="DIR",
    help="Write the inputs and a script that show it.",
)
@click.option(
    "--allow-breaks", is_flag=True, help="Graph breaks that were there before are no failure."
)
@click.option("--format", "style", type=click.Choice(_FORMATS), default="text")
@click.option(
    "--also", multiple=True, metavar="FORMAT=FILE", help="Write another format to a file, too."
)
@click.option(
    "--calls", type=click.IntRange(1), metavar="N", help="Calls to record of each region."
)
@click.option(
    "--backend",
    multiple=True,
    metavar="NAME",
    help="Backend to check on; `inductor` runs the full check there instead of the brief one.",
)
@click.option("--jobs", type=click.IntRange(0), metavar="N", help="Worker processes; 0 chooses.")
@click.option("--timeout", type=_SECONDS, metavar="S", help="Seconds for one run.")
@click.option(
    "--inductor-timeout", type=_SECONDS, metavar="S", help="Of a brief check there (120)."
)
@click.option("--memory-limit", metavar="SIZE", help="Of one worker, such as 8G.")
@click.option("-v", "--verbose", count=True, help="Show all that was measured.")
@click.option("-q", "--quiet", is_flag=True, help="Only what is not safe, and errors.")
@click.pass_context
def verify_command(ctx: click.Context, /, **given: Any) -> int:
    """Judge a change that somebody made by hand: is it safe, unsafe, wrong, does it still break?

    The working tree is compared with the last commit, on the recorded calls of every compiled
    region (--calls), by the ladder that gbfix's own patches climb.
    """
    from gbfix import arguments, config, verify
    from gbfix.report import verdicts

    cwd = Path(os.getcwd())
    _check_order(ctx)
    also = _also(given["also"])
    if given["against"] and given["patch"]:
        raise ArgumentError("--against and --patch exclude each other: a patch is a change already")
    settings = config.load(cwd)
    words: command_line.Words = ctx.obj
    targets = _targets(words, given["inputs"], settings, str(cwd))
    options = arguments.options({**given, "mode": "diff", "no_cache": True}, settings.options)
    patch = _patch_bytes(given["patch"], cwd)
    name = "the patch from standard input" if given["patch"] == "-" else given["patch"]
    from gbfix.session import Progress as Line

    found = []
    with Line(sys.stderr, quiet=given["quiet"], verbose=given["verbose"]) as line:
        for number, target in enumerate(targets):
            change = verify.change_for(target, given["against"], name, patch, cwd)
            save = _folder(given["save"], number, len(targets), cwd)
            found.append(judge(target, options, change, save, line.show))
            if words.names_target:
                found[-1].asked = asked(ctx, only=_SHARED)
    if given["style"] == "text":
        for one in found:
            verdicts.show(
                one, sys.stdout, cwd, verbose=given["verbose"], quiet=given["quiet"]
            )  # fmt: skip
    else:
        sys.stdout.write(_rendered(found, given["style"], cwd, given["allow_breaks"]))
    for style, path in also:
        text = _rendered(found, style, cwd, given["allow_breaks"])
        Path(cwd, path).write_text(text, encoding="utf-8")
    return max(one.exit_status(allow_breaks=given["allow_breaks"]) for one in found)


def judge(
    target: Target, options: Options, change: Change, save: Path | None, progress: Progress
) -> Verification:
    """The verdict on a change, with the counterexample written where one was asked for."""
    from gbfix import counterexample, verify

    result = verify.verify(target, options, change, progress)
    if save is not None and result.witness is not None:
        progress("writing the counterexample")
        counterexample.save(save, result, change, target, options.timeout)
    return result


def _check_order(ctx: click.Context) -> None:
    """Options of ours after the target would go to the program: nobody means that here."""
    words: command_line.Words = ctx.obj
    own = ("--against", "--patch", "--save-counterexample", "--allow-breaks", "--also")
    for word in words.rest:
        if word.partition("=")[0] in own:
            raise ArgumentError(
                f"{word} stands after the target, so it would go to the program; "
                f"write `gbfix verify {word} ... {words.rest[0]}`"
            )


def _targets(
    words: command_line.Words, inputs: str | None, settings: Config, cwd: str
) -> list[Target]:
    from gbfix import arguments

    if words.names_target:
        return [arguments.target(words, inputs, cwd)]
    if settings.targets:
        return arguments.configured_targets(settings)
    raise ArgumentError(
        "no target: name a script, -m MODULE or PATH::QUALNAME, or list targets in "
        "[tool.gbfix] of pyproject.toml; see `gbfix verify --help`"
    )


def _patch_bytes(name: str | None, cwd: Path) -> bytes:
    if not name:
        return b""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(cwd, name).read_bytes()
    except OSError as error:
        raise ArgumentError(f"--patch: {name} cannot be read: {error.strerror}") from None


def _folder(name: str | None, number: int, count: int, cwd: Path) -> Path | None:
    if not name:
        return None
    return Path(cwd, name) if count == 1 else Path(cwd, name, str(number + 1))


def _also(words: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for word in words:
        style, equals, path = word.partition("=")
        if not equals or not path or style not in _FORMATS[1:]:
            raise ArgumentError(
                f"--also: {word!r} is not FORMAT=FILE with one of {', '.join(_FORMATS[1:])}"
            )
        found.append((style, path))
    return found


def _rendered(found: list[Verification], style: str, cwd: Path, allow_breaks: bool) -> str:
    from gbfix.report import verdicts
    from gbfix.verification import STATUSES

    if style == "json" and len(found) > 1:
        data = {
            "version": 1,
            "status": max((one.status for one in found), key=STATUSES.index),
            "targets": [verdicts.as_dict(one, allow_breaks=allow_breaks) for one in found],
        }
        return json.dumps(data, indent=2) + "\n"
    if style == "sarif":
        return verdicts.sarif_of(found, cwd)
    return "\n".join(verdicts.render(one, style, cwd, allow_breaks=allow_breaks) for one in found)

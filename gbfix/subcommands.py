"""Commands beside the main one: overlays (`gbfix run`, `gbfix overlay`) and `gbfix scan`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gbfix import words as command_line
from gbfix.words import ArgumentError

_HELP = {"help_option_names": ["-h", "--help"]}
_REST = {**_HELP, "ignore_unknown_options": True, "allow_interspersed_args": False}
STYLES = click.Choice(["text", "json", "sarif", "github"])


@click.command("run", context_settings=_REST)
@click.option("--overlay", "folder", metavar="DIR", required=True, help="What `--save` wrote.")
@click.option("-m", "module", is_flag=True, help="The first word names a module, as for python.")
@click.argument("words", nargs=-1, required=True, metavar="SCRIPT [ARGS]...")
def run_command(folder: str, module: bool, words: tuple[str, ...]) -> int:
    """Run a program with the patched texts of an overlay; nothing on disk changes."""
    from gbfix import overlay

    if not module and not os.path.isfile(words[0]):
        step = f"for a module write `-m {words[0]}`" if "." not in words[0] else "check the path"
        raise ArgumentError(f"{words[0]}: no such file; {step}")
    return overlay.run(folder, words[0], words[1:], module=module)


@click.group("overlay", context_settings=_HELP)
def overlay_command() -> None:
    """Look at a saved overlay: whether it still holds, and what is in it."""


@overlay_command.command("check", context_settings=_REST)
@click.option("--quick", is_flag=True, help="Only compare files; run nothing.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=300.0, metavar="S")
@click.argument("folder", metavar="DIR")
@click.argument("words", nargs=-1, metavar="[TARGET [ARGS]...]")
def check_command(folder: str, words: tuple[str, ...], quick: bool, timeout: float) -> int:
    """Validate an overlay again, after an upgrade for instance.

    Every file is compared with the one that is installed now; then the program that the overlay
    was made for (or TARGET) runs with the patched texts and without.  Exit status: 0 all holds,
    1 something does not, 2 failure.
    """
    from gbfix import arguments, overlays
    from gbfix.schema import Options

    targets = []
    if words:
        named = command_line.split(words, {"--timeout": True})
        if named.options:
            raise ArgumentError(_misplaced(folder, named))
        targets = [arguments.target(named, None, os.getcwd())]
    return overlays.check(folder, targets, Options(timeout=timeout), click.echo, quick=quick)


def _misplaced(folder: str, named: command_line.Words) -> str:
    """What is wrong with options that stand where a target may begin."""
    import shlex

    word = named.options[0]
    if word.partition("=")[0] not in ("--quick", "--timeout", "-h", "--help"):
        return (
            f"{word} stands after {folder}, where a target may begin (SCRIPT [ARGS] or "
            "-m MODULE); see `gbfix overlay check --help`"
        )
    module = () if named.module is None else ("-m", named.module)
    right = shlex.join([*named.options, folder, *module, *named.rest])
    return f"{word} stands after {folder}; write `gbfix overlay check {right}`"


@overlay_command.command("show", context_settings=_HELP)
@click.argument("folder", metavar="DIR")
def show_command(folder: str) -> int:
    """Show what an overlay changes, as one diff."""
    from gbfix import overlays
    from gbfix.overlay import Manifest

    Manifest(folder)
    click.echo(Path(folder, overlays.DIFF).read_text(encoding="utf-8"), nl=False)
    return 0


@click.command("scan", context_settings=_HELP)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", "style", type=STYLES, default="text")
@click.option("--select", multiple=True, metavar="CODES", help="Only these codes.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these codes.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Not these files or folders.")
def scan_command(
    paths: tuple[str, ...],
    style: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    exclude: tuple[str, ...],
) -> int:
    """List likely graph breaks of files, folders or globs, without running anything.

    These are guesses from the text: a run (`gbfix --check`) tells what breaks and what does not.
    Exit status: 0 nothing found, 1 something found, 2 failure.
    """
    from gbfix import arguments, scan

    wanted = scan.Wanted(
        arguments.selection("--select", select), arguments.selection("--ignore", ignore), exclude
    )
    found = scan.scan(paths, Path.cwd(), wanted)
    sys.stdout.write(scan.render(found, style, Path.cwd()))
    for problem in found.problems:
        print(f"warning: {problem}", file=sys.stderr)
    if found.problems and not found.files:
        raise ArgumentError("scan: none of the files could be read; nothing was looked at")
    return 1 if found.hints else 0


COMMANDS: dict[str, click.Command] = {
    "run": run_command,
    "overlay": overlay_command,
    "scan": scan_command,
}

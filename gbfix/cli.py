"""The command line: parses words, calls the engine, prints the report, writes on ``--apply``.

stdout carries the result, stderr everything else.  Exit status: 0 nothing to do or everything
fixed; 1 graph breaks remain, or a diff is shown; 2 the target failed, the usage is wrong, or gbfix
failed; 130 interrupted.  Everything but click is imported where it is needed: `gbfix explain` and
`--help` are to start fast.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import gbfix
from gbfix import subcommands
from gbfix import words as command_line
from gbfix.judging import verify_command
from gbfix.target_command import TargetCommand, asked
from gbfix.words import ArgumentError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from gbfix.config import Config
    from gbfix.schema import Target

_STYLES = click.Choice(["text", "json", "sarif", "github", "html", "markdown"])
_SECONDS = click.FloatRange(0, min_open=True)

#: Set by a shell that wants a completion, or the script that makes it ask.
_COMPLETE = "_GBFIX_COMPLETE"

_EPILOG = """\b
Commands:
  gbfix verify TARGET    is a change that somebody made by hand right?
  gbfix explain CODE...  what a graph break means and what to do about it
  gbfix codes            all graph break codes, and which codemods answer them
  gbfix undo             take back what the last --apply wrote
  gbfix lsp              the language server for editors
  gbfix mcp              the same for coding agents
  gbfix scan PATH...     likely graph breaks of whole trees, without running anything
  gbfix run --overlay DIR SCRIPT [ARGS]...    a program with patches that --save wrote
  gbfix overlay check DIR                     whether these still hold

Exit status: 0 nothing to do or all fixed, 1 breaks remain or a diff is shown, 2 failure."""


@click.command(
    "gbfix",
    cls=TargetCommand,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("-m", "module", metavar="MODULE", expose_value=False, help="Run a module, as python.")
@click.option("--inputs", metavar="EXPR", help="Arguments for PATH::QUALNAME: a tuple or a dict.")
@click.option("--diff", "mode", flag_value="diff", default="diff", help="Show patches (default).")
@click.option("--apply", "mode", flag_value="apply", help="Write the patches; see `gbfix undo`.")
@click.option("--check", "mode", flag_value="check", help="Only report graph breaks.")
@click.option("--interactive", "mode", flag_value="interactive", help="Ask for each patch.")
@click.option(
    "--from-log", metavar="FILE", help="List the breaks in a log of TORCH_LOGS=graph_breaks."
)
@click.option("--from-trace", metavar="DIR", help="List the breaks in a folder of TORCH_TRACE.")
@click.option("--unsafe-fixes", is_flag=True, default=None, help="Include unsafe patches.")
@click.option("--select", multiple=True, metavar="NAMES", help="Only these codes or codemods.")
@click.option("--ignore", multiple=True, metavar="NAMES", help="Not these codes or codemods.")
@click.option(
    "--include", multiple=True, metavar="PACKAGES", help="Patch these installed packages, too."
)
@click.option(
    "--callers",
    type=click.Choice(["program", "any"]),
    help="Callers that a safe patch must hold for: this program's, or any (for packages).",
)
@click.option("--save", metavar="DIR", help="Save the patches as an overlay; see `gbfix run`.")
@click.option("--repro", metavar="DIR", help="Write a small script for each break that stays.")
@click.option("--format", "style", type=_STYLES, default="text")
@click.option(
    "--calls", type=click.IntRange(1), metavar="N", help="Calls to record of each region (2)."
)
@click.option(
    "--backend",
    multiple=True,
    metavar="NAME",
    help="Backend to check on; `inductor` runs the full check there instead of the brief one.",
)
@click.option("--measure", is_flag=True, default=None, help="Time regions with the patches, too.")
@click.option(
    "--only-if-faster", is_flag=True, default=None, help="Leave out patches that do not pay."
)
@click.option("--jobs", type=click.IntRange(0), metavar="N", help="Worker processes; 0 chooses.")
@click.option("--target-file", metavar="FILE", help="Run all targets listed there, one a line.")
@click.option(
    "--executor", metavar="URL", help="Run targets on a cluster: dask:// or ray://HOST:PORT."
)
@click.option("--timeout", type=_SECONDS, metavar="S", help="Seconds for one run.")
@click.option(
    "--inductor-timeout", type=_SECONDS, metavar="S", help="Seconds for a brief check there (120)."
)
@click.option(
    "--budget",
    type=click.FloatRange(0),
    metavar="S",
    help="Try nothing new after S seconds (300; 0: no end).",
)
@click.option("--memory-limit", metavar="SIZE", help="Of one worker, such as 8G.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write cached results.")
@click.option("-v", "--verbose", count=True, help="Show all that was tried; tracebacks.")
@click.option("-q", "--quiet", is_flag=True, help="Only diffs and errors.")
@click.option("--timings", is_flag=True, help="Say where the time went.")
@click.version_option(gbfix.__version__, prog_name="gbfix", message="%(prog)s %(version)s")
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> int:
    """Find the graph breaks of torch.compile in a program and fix them with proven patches."""
    from gbfix import arguments, config
    from gbfix.report.summary import Mode

    cwd = os.getcwd()
    settings = config.load(Path(cwd))
    words: command_line.Words = ctx.obj
    if given["from_log"] or given["from_trace"]:
        return _from_elsewhere(given, words, cwd)
    if given["target_file"]:
        if words.names_target or given["inputs"]:
            raise ArgumentError("--target-file goes alone: it takes the place of a target")
        targets = arguments.listed_targets(Path(cwd, given["target_file"]))
    elif words.names_target:
        targets = [arguments.target(words, given["inputs"], cwd, COMMANDS)]
    else:
        targets = _configured_targets(settings)
    options = arguments.options(given, settings.options)
    mode = Mode(given["mode"])
    save = Path(cwd, given["save"]) if given["save"] else None
    if mode is Mode.INTERACTIVE and not sys.stdin.isatty():
        raise ArgumentError("--interactive needs a terminal; use --diff and --apply")
    from gbfix import session

    if given["executor"]:
        from gbfix import executors

        executors.check(given["executor"])
    return session.run(
        targets,
        options,
        mode,
        style=given["style"],
        quiet=given["quiet"],
        executor=given["executor"] or "",
        save=save,
        repro=Path(cwd, given["repro"]) if given["repro"] else None,
        timings=given["timings"],
        asked=asked(ctx, given["save"] or ""),
        cwd=Path(cwd),
    )


def _from_elsewhere(given: dict[str, Any], words: command_line.Words, cwd: str) -> int:
    """The breaks of a job that ran elsewhere; nothing is run, hence no fixes."""
    from gbfix import logs, session

    if words.names_target or (given["from_log"] and given["from_trace"]):
        raise ArgumentError("--from-log and --from-trace go alone: they take the place of a target")
    if given["from_log"]:
        report = logs.from_log(Path(cwd, given["from_log"]))
    else:
        report = logs.from_trace(Path(cwd, given["from_trace"]))
    return session.show(
        report, style=given["style"], quiet=given["quiet"], verbose=given["verbose"], cwd=Path(cwd)
    )


@click.command("explain", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, required=True, metavar="CODE...")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text")
def explain_command(names: tuple[str, ...], style: str) -> int:
    """Say what a graph break code or error family means, and what to do about it.

    CODE is a code (GB0170, gb0170, 170), the name of a family (data-dependent-guard), or a title.
    """
    from gbfix.report import explain

    if style == "json":
        click.echo(explain.explain_json(names), nl=False)
    else:
        click.echo("\n".join(explain.explain_text(name) for name in names), nl=False)
    return 0


@click.command("codes", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--format", "style", type=click.Choice(["text", "json", "markdown"]), default="text")
def codes_command(style: str) -> int:
    """List all graph break codes: title, whether the installed torch has it, codemods."""
    from gbfix.report import explain

    click.echo(explain.codes(style), nl=False)
    return 0


@click.command("undo", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--force", is_flag=True, help="Restore files that were edited since, too.")
def undo_command(force: bool) -> int:
    """Take back what the last --apply wrote to this project, exactly."""
    from gbfix.journal import recover, state_folder, undo
    from gbfix.source import project_root

    folder = state_folder(project_root(os.getcwd()))
    recovered = recover(folder)
    if recovered is not None:
        click.echo(f"note: {recovered.message}", err=True)
        if recovered.restored:
            return 0  # the interrupted run was what there was to undo
    for path in undo(folder, force=force):
        click.echo(f"restored {path}")
    return 0


@click.command("lsp", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--tcp", metavar="[HOST:]PORT", help="Listen there instead (for debugging).")
@click.option("--stdio", is_flag=True, help="Talk on standard input and output (the default).")
def lsp_command(tcp: str | None, stdio: bool) -> int:
    """Serve an editor: hints while typing, runs on request, validated fixes.

    See https://microsoft.github.io/language-server-protocol/ and `editors/` for set-ups.
    """
    if tcp and stdio:
        raise click.UsageError("--tcp and --stdio exclude each other")
    # `python -m gbfix` puts the working folder first on the path.  The editor's folder is data
    # here: no module may come from it.
    cwd = os.getcwd()
    sys.path[:] = [item for item in sys.path if item and os.path.abspath(item) != cwd]
    from gbfix.lsp.transport import serve

    return serve(tcp)


@click.command("mcp", context_settings={"help_option_names": ["-h", "--help"]})
def mcp_command() -> int:
    """Serve a coding agent: tools that find, explain, propose and verify (Model Context Protocol).

    Needs `pip install 'gbfix[mcp]'`; docs/agents.md says how to set it up.
    """
    from gbfix import agents

    agents.serve()
    return 0


COMMANDS = {
    "verify": verify_command,
    "explain": explain_command,
    "codes": codes_command,
    "undo": undo_command,
    "lsp": lsp_command,
    "mcp": mcp_command,
    **subcommands.COMMANDS,
}


class _Everything(click.Group):
    """All commands and the options of the one without a name, as a shell completes them."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            found.append(CompletionItem(incomplete, type="file"))  # the script to run
        return found


def _complete(instruction: str) -> int:
    """Answer a shell that completes (``eval "$(_GBFIX_COMPLETE=bash_source gbfix)"``)."""
    from click.shell_completion import shell_complete

    every = _Everything("gbfix", commands=COMMANDS, params=list(run.params))
    return shell_complete(every, {}, "gbfix", _COMPLETE, instruction)


def main(argv: Sequence[str] | None = None) -> int:
    """Run gbfix with the given words (``sys.argv`` by default) and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and os.environ.get(_COMPLETE):
        return _complete(os.environ[_COMPLETE])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character gets its escape, not our traceback.
            stream.reconfigure(errors="backslashreplace")
    command: click.Command = run
    name = "gbfix"
    if words and words[0] in COMMANDS:
        command, name = COMMANDS[words[0]], f"gbfix {words[0]}"
        words = words[1:]
    try:
        with command.make_context(name, words) as ctx:
            status: int = command.invoke(ctx)
        sys.stdout.flush()
        return status
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        # Of a command inside a command (`overlay check`), its own help.
        name = error.ctx.command_path if error.ctx is not None else name
        return _fail(f"{error.format_message().rstrip('.')} (see `{name} --help`)")
    except click.ClickException as error:
        return _fail(error.format_message())
    except gbfix.GbfixError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, click.Abort):
        # On a terminal, ^C stands on the line already.
        print("\ninterrupted" if sys.stderr.isatty() else "interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; python would complain once more while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if any(word in ("-v", "-vv", "--verbose") for word in words):
            traceback.print_exc()
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return _fail(f"internal error: {what}; this is a bug in gbfix (-v shows the traceback)")


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _configured_targets(settings: Config) -> list[Target]:
    from gbfix import arguments

    if not settings.targets:
        raise ArgumentError(
            "no target: name a script, -m MODULE or PATH::QUALNAME, or list targets in "
            "[tool.gbfix] of pyproject.toml; see `gbfix --help`"
        )
    return arguments.configured_targets(settings)

"""Launchers of several processes: the program behind one is recorded as a world of one rank.

``-m torch.distributed.run``, ``torchrun`` and ``accelerate launch`` start a script once for each
rank.  gbfix runs that script itself, with the variables that a launcher sets for a single rank; in
the end it has the real launcher start two (see `gbfix.world`).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from gbfix.words import ArgumentError, Words

_TORCH_FLAGS = frozenset(
    {
        "standalone", "no-python", "run-path", "m", "module", "h", "help", "use-env",
        "duplicate-stdout-filters",
    }
)  # fmt: skip
_ACCELERATE_FLAGS = frozenset(
    {
        "cpu", "debug", "downcast-bf16", "dynamo-use-dynamic", "dynamo-use-fullgraph",
        "dynamo-use-regional-compilation", "enable-cpu-affinity", "h", "help", "ipex", "m",
        "module", "multi-gpu", "no-python", "no-tpu-cluster", "q", "quiet", "tpu", "tpu-cluster",
        "tpu-use-cluster", "tpu-use-sudo", "use-deepspeed", "use-fsdp", "use-megatron-lm",
        "use-parallelism-config", "use-xpu",
    }
)  # fmt: skip
#: What torchrun sets for each process, as the only one of its world.
ENVIRONMENT = (
    ("RANK", "0"),
    ("LOCAL_RANK", "0"),
    ("WORLD_SIZE", "1"),
    ("LOCAL_WORLD_SIZE", "1"),
    ("GROUP_RANK", "0"),
    ("ROLE_RANK", "0"),
    ("ROLE_NAME", "default"),
    ("ROLE_WORLD_SIZE", "1"),
    ("GROUP_WORLD_SIZE", "1"),
    ("MASTER_ADDR", "127.0.0.1"),
    # Any free port: several runs of the program go side by side.
    ("MASTER_PORT", "0"),
    ("TORCHELASTIC_RESTART_COUNT", "0"),
    ("TORCHELASTIC_MAX_RESTARTS", "0"),
    ("TORCHELASTIC_RUN_ID", "gbfix"),
)
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")
#: Ranks that the real launcher starts when the patches are confirmed.
RANKS = 2
_ACCELERATE_MODULES = ("accelerate.commands.launch", "accelerate.commands.accelerate_cli")


@dataclasses.dataclass(frozen=True)
class Launched:
    """The program behind a launcher, as words of a command line, and what it finds set."""

    words: Words
    launcher: str
    environment: tuple[tuple[str, str], ...]
    #: What python runs to start `RANKS` ranks on this machine; the name of a module follows it.
    command: tuple[str, ...]


def behind(words: Words, cwd: str) -> Launched | None:
    """The program that a launcher starts; None where the words name no launcher.

    Raises `ArgumentError` where a launcher names no script.
    """
    found = _launcher(words, cwd)
    if found is None:
        return None
    name, rest, flags = found
    is_module, at = False, 0
    while at < len(rest) and rest[at].startswith("-"):
        if rest[at] == "--":
            at += 1
            break
        option, equals, _ = rest[at].lstrip("-").replace("_", "-").partition("=")
        is_module = is_module or option in ("m", "module")
        if option == "no-python":
            raise ArgumentError(f"{name} {rest[at]}: gbfix records Python programs only")
        at += 1 if equals or option in flags else 2
    if at >= len(rest):
        raise ArgumentError(f"{name}: names no script to run; write it as on a plain command line")
    environment = list(ENVIRONMENT)
    args = tuple(rest[at + 1 :])
    if name.startswith("accelerate"):
        environment += _accelerate_settings(rest[:at])
        command = _accelerate_command(rest[:at])
    else:
        command = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "-m")
        if name == _TORCH_MODULES[1] and not {"--use-env", "--use_env"} & set(rest[:at]):
            command = ("-m", name, *command[2:])
            args = ("--local-rank=0", *args)
    behind = Words((), rest[at], args) if is_module else Words((), None, (rest[at], *args))
    return Launched(behind, name, tuple(environment), command)


def _launcher(words: Words, cwd: str) -> tuple[str, Sequence[str], frozenset[str]] | None:
    """The launcher's name, the words after it, and its options that take no value."""
    if words.module in _TORCH_MODULES:
        return str(words.module), words.rest, _TORCH_FLAGS
    if words.module in _ACCELERATE_MODULES:
        rest = words.rest[1:] if words.rest[:1] == ("launch",) else words.rest
        return "accelerate launch", rest, _ACCELERATE_FLAGS
    if words.module is not None or not words.rest:
        return None
    first = words.rest[0]
    base = os.path.basename(first)
    if base == first and os.path.exists(os.path.join(cwd, first)):
        return None  # a script of that name
    if base == "torchrun":
        return "torchrun", words.rest[1:], _TORCH_FLAGS
    if base == "accelerate" and words.rest[1:2] == ("launch",):
        return "accelerate launch", words.rest[2:], _ACCELERATE_FLAGS
    return None


_ACCELERATE_VALUES = {
    "mixed-precision": "ACCELERATE_MIXED_PRECISION",
    "dynamo-backend": "ACCELERATE_DYNAMO_BACKEND",
    "dynamo-mode": "ACCELERATE_DYNAMO_MODE",
}
_ACCELERATE_SWITCHES = {
    "cpu": "ACCELERATE_USE_CPU",
    "dynamo-use-fullgraph": "ACCELERATE_DYNAMO_USE_FULLGRAPH",
    "dynamo-use-dynamic": "ACCELERATE_DYNAMO_USE_DYNAMIC",
}


def _accelerate_settings(options: Sequence[str]) -> list[tuple[str, str]]:
    """What `accelerate launch` passes on through the environment, of what changes graphs."""
    found = []
    for at, word in enumerate(options):
        option, _, value = word.lstrip("-").replace("_", "-").partition("=")
        if option in _ACCELERATE_VALUES:
            given = value or (options[at + 1] if at + 1 < len(options) else "")
            given = given.upper() if option.startswith("dynamo") else given
            found.append((_ACCELERATE_VALUES[option], given))
        elif option in _ACCELERATE_SWITCHES:
            found.append((_ACCELERATE_SWITCHES[option], "true"))
    return found


#: Options of `accelerate launch` that say where ranks run, how many they are and what they run.
#: (``--cpu`` starts one process whatever their number; the variable for it is set, see `world`.)
_ACCELERATE_PLACES = frozenset(
    {
        "cpu", "gpu-ids", "h", "help", "m", "machine-rank", "main-process-ip", "main-process-port",
        "max-restarts", "module", "monitor-interval", "multi-gpu", "num-machines",
        "num-processes", "rdzv-backend", "rdzv-conf", "role", "same-network",
    }
)  # fmt: skip


def _accelerate_command(options: Sequence[str]) -> tuple[str, ...]:
    """The same launcher with the options that change what each rank does."""
    kept: list[str] = []
    at = 0
    while at < len(options):
        option, equals, _ = options[at].lstrip("-").replace("_", "-").partition("=")
        width = 1 if equals or option in _ACCELERATE_FLAGS else 2
        if option not in _ACCELERATE_PLACES:
            kept += options[at : at + width]
        at += width
    hardware = {"--use-fsdp", "--use-deepspeed", "--use-megatron-lm", "--tpu"}
    if not hardware & {word.replace("_", "-") for word in kept}:
        kept.append("--multi_gpu")
    there = (f"--num_processes={RANKS}", "--num_machines=1", "--main_process_port=0")
    return ("-m", "accelerate.commands.launch", *kept, *there, "-m")

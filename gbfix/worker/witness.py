"""Keeps the inputs that showed a difference: ``python -m gbfix.worker.witness SPEC``.

Runs the original program up to one recorded call, varies its inputs as the ladder did, saves what
a file can hold and ends.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
import zlib
from typing import Any

import numpy as np
import torch

from gbfix.worker import instrument, overlay, perturb, program
from gbfix.worker.recorder import Recorder, Region
from gbfix.worker.shots import _SEED
from gbfix.worker.show import KEEP
from gbfix.worker.values import Project
from gbfix.worker.wanted import Wanted

#: What a program sees at its start, as in every job.
_START = 20250728


def main(path: str) -> int:
    with open(path, "rb") as file:
        wanted: Wanted = pickle.load(file)
    torch.manual_seed(_START)
    random.seed(_START)
    np.random.seed(_START % 2**32)
    sys.dont_write_bytecode = True
    served = overlay.Overlay(wanted.files, (), instrument.transform)
    overlay.install(served)
    project = Project(wanted.root, wanted.exclude)

    def at_call(
        region: Region, index: int, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if (region.key, index) == (wanted.key, wanted.index):
            _keep(wanted, target, args, kwargs)
            sys.stdout.flush()
            os._exit(0)
        return target(*args, **kwargs)

    calls = wanted.index + 1
    Recorder(project, calls, calls, at_call, lambda seen: None, lambda done: None).install()
    sys.modules.pop("__main__", None)
    program.run_program(wanted.target, served, calls)
    return 1


def _keep(wanted: Wanted, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    known = perturb.VALUES + perturb.GRADS + perturb.ANEW + perturb.SHAPES + perturb.FLAGS
    variation = next((item for item in known if item.label == wanted.label), perturb.VALUES[0])
    if wanted.label.startswith("edge "):
        variation = perturb.toward(wanted.label)
    given = perturb.Inputs(target, args, kwargs).vary(variation) or (args, kwargs)
    kept = {
        "args": [_plain(value) for value in given[0]],
        "kwargs": {name: _plain(value) for name, value in given[1].items()},
        "kind": variation.kind,
        "label": variation.label,
        "module": isinstance(target, torch.nn.Module),
        "seed": _SEED + zlib.crc32(variation.label.encode()) % 1_000_003,
    }
    torch.save(kept, wanted.out)


def _plain(value: Any) -> Any:
    """What a file can hold; the program's own value stands in for all else."""
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        return value
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    return KEEP


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

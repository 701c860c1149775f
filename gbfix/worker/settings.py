"""Settings of the process that a call could leave changed: gradient mode, autocast, folders."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import sys
import warnings

import numpy as np
import torch

#: Only these are compared where a compiler ran in between: it changes some of the others itself.
COMPILED = (
    "grad mode",
    "inference mode",
    "default dtype",
    "autocast",
    "deterministic algorithms",
    "working folder",
    "environment",
)


#: Variables that compilers set for themselves.
_COMPILERS = ("TORCH", "TRITON", "PYTORCH")


def read() -> dict[str, str]:
    """Each setting as text; equal texts mean equal settings."""
    return {
        "grad mode": str(torch.is_grad_enabled()),
        "inference mode": str(torch.is_inference_mode_enabled()),
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "autocast": f"{torch.is_autocast_enabled('cpu')} {torch.get_autocast_dtype('cpu')}",
        "deterministic algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "matmul precision": torch.get_float32_matmul_precision(),
        "anomaly mode": str(torch.is_anomaly_enabled()),
        "working folder": os.getcwd(),
        "environment": _digest(
            sorted(item for item in os.environ.items() if not item[0].startswith(_COMPILERS))
        ),
        "threads": str(torch.get_num_threads()),
        "tensor printing": repr(vars(torch._tensor_str.PRINT_OPTS)),
        "numpy errors": repr(np.geterr()),
        "numpy printing": repr(np.get_printoptions()),
        "warning filters": repr(warnings.filters),
        "logging": f"{logging.root.manager.disable} {logging.root.level}",
        "recursion limit": str(sys.getrecursionlimit()),
        "garbage collection": str(gc.isenabled()),
    }


def _digest(value: object) -> str:
    # Values of the environment may be secrets: a report must not be able to show them.
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]

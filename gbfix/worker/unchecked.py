"""Inputs of the wrong size that torch reads without an error, past the end of their memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.utils.rnn import PackedSequence


@contextlib.contextmanager
def recurrent_inputs_checked() -> Iterator[None]:
    """Recurrent layers refuse inputs that are as wide as nobody's.

    `torch.nn.LSTM` looks at the width of its input in some calls only (torch 2.13: not without an
    initial state, and not of packed rows): what comes out of the others is what happens to lie in
    memory, and differs from process to process.
    """
    handle = register_module_forward_pre_hook(_check)
    try:
        yield
    finally:
        handle.remove()


def _check(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
    if not isinstance(module, torch.nn.RNNBase) or not args:
        return
    given = args[0].data if isinstance(args[0], PackedSequence) else args[0]
    if isinstance(given, torch.Tensor) and given.dim() and given.size(-1) != module.input_size:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {module.input_size},"
            f" got {given.size(-1)}"
        )

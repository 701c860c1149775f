"""`torch.library.opcheck` passes on every operator that a corpus case's patch brings."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import re
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._library.custom_ops import CustomOpDef

CORPUS = Path(__file__).parent.parent / "corpus"
CASES = sorted(
    path.parent
    for path in CORPUS.glob("*/*/after.py")
    if "custom_op(" in path.read_text()
    and "custom_op(" not in (path.parent / "before.py").read_text()
)
#: The other checks look into all that an operator runs, and find no storage in the
#: wrappers of `torch.func`.
_WITHOUT_MODES = ("test_autograd_registration",)
#: All but the one that compares results.
_WITHOUT_VALUES = ("test_schema", "test_autograd_registration", "test_faketensor")
_numbers = itertools.count()


def _as_it_is(function: Any = None, **options: Any) -> Any:
    return function if function is not None else lambda inner: inner


def operator_calls(
    case: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[CustomOpDef, tuple[Any, ...], dict[str, Any]]]:
    """The first three calls of each operator that the patched program makes, uncompiled."""
    text = (case / "after.py").read_text()
    space = f"opcheck_{next(_numbers)}"
    text = re.sub(r'custom_op\(f?"(?:\w+|\{__name__[^}]*\})::', f'custom_op("{space}::', text)
    calls: list[tuple[CustomOpDef, tuple[Any, ...], dict[str, Any]]] = []
    plain = CustomOpDef.__call__

    def call(self: CustomOpDef, *args: Any, **kwargs: Any) -> Any:
        given = _copied((args, kwargs))
        result = plain(self, *args, **kwargs)
        # A check that raises is no call to look into.
        if sum(one[0] is self for one in calls) < 3:
            calls.append((self, *given))
        return result

    monkeypatch.setattr(torch, "compile", _as_it_is)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: None)
    monkeypatch.setattr(CustomOpDef, "__call__", call)
    monkeypatch.syspath_prepend(str(case))
    monkeypatch.chdir(folder)  # for what the program writes
    module = types.ModuleType("__main__")
    module.__dict__["__file__"] = str(case / "after.py")
    exec(compile(text, str(case / "after.py"), "exec"), module.__dict__)
    monkeypatch.setattr(CustomOpDef, "__call__", plain)
    return calls


def _copied(value: Any) -> Any:
    def copy(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return item.detach().clone().requires_grad_(item.requires_grad)
        return item

    return torch.utils._pytree.tree_map(copy, value)


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_the_operators_of_a_patch_are_what_they_say(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calls = operator_calls(case, tmp_path, monkeypatch)
            assert calls
            for operator, args, kwargs in calls:
                if operator._qualname.endswith("_backward"):
                    # A backward pass calls it without asking for gradients of its own.
                    plain = torch.utils._pytree.tree_map_only(torch.Tensor, _detached, args)
                    torch.library.opcheck(operator, plain, kwargs, test_utils=_WITHOUT_MODES)
                elif (
                    operator._qualname.rpartition("::")[2].startswith("draw_")
                    or "noise" in case.name
                    or "by-chance" in case.name
                ):
                    # What it draws is another number each time.
                    torch.library.opcheck(operator, args, kwargs, test_utils=_WITHOUT_VALUES)
                else:
                    torch.library.opcheck(operator, args, kwargs)
    finally:
        logging.disable(logging.NOTSET)

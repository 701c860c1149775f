"""Writes down what a region was called with, so that a script of its own can call it again."""

from __future__ import annotations

import hashlib
import json
import os
import types
from typing import Any

import torch

from gbfix.worker.recorder import definition


def stem(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def keep(folder: str, key: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Save target and inputs of a call below ``folder``; why not, where that cannot be."""
    base = os.path.join(folder, stem(key))
    about: dict[str, Any] = {"key": key, "error": "", "grad": torch.is_grad_enabled()}
    _, about["name"] = definition(target)
    is_function = isinstance(target, types.FunctionType)
    about["module"] = getattr(target, "__module__", "") if is_function else ""
    saved = {"target": None if is_function else target, "args": args, "kwargs": kwargs}
    try:
        torch.save(saved, f"{base}.pt")
    except Exception as error:  # of any object's own pickling
        about["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if os.path.exists(f"{base}.pt"):
            os.unlink(f"{base}.pt")
    with open(f"{base}.json", "w", encoding="utf-8") as file:
        json.dump(about, file)

"""The gradients that a call finds in ``.grad``: of parameters, and of tensors that are given.

A region that updates parameters, scales their gradients or prunes by them does nothing (or fails)
without these.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import torch

from gbfix.worker.perturb import Variation
from gbfix.worker.values import Imager, is_plain, version

#: More numbers than these are not kept: the call then finds no gradient at all.
_MOST = 32_000_000
_FACTORS = {"state-negated": -1.0, "state-scaled": 300.0, "state-scaled-nudged": 300.0}


class GradientsBefore:
    """What leaves had in ``.grad`` when a call was recorded, by their paths."""

    def __init__(self, leaves: Mapping[str, torch.Tensor]) -> None:
        found = {
            path: (leaf, leaf.grad)
            for path, leaf in leaves.items()
            if leaf.is_leaf and leaf.grad is not None and is_plain(leaf) and is_plain(leaf.grad)
        }
        if sum(grad.numel() for _, grad in found.values()) > _MOST:
            found = {}
        self._found = found
        self._saved = {path: grad.detach().clone() for path, (_, grad) in found.items()}

    def __bool__(self) -> bool:
        return bool(self._saved)

    def give(self, leaves: Mapping[str, torch.Tensor], variation: Variation) -> dict[str, Any]:
        """Give leaves gradients as they had them, changed as the variation changes inputs; what is
        given, with its version, by path.
        """
        given: dict[str, Any] = {}
        # One leaf may have several names.
        for leaf, path in {id(leaf): (leaf, path) for path, leaf in leaves.items()}.values():
            if not leaf.is_leaf:
                continue
            saved = self._saved.get(path)
            if saved is None or not (leaf.is_floating_point() or leaf.is_complex()):
                if leaf.grad is not None:
                    leaf.grad = None
                continue
            grad = self._changed(saved, leaf, path, variation)
            leaf.grad = grad
            given[path] = (grad, version(grad))
        return given

    @staticmethod
    def _changed(
        saved: torch.Tensor, leaf: torch.Tensor, path: str, variation: Variation
    ) -> torch.Tensor:
        seed = zlib.crc32(f"{variation.seed or variation.label} {path}".encode())
        generator = torch.Generator().manual_seed(seed)
        if saved.shape != leaf.shape or saved.layout != leaf.layout:
            drawn = torch.randn(leaf.shape, generator=generator)
            return drawn.to(device=leaf.device, dtype=leaf.dtype)
        grad = saved.to(leaf.dtype, copy=True)
        if variation.label in _FACTORS:
            grad.mul_(_FACTORS[variation.label])
        if variation.change is not None and variation.kind in ("values", "first", "nudged"):
            try:
                variation.change(grad, generator)
            except (RuntimeError, NotImplementedError, TypeError, IndexError):
                return saved.to(leaf.dtype, copy=True)
        return grad

    def put_back(self) -> None:
        """Leave the leaves of the program as they were found."""
        for leaf, grad in self._found.values():
            leaf.grad = grad


def images_of_gradients(
    leaves: Mapping[str, torch.Tensor], given: Mapping[str, Any]
) -> dict[str, Any]:
    """What a call left in ``.grad`` other than it was ``given``; takes it away from the leaves."""
    images: dict[str, Any] = {}
    for leaf, path in {id(leaf): (leaf, path) for path, leaf in leaves.items()}.values():
        if not leaf.is_leaf:
            continue
        grad = leaf.grad
        found = given.get(path)
        as_given = found is not None and grad is found[0] and version(grad) == found[1]
        if not as_given and (grad is not None or found is not None):
            images[f"{path}.grad"] = Imager().image(grad)
        if grad is not None:
            leaf.grad = None
    return images

"""The fake of an operator: what its result looks like, told from the recorded run.

Each proposal is an expression over the operator's parameters.  The first is the most plausible one;
validation, which calls with other shapes where it can, has the last word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from gbfix.schema import Fact

from .capture import Parameter


@dataclasses.dataclass(frozen=True)
class Fake:
    """``text`` computes an empty result; ``certain`` is False where sizes had to be guessed.

    ``dense`` says that it holds for arguments whose elements each have memory of their own: others
    (an expanded tensor) are to be copied first.
    """

    text: str
    certain: bool
    dense: bool = False


def is_contiguous(fact: Fact) -> bool:
    """Whether a tensor's recorded strides are those of a contiguous one (True if not recorded)."""
    if fact.strides is None or fact.shape is None:
        return True
    expected = 1
    for size, stride in zip(reversed(fact.shape), reversed(fact.strides), strict=True):
        if size is None or stride is None:
            return False
        if size != 1 and stride != expected:
            return False
        expected *= max(size, 1)
    return True


def fakes(result: Fact, parameters: Sequence[Parameter], torch: str) -> Iterator[Fake]:
    """Fakes for a result, most plausible first; none where it is not made of tensors."""
    if result.is_tensor:
        yield from _tensor_fakes(result, parameters, torch)
    elif result.kind in ("tuple", "list") and result.items and result.type in ("tuple", "list"):
        each = [next(_tensor_fakes(item, parameters, torch), None) for item in result.items]
        found = [fake for fake in each if fake is not None]
        if len(found) == len(each):
            inside = ", ".join(fake.text for fake in found)
            inside += "," if len(found) == 1 and result.type == "tuple" else ""
            text = f"[{inside}]" if result.type == "list" else f"({inside})"
            yield Fake(text, all(fake.certain for fake in found))


def _tensor_fakes(result: Fact, parameters: Sequence[Parameter], torch: str) -> Iterator[Fake]:
    if not result.is_tensor or result.shape is None:
        return
    tensors = [p for p in parameters if p.fact.is_tensor and p.fact.shape is not None]
    for parameter in tensors:
        if parameter.fact.shape == result.shape and parameter.fact.device == result.device:
            dtype = ""
            if parameter.fact.dtype != result.dtype:
                dtype = f", dtype={torch_name(result.dtype, torch)}"
            yield Fake(f"{torch}.empty_like({parameter.name}{dtype})", True)
            return
    for parameter in tensors:
        if parameter.fact.device != result.device:
            continue
        sizes = _sizes(result.shape, parameter)
        if sizes is None:
            continue
        inside, certain = sizes
        dtype = ""
        if parameter.fact.dtype != result.dtype:
            dtype = f", dtype={torch_name(result.dtype, torch)}"
        yield Fake(f"{parameter.name}.new_empty({inside}{dtype})", certain)
        return
    if None not in result.shape and result.device == "cpu":
        dtype = f", dtype={torch_name(result.dtype, torch)}"
        yield Fake(f"{torch}.empty({_tuple(map(str, result.shape))}{dtype})", False)


def _sizes(shape: tuple[int | None, ...], parameter: Parameter) -> tuple[str, bool] | None:
    """The result's sizes from one parameter's: a reduction keeps some of them in order.

    Certain when only one choice of dimensions explains the result.
    """
    if not shape:
        return "()", True
    source = parameter.fact.shape or ()
    choices = list(_subsequences(shape, source, 0))
    if choices:
        texts = [f"{parameter.name}.shape[{index}]" for index in choices[0]]
        return _tuple(texts), len(choices) == 1
    if None in shape:
        return None
    return _tuple(map(str, shape)), False


def _subsequences(
    shape: tuple[int | None, ...], source: tuple[int | None, ...], start: int
) -> Iterator[tuple[int, ...]]:
    if not shape:
        yield ()
        return
    for index in range(start, len(source)):
        if source[index] == shape[0]:
            for rest in _subsequences(shape[1:], source, index + 1):
                yield (index, *rest)


def _tuple(texts: Sequence[str] | Iterator[str]) -> str:
    items = list(texts)
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def torch_name(dtype: str | None, torch: str) -> str:
    return (dtype or "torch.float32").replace("torch", torch, 1)


def result_annotation(result: Fact) -> str:
    if result.is_tensor:
        return "torch.Tensor"
    if result.kind == "list":
        return "list[torch.Tensor]"
    return f"tuple[{', '.join('torch.Tensor' for _ in result.items or ())}]"

"""Assertions about sizes that a patch takes for granted, and that the original asks for later."""

from __future__ import annotations

#: How the message of such an assertion begins: where it fails, the original fails as well, in an
#: operator further down (`gbfix.worker.compare` knows it by this).
PREFIX = "sizes do not fit: "


def size_assertion(torch: str, condition: str, said: str) -> str:
    """A statement that raises RuntimeError unless a tensor of one truth value is true.

    ``said`` is what does not hold then, without quotes or backslashes of its own.  On a GPU, a
    failure ends the process' use of the device, as for all of torch's own assertions there.
    """
    said = said.replace("\\", "").replace('"', "'").replace("\n", " ")
    return f'{torch}._assert_async({condition}, "{PREFIX}{said}")'

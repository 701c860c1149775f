"""Where a command line ends and the user's program begins.

gbfix's own options stop at the target, as python's do: everything after ``SCRIPT`` or
``-m MODULE`` belongs to the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from gbfix import GbfixError


class ArgumentError(GbfixError):
    """A mistake on the command line or in ``[tool.gbfix]``, in one line."""


@dataclasses.dataclass(frozen=True)
class Words:
    """A command line cut at the target: gbfix's options, then the module or the target's words."""

    options: tuple[str, ...]
    module: str | None = None
    rest: tuple[str, ...] = ()

    @property
    def names_target(self) -> bool:
        return self.module is not None or bool(self.rest)


def split(words: Sequence[str], takes_value: Mapping[str, bool]) -> Words:
    """Cut a command line where the target begins.

    ``takes_value`` says of each option (``-v``, ``--calls``) whether a value follows it.  Unknown
    options are kept among the options, for whoever parses them to complain about.
    """
    i = 0
    while i < len(words):
        word = words[i]
        if word == "--":
            return Words(tuple(words[:i]), None, tuple(words[i + 1 :]))
        if word.startswith("--"):
            i += 2 if "=" not in word and takes_value.get(word) else 1
        elif word.startswith("-") and word != "-":
            letters = word[1:]
            at = next(
                (k for k, c in enumerate(letters) if c == "m" or takes_value.get(f"-{c}")), None
            )
            if at is not None and letters[at] == "m":
                inline = letters[at + 1 :]
                after = i + (1 if inline else 2)
                if not inline and i + 1 == len(words):
                    raise ArgumentError("-m needs the name of a module")
                kept = (f"-{letters[:at]}",) if at else ()
                module = inline or words[i + 1]
                return Words((*words[:i], *kept), module, tuple(words[after:]))
            i += 2 if at is not None and at == len(letters) - 1 else 1
        else:
            return Words(tuple(words[:i]), None, tuple(words[i:]))
    return Words(tuple(words))

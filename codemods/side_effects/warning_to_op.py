"""`warnings.warn` as an effectful custom operator."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import is_global_object
from .effect_operator import Effect, effect_operator, with_anchor
from .effects import effect_statement

STACKLEVEL = (
    "the warning names the line of the operator, and no longer that of a caller: where Python shows"
    " a warning once for each line, one text is shown once for all callers"
)


def _source(call: str) -> str:
    return f"""
import warnings
import torch


class Odd(UserWarning):
    pass


def f(x, n):
    {call}
    return x + 1
"""


def _example(title: str, before: str, after: str, signature: str) -> Example:
    after, signature, body = with_anchor(after, signature, before.replace("=2", "=1"))
    lines = "\n    ".join(body.split("\n"))
    names = ", ".join(part.partition(":")[0] for part in signature.split(", ") if part)
    operator = f"""

@torch.library.custom_op("example::warn_f", mutates_args=())
def warn_f({signature}) -> None:
    {lines}


warn_f.register_fake(lambda{" " + names if names else ""}: None)
warn_f.register_effect(torch.library.EffectType.ORDERED)


def f(x, n):"""
    facts = {"x": tensor(3), "n": scalar(3)}
    expected = _source(after).replace("\n\ndef f(x, n):", operator)
    return Example(_source(before), expected, at=before, facts=facts, title=title)


def _near_miss(call: str, why: str, facts: dict[str, Fact] | None = None) -> NearMiss:
    return NearMiss(_source(call), at=call, why=why, facts=facts or {})


class WarningToOp(Codemod):
    """*What it does.*  Moves ``warnings.warn`` into a ``torch.library.custom_op``.

    ```python
    warnings.warn(f"{n} rows", RuntimeWarning)
    ```
    becomes ``warn_f(n)``, an operator at module level whose body is the same call.

    *When it applies.*  To statements that warn with a text and optionally a category.  A
    ``stacklevel`` becomes 1: the warning names the operator's line, and not its caller's.

    *Fix safety.*  Safe.  The warning is issued from one line of the same module, as before, so that
    filters and "once for each location" go on working; as an error it raises the same class.

    *Refuses.*  A ``stacklevel`` of warnings about something deprecated (Python shows these for some
    callers only), a ``source``, warnings made as objects, and texts that show a ``grad_fn``.
    """

    name = "warning-to-op"
    codes = ("GB0007", "GB0059", "GB0088", "GB0124", "GB0208")
    examples = (
        _example("a constant", 'warnings.warn("slow path")', "warn_f()", ""),
        _example(
            "with a category",
            'warnings.warn(f"{n} rows", RuntimeWarning, stacklevel=1)',
            "warn_f(n)",
            "n: torch.types.Number",
        ),
        _example(
            "about the caller's line",
            'warnings.warn(f"{n} rows", RuntimeWarning, stacklevel=2)',
            "warn_f(n)",
            "n: torch.types.Number",
        ),
        _example(
            "a category of the module",
            'warnings.warn("%s" % (x.shape,), category=Odd)',
            "warn_f(x)",
            "x: torch.Tensor",
        ),
    )
    near_misses = (
        _near_miss(
            'warnings.warn("a", DeprecationWarning, 2)',
            "shown or not, as the caller's module has it",
        ),
        _near_miss('warnings.warn("a", source=x)', "another source"),
        _near_miss('warnings.warn(Odd("a"))', "made as an object"),
        _near_miss('warnings.warn("a", n)', "a category that varies"),
        _near_miss('warnings.warn(f"{x}")', "a grad_fn", {"x": tensor(3, requires_grad=True)}),
        _near_miss('warnings.simplefilter("error")', "no warning"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        call = effect_statement(site)
        if call is None or site.function is None:
            return
        effect = warning_effect(site, call)
        if isinstance(effect, Effect):
            yield effect_operator(site, call, effect)
        elif effect is not None:
            yield effect


def warning_effect(site: Site, call: cst.Call) -> Effect | Advice | None:
    """The effect of ``warnings.warn``, or advice where it looks at its caller's frame."""
    if resolve(site.module, call.func) != "warnings.warn":
        return None
    kept: dict[cst.CSTNode, cst.CSTNode] = {call.func: call.func}
    moved = False
    texts: list[tuple[cst.BaseExpression, bool]] = []
    for number, argument in enumerate(call.args):
        name = argument.keyword.value if argument.keyword is not None else ""
        what = name or ("message", "category", "stacklevel", "source")[min(number, 3)]
        if argument.star:
            return None
        if what == "message":
            texts.append((argument.value, False))
        elif what == "category" and _is_category(site, argument.value):
            kept[argument.value] = argument.value
        elif what != "stacklevel":
            return Advice(
                f"`{what}` of `warnings.warn` means something else inside an operator:"
                " warn before the compiled region, or about the line itself."
            )
        elif not _is_one(argument.value):
            # The caller of an operator is torch.
            kept[argument.value] = cst.Integer("1")
            moved = True
    if not moved:
        return Effect("warn", [call], kept, texts)
    if any("Deprecat" in code(node) for node in kept):
        return Advice(
            "`stacklevel` decides whether Python shows a warning about something deprecated, and"
            " means something else inside an operator: warn before the compiled region."
        )
    return Effect("warn", [call], kept, texts, notes=(STACKLEVEL,))


def _is_category(site: Site, node: cst.BaseExpression) -> bool:
    name = resolve(site.module, node) or ""
    if name.startswith("builtins.") and name.endswith("Warning"):
        return True
    return is_global_object(site, node)


def _is_one(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) and node.value == "1"

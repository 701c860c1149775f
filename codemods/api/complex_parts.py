"""Parts of a complex tensor set by assignment."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from .splice import Splice

_Z = tensor(3, dtype="torch.complex64")
_FACTS = {"z": _Z, "x": tensor(3), "x * 2": tensor(3), "x.sum()": tensor()}


def _source(body: str) -> str:
    return f"def f(z, x):\n    {body}\n    return z * 2\n"


class ComplexParts(Codemod):
    """*What it does.*  Copies into a part of a complex tensor: ``z.real = x`` becomes
    ``z.real.copy_(x)``.

    *When it applies.*  The name on the left was recorded as a plain complex tensor, and the value
    as a plain tensor.

    *Fix safety.*  Safe: this is how torch sets ``real`` and ``imag`` itself.

    *Refuses.*  Numbers on the right, several targets, real tensors.
    """

    name = "complex-parts"
    codes = ("GB0058",)

    examples = tuple(
        Example(_source(before), _source(after), at=before, facts=_FACTS, title=title)
        for title, before, after in (
            ("the real part", "z.real = x * 2", "z.real.copy_(x * 2)"),
            ("the imaginary part", "z.imag = x", "z.imag.copy_(x)"),
        )
    )
    near_misses = tuple(
        NearMiss(_source(text), at=text, why=why, facts={**_FACTS, **facts})
        for text, why, facts in (
            ("z.real = 2.0", "a number: an error", {}),
            ("z.real = z.imag = x", "two targets", {}),
            ("x.real = x", "no complex tensor", {}),
            ("z.real += x", "reads it, too", {}),
            ("z.real = x", "an object", {"z": Fact("object", "Number")}),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        statement = site.statement
        if not isinstance(statement, cst.SimpleStatementLine):
            return
        for small in statement.body:
            if not isinstance(small, cst.Assign) or len(small.targets) != 1 or comments_in(small):
                continue
            target = small.targets[0].target
            if not isinstance(target, cst.Attribute) or target.attr.value not in ("real", "imag"):
                continue
            whole, value = site.fact(target.value), site.fact(small.value)
            if whole is None or whole.type != "torch.Tensor" or value is None:
                continue
            if not (whole.dtype or "").startswith("torch.complex") or value.type != "torch.Tensor":
                continue
            splice = Splice(site)
            inside = splice.source_of(small.value)
            text = f"{splice.source_of(target)}.copy_({inside})"
            splice.replace_span(site.span(small), text)
            yield splice.rewrite(f"copy into the {target.attr.value} part", rank=10)
            return

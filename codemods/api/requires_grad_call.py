"""``requires_grad`` set by assignment."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .splice import Splice

_ADVICE = (
    "Dynamo does not trace `t.requires_grad = ...`. On a tensor made in the function,"
    " `t.requires_grad_()` is traced, as long as neither it nor what is computed from it is"
    " returned with a gradient; on an input, set the flag before the compiled call."
)
_FACTS = {"y": tensor(3), "self.grid": tensor(3), "(y * 2).sum()": tensor()}


def _source(body: str) -> str:
    return f"def f(self, y, flag):\n    {body}\n    return (y * 2).sum()\n"


class RequiresGradCall(Codemod):
    """*What it does.*  Calls the method instead of the setter: ``y.requires_grad = True`` becomes
    ``y.requires_grad_()``.

    *When it applies.*  The name on the left was recorded as a plain tensor or a parameter, and the
    value on the right is written out or was a bool. For a parameter, the method is traced where it
    has that flag already.

    *Fix safety.*  Safe: the setter and the method do the same, errors included.

    *Refuses.*  Other values, several targets, objects that are no tensors, and functions that give
    back what requires a gradient (Dynamo would break there, since the new leaf is lost).
    """

    name = "requires-grad-call"
    codes = ("GB0206",)

    examples = (
        Example(
            title="switched on",
            before=_source("y.requires_grad = True  # for the penalty"),
            after=_source("y.requires_grad_()  # for the penalty"),
            at="y.requires_grad = True",
            facts=_FACTS,
        ),
        Example(
            title="switched off",
            before=_source("self.grid.requires_grad = False"),
            after=_source("self.grid.requires_grad_(False)"),
            at="self.grid.requires_grad = False",
            facts=_FACTS,
        ),
        Example(
            title="a flag of the caller",
            before=_source("y.requires_grad = flag"),
            after=_source("y.requires_grad_(flag)"),
            at="y.requires_grad = flag",
            facts={
                **_FACTS,
                "y": Fact("tensor", "torch.nn.parameter.Parameter", (3,), "torch.float32"),
                "flag": scalar(True),
            },
        ),
    )
    near_misses = tuple(
        NearMiss(_source(text), at=text, why=why, facts={**_FACTS, **facts})
        for text, why, facts in (
            ("y.requires_grad = flag", "not known to be a bool", {}),
            ("y.requires_grad = y.grid = True", "two targets", {}),
            ("self.requires_grad = True", "no tensor", {"self": Fact("object", "Box")}),
            ("y.requires_grad = True", "a subclass", {"y": Fact("tensor", "mine.Masked")}),
            ("y.grad = None", "another attribute", {}),
            (
                "y.requires_grad = True",
                "gives back what requires a gradient",
                {"(y * 2).sum()": tensor(requires_grad=True)},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        yield Advice(_ADVICE)
        statement = site.statement
        if not isinstance(statement, cst.SimpleStatementLine) or not gives_no_history(site):
            return
        for small in statement.body:
            if not isinstance(small, cst.Assign) or len(small.targets) != 1 or comments_in(small):
                continue
            target = small.targets[0].target
            if not isinstance(target, cst.Attribute) or not _is_flag(site, small.value):
                continue
            fact = site.fact(target.value)
            if target.attr.value != "requires_grad" or fact is None or not fact.is_tensor:
                continue
            # The method is traced for a parameter that has the flag already; the trial tells.
            if fact.type not in ("torch.Tensor", "torch.nn.parameter.Parameter"):
                continue
            splice = Splice(site)
            given = splice.source_of(small.value)
            given = "" if given == "True" else given
            text = f"{splice.source_of(target.value)}.requires_grad_({given})"
            splice.replace_span(site.span(small), text)
            yield splice.rewrite("call `requires_grad_`", rank=10)
            return


def _is_flag(site: Site, value: cst.BaseExpression) -> bool:
    match value:
        case cst.Name("True" | "False"):
            return True
        case cst.Name() | cst.Attribute():
            fact = site.fact(value)
            return fact is not None and fact.kind == "bool"
    return False


def gives_no_history(site: Site) -> bool:
    """Whether nothing that the function returned was seen to require a gradient."""
    if site.function is None:
        return False
    returned = [node.value for node in walk(site.function.body) if isinstance(node, cst.Return)]
    facts = [site.fact(value) for value in returned if value is not None]
    return all(
        fact is not None
        and fact.kind not in ("dict", "object")
        and not any(part.requires_grad for part in (fact, *(fact.items or ())))
        for fact in facts
    )

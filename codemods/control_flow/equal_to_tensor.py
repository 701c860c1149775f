"""Names that say whether tensors are equal: tensors, for those rewrites that lower choices."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..data_dependent.flow import torch_name

_SIZES = (
    "both sides of a choice are in the graph: where the sizes of the tensors differ, and fit only"
    " the side that is taken, the patch raises an error"
)
_FACTS = {"q": tensor(3), "k": tensor(3), "v": tensor(3)}


def _source(*lines: str) -> str:
    return "import torch\n\n\ndef f(q, k, v):\n" + "".join(f"    {line}\n" for line in lines)


class EqualToTensor(Codemod):
    """*What it does.*  Keeps a tensor that says whether two tensors are equal, where a name held
    ``torch.equal``: ``same = torch.equal(q, k)`` becomes ``same = (q == k).all() if q.shape ==
    k.shape else torch.zeros((), dtype=torch.bool, device=q.device)``.  Where the sizes differed, it
    is Python's ``False``: ``same = q.shape == k.shape and (q == k).all()``.

    *When it applies.*  The name is bound once, and only its truth is asked. It is a step: another
    rewrite lowers the choice that asks for it.

    *Fix safety.*  Safe: sizes are compared in Python, as they are while Dynamo traces, and elements
    as ``torch.equal`` compares them.

    *Refuses.*  Names that are given on, and operands that are no names.
    """

    name = "equal-to-tensor"
    codes = ("GB0033",)
    examples = (
        Example(
            _source("same = torch.equal(q, k)", "if same:", "    return q", "return q + k"),
            _source(
                "same = (q == k).all() if q.shape == k.shape else"
                " torch.zeros((), dtype=torch.bool, device=q.device)",
                "if same:",
                "    return q",
                "return q + k",
            ),
            at="torch.equal(q, k)",
            facts=_FACTS,
            title="a pair",
        ),
        Example(
            _source(
                "same = torch.equal(q, k) and torch.equal(k, v)",
                "if not same and q is not None:",
                "    return q",
                "return q + k",
            ),
            _source(
                "same = (q == k).all() & (k == v).all()"
                " if q.shape == k.shape and k.shape == v.shape"
                " else torch.zeros((), dtype=torch.bool, device=q.device)",
                "if not same and q is not None:",
                "    return q",
                "return q + k",
            ),
            at="torch.equal(q, k)",
            facts=_FACTS,
            title="two pairs",
        ),
        Example(
            _source("same = torch.equal(q, k)", "if same:", "    return q", "return q"),
            _source(
                "same = q.shape == k.shape and (q == k).all()",
                "if same:",
                "    return q",
                "return q",
            ),
            at="torch.equal(q, k)",
            facts={"q": tensor(3), "k": tensor(4)},
            title="of other sizes",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at="torch.equal(q, k)", why=why, facts=_FACTS)
        for why, lines in (
            ("it is a result", ("same = torch.equal(q, k)", "return same")),
            (
                "it is bound twice",
                ("same = torch.equal(q, k)", "same = same or v", "if same:", "    return q"),
            ),
            ("there is no name", ("if torch.equal(q, k):", "    return q", "return q + k")),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None or activity(site.function.body).captures:
            return
        edit, found = site.edit(), False
        for statement in site.block_of(site.statement):
            match statement:
                case cst.SimpleStatementLine(
                    body=[
                        cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)
                    ]
                ) if (pairs := _pairs(site, value)) and not comments_in(statement):
                    pass
                case _:
                    continue
            if not _only_asked(site, site.function, name):
                if statement is site.statement:
                    return
                continue
            shapes = " and ".join(f"{one}.shape == {other}.shape" for one, other in pairs)
            equal = " & ".join(f"({one} == {other}).all()" for one, other in pairs)
            if _of_one_size(site, value):
                no = f"{torch_name(site)}.zeros((), dtype={torch_name(site)}.bool"
                text = f"{equal} if {shapes} else {no}, device={pairs[0][0]}.device)"
            else:
                text = f"{shapes} and {equal}"  # Python's answer, for these sizes
            edit.replace(value, cst.parse_expression(text))
            found = found or statement is site.statement
        if found:
            yield edit.rewrite(
                "keep as a tensor whether tensors are equal",
                rank=13,
                notes=(_SIZES,),
                prepares=True,
            )


def _pairs(site: Site, node: cst.BaseExpression) -> list[tuple[str, str]]:
    """The names that ``torch.equal`` compares, joined by ``and``; none where there is more."""
    match node:
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
            sides = [_pairs(site, left), _pairs(site, right)]
            return [*sides[0], *sides[1]] if all(sides) else []
        case cst.Call(
            func=func,
            args=[
                cst.Arg(value=cst.Name(one), keyword=None, star=""),
                cst.Arg(value=cst.Name(other), keyword=None, star=""),
            ],
        ) if resolve(site.module, func) == "torch.equal":
            return [(one, other)]
    return []


def _of_one_size(site: Site, node: cst.BaseExpression) -> bool:
    """Whether all tensors that are compared had the same sizes in the recorded calls."""
    facts = [
        site.fact(arg.value)
        for call in walk(node)
        if isinstance(call, cst.Call)
        for arg in call.args
    ]
    shapes = {fact.shape if fact is not None else None for fact in facts}
    return len(shapes) == 1 and None not in shapes


def _only_asked(site: Site, function: cst.FunctionDef, name: str) -> bool:
    """Whether the name is bound once, and all else that is done with it asks for its truth."""
    bound = 0
    for place in site.places_of(name, function):
        node: cst.CSTNode = place
        parent = site.parent(node)
        if isinstance(parent, cst.AssignTarget):
            bound += 1
            continue
        while isinstance(parent, cst.BooleanOperation) or (
            isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
        ):
            node, parent = parent, site.parent(parent)
        if not isinstance(parent, cst.If | cst.IfExp | cst.While) or parent.test is not node:
            return False
    return bound == 1 and code(function.name) != name

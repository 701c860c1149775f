"""Names that say whether tensors are equal: tensors, for those rewrites that lower choices."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import dotted, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.project import occurrences

from ..data_dependent.flow import torch_name

_FACTS = {"q": tensor(3), "k": tensor(3), "v": tensor(3)}


def _source(*lines: str) -> str:
    return "import torch\n\n\ndef f(q, k, v):\n" + "".join(f"    {line}\n" for line in lines)


_GIVEN = """import torch


def g(q, same=False):
    if same and not q.requires_grad:
        q = q * 2
    return q


def f(q, k, v):
    {}
    return g(q, same=same)
"""


class EqualToTensor(Codemod):
    """*What it does.*  Keeps a tensor that says whether two tensors are equal, where a name held
    ``torch.equal``: ``same = torch.equal(q, k)`` becomes ``same_size = q.shape == k.shape`` and
    ``same = (q == k).all() if same_size else torch.zeros(())`` (of bools), and ``if same:`` becomes
    ``if same_size and same:``.

    *When it applies.*  The name is bound once, and only its truth is asked. It is a step: another
    rewrite lowers the choice that asks for it.

    *Fix safety.*  Safe: sizes are compared in Python, also where the name is asked: for other sizes
    no graph holds the branch for equal ones. Elements are compared as ``torch.equal`` does.

    *Refuses.*  Names that are given on to more than a function of the file that only asks for their
    truth, and operands that are no names.
    """

    name = "equal-to-tensor"
    codes = ("GB0033",)
    examples = (
        Example(
            _source("same = torch.equal(q, k)", "if same:", "    return q", "return q + k"),
            _source(
                "same_size = q.shape == k.shape",
                "same = (q == k).all() if same_size else"
                " torch.zeros((), dtype=torch.bool, device=q.device)",
                "if same_size and same:",
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
                "same_size = q.shape == k.shape and k.shape == v.shape",
                "same = (q == k).all() & (k == v).all() if same_size else"
                " torch.zeros((), dtype=torch.bool, device=q.device)",
                "if not (same_size and same) and q is not None:",
                "    return q",
                "return q + k",
            ),
            at="torch.equal(q, k)",
            facts=_FACTS,
            title="two pairs",
        ),
        Example(
            _GIVEN.format("same = torch.equal(q, k)"),
            _GIVEN.format(
                "same_size = q.shape == k.shape\n"
                "    same = (q == k).all() if same_size else"
                " torch.zeros((), dtype=torch.bool, device=q.device)"
            ),
            at="torch.equal(q, k)",
            facts=_FACTS,
            title="a function asks",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at="torch.equal(q, k)", why=why, facts=_FACTS)
        for why, lines in (
            (
                "it is given on to what keeps it",
                (
                    "same = torch.equal(q, k)",
                    "return g(q, same)",
                    "",
                    "def g(q, same):",
                    "    return q, same",
                ),
            ),
            (
                "it is given on to another file",
                ("same = torch.equal(q, k)", "return g(q, same)"),
            ),
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
        taken, torch = set(names_in(site.module)), torch_name(site)
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
            asking = _asking(site, site.function, name)
            if asking is None:
                if statement is site.statement:
                    return
                continue
            alike = fresh(f"{name}_size", taken)
            taken |= {alike}
            shapes = " and ".join(f"{one}.shape == {other}.shape" for one, other in pairs)
            equal = " & ".join(f"({one} == {other}).all()" for one, other in pairs)
            edit.insert_before(statement, cst.parse_statement(f"{alike} = {shapes}"))
            no = f"{torch}.zeros((), dtype={torch}.bool, device={pairs[0][0]}.device)"
            edit.replace(value, cst.parse_expression(f"{equal} if {alike} else {no}"))
            for place in asking:
                asked = cst.ensure_type(
                    cst.parse_expression(f"{alike} and {name}"), cst.BooleanOperation
                )
                holder = site.parent(place)
                if not isinstance(holder, cst.If | cst.While):
                    asked = asked.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
                edit.replace(place, asked)
            found = found or statement is site.statement
        if found:
            yield edit.rewrite("keep as a tensor whether tensors are equal", rank=13, prepares=True)


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


def _asking(site: Site, function: cst.FunctionDef, name: str) -> list[cst.Name] | None:
    """Where the truth of the name is asked; None where it is bound again, or given on to what
    does more than ask for its truth.
    """
    bound, found, given = 0, [], 0
    for place in site.places_of(name, function):
        node: cst.CSTNode = place
        parent = site.parent(node)
        if isinstance(parent, cst.AssignTarget):
            bound += 1
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is place:
            continue  # a name of the function that is called
        if isinstance(parent, cst.Arg) and _only_asks(site, parent):
            given += 1
            continue
        asked = _question(site, place)
        if asked is None:
            return None
        found.append(place)
    return found if bound == 1 and (found or given) else None


def _question(site: Site, place: cst.CSTNode) -> cst.CSTNode | None:
    """The test that asks for the truth of a name, alone or joined with others."""
    node, parent = place, site.parent(place)
    while isinstance(parent, cst.BooleanOperation) or (
        isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
    ):
        node, parent = parent, site.parent(parent)
    tests = isinstance(parent, cst.If | cst.IfExp | cst.While) and parent.test is node
    return parent if tests else None


def _only_asks(site: Site, given: cst.Arg) -> bool:
    """Whether a call's argument goes to a function of the file that only asks for its truth."""
    call = site.parent(given)
    if not isinstance(call, cst.Call) or any(arg.star for arg in call.args):
        return False
    called = (dotted(call.func) or "").removeprefix("self.")
    found = [
        part
        for part in walk(site.module)
        if isinstance(part, cst.FunctionDef) and part.name.value == called
    ]
    if len(found) != 1 or found[0].decorators or occurrences(site, f"def {called}") != 1:
        return False
    (function,) = found
    names = [*function.params.posonly_params, *function.params.params]
    if call.func is not None and isinstance(call.func, cst.Attribute):
        names = names[1:]
    if given.keyword is not None:
        parameter = given.keyword.value
    else:
        place = next(i for i, arg in enumerate(call.args) if arg is given)
        if place >= len(names):
            return False
        parameter = names[place].name.value
    if activity(function.body).captures & {parameter}:
        return False
    uses = [
        place
        for place in site.places_of(parameter, function.body)
        if getattr(site.parent(place), "keyword", None) is not place
    ]
    return bool(uses) and all(_question(site, use) is not None for use in uses)

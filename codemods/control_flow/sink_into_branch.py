"""What only one branch uses is computed in that branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.exits import exits
from gbfix.analysis.purity import effects_of
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

from .sites import if_at

_X = {
    "x": tensor(3),
    "n": tensor(),
    "n == 0": tensor(dtype="torch.bool"),
    "torch.log(x)": tensor(3),
    "torch.log(x).sum()": tensor(),
    "near": tensor(3),
    "near.sum()": tensor(),
    "x * 2": tensor(3),
}


def _source(*lines: str) -> str:
    return "import torch\n\n\ndef f(x, n):\n" + "".join(f"    {line}\n" for line in lines)


class SinkIntoBranch(Codemod):
    """*What it does.*  Moves what only one branch of a choice uses into that branch:

    ```python
    near = (torch.log(p) * mask).sum()
    if count == 0:
        return far
    return far + near / count
    ```
    computes ``near`` below the ``if``.

    *When it applies.*  A tensor decides, and the break stays. It is a step for those rewrites that
    keep both branches in the graph: a gradient of zero that goes through ``log``, ``sqrt`` or a
    division of what is not used gives NaN, unless only the branch that is taken has it.

    *Fix safety.*  Safe: what moves computes and does nothing else, what it reads does not change in
    between, and nobody else uses it.

    *Refuses.*  Statements with effects, names that are used elsewhere, and results of statements
    that are no plain assignments.
    """

    name = "sink-into-branch"
    codes = ("GB0170",)
    examples = (
        Example(
            _source(
                "# of those that are near",
                "near = torch.log(x)",
                "far = x * 2",
                "near = near.sum()",
                "if n == 0:",
                "    loss = far.sum()",
                "else:",
                "    loss = far.sum() + near / n",
                "return loss",
            ),
            _source(
                "far = x * 2",
                "if n == 0:",
                "    loss = far.sum()",
                "else:",
                "    # of those that are near",
                "    near = torch.log(x)",
                "    near = near.sum()",
                "    loss = far.sum() + near / n",
                "return loss",
            ),
            at="n == 0",
            facts=_X,
            title="into the other branch",
        ),
        Example(
            _source(
                "near = torch.log(x).sum()", "if n == 0:", "    return x * 2", "return x + near"
            ),
            _source(
                "if n == 0:", "    return x * 2", "near = torch.log(x).sum()", "return x + near"
            ),
            at="n == 0",
            facts=_X,
            title="behind an early return",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at="n == 0", why=why, facts=_X)
        for why, lines in (
            (
                "both branches use it",
                (
                    "near = torch.log(x)", "if n == 0:", "    y = near", "else:",
                    "    y = near + x", "return y",
                ),
            ),
            (
                "it is used behind",
                (
                    "near = torch.log(x)", "if n == 0:", "    y = x", "else:", "    y = near",
                    "return y + near",
                ),
            ),
            (
                "what it reads is changed in between",
                (
                    "near = torch.log(x)", "x = x * 2", "if n == 0:", "    y = x", "else:",
                    "    y = near", "return y",
                ),
            ),
            (
                "what it reads is written to in between",
                (
                    "near = torch.log(x)", "x[0] = 1", "if n == 0:", "    y = x", "else:",
                    "    y = near", "return y",
                ),
            ),
            (
                "what is written to in between may be a view of what it reads",
                (
                    "v = x.reshape(-1)", "near = torch.log(v)", "n.mul_(2)", "if n == 0:",
                    "    y = x", "else:", "    y = near", "return y",
                ),
            ),
            (
                "it draws random numbers",
                (
                    "near = torch.rand(3)", "if n == 0:", "    y = x", "else:", "    y = near",
                    "return y",
                ),
            ),
            (
                "a function inside may use it",
                (
                    "near = torch.log(x)", "g = lambda: near", "if n == 0:", "    y = x", "else:",
                    "    y = near", "return y",
                ),
            ),
        )
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        choice = if_at(site)
        if choice is None or site.function is None or isinstance(site.parent(choice), cst.If):
            return
        block = list(site.block_of(choice))
        if choice not in block:
            return
        above = block[: block.index(choice)]
        for place, inside in _arms(site, choice, block):
            found = _sunk(site, site.function, above, choice, inside)
            if not found:
                continue
            edit = site.edit()
            for statement in found:
                edit.moved(statement)
            if place is None:
                edit.insert_after(choice, *found)
            else:
                edit.insert_before(place, *found)
            yield edit.rewrite("compute in the branch what it alone uses", rank=19, prepares=True)
            return


def _arms(
    site: Site, choice: cst.If, block: Sequence[cst.CSTNode]
) -> Iterator[tuple[cst.CSTNode | None, list[cst.CSTNode]]]:
    """The branches: the statement above which to insert (None: behind the ``if``), and all."""
    after = list(block[block.index(choice) + 1 :])
    if isinstance(choice.orelse, cst.Else) and isinstance(choice.orelse.body, cst.IndentedBlock):
        lines: list[cst.CSTNode] = [*choice.orelse.body.body]
        yield lines[0], lines
    elif choice.orelse is None and after and _ends(choice.body):
        yield None, after
    if isinstance(choice.body, cst.IndentedBlock):
        lines = [*choice.body.body]
        yield lines[0], lines


def _ends(body: cst.BaseSuite) -> bool:
    """Whether a branch ends the function."""
    last: cst.CSTNode = body.body[-1]
    ends = isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)
    return ends and not exits(body).raises


def _sunk(
    site: Site,
    function: cst.FunctionDef,
    above: Sequence[cst.CSTNode],
    choice: cst.If,
    inside: Sequence[cst.CSTNode],
) -> list[cst.SimpleStatementLine]:
    """The statements above the choice that compute what only the branch uses, in their order."""
    plain = {
        statement: name for statement in above if (name := _bound_by(site, statement)) is not None
    }
    names = set(plain.values()) - set(parameters_of(function.params))
    names -= activity(function.body).captures
    while True:
        moving = [
            statement
            for statement in above
            if isinstance(statement, cst.SimpleStatementLine) and plain.get(statement) in names
        ]
        homes = {node for part in (*moving, *inside) for node in walk(part)}
        kept = {
            name
            for name in names
            if all(place in homes for place in site.places_of(name, function))
            and any(node in homes for node in site.places_of(name, function))
            and _stays(site, above, choice, moving, [s for s in moving if plain[s] == name])
        }
        if kept == names:
            used = {
                node.value for part in inside for node in walk(part) if isinstance(node, cst.Name)
            }
            return moving if names & used else []
        names = kept


def _bound_by(site: Site, statement: cst.CSTNode) -> str | None:
    """The name of ``name = value``, where computing the value does nothing else."""
    match statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)]
        ) if effects_of(value, site.fact).pure and not effects_of(value, site.fact).modules:
            fact = site.fact(value)
            return name if fact is not None and fact.is_tensor else None
    return None


def _stays(
    site: Site,
    above: Sequence[cst.CSTNode],
    choice: cst.If,
    moving: Sequence[cst.CSTNode],
    own: Sequence[cst.CSTNode],
) -> bool:
    """Whether what the statements read is the same when the choice begins."""
    for statement in own:
        reads = activity(statement).reads
        for later in above[above.index(statement) + 1 :]:
            if later in moving:
                continue
            # A tensor that is written to may be what is read, by another name or as its view.
            if reads & activity(later).bound or not effects_of(later, site.fact).pure:
                return False
        if reads & activity(choice.test).bound or not effects_of(choice.test, site.fact).pure:
            return False
    return True

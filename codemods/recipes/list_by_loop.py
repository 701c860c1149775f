"""A list whose items break, made by a loop: there a line may stand above the one that breaks."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..choice.renaming import renamed

_FACTS = {
    "costs": tensor(2, 3, 3),
    "solve(cost)": Fact("tuple", "tuple"),
    "solve": Fact("function", "builtin_function_or_method"),
    "n": scalar(2),
}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\nfrom solver import solve\n\n\ndef f(costs, n):\n{body}"


def _near_miss(why: str, *lines: str) -> NearMiss:
    return NearMiss(_source(*lines), at="solve(cost)", why=why, facts=_FACTS, code="GB0007")


class ListByLoop(Codemod):
    """*What it does.*  Makes a list in a loop where a call in one of its items breaks the graph:

    ```python
    pairs = [solve(cost) for cost in costs]
    ```
    becomes
    ```python
    pairs = []
    for cost in costs:
        pairs.append(solve(cost))
    ```
    An operator that gives several arrays is called in a line of its own, and in a list there is
    no place for one.

    *When it applies.*  The list is all that a line binds or returns.

    *Fix safety.*  Safe: the same calls run in the same order.  Names of the loop that the function
    has already are given another name.  Others do the rest: where none can, this rewrite is not
    kept.

    *Refuses.*  Lists in lists, comments within, and lists below a ``try`` or a context that is none
    of torch's: where an item raises an error, the name would have half a list.
    """

    name = "list-by-loop"
    codes = ("GB0007", "GB0156", "GB0036", "GB0124", "GB0059", "GB0193", "GB0294", "GB0292")
    examples = (
        Example(
            _source(
                "# Who goes with whom.",
                "pairs = [solve(cost) for cost in costs]  # each",
                "return pairs",
            ),
            _source(
                "# Who goes with whom.",
                "pairs = []  # each",
                "for cost in costs:",
                "    pairs.append(solve(cost))",
                "return pairs",
            ),
            at="solve(cost)",
            facts=_FACTS,
            code="GB0007",
            title="bound to a name",
        ),
        Example(
            _source("return [solve(cost) for i, cost in enumerate(costs) if i < n]"),
            _source(
                "made = []",
                "for i, cost in enumerate(costs):",
                "    if i < n:",
                "        made.append(solve(cost))",
                "return made",
            ),
            at="solve(cost)",
            facts=_FACTS,
            code="GB0007",
            title="returned",
        ),
        Example(
            _source(
                "cost = n * 2",
                "pairs = [solve(cost) for cost in costs]",
                "return pairs, cost",
            ),
            _source(
                "cost = n * 2",
                "pairs = []",
                "for cost_1 in costs:",
                "    pairs.append(solve(cost_1))",
                "return pairs, cost",
            ),
            at="solve(cost)",
            facts=_FACTS,
            code="GB0007",
            title="a name that the function has",
        ),
        Example(
            _source("pairs = [solve(torch) for torch in costs]", "return torch.stack(pairs)"),
            _source(
                "pairs = []",
                "for torch_1 in costs:",
                "    pairs.append(solve(torch_1))",
                "return torch.stack(pairs)",
            ),
            at="solve(torch)",
            facts={**_FACTS, "solve(torch)": Fact("tuple", "tuple")},
            code="GB0007",
            title="a name of the module",
        ),
    )
    near_misses = (
        _near_miss("an item of another list", "pairs = [[solve(cost)] for cost in [costs]][0]",
                   "return pairs"),
        _near_miss("an error on the way is caught", "pairs = None", "try:",
                   "    pairs = [solve(cost) for cost in costs]", "except ValueError:", "    pass",
                   "return pairs"),
        _near_miss("two loops", "pairs = [solve(cost) for row in costs for cost in row]",
                   "return pairs"),
        _near_miss("a generator", "pairs = (solve(cost) for cost in costs)", "return list(pairs)"),
        _near_miss("the list of before is read", "pairs = costs",
                   "pairs = [solve(cost) for cost in pairs]", "return pairs"),
        _near_miss("a function of each round", "late = [lambda: solve(cost) for cost in costs]",
                   "return [each() for each in late]"),
        _near_miss("a name that others have, too", "global pairs",
                   "pairs = [solve(cost) for cost in costs]", "return pairs"),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function, statement = site.function, site.statement
        if function is None or not isinstance(statement, cst.SimpleStatementLine):
            return
        match statement.body:
            case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)]:
                pass
            case [cst.Return(value=cst.ListComp() as value)]:
                name = ""
            case _:
                return
        if not isinstance(value, cst.ListComp) or not _breaks_in(site, value):
            return
        if any(_may_swallow(site, outer) for outer in site.ancestors(statement)):
            return
        does = activity(function.body)
        if name and name in names_in(value) | does.globals | does.nonlocals | does.captures:
            return
        edit = site.edit()
        edit.replace(statement, *_loop(function, statement, value, name))
        yield edit.rewrite("make the list in a loop", rank=51, prepares=True)


def _may_swallow(site: Site, outer: cst.CSTNode) -> bool:
    """Whether the function may go on after an error in there."""
    if isinstance(outer, cst.With):
        return not all(
            isinstance(item.item, cst.Call)
            and (resolve(site.module, item.item.func) or "").startswith("torch.")
            for item in outer.items
        )
    return isinstance(outer, cst.Try | cst.TryStar)


def _breaks_in(site: Site, value: cst.ListComp) -> bool:
    """Whether the break stands in an item, which no inner scope makes later."""
    if value.for_in.inner_for_in is not None or value.for_in.asynchronous is not None:
        return False
    inside = (cst.Lambda, cst.BaseComp, cst.NamedExpr, cst.Await)
    if comments_in(value) or any(isinstance(node, inside) for node in walk(value.elt)):
        return False
    if any(isinstance(node, inside) for test in value.for_in.ifs for node in walk(test)):
        return False
    if any(isinstance(it, cst.Attribute | cst.Subscript) for it in walk(value.for_in.target)):
        return False
    return any(node is site.node for node in walk(value.elt))


def _loop(
    function: cst.FunctionDef, statement: cst.SimpleStatementLine, value: cst.ListComp, name: str
) -> Iterator[cst.BaseStatement]:
    taken = names_in(function)
    # A name that the function reads of its module would become its own.
    own = function_scope(function).locals | activity(function.body).reads
    inner = {node.value for node in walk(value.for_in.target) if isinstance(node, cst.Name)}
    names = {each: fresh(each, taken) for each in inner & own}
    made = name or fresh("made", taken)
    body: cst.BaseStatement = cst.parse_statement(
        f"{made}.append({code(renamed(_bare(value.elt), names))})"
    )
    tests = [code(renamed(each.test, names)) for each in value.for_in.ifs]
    for test in reversed(tests):
        body = cst.If(cst.parse_expression(test), cst.IndentedBlock([body]))
    target = renamed(value.for_in.target, names)
    first = cst.ensure_type(cst.parse_statement(f"{made} = []"), cst.SimpleStatementLine)
    if name:
        first = first.with_changes(trailing_whitespace=statement.trailing_whitespace)
    yield first.with_changes(leading_lines=statement.leading_lines)
    yield cst.For(target, value.for_in.iter, cst.IndentedBlock([body]))
    if not name:
        last = cst.ensure_type(cst.parse_statement(f"return {made}"), cst.SimpleStatementLine)
        yield last.with_changes(trailing_whitespace=statement.trailing_whitespace)


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """A tuple keeps its parentheses, as it is an argument now."""
    return node if isinstance(node, cst.Tuple) else node.with_changes(lpar=(), rpar=())

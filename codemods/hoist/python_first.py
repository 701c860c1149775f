"""Python that needs no tensor, before the graph instead of in the middle of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import assign, call, returns
from gbfix.analysis.exits import exits
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .compiled import Compiled, compiled_place
from .halves import CannotSplit, Cut, Part, name_parts, receiver_of, split, with_decorators

_X = tensor(3)
_FACTS = {
    "x": _X,
    "y": _X,
    "z": _X,
    "x.sin()": _X,
    "x.cos()": _X,
    "table": Fact("object", "Table"),
    "table.name": scalar("a"),
    "table.count()": scalar(2),
    "table.count(y)": scalar(2),
    "table.stop()": Fact("none", "NoneType"),
    "table.rows": _X,
    "n": scalar(3),
    "n + 1": scalar(4),
}
#: What Python knows of a tensor without its values.
_METADATA = words("shape dtype device ndim layout requires_grad is_cuda names")
_ASKS = words("size dim numel nelement element_size is_contiguous is_inference stride")
#: Values that a graph takes, or guards, as they are.
_HANDED_ON = words("int float bool str none object module function list tuple dict type bytes set")
#: Where reading the attribute that is called is what Dynamo refuses.
_REFUSED_ATTRIBUTES = words("GB0006 GB0140")
#: Functions of torch that ask, and neither draw nor compute.
_QUESTIONS = words(
    """is_inference_mode_enabled is_grad_enabled is_autocast_enabled is_anomaly_enabled is_available
    _pair _triple _quadruple _ntuple is_tensor is_complex is_floating_point is_checkpoint_valid"""
)
#: Functions of torch that change a state of the process.
_SETS = re.compile(r"set_|_set|use_|enable|manual_seed|seed|initial_seed|fork_rng")
#: Methods that begin or end a span, a clock or a context: what lies between must stay there.
_SPANS = words(
    """__enter__ __exit__ __aenter__ __aexit__ start stop begin end tick tock tic toc lap elapsed
    elapsed_time range_push range_pop mark record_event"""
)
#: What Python does only sometimes, later, or several times.
_SOMETIMES = (
    cst.IfExp | cst.BooleanOperation | cst.Comparison | cst.Lambda | cst.BaseComp | cst.NamedExpr
    | cst.Await | cst.Yield
)  # fmt: skip


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\n@torch.compile\ndef f(x, table, n):\n{body}"


class PythonFirst(Codemod):
    """*What it does.*  Computes a plain Python value before the compiled function instead of in the
    middle of it: the function of that name calls its old self, and hands the value on.

    *When it applies.*  What breaks the graph has a value that is no tensor, needs no tensor's
    values, and would be the same at the start: nothing before it binds or changes what it reads,
    and what comes before it computes with torch alone.

    *Fix safety.*  Safe: all that a graph can hold is in one graph, the value is computed once in
    every call as before, and errors are the same, but for which of two comes first.

    *Refuses.*  What runs only in some calls, or several times; calls and changes of other objects
    before it; generators and coroutines; functions that are compiled in another way.
    """

    name = "python-first"
    codes = (
        "GB0006", "GB0007", "GB0008", "GB0022", "GB0045", "GB0046", "GB0059", "GB0069", "GB0116",
        "GB0140", "GB0156", "GB0165", "GB0175", "GB0177", "GB0178", "GB0180", "GB0185", "GB0190",
        "GB0198", "GB0203", "GB0204", "GB0222", "GB0243", "GB0254", "GB0256", "GB0289", "GB0291",
        "GB0292", "GB0346", "GB0367", "GB0467", "GB0569", "GB0682", "GB0808", "GB0871", "GB1220",
        "GB1584", "GB2404", "GB2520", "GB2852", "GB2861", "GB2977", "GB3697", "GB4411", "GB4608",
        "GB4880", "GB5458", "GB5849", "GB5904", "GB6012", "GB6053", "GB6215", "GB6890", "GB7502",
        "GB7637", "GB7685", "GB9137", "GB9277", "GB9300", "GB9567", "GB9840", "GB9860",
    )  # fmt: skip

    examples = (
        Example(
            _source("y = x.sin()", "return y * table.count()"),
            """
            import torch


            def f(x, table, n):
                table_count = table.count()
                return f_after(x, table_count)


            @torch.compile
            def f_after(x, table_count):
                y = x.sin()
                return y * table_count
            """,
            at="table.count()",
            facts=_FACTS,
            code="GB0007",
            title="a number of another object",
        ),
        Example(
            _source("y = x.sin()", "count = table.count()", "return y * count, n"),
            """
            import torch


            def f(x, table, n):
                table_count = table.count()
                return f_after(x, n, table_count)


            @torch.compile
            def f_after(x, n, table_count):
                y = x.sin()
                count = table_count
                return y * count, n
            """,
            at="table.count()",
            facts=_FACTS,
            code="GB0007",
            title="a value with a name",
        ),
        Example(
            _source("for y in table:", "    x = x * y", "return x"),
            """
            import torch


            def f(x, table, n):
                table_list = list(table)
                return f_after(x, table_list)


            @torch.compile
            def f_after(x, table_list):
                for y in table_list:
                    x = x * y
                return x
            """,
            at="for y in table:\n        x = x * y",
            facts={**_FACTS, "table": Fact("object", "set")},
            code="GB0222",
            title="a set of tensors",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(*lines), at=at, why=why, facts=_FACTS, code="GB0007")
        for at, why, lines in (
            ("table.count()", "comes first already", ("return x * table.count()",)),
            (
                "table.count(y)",
                "needs a tensor's values",
                ("y = x.sin()", "return y * table.count(y)"),
            ),
            (
                "table.count()",
                "in some calls only",
                ("y = x.sin()", "return y * table.count() if n else y"),
            ),
            (
                "table.count()",
                "in some calls only",
                ("y = x.sin()", "if n:", "    y = y * table.count()", "return y"),
            ),
            (
                "table.count()",
                "in each round",
                ("y = x.sin()", "for _ in range(n):", "    y = y * table.count()", "return y"),
            ),
            (
                "table.count()",
                "another table by then",
                ("y = x.sin()", "table = n", "return y * table.count()"),
            ),
            (
                "table.count()",
                "what comes before may change it",
                ("y = x.sin()", "table.rows = y", "return y * table.count()"),
            ),
            (
                "table.count()",
                "what comes before may change it",
                ("y = x.sin()", "n()", "return y * table.count()"),
            ),
            (
                "table.stop()",
                "the end of a span that the lines above belong to",
                ("y = x.sin()", "table.stop()", "return y"),
            ),
            (
                "table.count()",
                "a call that ends before",
                ("y = x.sin()", "if n: return y", "return y * table.count()"),
            ),
            ("table.rows", "a tensor", ("y = x.sin()", "return y * table.rows")),
        )
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        found = compiled_place(site)
        if found is None:
            return
        whole, node = found
        function = whole.function
        statement = _top_level(site, function, node)
        if statement is None or not isinstance(function.body, cst.IndentedBlock):
            return
        before = list(function.body.body)
        before = before[: before.index(statement)]
        try:
            for value, as_list in _values(site, statement, node):
                if _comes_first(site, function, before, statement, value):
                    yield _moved(site, whole, value, as_list)
                    return
        except CannotSplit:
            return


def _top_level(
    site: Site, function: cst.FunctionDef, node: cst.CSTNode
) -> cst.BaseStatement | None:
    """The statement of the function's own block that holds the node."""
    body = function.body.body
    return next((part for part in (node, *site.ancestors(node)) if part in body), None)  # type: ignore[return-value]


def _values(
    site: Site, statement: cst.BaseStatement, node: cst.CSTNode
) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """What might be computed first, the largest first; whether as a list."""
    match node, statement:
        case cst.For(), cst.For(iter=cst.Name() as items) if site.code == "GB0222":
            yield items, True
            return
    if not isinstance(node, cst.BaseExpression):
        return
    around = []
    for part in (node, *site.ancestors(node)):
        if part is statement or not isinstance(part, cst.BaseExpression | cst.Arg):
            break
        if isinstance(part, cst.BaseExpression):
            around.append(part)
    for part in reversed(around):
        yield part, False
    called = node.func if isinstance(node, cst.Call) else None
    if isinstance(called, cst.Attribute) and site.code in _REFUSED_ATTRIBUTES:
        yield called, False


def _comes_first(
    site: Site,
    function: cst.FunctionDef,
    before: Sequence[cst.BaseStatement],
    statement: cst.BaseStatement,
    value: cst.BaseExpression,
) -> bool:
    """Whether a value is Python's own, and the same at the start of the function."""
    if isinstance(value, cst.Name) and not isinstance(statement, cst.For):
        return False
    if _runs_sometimes(site, statement, value) or not _is_python(site, value):
        return False
    docstring = function.get_docstring(clean=False) is not None
    earlier = [*before[docstring:]]
    reads = activity(cst.SimpleStatementLine([cst.Expr(value)]))
    for other in earlier:
        what = activity(other)
        if exits(other).jumps or not _is_torch_alone(site, other):
            return False
        if (what.binds | what.deletes | what.mutates) & reads.reads:
            return False
    if any(_depends_on_when(site, part) for part in walk(value)):
        return False
    if any(_in_place(part) for other in earlier for part in walk(other)) and any(
        _may_hold_tensors(site, part)
        for part in walk(value)
        if isinstance(part, cst.BaseExpression)
    ):
        return False
    if reads.binds or exits(statement).yields or exits(statement).awaits:
        return False
    names = set(parameters_of(function.params))
    return not (reads.reads & function_scope(function).locals) - names and (
        bool(earlier) or _is_behind_a_graph(site, statement, value)
    )


def _is_behind_a_graph(site: Site, statement: cst.BaseStatement, value: cst.CSTNode) -> bool:
    """Whether something else of the statement computes with tensors before the value is used."""
    if isinstance(statement, cst.For):
        return True
    parent = site.parent(value)
    called = isinstance(parent, cst.Call) and parent.func is value
    return called and site.code in _REFUSED_ATTRIBUTES


def _runs_sometimes(site: Site, statement: cst.BaseStatement, value: cst.CSTNode) -> bool:
    if isinstance(statement, cst.BaseCompoundStatement):
        if isinstance(statement, cst.For):
            return value is not statement.iter
        return not isinstance(statement, cst.If) or value is not statement.test
    for part in site.ancestors(value):
        if part is statement:
            return any(isinstance(inner, cst.NamedExpr) for inner in walk(statement))
        if isinstance(part, _SOMETIMES):
            return True
    return True


def _is_python(site: Site, value: cst.BaseExpression) -> bool:
    """Whether a value is no tensor, and is made without the values of one."""
    fact = site.fact(value)
    if fact is not None and (fact.is_tensor or fact.kind not in _HANDED_ON):
        return False
    if fact is None and not isinstance(value, cst.Attribute):
        return False
    return all(
        _asks_metadata(site, part)
        for part in walk(value)
        if isinstance(part, cst.BaseExpression) and _may_hold_tensors(site, part)
    )


def _may_hold_tensors(site: Site, part: cst.BaseExpression) -> bool:
    fact = site.fact(part)
    return fact is not None and (fact.is_tensor or any(item.is_tensor for item in fact.items or ()))


def _asks_metadata(site: Site, part: cst.BaseExpression) -> bool:
    match site.parent(part):
        case cst.Attribute(value=value, attr=cst.Name(name)) as asked if value is part:
            if name in _METADATA:
                return True
            called = site.parent(asked)
            return name in _ASKS and isinstance(called, cst.Call) and called.func is asked
    return False


def _is_torch_alone(site: Site, statement: cst.BaseStatement) -> bool:
    """Whether a statement computes with tensors, and calls and changes nothing else."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    for part in walk(statement):
        match part:
            case cst.AssignTarget(target=cst.Attribute() | cst.Subscript()):
                return False
            case cst.Assert() | cst.Raise() | cst.Del() | cst.Import() | cst.ImportFrom():
                return False
            case cst.AugAssign(target=target) if not isinstance(target, cst.Name):
                return False
            case cst.Call(func=func) if not _is_torch(site, func):
                return False
    return True


def _depends_on_when(site: Site, part: cst.CSTNode) -> bool:
    """Whether it reads a clock, ends a span, or reads what the lines above may have set."""
    if not isinstance(part, cst.Call):
        return False
    name = resolve(site.module, part.func) or ""
    if name.startswith(("time.", "datetime.")):
        return True
    if isinstance(part.func, cst.Attribute) and part.func.attr.value in _SPANS:
        return True
    return name.startswith("torch.") and name.rpartition(".")[2] not in _QUESTIONS


def _in_place(part: cst.CSTNode) -> bool:
    match part:
        case cst.Call(func=cst.Attribute(attr=cst.Name(name))):
            return name.endswith("_") and not name.endswith("__")
    return False


def _is_torch(site: Site, func: cst.BaseExpression) -> bool:
    name = resolve(site.module, func)
    if name is not None and name.startswith("torch."):
        return not _SETS.match(name.rpartition(".")[2])
    fact = site.fact(func.value) if isinstance(func, cst.Attribute) else None
    if fact is not None and fact.is_tensor:
        return True
    module = site.fact(func)
    return module is not None and module.kind == "module" and module.type.startswith("torch.")


def _moved(site: Site, whole: Compiled, value: cst.BaseExpression, as_list: bool) -> Rewrite:
    function = whole.function
    receiver = receiver_of(site, function)
    _check(function)
    name = fresh(f"{code(value)}_list" if as_list else telling_name(value), names_in(site.module))

    class Put(cst.CSTTransformer):
        def on_leave(  # type: ignore[override]
            self, original_node: cst.CSTNode, updated_node: cst.CSTNode
        ) -> cst.CSTNode:
            return cst.Name(name) if original_node is value else updated_node

    body = function.body.visit(Put())
    assert isinstance(body, cst.IndentedBlock)
    documented = 1 if function.get_docstring(clean=False) is not None else 0
    statements = list(body.body)
    left = statements[documented:]
    what = activity(left)
    mentioned = what.reads | what.mutates | what.deletes | ({receiver} if receiver else set())
    taken = tuple(p for p in parameters_of(function.params) if p in mentioned or p == receiver)
    part = Part(left, (*taken, name), (), True, "after", "_gbfix_part_0_")
    name_parts(site, function, [part], receiver)
    func = f"{receiver}.{part.name}" if receiver else part.name
    arguments = [item for item in part.takes if item != receiver]
    first: cst.BaseExpression = call("list", value) if as_list else value
    start = [*statements[:documented], assign(name, first), returns(call(func, *arguments))]
    edit = split(site, function, Cut(start, (part,)), whole.decorator)
    whole.release(site, edit)
    safety, notes = whole.ceiling(site)
    rewrite = edit.rewrite(
        f"compute `{code(value)}` before the graph of `{function.name.value}`",
        safety=safety,
        notes=("one graph, with a line of Python before it", *notes),
        rank=56,
    )
    touched = {site.path: (site.span(function), *whole.spans(site))}
    return with_decorators(site, function, dataclasses.replace(rewrite, touched=touched))


def _check(function: cst.FunctionDef) -> None:
    ways = exits(function.body)
    what = activity(function.body)
    if function.asynchronous is not None or ways.yields or ways.awaits:
        raise CannotSplit("generators and coroutines are not called by another function")
    if what.frame_access:
        raise CannotSplit("the function looks at its own frame")

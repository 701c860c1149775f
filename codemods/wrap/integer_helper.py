"""A helper that makes masks or indices with Python loops over data becomes an operator."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.torch_names import PURE_METHODS, PURE_TORCH
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .capture import Parameter, Refused, lone_helper
from .function_to_op import decorated, parameters_to_pass
from .operator_text import namespace, torch_alias

_BODY = """
import torch

SPECIAL = [1, 2]


def blocks(ids):
    rows, columns = ids.shape
    special = torch.zeros((rows, columns)).bool()
    for token in SPECIAL:
        special |= ids == token
    found = torch.nonzero(special)
    mask = torch.eye(columns).bool().unsqueeze(0).repeat(rows, 1, 1)
    place = torch.zeros((rows, columns))
    for i in range(found.shape[0]):
        row, column = found[i]
        if column > 0:
            mask[row, :column, :column] = True
            place[row, :column] = torch.arange(0, column)
    return mask, place.to(torch.long)


def f(ids):
    return blocks(ids)
"""
_FACTS = {
    "ids": tensor(2, 5, dtype="torch.int64"),
    "mask": tensor(2, 5, 5, dtype="torch.bool"),
    "place.to(torch.long)": tensor(2, 5, dtype="torch.int64"),
    "rows": scalar(2),
    "columns": scalar(5),
    "i": scalar(0),
}
_AFTER = _BODY.replace(
    "def blocks(ids):",
    '@torch.library.custom_op("example::blocks", mutates_args=())\n'
    "def blocks(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:",
).replace(
    "    return mask, place.to(torch.long)\n",
    """    return mask, place.to(torch.long)


@blocks.register_fake
def _(ids):
    rows, columns = ids.shape
    mask = torch.eye(columns).bool().unsqueeze(0).repeat(rows, 1, 1)
    place = torch.zeros((rows, columns))
    return mask, place.to(torch.long)
""",
)


def _near_miss(old: str, new: str, why: str, **facts: Fact) -> NearMiss:
    assert old in _BODY
    return NearMiss(_BODY.replace(old, new), at="column > 0", why=why, facts=_FACTS | facts)


class IntegerHelperToOp(Codemod):
    """*What it does.*  Makes a helper that computes masks or indices a ``torch.library.custom_op``.

    A loop over the places of special tokens, with slices that depend on them, cannot be traced; an
    operator runs it as Python, and Dynamo sees its result only.  Its fake is made of the helper's
    own lines that allocate the results.

    *When it applies.*  The break is in an undecorated function at module level which takes what an
    operator takes, uses nothing but pure functions of torch on it, and ends in the one ``return``
    of tensors that it made itself, of integers or bools.

    *Fix safety.*  Unsafe: the same lines run, on the same values, and integers and bools have no
    gradients that an operator could lose; but a graph keeps the sizes that were found while
    tracing, also where they came from a list of the module that grows later, and an operator takes
    numbers only where the program gave numbers.

    *Refuses.*  Floating results, results that are made in loops or of other size each time, changes
    of arguments, random numbers, calls of anything but torch and plain builtins, several returns,
    the region itself.
    """

    name = "integer-helper-to-op"
    codes = (
        "GB0170",
        "GB0036",
        "GB0033",
        "GB0124",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = (Example(_BODY, _AFTER, at="column > 0", facts=_FACTS, title="blocks of a text"),)
    near_misses = (
        _near_miss(
            "place.to(torch.long)",
            "place",
            "a floating result may need a gradient",
            place=tensor(2, 5),
        ),
        _near_miss("found = torch", "ids.add_(1)\n    found = torch", "changes its argument"),
        _near_miss("found = torch", "ids = ids + 1\n    found = torch", "binds its argument anew"),
        _near_miss("torch.eye(columns)", "torch.rand(columns, columns)", "random numbers"),
        _near_miss("found = torch", "print(1)\n    found = torch", "prints"),
        _near_miss("found = torch", "SPECIAL.append(1)\n    found = torch", "changes a global"),
        _near_miss("found = torch", "other = helper(ids)\n    found = torch", "calls other code"),
        _near_miss(
            "    special = torch.zeros((rows, columns)).bool()\n",
            "    special = ids\n",
            "its argument by another name is changed",
        ),
        _near_miss(
            "mask = torch.eye(columns).bool().unsqueeze(0).repeat(rows, 1, 1)",
            "mask = found",
            "the size of the result is decided by data",
        ),
        _near_miss(
            "torch.zeros((rows, columns))\n    for i",
            "torch.zeros((rows, int(ids.max())))\n    for i",
            "as large as a number in the data",
        ),
        _near_miss(
            "    mask = torch",
            "    columns += 1\n    mask = torch",
            "a size that is counted",
        ),
        _near_miss("return mask, place", "return ids, place", "gives its argument back"),
        _near_miss("return mask, place", "return mask, mask, place", "gives a tensor twice"),
        _near_miss(
            "    if column > 0:", "    mask = mask[:1]\n        if column > 0:", "made in a loop"
        ),
        _near_miss("def blocks", "@torch.no_grad()\ndef blocks", "decorated"),
        _near_miss("return blocks(ids)", "return map(blocks, ids)", "used otherwise than called"),
        NearMiss(
            _BODY.replace("def f(ids)", "class M:\n  def f(self)").replace(
                "def blocks(ids)", "def blocks(ids, *more)"
            ),
            at="column > 0",
            why="takes any number of arguments",
            facts=_FACTS,
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = lone_helper(site)
        if function is None:
            return
        try:
            yield _rewrite(site, function)
        except Refused:
            return


def _rewrite(site: Site, function: cst.FunctionDef) -> Rewrite:
    name = function.name.value
    parameters = parameters_to_pass(site, function)
    _check_body(site, function)
    check_uses(site, name)
    results, fact = _results(site, function)
    edit = site.edit()
    torch = torch_alias(site, edit)
    operator = f"{namespace(site)}::{name}"
    if any(operator in text for text in site.sources.values()):
        raise Refused("it is an operator already")
    lines = _allocations(site, function, results)
    fake = _fake(function, parameters, lines)
    edit.replace(function, decorated(function, parameters, fact, operator, torch))
    following = site.module.body[site.module.body.index(function) + 1 :]
    if following:
        edit.insert_before(following[0], fake)  # before the blank lines or after: it is the same
        fake_lines: tuple[cst.FunctionDef, ...] = ()
    else:
        fake_lines = (fake,)
    edit.insert_after(function, *fake_lines)
    return edit.rewrite(
        f"make `{name}` a custom operator",
        rank=30,
        # A graph keeps the sizes that were found while tracing, also of lists and numbers of the
        # module; and an operator takes numbers only where the program gave numbers.
        safety=Safety.UNSAFE,
        notes=(
            f"`{name}` runs as Python; a compiled graph calls it, and is not cut by it.",
            "its sizes must depend on its arguments alone, and arguments keep their types",
        ),
    )


#: What makes a new tensor whose size arguments (and nothing else) decide its size.
_FACTORIES = words(
    """torch.zeros torch.ones torch.full torch.eye torch.empty torch.arange torch.zeros_like
    torch.ones_like torch.full_like torch.empty_like"""
)
#: Methods of a new tensor that give it, or a new one, of a size that data does not decide.
_SHAPED = words("bool long int to unsqueeze squeeze repeat clone reshape view expand contiguous T")
_BUILTINS = words("range len enumerate zip int bool min max abs")
_FORBIDDEN = (
    cst.Global, cst.Nonlocal, cst.Yield, cst.Await, cst.Lambda, cst.FunctionDef, cst.ClassDef,
    cst.With, cst.Del, cst.Try, cst.TryStar, cst.Raise, cst.Assert, cst.NamedExpr, cst.Import,
    cst.ImportFrom, cst.While,
)  # fmt: skip
_RANDOM = words(
    "rand randn randint randperm normal bernoulli multinomial dropout rand_like randn_like"
)


def _check_body(site: Site, function: cst.FunctionDef) -> None:
    """Refuse a body that does anything but compute, and change tensors of its own."""
    given = frozenset(function_scope(function).parameters)
    does = activity(function.body)
    if does.writes & given or does.dynamic or does.global_writes or does.captures:
        raise Refused("it binds what it is given, or a global name")
    own = {name for name in does.writes if _is_own(site, function, name)}
    for node in walk(function.body):
        if isinstance(node, _FORBIDDEN):
            raise Refused(f"it holds `{code(node)[:30]}`")
        if isinstance(node, cst.Call):
            _check_call(site, node)
    changed = {_root(node.target) for node in walk(function.body)
               if isinstance(node, cst.AugAssign)}  # fmt: skip
    changed |= {
        _root(node.target)
        for node in walk(function.body)
        if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Subscript)
    }
    if not (changed | (does.mutates - does.writes)) <= own:
        raise Refused("it changes what it did not make")
    if any(isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Attribute)
           for node in walk(function.body)):  # fmt: skip
        raise Refused("it sets an attribute")


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def _check_call(site: Site, node: cst.Call) -> None:
    name = resolve(site.module, node.func) or ""
    module, _, last = name.rpartition(".")
    if any(arg.keyword is not None and arg.keyword.value in ("out", "generator")
           for arg in node.args):  # fmt: skip
        raise Refused("it writes into an argument")
    if module == "torch" and (name in _FACTORIES or last in PURE_TORCH) and last not in _RANDOM:
        return
    if module == "builtins" and last in _BUILTINS:
        return
    if not name and isinstance(node.func, cst.Attribute):
        method = node.func.attr.value
        if (method in PURE_METHODS or method in _SHAPED) and method not in _RANDOM:
            return
    raise Refused(f"`{code(node)}` does more than compute")


def _bindings(function: cst.FunctionDef, name: str) -> list[cst.CSTNode]:
    """Statements (and loops) of the function that bind the name, changes in place aside."""
    found: list[cst.CSTNode] = []
    for node in walk(function.body):
        if isinstance(node, cst.Assign | cst.AnnAssign | cst.For) and name in (
            activity(node.target).reads | activity(node.target).writes
            if isinstance(node, cst.For)
            else activity(node).writes
        ):
            found.append(node)
    return found


def _is_own(site: Site, function: cst.FunctionDef, name: str) -> bool:
    """Whether the name is bound once, to a tensor that a factory made."""
    bound = _bindings(function, name)
    if len(bound) != 1 or not isinstance(bound[0], cst.Assign) or len(bound[0].targets) != 1:
        return False
    target = bound[0].targets[0].target
    return isinstance(target, cst.Name) and _is_made(site, bound[0].value)


def _is_made(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the expression is a factory's tensor, or made of one by methods that keep to it."""
    while isinstance(node, cst.Call):
        if resolve(site.module, node.func) in _FACTORIES:
            return True
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in _SHAPED:
            return False
        node = node.func.value
    return False


def check_uses(site: Site, name: str) -> None:
    """Refuse where the helper is more than called: an operator is no plain function."""
    if len(module_bindings(site.module).get(name, ())) != 1:
        raise Refused("its name is bound again")
    for node in walk(site.module):
        if isinstance(node, cst.Name) and node.value == name:
            holder = site.parent(node)
            plain = isinstance(holder, cst.FunctionDef) and holder.name is node
            called = isinstance(holder, cst.Call) and holder.func is node
            label = (isinstance(holder, cst.Attribute) and holder.attr is node) or (
                isinstance(holder, cst.Arg) and holder.keyword is node
            )
            if not plain and not called and not label:
                raise Refused("it is more than called")


def _results(site: Site, function: cst.FunctionDef) -> tuple[list[cst.BaseExpression], Fact]:
    """The expressions that are returned, all of them tensors made here, and their fact."""
    returns = [node for node in walk(function.body) if isinstance(node, cst.Return)]
    last = function.body.body[-1]
    if len(returns) != 1 or not isinstance(last, cst.SimpleStatementLine):
        raise Refused("it returns at several places")
    if last.body[-1] is not returns[0] or returns[0].value is None:
        raise Refused("it does not end with its return")
    value = returns[0].value
    parts = [value]
    if isinstance(value, cst.Tuple):
        parts = [element.value for element in value.elements]
    facts = []
    names = []
    for part in parts:
        inner = part
        while isinstance(inner, cst.Call):
            if not isinstance(inner.func, cst.Attribute) or inner.func.attr.value not in _SHAPED:
                raise Refused("a result is computed by a call")
            inner = inner.func.value
        if not isinstance(inner, cst.Name) or not _is_own(site, function, inner.value):
            raise Refused("a result is not certainly a tensor of its own")
        names.append(inner.value)
        fact = site.fact(part) or site.locals_before(last).get(code(part))
        if fact is None or not fact.is_tensor or fact.dtype not in _WHOLE:
            raise Refused("a result is not certainly of integers or bools")
        facts.append(fact)
    if len(set(names)) != len(names):
        raise Refused("it gives a tensor twice")
    if isinstance(value, cst.Tuple):
        return parts, Fact("tuple", "tuple", items=tuple(facts))
    return parts, facts[0]


_WHOLE = words("torch.bool torch.uint8 torch.int8 torch.int16 torch.int32 torch.int64")


def _allocations(
    site: Site, function: cst.FunctionDef, results: list[cst.BaseExpression]
) -> list[cst.SimpleStatementLine]:
    """The body's own lines that make the results, in order, without what fills them."""
    needed = set[str]()
    for part in results:
        needed |= activity(part).reads
    lines: list[cst.SimpleStatementLine] = []
    *before, last = function.body.body
    for statement in reversed(before):
        does = activity(statement)
        again = {name for name in needed if _augments(statement, name)}
        if any(not _is_own(site, function, name) for name in again):
            raise Refused("the size of a result is counted")
        if not isinstance(statement, cst.SimpleStatementLine):
            bound = {name for name in needed if _bindings_in(statement, name)}
            if bound:
                raise Refused(f"`{min(bound)}` is made in a loop or branch")
            continue
        if len(statement.body) != 1 or not isinstance(statement.body[0], cst.Assign):
            if does.writes & needed - again:
                raise Refused("what a result needs is bound in an unusual way")
            continue
        if any(isinstance(target.target, cst.Subscript) for target in statement.body[0].targets):
            continue
        if does.writes & needed:
            if not _is_sized(site, statement.body[0].value):
                raise Refused("the size of a result is decided by data")
            needed |= does.reads
            lines.append(statement)
    assert isinstance(last, cst.SimpleStatementLine)
    return [*reversed(lines), last]


def _bindings_in(statement: cst.CSTNode, name: str) -> bool:
    for node in walk(statement):
        if isinstance(node, cst.AssignTarget) and name in _names(node.target):
            return True
        if isinstance(node, cst.For) and name in _names(node.target):
            return True
    return False


def _augments(statement: cst.CSTNode, name: str) -> bool:
    return any(
        isinstance(node, cst.AugAssign) and _root(node.target) == name for node in walk(statement)
    )


def _names(target: cst.BaseExpression) -> set[str]:
    if isinstance(target, cst.Tuple | cst.List):
        return {name for element in target.elements for name in _names(element.value)}
    return {target.value} if isinstance(target, cst.Name) else set()


def _is_sized(site: Site, value: cst.BaseExpression) -> bool:
    """Whether the value is a new tensor, or made of sizes: nothing that asks for data."""
    if _is_made(site, value):
        return all(_is_sized(site, argument) for argument in _size_arguments(value))
    for node in walk(value):
        if isinstance(node, cst.Call):
            name = resolve(site.module, node.func) or ""
            sized = isinstance(node.func, cst.Attribute) and node.func.attr.value in _SIZES
            if not sized and name not in ("builtins.len", "builtins.int"):
                return False
        elif isinstance(node, cst.Name | cst.Attribute | cst.Subscript):
            fact = site.fact(node)
            inner = isinstance(node, cst.Attribute) and node.attr.value in (
                "shape",
                "device",
                "ndim",
            )
            if fact is not None and fact.is_tensor and not _reads_size(site, node) and not inner:
                return False
    return True


def _size_arguments(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The arguments of a factory and of the methods on it, but for what it is like."""
    while isinstance(node, cst.Call):
        like = code(node.func).endswith("_like")
        yield from (arg.value for arg in node.args[1 if like else 0 :])
        node = node.func.value if isinstance(node.func, cst.Attribute) else cst.Name("made")


_SIZES = words("size dim")


def _reads_size(site: Site, node: cst.CSTNode) -> bool:
    holder = site.parent(node)
    return isinstance(holder, cst.Attribute) and holder.attr.value in (
        "shape", "device", "ndim", "size", "dim",
    )  # fmt: skip


def _fake(
    function: cst.FunctionDef,
    parameters: list[Parameter],
    lines: list[cst.SimpleStatementLine],
) -> cst.FunctionDef:
    names = [parameter.name for parameter in parameters]
    template = cst.parse_statement(f"def _({', '.join(names)}):\n    pass\n")
    assert isinstance(template, cst.FunctionDef)
    blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    plain = [line.deep_clone().with_changes(leading_lines=[]) for line in lines]
    register = cst.Attribute(cst.Name(function.name.value), cst.Name("register_fake"))
    return template.with_changes(
        body=cst.IndentedBlock(plain),
        decorators=[cst.Decorator(register)],
        leading_lines=blank,
    )

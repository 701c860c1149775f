"""A helper whose tensors may be traced, and whose Python may not: ``nonstrict_trace``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from ..wrap.operator_text import torch_alias
from .data import is_data
from .effects_in import acts
from .inputs import Refused, is_plain_tensor
from .pieces import Level, levels
from .reached import called

_READS = re.compile(
    r"\.(item|tolist|numpy|nonzero|unique|data_ptr|backward|masked_select|is_nonzero)\("
    r"|\btorch\.(nonzero|unique|masked_select|manual_seed|save|load|compile)\("
)
_SCALARS = words("bool int float str none")


def _source(decorator: str = "") -> str:
    return f"""
import torch

TABLE = {{"sin": torch.sin, "cos": torch.cos}}


{decorator}def evaluate(text, **tensors):
    return eval(compile(text, "<text>", "eval"), dict(TABLE), tensors)


@torch.compile
def f(x):
    return evaluate("sin(a) + 1", a=x)
"""


_CACHED = "@functools.cache\ndef ramp():\n    return torch.ones(3)\n\n\n"
_AT = 'compile(text, "<text>", "eval")'
_FACTS = {
    "text": Fact("str", "str", value="sin(a) + 1", constant=True),
    "tensors": Fact("dict", "dict", items=(tensor(3, requires_grad=True),), keys=("a",)),
}


class TraceLoosely(Codemod):
    """*What it does.*  Decorates a helper with ``torch._dynamo.nonstrict_trace``.

    ```python
    @torch._dynamo.nonstrict_trace
    def evaluate(text, **tensors):
        return eval(compile(text, "<text>", "eval"), dict(TABLE), tensors)
    ```
    Its tensor operations go into the graph and keep their gradients; its Python runs while tracing
    only, where Dynamo does not look at it.

    *When it applies.*  The break lies in a helper at module level, or in what it calls, which takes
    tensors and plain values (also in lists, tables and ``**keywords``), reads no tensor's value and
    has no effects.

    *Fix safety.*  Safe where the helper reads no global that the project changes.

    *Refuses.*  Effects, random numbers, values read from tensors, arguments that are objects or
    that are changed, decorated functions, methods, the region itself.
    """

    name = "trace-loosely"
    codes = (
        "GB0007", "GB0008", "GB0025", "GB0059", "GB0068", "GB0101", "GB0119", "GB0147", "GB0149",
        "GB0156", "GB0189", "GB0290", "GB0291", "GB0292", "GB0442", "GB7000", "GB0123", "unknown",
    )  # fmt: skip
    examples = (
        Example(
            _source(), _source("@torch._dynamo.nonstrict_trace\n"), at=_AT, facts=_FACTS,
            title="tensor code in a text",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            _source().replace("    return eval", "    print(text)\n    return eval"),
            at=_AT, why="an effect", facts=_FACTS,
        ),
        NearMiss(
            _source() + "\n\ndef g():\n    TABLE['tan'] = torch.tan\n",
            at=_AT, why="the project changes what it reads", facts=_FACTS,
        ),
        NearMiss(
            _source() + "\n\ndef g(add):\n    add(TABLE, 'tan', torch.tan)\n",
            at=_AT, why="a function of the project is given what it reads", facts=_FACTS,
        ),
        NearMiss(
            _source(_CACHED).replace("    return eval", "    return ramp() * eval"),
            at=_AT, why="a function that keeps what it made", facts=_FACTS,
        ),
        NearMiss(
            _source(), at=_AT, why="an object goes in",
            facts=_FACTS | {"text": Fact("object", "Config", in_project=True)},
        ),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        found = levels(site)
        for place, level in enumerate(found):
            function = level.function
            if not _is_helper(level, last=len(found) > 1 and place == len(found) - 1):
                continue
            try:
                _check(level)
            except Refused:
                continue
            edit = level.site.edit()
            torch = torch_alias(level.site, edit)
            decorator = cst.Decorator(cst.parse_expression(f"{torch}._dynamo.nonstrict_trace"))
            edit.replace(function, function.with_changes(decorators=[decorator]))
            yield edit.rewrite(
                f"trace `{function.name.value}` without Dynamo (nonstrict_trace)",
                rank=48,
                notes=("the function's Python runs while tracing only; keep it free of effects",),
            )
            return


def _is_helper(level: Level, *, last: bool) -> bool:
    site, function = level.site, level.function
    if last or site.top_level_statement(function) is not function:
        return False
    if function.decorators or function.asynchronous is not None:
        return False
    region = site.region
    if region is not None and region.path == site.path:
        span = site.span(function)
        if span.line <= region.line <= span.end_line:
            return False
    if site.graph_break.region.rpartition(".")[2] == function.name.value:
        return False
    return len(module_bindings(site.module).get(function.name.value, ())) == 1


def _check(level: Level) -> None:
    site, function = level.site, level.function
    _check_given(level)
    does = activity(function.body)
    if does.mutates & set(function_scope(function).parameters) or (
        does.global_writes or does.mutates_unknown
    ):
        raise Refused("it changes an argument, or a global")
    functions = called(site, [function.body])
    if any("cache" in code(item.decorator) for each in functions for item in each.decorators):
        raise Refused("the tensors that it keeps would be those of the trace")
    for body in (function.body, *(f.body for f in functions)):
        if _READS.search(code(body)):
            raise Refused("it reads what tensors hold")
        if activity(body).global_writes or acts(site, [body], ()):
            raise Refused("it has effects")
    for node in walk(function.body):
        if isinstance(node, cst.If | cst.While | cst.IfExp) and (
            is_data(site, node.test, frozenset()) or _is_tensor(site, node.test)
        ):
            raise Refused("it decides on a tensor")
        if isinstance(node, cst.Yield | cst.Await | cst.Global | cst.Nonlocal):
            raise Refused("it yields or awaits, or binds global names")
    names: set[str] = set()
    for body in (function.body, *(f.body for f in functions)):
        names |= activity(body).reads
    for name in sorted(names - function_scope(function).locals):
        _check_global(site, name)


def _check_given(level: Level) -> None:
    """What goes in are plain values, a tensor among them, and no numbers in a container."""
    site, parameters = level.site, function_scope(level.function).parameters
    first = level.function.body.body[0]
    facts = site.locals_before(first) or site.locals_before(site.statement_of(site.node))
    for name in parameters:
        if not _is_plain(facts.get(name)):
            raise Refused(f"`{name}` is no plain value")
    given = [facts[name] for name in parameters]
    if not any(_holds_tensor(fact) for fact in given):
        raise Refused("no tensor goes into it")
    if any(fact.items and not _holds_tensor(fact) for fact in given):
        raise Refused("a list of numbers would be a constant of the graph")
    if level.data:
        raise Refused("it reads what tensors hold")


def _is_tensor(site: Site, node: cst.BaseExpression) -> bool:
    fact = site.fact(node)
    return fact is not None and fact.is_tensor


def _holds_tensor(fact: Fact) -> bool:
    return fact.is_tensor or any(map(_holds_tensor, fact.items or ()))


def _is_plain(fact: Fact | None) -> bool:
    if fact is None:
        return False
    if fact.is_tensor:
        return is_plain_tensor(fact)
    if fact.kind in ("list", "tuple", "dict"):
        return fact.items is not None and all(map(_is_plain, fact.items))
    return fact.kind in _SCALARS and fact.type in (*_SCALARS, "NoneType")


def _check_global(site: Site, name: str) -> None:
    """A global is a function, a class, a module, or something that the project never changes."""
    bound = module_bindings(site.module).get(name, ())
    if not bound and resolve(site.module, cst.Name(name)) is not None:
        return
    if len(bound) > 1:
        raise Refused(f"`{name}` is bound again")
    if bound and isinstance(bound[0], cst.Assign | cst.AnnAssign):
        value = bound[0].value
        if value is not None and re.search(
            r"\btorch\.(tensor|zeros|ones|rand|randn|full)", code(value)
        ):
            raise Refused(f"`{name}` is a tensor")
        changes = re.compile(
            rf"\b{name}\s*(\[[^\]]*\]\s*[-+*/]*=[^=]|[-+*/|]=|\.(update|pop|clear|setdefault"
            rf"|append|extend|insert|remove|add)\()|\.{name}\s*=[^=]|del {name}\b|global {name}\b"
        )
        if any(map(changes.search, site.sources.values())):
            raise Refused(f"`{name}` is changed")
        held = isinstance(value, cst.Dict | cst.List | cst.Set | cst.Call)
        if held and any(_hands_on(text, name) for text in (site.source, *site.sources.values())):
            raise Refused(f"`{name}` is given to what may change it")


#: Take a list or a dictionary, and leave it as it is.
_ONLY_READ = frozenset(
    {"len", "list", "dict", "tuple", "set", "sorted", "min", "max", "sum", "any", "all", "print"}
    | {"enumerate", "zip", "iter", "repr", "str", "isinstance", "type", "bool", "map", "filter"}
)


def _hands_on(text: str, name: str) -> bool:
    """Whether a name, as a whole, is given to a function, bound to another name, or returned."""
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Call(func=func, args=args, keywords=keywords):
                read = isinstance(func, ast.Name) and func.id in _ONLY_READ
                values = [] if read else [*args, *(it.value for it in keywords)]
            case ast.Assign(value=value) | ast.Return(value=value):
                values = [value] if value is not None else []
            case _:
                continue
        for value in values:
            whole = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
            if whole == name:
                return True
    return False

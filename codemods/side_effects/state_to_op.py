"""``HISTORY.append(loss.item())``: statistics kept in an object of the module."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.tree import words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import is_global_object
from ..wrap.own_state import qualified
from .effect_operator import Effect, effect_operator
from .libraries import LOOKS

_METHODS = words("append extend add update insert appendleft setdefault push record log")


def _source(statement: str, operator: str = "") -> str:
    return f"""
import torch

HISTORY = []
STATS = {{}}
{operator}

def f(x, n, own):
    loss = x.mean()
    {statement}
    return loss


def report():
    print(HISTORY, STATS)
"""


_FACTS = {
    "x": tensor(3),
    "loss": tensor(requires_grad=True),
    "loss.item()": scalar(1.0),
    "float(loss)": scalar(1.0),
    "n": scalar(3),
    "HISTORY": Fact("list", "list"),
    "STATS": Fact("dict", "dict"),
}


def _example(
    title: str, before: str, call: str, signature: str, at: str = "loss.item()"
) -> Example:
    names = ", ".join(part.partition(":")[0] for part in signature.split(", "))
    operator = f"""

@torch.library.custom_op({qualified("keep_f", keeps_state=True)}, mutates_args=())
def keep_f({signature}) -> None:
    {before}


keep_f.register_fake(lambda {names}: None)
keep_f.register_effect(torch.library.EffectType.ORDERED)
"""
    after = _source(call, operator)
    return Example(_source(before), after, at=at, facts=_FACTS, title=title)


_METER = """
import torch


class Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, value):
        {}


METER = Meter()


def f(x):
    loss = x.mean()
    METER.update(loss.item())
    return loss
"""
_METER_FACT = Fact("object", "example.Meter")


def _near_miss(statement: str, why: str, at: str = "loss.item()", **facts: Fact) -> NearMiss:
    return NearMiss(_source(statement), at=at, why=why, facts=_FACTS | facts)


class StateToOp(Codemod):
    """*What it does.*  Moves what only adds to a list, dict or meter into an operator.

    ```python
    HISTORY.append((step, loss.item()))
    ```
    becomes ``keep_step(step, loss)``, a ``torch.library.custom_op`` with ordered effects whose body
    is the same statement.

    *When it applies.*  A statement calls a method of (or stores an entry in) an object that the
    module binds once, numbers and strings are all that it hands over, and no function that the
    compiled region can reach mentions the object otherwise.

    *Fix safety.*  Safe: the statement runs on the same values, as often and in the same order.  The
    compiled code no longer guards the object's length or contents, so that it does not compile
    anew for each call, as it did.

    *Refuses.*  Meters whose method changes anything but the meter; objects of ``self`` or passed in
    (an operator cannot take them), tensors that would be kept (their memory may be reused behind
    the compiler), objects that the region reads.
    """

    name = "state-to-op"
    codes = ("GB0124", "GB0059", "GB0208")
    examples = (
        _example(
            "a list",
            "HISTORY.append((n, loss.item()))",
            "keep_f(n, loss)",
            "n: torch.types.Number, loss: torch.Tensor",
        ),
        _example(
            "an entry",
            'STATS["loss"] = float(loss)',
            "keep_f(loss)",
            "loss: torch.Tensor",
            "float(loss)",
        ),
        Example(
            _METER.format("self.total += value\n        print('total', self.total)"),
            _METER.format("self.total += value\n        print('total', self.total)")
            .replace("    METER.update(loss.item())", "    keep_f(loss)")
            .replace(
                "\n\n\ndef f(x)",
                """


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_f", mutates_args=())
def keep_f(loss: torch.Tensor) -> None:
    METER.update(loss.item())


keep_f.register_fake(lambda loss: None)
keep_f.register_effect(torch.library.EffectType.ORDERED)


def f(x)""",
            ),
            at="loss.item()",
            facts=_FACTS | {"METER": _METER_FACT},
            title="a meter of the program's own",
        ),
        _example(
            "a list in a dict",
            'STATS.setdefault("loss", []).append(loss.item())',
            "keep_f(loss)",
            "loss: torch.Tensor",
        ),
    )
    near_misses = (
        _near_miss("own.append(loss.item())", "an object that is passed in"),
        _near_miss("own.history.append(loss.item())", "an object of another"),
        _near_miss("HISTORY.append(loss)", "keeps a tensor", at="HISTORY.append(loss)"),
        _near_miss("n = HISTORY.append(loss.item())", "its result is used"),
        _near_miss("HISTORY.append(loss.item()); n = len(HISTORY)", "read afterwards"),
        _near_miss("HISTORY.sort(key=loss.item())", "another method"),
        _near_miss("x[n] = loss.item()", "an entry of a tensor"),
        _near_miss("STATS['a'] += loss.item()", "reads what it changes"),
        NearMiss(
            _source("HISTORY.append(loss.item())") + "\nother = HISTORY\n",
            at="loss.item()",
            why="has another name",
            facts=_FACTS,
        ),
        *(
            NearMiss(
                _METER.format(body),
                at="loss.item()",
                why=why,
                facts=_FACTS | {"METER": _METER_FACT},
            )
            for body, why in (
                ("CONFIG.scale = value", "changes another object"),
                ("CONFIG['scale'] = value", "changes another object"),
                ("self.owner.scale = value", "changes another object"),
                ("global SCALE; SCALE = value", "changes another object"),
                ("CONFIG.update(scale=value)", "changes another object"),
                ("apply(value)", "calls who knows what"),
                ("self.total = value\n\n    def total(self): pass", "a property, perhaps"),
            )
        ),
        NearMiss(
            _source("HISTORY.append(loss.item())\n    x = x if n > 9 else last()")
            + "\nlast = lambda: HISTORY[-1]\n",
            at="loss.item()",
            why="a lambda reads it",
            facts=_FACTS,
        ),
        NearMiss(
            _source("HISTORY.append(loss.item())\n    x = x if n > 9 else own[0]")
            + "\n\nclass Own:\n    def __getitem__(self, n):\n        return HISTORY[n]\n",
            at="loss.item()",
            why="an operator reads it",
            facts=_FACTS,
        ),
        NearMiss(
            _source("HISTORY.append(loss.item())\n    x = own.layer(x)")
            + "\n\ndef hook(module, x, y):\n    return y * HISTORY[-1]\n"
            + "\n\nLAYER.register_forward_hook(hook)\n",
            at="loss.item()",
            why="a hook reads it",
            facts=_FACTS,
        ),
        NearMiss(
            _source("HISTORY.append(loss.item())\n    report()"),
            at="loss.item()",
            why="the region shows it",
            facts=_FACTS,
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        statement = simple_statement(site)
        if statement is None or site.function is None:
            return
        effect = _state_effect(site, statement)
        if effect is None:
            return
        line = site.statement
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            yield effect_operator(site, line, effect)


def simple_statement(site: Site) -> cst.BaseSmallStatement | None:
    for node in (site.node, *site.ancestors(site.node)):
        if isinstance(node, cst.Lambda | cst.BaseComp | cst.BaseStatement):
            return None
        if isinstance(node, cst.BaseSmallStatement):
            return node
    return None


def _state_effect(site: Site, statement: cst.BaseSmallStatement) -> Effect | None:
    match statement:
        case cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name(value=method))) as call):
            if method not in _METHODS:
                return None
            values = [argument.value for argument in call.args]
            func = call.func
            assert isinstance(func, cst.Attribute)
            holder, keys = _holder(func.value)
            expressions: list[cst.BaseExpression] = [call]
            template = "BODY0"
            kept: dict[cst.CSTNode, cst.CSTNode] = {func: func}
        case cst.Assign(
            targets=[
                cst.AssignTarget(
                    target=cst.Subscript(
                        value=cst.Name() as holder, slice=[cst.SubscriptElement()]
                    ) as target
                )
            ],
            value=value,
        ):
            element = target.slice[0].slice
            if not isinstance(element, cst.Index):
                return None
            values, keys, method = [value], [element.value], "__setitem__"
            expressions = [element.value, value]
            template = f"{holder.value}[BODY0] = BODY1"
            kept = {}
        case _:
            return None
    if not isinstance(holder, cst.Name) or not is_global_object(site, holder):
        return None
    if not all(keeps_no_tensor(site, value) for value in values):
        return None
    if not all(
        isinstance(key, cst.SimpleString | cst.Integer | cst.List | cst.Dict) for key in keys
    ):
        return None
    fact = site.fact(holder)
    if fact is None or fact.is_tensor or fact.kind not in ("list", "dict", "set", "object"):
        return None
    if fact.kind == "object" and not is_own_class(site, fact, method):
        return None
    texts = {site.source, *site.sources.values()}
    if mentions(site, holder.value) != 1 or any(escapes(text, holder.value) for text in texts):
        return None
    return Effect("keep", expressions, kept, (), template)


def is_own_class(site: Site, fact: Fact, method: str) -> bool:
    """Whether the class is written out in the project, without a base to inherit from, and its
    method changes nothing but the object (what it may print is an effect like any other).
    """
    name = fact.type.rpartition(".")[2]
    found = [
        node
        for text in {site.source, *site.sources.values()}
        for node in _classes(text)
        if node.name == name
    ]
    return len(found) == 1 and _keeps_to_itself(found[0], method, frozenset())


@functools.lru_cache(maxsize=256)
def _classes(text: str) -> tuple[ast.ClassDef, ...]:
    """Classes at module level without bases and decorators."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    return tuple(
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and not (node.decorator_list or node.keywords)
        and [getattr(base, "id", "") for base in node.bases] in ([], ["object"])
    )


_PLAIN_CALLS = words(
    """print len sum min max float int str bool round abs sorted range enumerate zip isinstance list
    tuple dict set format repr"""
)
_PLAIN_METHODS = words(
    """write flush debug info warning error critical format join items keys values get split strip
    perf_counter time monotonic isEnabledFor item"""
)


_PRINT = "torch._higher_order_ops.print"


def _keeps_to_itself(holder: ast.ClassDef, name: str, seen: frozenset[str]) -> bool:
    """Whether a method of the class changes nothing but attributes of its own object."""
    if name in seen:
        return True
    methods = [
        item for item in holder.body if isinstance(item, ast.FunctionDef) and item.name == name
    ]
    if len(methods) != 1 or methods[0].decorator_list or not methods[0].args.args:
        return False
    (method,) = methods
    defined = {item.name for item in holder.body if isinstance(item, ast.FunctionDef)}
    if "__setattr__" in defined:
        return False
    me = method.args.args[0].arg

    def keeps(node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=called)) if owner == me:
                return _keeps_to_itself(holder, called, seen | {name})
            case ast.Call():
                return _is_harmless_call(node, me)
            case _:
                return _is_harmless(node, me, defined)

    return all(keeps(node) for node in ast.walk(method) if node is not method)


def _is_harmless(node: ast.AST, me: str, methods: set[str]) -> bool:
    """Whether it neither suspends nor defines anything, and stores into nothing but ``me``."""
    match node:
        case ast.Global() | ast.Nonlocal() | ast.Await() | ast.Yield() | ast.YieldFrom():
            return False
        case ast.FunctionDef() | ast.Lambda() | ast.ClassDef():
            return False
        case ast.Attribute(value=value, attr=stored, ctx=ast.Store() | ast.Del()):
            return getattr(value, "id", "") == me and stored not in methods
        case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()):
            return _is_own(value, me)
    return True


def _is_harmless_call(node: ast.Call, me: str) -> bool:
    """Whether a call of no method of ``me`` changes nothing but what ``me`` holds."""
    match node.func:
        case ast.Name(id=called):
            return called in _PLAIN_CALLS
        case func if ast.unparse(func) == _PRINT:
            return True  # what `print-to-hop` makes of a print
        case ast.Attribute(value=value, attr=called):
            return called in _PLAIN_METHODS or (called in _METHODS and _is_own(value, me))
    return False


def _is_own(node: ast.expr, me: str) -> bool:
    """``self.values``, or an entry of it."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == me


def _holder(node: cst.BaseExpression) -> tuple[cst.BaseExpression, list[cst.BaseExpression]]:
    """The object at the root of ``STATS["a"]`` or ``STATS.setdefault("a", [])``, and the keys."""
    match node:
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
            return value, [key]
        case cst.Call(
            func=cst.Attribute(value=value, attr=cst.Name(value="setdefault")), args=arguments
        ):
            return value, [argument.value for argument in arguments]
    return node, []


def keeps_no_tensor(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the value is made of numbers and strings alone."""
    match node:
        case cst.Tuple() | cst.List():
            return all(keeps_no_tensor(site, element.value) for element in node.elements)
        case cst.Dict():
            return all(
                isinstance(element, cst.DictElement) and keeps_no_tensor(site, element.value)
                for element in node.elements
            )
    fact = site.fact(node)
    return fact is not None and fact.is_python_scalar


# -- who else looks at the object ------------------------------------------------------------------


def mentions(site: Site, name: str) -> int:
    """How often functions that the region may reach mention a global name."""
    functions: dict[str, list[tuple[int, frozenset[str]]]] = {}
    for text in {site.source, *site.sources.values()}:
        for owner, count, words_ in _functions(text, name):
            functions.setdefault(owner, []).append((count, words_))
    assert site.function is not None
    # What the compiled code calls without its name: operators, iteration, hooks.
    hidden = {owner for owner in functions if owner.startswith("__") and owner not in _AT_BIRTH}
    for text in {site.source, *site.sources.values()}:
        hidden |= _registered(text)
    start = {frame.function.rpartition(".")[2] for frame in site.graph_break.frames}
    pending = [*start, *hidden, site.function.name.value, "forward", "__call__"]
    seen: set[str] = set()
    total = 0
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for count, mentioned in functions.get(current, ()):
            total += count
            pending += mentioned & functions.keys()
    return total


_AT_BIRTH = words("__init__ __new__ __repr__ __str__ __del__ __init_subclass__ __set_name__")


@functools.lru_cache(maxsize=256)
def _registered(text: str) -> frozenset[str]:
    """Names that are handed to ``register_forward_hook`` and its kin."""
    found = set()
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return frozenset()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr), args=args) if attr.startswith("register_"):
                for item in (part for argument in args for part in ast.walk(argument)):
                    found.add(getattr(item, "id", "") or getattr(item, "attr", ""))
    return frozenset(found - {""})


@functools.lru_cache(maxsize=256)
def escapes(text: str, name: str) -> bool:
    """Whether the object may get another name, under which somebody could read it.

    ``.x`` stands for an attribute, which a plain name ``x`` is not.
    """
    wanted = name.lstrip(".")
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            if wanted not in (getattr(node, "id", ""), getattr(node, "attr", "")):
                continue
            if not isinstance(node, ast.Name | ast.Attribute):
                continue
            if name.startswith(".") and isinstance(node, ast.Name):
                continue
            if not isinstance(node.ctx, ast.Load) or isinstance(parent, ast.FormattedValue):
                continue
            if isinstance(parent, ast.Attribute | ast.Subscript | ast.For | ast.comprehension):
                continue
            if isinstance(parent, ast.Compare | ast.BinOp | ast.UnaryOp | ast.If | ast.While):
                continue  # it is looked at, or something new is made of it
            if (
                isinstance(parent, ast.Call)
                and isinstance(parent.func, ast.Name)
                and (parent.func.id in LOOKS)
            ):
                continue
            return True
    return False


@functools.lru_cache(maxsize=256)
def _functions(text: str, name: str) -> tuple[tuple[str, int, frozenset[str]], ...]:
    """The functions of a text: name, how often it mentions ``name``, identifiers that it uses.

    A class counts as a function that uses its methods.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]
            # What `__init__` binds belongs to an object that is new.
            fields = [
                item.attr
                for item in ast.walk(node)
                if isinstance(item, ast.Attribute)
                and not (node.name == "__init__" and isinstance(item.ctx, ast.Store))
            ]
            count = names.count(name) + fields.count(name)
            found.append((node.name, count, frozenset(names + fields)))
        elif isinstance(node, ast.Lambda):
            names = [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]
            fields = [item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)]
            count = names.count(name) + fields.count(name)
            if count:  # it may go by any name
                found.append(("__call__", count, frozenset(names + fields)))
        elif isinstance(node, ast.ClassDef):
            methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            found.append((node.name, 0, frozenset(methods)))
    return tuple(found)

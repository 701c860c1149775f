"""A log call as an effectful custom operator."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.attributes import bound_once
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import dotted, module_bindings, resolve
from gbfix.analysis.tree import code, statements_of, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import Parameter, is_global_object
from ..wrap.own_state import qualified
from .effect_operator import Effect, effect_operator, with_anchor
from .effects import effect_statement

_LEVELS = words("debug info warning warn error critical fatal log warning_once info_once")
#: What a formatter may show of the place of a call.
_PLACE = re.compile(r"%\((lineno|funcName|stack_info)\)|\{(lineno|funcName|stack_info)\b")
_PLACE_NOTE = (
    "the program has a log format that shows the line or function of a call: they become those of"
    " the operator"
)

#: Names that a class gives its loggers; Dynamo reads them as constants.
_CLASS_NAMES = ("self.__class__.__name__", "type(self).__name__", "self.__class__.__qualname__")

_HEAD = "import logging\n\nimport torch\n\nlogger = logging.getLogger(__name__)\n"


def _example(title: str, before: str, after: str, signature: str, body: str) -> Example:
    after, signature, body = with_anchor(after, signature, body)
    names = ", ".join(part.partition(":")[0] for part in signature.split(", ") if part)
    lines = "\n    ".join(body.split("\n"))
    named = qualified("log_forward", keeps_state="logger." in body)
    operator = f"""

@torch.library.custom_op({named}, mutates_args=())
def log_forward({signature}) -> None:
    {lines}


log_forward.register_fake(lambda{" " + names if names else ""}: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)
"""
    source = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log = logging.getLogger("net")

    def forward(self, x, n):
        {}
        return x + 1
"""
    facts = {
        "x": tensor(3, dtype="torch.int64"),
        "n": scalar(3),
        "logger": Fact("object", "logging.Logger"),
    }
    facts |= {"self.log": Fact("object", "logging.Logger"), "x.sum().item()": scalar(1.0)}
    at = before.partition(":")[0].removeprefix("if ")
    return Example(
        _HEAD + source.format(before),
        _HEAD + operator + source.format(after),
        at=at,
        facts=facts,
        title=title,
    )


def _near_miss(call: str, why: str, facts: dict[str, Fact], head: str = _HEAD) -> NearMiss:
    source = head + f"\n\ndef f(x, n, log, self):\n    {call}\n    return x + 1\n"
    logger = Fact("object", "logging.Logger")
    at = call.partition(":")[0].removeprefix("if ") if call.startswith("if ") else call
    return NearMiss(source, at=at, why=why, facts={"logger": logger, "log": logger} | facts)


_LOGURU = "import torch\nfrom loguru import logger\n"
_REBOUND = _HEAD + "logger = logging.getLogger('other')\n"


_NAMED = (
    _HEAD
    + """{}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log = logging.getLogger(type(self).__name__)

    def forward(self, x, n):
        {}
        return x + 1
"""
)


_PASSED = """import torch
import logging
{}

def f(x, n, log):
    {}
    return x + 1
"""


class LoggingToOp(Codemod):
    """*What it does.*  Moves a log call into a ``torch.library.custom_op`` with ordered effects.

    ```python
    logger.info("loss %.3f", loss.item())
    ```
    becomes ``log_step(loss)``, an operator at module level whose body is the same call.

    *When it applies.*  To statements that call a method of a logger which the module binds once
    (``logger = logging.getLogger(__name__)``), of ``self.log`` that the class makes with
    ``logging.getLogger`` of constants or of its own name, of one that comes in from elsewhere
    (the operator is given its identity), or of ``logging`` itself; and to
    ``if logger.isEnabledFor(...):`` around nothing but such calls.

    *Fix safety.*  Safe: same logger, level, message and arguments, in order.  The record's line and
    function name become those of the operator: a note says so where a format string of the program
    shows them, and validation refuses the patch where a handler wrote them out.

    *Refuses.*  ``exc_info``, ``stack_info``, ``stacklevel`` and ``exception`` (they look at the
    caller's frame), adapters, loguru, and whatever ``print-to-op`` refuses.
    """

    name = "logging-to-op"
    codes = ("GB0291", "GB4841", "GB6215", "GB0007", "GB0059", "GB0088", "GB0124", "GB0208")
    examples = (
        _example(
            "a constant",
            'logger.warning_once("a")',
            "log_forward()",
            "",
            'logger.warning_once("a")',
        ),
        _example(
            "lazy arguments",
            'logger.info("x %s at %d", x, n)',
            "log_forward(x, n)",
            "x: torch.Tensor, n: torch.types.Number",
            'logger.info("x %s at %d", x, n)',
        ),
        _example(
            "the root logger",
            'logging.log(logging.INFO, f"{x.sum().item():.3f}")',
            "log_forward(x)",
            "x: torch.Tensor",
            'logging.log(logging.INFO, f"{x.sum().item():.3f}")',
        ),
        _example(
            "a logger of the class",
            'self.log.info("n %d", n)',
            "log_forward(n)",
            "n: torch.types.Number",
            'logging.getLogger("net").info("n %d", n)',
        ),
        _example(
            "a guard",
            'if logger.isEnabledFor(logging.DEBUG): logger.debug("sum %s", x.sum().item())',
            "log_forward(x)",
            "x: torch.Tensor",
            'if logger.isEnabledFor(logging.DEBUG):\n    logger.debug("sum %s", x.sum().item())',
        ),
        Example(
            _NAMED.format("", "self.log.info('n %d', n)"),
            _NAMED.format(
                """

@torch.library.custom_op("example::log_forward", mutates_args=())
def log_forward(anchor: torch.Tensor, n: torch.types.Number, logger_name: str) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    logging.getLogger(logger_name).info('n %d', n)


log_forward.register_fake(lambda anchor, n, logger_name: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)
""",
                "log_forward(torch.empty(0), n, type(self).__name__)",
            ),
            at="self.log.info('n %d', n)",
            facts={"n": scalar(3), "self.log": Fact("object", "logging.Logger")},
            title="a logger that is named after its class",
        ),
        Example(
            _PASSED.format("", "log.warning('n %d', n)"),
            _PASSED.format(
                """

@torch.library.custom_op("example::log_f", mutates_args=())
def log_f(anchor: torch.Tensor, n: torch.types.Number, logger_id: int) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    loggers = (logging.root, *logging.root.manager.loggerDict.values())
    logger = next(known for known in loggers if id(known) == logger_id)
    logger.warning('n %d', n)


log_f.register_fake(lambda anchor, n, logger_id: None)
log_f.register_effect(torch.library.EffectType.ORDERED)
""",
                "log_f(torch.empty(0), n, id(log))",
            ),
            at="log.warning('n %d', n)",
            facts={"n": scalar(3), "log": Fact("object", "logging.Logger")},
            title="a logger that is passed in",
        ),
    )
    near_misses = (
        _near_miss('logger.info("%s", x)', "a grad_fn", {"x": tensor(3, requires_grad=True)}),
        _near_miss('logger.info("a", exc_info=True)', "looks at the frame", {}),
        _near_miss('logger.info("a", stacklevel=2)', "looks at the frame", {}),
        _near_miss('logger.exception("a")', "looks at the frame", {}),
        _near_miss(
            'self.log.info("a")', "one of unknown type", {"self.log": Fact("object", "Meter")}
        ),
        NearMiss(
            "import torch\n\n\ndef f(x, log):\n    log = log or x\n    log.info('a')\n",
            at="log.info('a')",
            why="bound here",
            facts={"log": Fact("object", "logging.Logger")},
        ),
        _near_miss('logger.info("a")', "bound twice", {}, _REBOUND),
        _near_miss(
            'logger.info("a")',
            "loguru",
            {"logger": Fact("object", "loguru._logger.Logger")},
            _LOGURU,
        ),
        _near_miss("logger.setLevel(10)", "no log call", {}),
        _near_miss("n = logger.isEnabledFor(10)", "its result is used", {}),
        _near_miss("if logger.isEnabledFor(10): x = x + 1", "more than log calls", {}),
        _near_miss('if logger.isEnabledFor(10): logger.info("a")\n    else: n = 2', "an else", {}),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None:
            return
        old: cst.CSTNode | None = effect_statement(site)
        if isinstance(old, cst.Call):
            effect = log_effect(site, old)
        else:
            old = site.statement
            effect = _guarded(site, old) if isinstance(old, cst.If) else None
        if old is not None and effect is not None:
            yield effect_operator(site, old, effect)
        elif isinstance(old, cst.Call) and _shows_exception(old):
            yield Advice(
                "a log record with the current exception or stack names the lines and functions of"
                " Python, which a compiled function does not have. Let the function return what"
                " went wrong (a flag, or `None` for the result) and log that behind it; or keep the"
                " `try` in an uncompiled function that calls compiled ones."
            )


def _shows_exception(call: cst.Call) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _LEVELS | {"exception"}:
        return False
    shown = {"exc_info", "stack_info"}
    names = {argument.keyword.value for argument in call.args if argument.keyword is not None}
    return func.attr.value == "exception" or bool(names & shown)


def log_effect(site: Site, call: cst.Call) -> Effect | None:
    """The effect of one call of a logger's method; None for any other call."""
    return _effect(site, [call], [call])


def _guarded(site: Site, statement: cst.If) -> Effect | None:
    """``if logger.isEnabledFor(level):`` around log calls."""
    match statement.test:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="isEnabledFor"))) as test:
            pass
        case _:
            return None
    if statement.orelse is not None:
        return None
    calls: list[cst.Call] = []
    for line in statements_of(statement.body):
        for small in statements_of(line):
            if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
                return None
            calls.append(small.value)
    effect = _effect(site, [test, *calls], calls)
    if effect is not None:
        inside = [c for call in effect.expressions for c in comments_in(call)]
        comments = [c for c in comments_in(statement.body) if c not in inside]
        lines = [f"BODY{number}" for number in range(1, len(calls) + 1)]
        effect.template = "if BODY0:\n        " + "\n        ".join([*comments, *lines])
    return effect


def _effect(site: Site, expressions: list[cst.Call], calls: list[cst.Call]) -> Effect | None:
    """The effect of log calls; None where one of them is none, or looks at its caller's frame."""
    kept: dict[cst.CSTNode, cst.CSTNode] = {}
    named: _Passed | None = None
    for call in expressions:
        func = call.func
        if not isinstance(func, cst.Attribute):
            return None
        if call in calls and func.attr.value not in _LEVELS:
            return None
        if resolve(site.module, func) == f"logging.{func.attr.value}":
            kept[func] = func
            continue
        logger = _logger(site, func.value)
        if logger is None:
            passed = _class_logger_name(site, func.value) or _identity(site, func.value)
            if passed is None or named not in (None, passed):
                return None
            named = passed
            logger = cst.parse_expression(passed.logger)
        kept[func] = func.with_changes(value=logger)
    texts: list[tuple[cst.BaseExpression, bool]] = []
    for call in calls:
        is_log = isinstance(call.func, cst.Attribute) and call.func.attr.value == "log"
        for argument in call.args[1:] if is_log else call.args:
            if argument.star == "**" or argument.keyword is not None:
                return None
            texts.append((argument.value, False))
    shows_place = any(_PLACE.search(text) for text in site.sources.values())
    notes = (_PLACE_NOTE,) if shows_place else ()
    effect = Effect("log", expressions, kept, texts, notes=notes)
    if named is not None:
        given = cst.parse_expression(named.given)
        effect.extra = (Parameter(named.name, named.kind, given, Fact(named.kind, named.kind)),)
        effect.imports = ("logging",)
        effect.first = named.first
        effect.notes += named.notes
    return effect


def _logger(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The expression for the same logger at module level, if the logger is certain."""
    if isinstance(node, cst.Name):
        return node if _is_global_logger(site, node) else None
    match node:
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=attribute)):
            return _logger_of_class(site, attribute)
    return None


@dataclasses.dataclass(frozen=True)
class _Passed:
    """What tells the operator which logger: a parameter, what is given for it, the logger's text in
    the operator, and the lines that find it.
    """

    name: str
    kind: str
    given: str
    logger: str
    first: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


_IDENTITY_NOTE = (
    "it is compiled anew for each logger, and what `logging` did not make is an error there"
)
_FIND = (
    "loggers = (logging.root, *logging.root.manager.loggerDict.values())",
    "logger = next(known for known in loggers if id(known) == logger_id)",
)


def _imports_logging(site: Site) -> bool:
    bound = module_bindings(site.module).get("logging", ())
    return all(isinstance(item, cst.Import) for item in bound)


def _class_logger_name(site: Site, node: cst.BaseExpression) -> _Passed | None:
    """``type(self).__name__`` where ``self.log`` was made by ``logging.getLogger`` of it."""
    match node:
        case cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=attribute)):
            made = _made_in_class(site, attribute)
        case _:
            return None
    if not isinstance(made, cst.Call) or not _makes_logger(site, made) or len(made.args) != 1:
        return None
    name = code(made.args[0].value)
    known = name in _CLASS_NAMES and "logger_name" not in names_in(site.module)
    if not known or not _imports_logging(site):
        return None
    return _Passed("logger_name", "str", name, "logging.getLogger(logger_name)")


def _identity(site: Site, node: cst.BaseExpression) -> _Passed | None:
    """A logger that comes in from elsewhere: Dynamo knows its identity (and not its name), and
    compiles anew for another one.
    """
    fact = site.fact(node)
    if fact is None or fact.type not in ("logging.Logger", "logging.RootLogger"):
        return None
    function = site.function
    if function is None or {"logger", "logger_id", "loggers"} & names_in(function) - {code(node)}:
        return None
    if isinstance(node, cst.Name):
        given = node.value in parameters_of(function.params)
        if not given or node.value in activity(function.body).writes:
            return None
    elif dotted(node) is None or not code(node).startswith("self."):
        return None
    if not _imports_logging(site):
        return None
    identity = f"id({code(node)})"
    return _Passed("logger_id", "int", identity, "logger", _FIND, (_IDENTITY_NOTE,))


def _is_global_logger(site: Site, node: cst.Name) -> bool:
    if not is_global_object(site, node):
        return False
    fact = site.fact(node)
    if fact is not None and fact.type:
        return fact.type.startswith("logging.")
    (binding,) = module_bindings(site.module)[node.value]
    return isinstance(binding, cst.Assign) and _makes_logger(site, binding.value)


def _makes_logger(site: Site, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and resolve(site.module, node.func) == "logging.getLogger"


def _logger_of_class(site: Site, attribute: str) -> cst.BaseExpression | None:
    """An expression at module level for ``self.attribute``, if there is one."""
    value = _made_in_class(site, attribute)
    if isinstance(value, cst.Name) and _is_global_logger(site, value):
        return value
    if isinstance(value, cst.Call) and _makes_logger(site, value):
        names = [argument.value for argument in value.args]
        if all(isinstance(name, cst.SimpleString) or _is_dunder_name(name) for name in names):
            return value.deep_clone()
    return None


def _made_in_class(site: Site, attribute: str) -> cst.BaseExpression | None:
    """What ``__init__`` makes ``self.attribute`` with, where nothing else in the program binds it.

    An assignment under a condition may be left out: a class variable would then be the logger.
    """
    if not bound_once([site.source, *site.sources.values()], attribute):
        return None
    owner = site.class_of(site.node)
    for function in owner.body.body if owner is not None else ():
        if not isinstance(function, cst.FunctionDef) or function.name.value != "__init__":
            continue
        for line in function.body.body:
            if any(isinstance(node, cst.Return) for node in walk(line)):
                return None
            for node in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if not isinstance(node, cst.Assign) or len(node.targets) != 1:
                    continue
                if dotted(node.targets[0].target) == f"self.{attribute}":
                    return node.value
    return None


def _is_dunder_name(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "__name__"

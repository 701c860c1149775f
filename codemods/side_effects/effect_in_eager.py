"""``if not torch.compiler.is_compiling(): print(...)``: effects that compiled code leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import statement
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety

from ..wrap.operator_text import torch_alias
from .effects import effect_statement, logger_of

_NOTE = "what it prints, logs or warns of is lost wherever the function is compiled"
_FACTS = {"x": tensor(3), "logger": Fact("object", "logging.Logger")}


def _source(body: str) -> str:
    return (
        "import logging\nimport torch\nimport warnings\n\n"
        f"logger = logging.getLogger(__name__)\n\n\ndef f(x, log):\n    {body}\n    return x * 2\n"
    )


def _example(before: str, after: str, at: str) -> Example:
    return Example(_source(before), _source(after), at=at, facts=_FACTS)


_BAR = (
    "import torch\nfrom tqdm import tqdm, trange\n\n\ndef f(x, log):\n    {}\n        x = x * 2\n"
)


def _bar_example(before: str, after: str, at: str) -> Example:
    return Example(_BAR.format(before), _BAR.format(after), at=at, code="GB0007")


_NEAR_MISSES = tuple(
    NearMiss(_source(body), at=at, why=why, facts=_FACTS)
    for body, at, why in (
        ("y = print(x)", "print(x)", "the value is used"),
        ("log.info(x)", "log.info(x)", "it is not known to be a logger"),
        ("log(x)", "log(x)", "any other call"),
        ("print(x.add_(1))", "print(x.add_(1))", "an argument changes a tensor"),
        ("print(y := x + 1)", "print(y := x + 1)", "an argument binds a name"),
        ("print(x); x = x + 1", "print(x)", "not alone on its line"),
    )
)


class EffectInEager(Codemod):
    """*What it does.*  Leaves a text out while compiling.

    ``print(x)`` becomes ``if not torch.compiler.is_compiling():`` with the call below.

    *When it applies.*  A ``print``, a log call or a warning is a statement of its own; or a loop
    goes over a progress bar: ``for t in tqdm(steps):`` goes over ``steps`` itself while compiling.

    *Fix safety.*  Always unsafe: the effect is gone from compiled code.  It is for texts that only
    help to debug or to wait; whatever keeps them (`print-to-hop`, `print-to-op`, `logging-to-op`,
    `warning-to-op`, `split-function`) comes first.

    *Refuses.*  Other calls, arguments that change or bind something, and bars that have a name.
    """

    name = "effect-in-eager"
    codes = ("GB0007", "GB0008", "GB0059", "GB0124", "GB0156", "GB0291")
    examples = (
        _example(
            "# peek\n    print('x', x)",
            "# peek\n    if not torch.compiler.is_compiling():\n        print('x', x)",
            at="print('x', x)",
        ),
        _example(
            "logger.info('%s', x.mean().item())  # debug",
            "if not torch.compiler.is_compiling():\n"
            "        logger.info('%s', x.mean().item())  # debug",
            at="x.mean().item()",
        ),
        _example(
            "warnings.warn(f'{x.sum().item()}', stacklevel=2)",
            "if not torch.compiler.is_compiling():\n"
            "        warnings.warn(f'{x.sum().item()}', stacklevel=2)",
            at="warnings.warn(f'{x.sum().item()}', stacklevel=2)",
        ),
        _bar_example(
            "for i in tqdm(reversed(range(3))):  # a",
            "for i in reversed(range(3)) if torch.compiler.is_compiling() else"
            " tqdm(reversed(range(3))):  # a",
            "tqdm(reversed(range(3)))",
        ),
        _bar_example(
            "for i in tqdm(range(len(log)), desc='sampling', total=len(log), leave=False):",
            "for i in (\n        range(len(log))\n        if torch.compiler.is_compiling()\n"
            "        else tqdm(range(len(log)), desc='sampling', total=len(log), leave=False)"
            "\n    ):",
            "tqdm(range(len(log)), desc='sampling', total=len(log), leave=False)",
        ),
        _bar_example(
            "for i, k in enumerate(tqdm(iterable=log)):",
            "for i, k in enumerate(log if torch.compiler.is_compiling() else tqdm(iterable=log)):",
            "tqdm(iterable=log)",
        ),
        _bar_example(
            "for i in trange(1, 3, leave=False):",
            "for i in range(1, 3) if torch.compiler.is_compiling() else trange(1, 3, leave=False):",
            "trange(1, 3, leave=False)",
        ),
    )
    near_misses = (
        *(
            NearMiss(_BAR.format(line), at=at, why=why)
            for line, at, why in (
                ("for i in tqdm(total=3):", "tqdm(total=3)", "goes over nothing"),
                ("for i in tqdm(next(log)):", "tqdm(next(log))", "twice is not once"),
                ("for i in tqdm(log.pop(0)):", "tqdm(log.pop(0))", "changes a list"),
                ("with tqdm(log) as x:", "tqdm(log)", "a bar with a name"),
                ("for i in (bar := tqdm(log)):", "tqdm(log)", "a bar with a name"),
                ("while tqdm(log):", "tqdm(log)", "no loop over it"),
            )
        ),
        *_NEAR_MISSES,
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        bar = _bar_of_loop(site)
        if bar is not None:
            yield _without_bar(site, *bar)
            return
        call = effect_statement(site)
        line = site.statement if call is not None else None
        if call is None or not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            return
        what = activity(call)
        harm = what.writes | what.deletes | (what.mutates - _root(call))
        if harm or not _is_text(site, call) or _is_guarded(site, line):
            return
        edit = site.edit()
        torch = torch_alias(site, edit)
        guarded = statement(f"if not {torch}.compiler.is_compiling():\n    pass")
        assert isinstance(guarded, cst.If)
        inner = line.with_changes(leading_lines=())
        edit.replace(
            line,
            guarded.with_changes(leading_lines=line.leading_lines, body=cst.IndentedBlock([inner])),
        )
        yield edit.rewrite(
            "leave the text out while compiling",
            safety=Safety.UNSAFE,
            notes=(_NOTE,),
            rank=95,
            assumes=("texts-only-in-eager",),
        )


_BARS = frozenset(
    f"{module}.{name}"
    for module in words("tqdm tqdm.auto tqdm.autonotebook tqdm.notebook tqdm.std tqdm.asyncio")
    for name in words("tqdm trange")
) | {"rich.progress.track"}
_WIDTH = 100
#: Calls that a loop may be given anew: what they go over is what it was.
_AGAIN = words("range reversed enumerate zip len list tuple min max sorted")


def _bar_of_loop(site: Site) -> tuple[cst.Call, cst.BaseExpression] | None:
    """The progress bar over which the loop around the site goes, and what the bar goes over."""
    chain = [site.node, *site.ancestors(site.node)]
    call = next((it for it in chain if isinstance(it, cst.Call) and _is_bar(site, it)), None)
    if call is None or not _feeds_loop(site, call):
        return None
    name = (resolve(site.module, call.func) or "").rpartition(".")[2]
    if name == "trange":
        given = [it for it in call.args if it.keyword is None]
        over: cst.BaseExpression = cst.Call(cst.Name("range"), _closed(given))
        return (call, over) if given and _may_repeat(over) else None
    for number, argument in enumerate(call.args):
        told = argument.keyword.value if argument.keyword is not None else ""
        if told == "iterable" or (number == 0 and not told and not argument.star):
            return (call, argument.value) if _may_repeat(argument.value) else None
    return None


def _is_bar(site: Site, call: cst.Call) -> bool:
    return resolve(site.module, call.func) in _BARS


def _closed(arguments: list[cst.Arg]) -> list[cst.Arg]:
    """Positional arguments, without a comma behind the last one."""
    return [*arguments[:-1], *(it.with_changes(comma=_NO_COMMA) for it in arguments[-1:])]


_NO_COMMA = cst.MaybeSentinel.DEFAULT


def _feeds_loop(site: Site, call: cst.Call) -> bool:
    """Whether nothing but a loop (or ``enumerate`` or ``zip`` in its head) gets the bar."""
    inner: cst.CSTNode = call
    for above in site.ancestors(call):
        if isinstance(above, cst.For):
            return above.iter is inner
        if isinstance(above, cst.Call) and code(above.func) not in ("enumerate", "zip"):
            return False
        if not isinstance(above, cst.Call | cst.Arg):
            return False
        inner = above
    return False


def _may_repeat(node: cst.BaseExpression) -> bool:
    """Whether an expression may be asked in either of two places, as it does nothing."""
    what = activity(node)
    if what.writes or what.deletes:
        return False
    return all(
        isinstance(part.func, cst.Name) and part.func.value in _AGAIN
        for part in walk(node)
        if isinstance(part, cst.Call)
    )


def _without_bar(site: Site, call: cst.Call, over: cst.BaseExpression) -> Rewrite:
    edit = site.edit()
    test = cst.parse_expression(f"{torch_alias(site, edit)}.compiler.is_compiling()")
    choice: cst.BaseExpression = cst.IfExp(test, over.deep_clone(), call.deep_clone())
    loop = site.parent(call)
    if isinstance(loop, cst.For) and _is_long(site, loop, choice):
        choice = _in_lines(site, code(over), code(test), code(call))
    edit.replace(call, choice)
    return edit.rewrite(
        "go without the progress bar while compiling",
        safety=Safety.UNSAFE,
        notes=("the progress bar does not show where the function is compiled",),
        rank=45,
        assumes=("texts-only-in-eager",),
    )


def _is_long(site: Site, loop: cst.For, choice: cst.BaseExpression) -> bool:
    line = site.source.split("\n")[site.span(loop).line - 1].rstrip().expandtabs(4)
    more = len(code(choice)) - len(code(loop.iter))
    return "\n" not in code(choice) and len(line) + more > _WIDTH


def _in_lines(site: Site, over: str, test: str, call: str) -> cst.BaseExpression:
    """The choice in lines of its own, as formatters lay out what is too long for one."""
    indent = site.module.default_indent
    lines = "".join(f"{indent}{line}\n" for line in (over, f"if {test}", f"else {call}"))
    return cst.parse_expression(f"(\n{lines})")


def _is_guarded(site: Site, line: cst.CSTNode) -> bool:
    return any(
        isinstance(part, cst.If) and "is_compiling" in code(part.test)
        for part in site.ancestors(line)
    )


def _root(call: cst.Call) -> set[str]:
    """The logger: a method of it does not change what anything computes."""
    match call.func:
        case cst.Attribute(value=cst.Name(name)):
            return {name}
        case cst.Attribute(value=cst.Attribute(value=cst.Name(name))):
            return {name}
    return set()


def _is_text(site: Site, call: cst.Call) -> bool:
    if resolve(site.module, call.func) in ("builtins.print", "warnings.warn"):
        return True
    return logger_of(site, call) != ""

"""``if not torch.compiler.is_compiling(): print(...)``: effects that compiled code leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import statement
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code
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


class EffectInEager(Codemod):
    """*What it does.*  Leaves a text out while compiling.

    ``print(x)`` becomes ``if not torch.compiler.is_compiling():`` with the call below.

    *When it applies.*  A ``print``, a log call or a warning is a statement of its own.

    *Fix safety.*  Always unsafe: the effect is gone from compiled code.  It is for texts that only
    help to debug; whatever keeps them (`print-to-hop`, `print-to-op`, `logging-to-op`,
    `warning-to-op`, `split-function`) comes first.

    *Refuses.*  Other calls, and arguments that change or bind something.
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
    )
    near_misses = tuple(
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

    def propose(self, site: Site) -> Iterator[Rewrite]:
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

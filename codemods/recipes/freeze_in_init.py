"""Parameters that every call freezes anew."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.attributes import bound_once
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import dotted, walk
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site
from gbfix.rewriting.project import occurrences
from gbfix.schema import Safety

_NOTE = (
    "the parameters are frozen when the object is made, and no longer at its first call; what sets"
    " their flag in between is not undone"
)
_EARLY = (
    "other code names the module: before the first call of this method it had gradients there, and"
    " a parameter that it gets later was frozen, too"
)


def _source(init: str, forward: str, more: str = "") -> str:
    return f"""import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
{init}        self.head = nn.Linear(4, 2)

    def forward(self, x):
{forward}        return self.head(self.body(x))
{more}"""


_LINE = "        self.body.requires_grad_(False)\n"
_LOOP = "        for p in self.body.parameters():\n            p.requires_grad = False\n"


class FreezeInInit(Codemod):
    """*What it does.*  Moves ``self.body.requires_grad_(False)`` (or the loop over its parameters
    that does the same) from a method to ``__init__``, right below where it binds ``self.body``.

    *When it applies.*  The statement stands in the body of the method itself, the flag is a
    literal, and ``__init__`` of the same class binds the attribute, as the only one in the project.

    *Fix safety.*  Safe where nothing else in the project speaks of ``requires_grad``: between the
    making of the object and its first call nothing can then tell. Else unsafe, and so it is where
    other code names the module.

    *Refuses.*  Switches under a condition, modules that are arguments, attributes that are bound in
    another place, several switches.
    """

    name = "freeze-in-init"
    codes = ("GB0125", "GB0206")
    examples = (
        Example(
            _source("", _LINE), _source(_LINE, ""), at=_LINE.strip(), title="the method's own line"
        ),
        Example(
            _source("", _LOOP),
            _source(_LOOP, ""),
            at="p.requires_grad = False",
            code="GB0206",
            title="a loop",
        ),
    )
    near_misses = (
        NearMiss(
            _source("", "        if x.sum() > 0:\n    " + _LINE),
            at=_LINE.strip(),
            why="under a condition",
        ),
        NearMiss(
            _source("", _LINE, "\n\nnet = Net()\nnet.body = nn.Linear(4, 4)\n"),
            at=_LINE.strip(),
            why="another module later",
        ),
        NearMiss(
            _source("", _LINE + _LINE.replace("False", "True")),
            at=_LINE.strip(),
            why="off and on again",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        line = _switching(site)
        if function is None or line is None or site.parent(line) is not function.body:
            return
        module = _frozen(line)
        holder = site.class_of(function)
        if module is None or holder is None or comments_in(line):
            return
        me, _, attribute = module.partition(".")
        first = function.params.params[0].name.value if function.params.params else ""
        bound = _bound(holder, me, attribute)
        if me != first or "." in attribute or function.decorators or bound is None:
            return
        same = [node for node in walk(site.module) if _frozen(node) == module]
        if len(same) != 1 or not bound_once([site.source, *site.sources.values()], attribute):
            return
        edit: Edit = site.edit()
        edit.moved(line)
        edit.insert_after(bound, line)
        alone = occurrences(site, "requires_grad") + occurrences(site, "requires_grad_") == 1
        early = _is_known_elsewhere(site, function, attribute)
        early = early or _runs_otherwise(site, function, holder, bound)
        yield edit.rewrite(
            f"freeze `{module}` in `__init__`",
            rank=11,
            safety=Safety.SAFE if alone and not early else Safety.UNSAFE,
            notes=(_NOTE, *([_EARLY] if early else [])),
        )


def _is_known_elsewhere(site: Site, function: cst.FunctionDef, attribute: str) -> bool:
    """Whether the project names the attribute outside of the method and of what binds it."""
    named = re.compile(rf"\.{re.escape(attribute)}\b|['\"]{re.escape(attribute)}['\"]")
    own = len(named.findall(site.text(function))) + 1
    texts = {site.path: site.source, **site.sources}
    return sum(len(named.findall(text)) for text in texts.values()) > own


def _runs_otherwise(
    site: Site, function: cst.FunctionDef, holder: cst.ClassDef, bound: cst.BaseStatement
) -> bool:
    """Whether the module may be trained before the method is called for the first time.

    By another way into the class than ``forward``, or by whoever has given it to ``__init__``.
    """
    bases = [resolve(site.module, it.value) or "" for it in holder.bases]
    plain = bool(bases) and all(base == "torch.nn.Module" for base in bases)
    makes = any(
        isinstance(node, cst.Assign) and isinstance(node.value, cst.Call) for node in walk(bound)
    )
    given = {name for it in walk(bound) if isinstance(it, cst.Call) for name in _holds(site, it)}
    named = {
        param.name.value
        for item in holder.body.body
        if isinstance(item, cst.FunctionDef) and item.name.value == "__init__"
        for param in [*item.params.params[1:], *item.params.kwonly_params]
    }
    return function.name.value != "forward" or not plain or not makes or bool(given & named)


#: Classes that are given modules.
_HOLDERS = frozenset({"Sequential", "ModuleList", "ModuleDict", "DataParallel"})


def _holds(site: Site, call: cst.Call) -> set[str]:
    """The names that a call is given, of which it may keep a module."""
    home, _, name = (resolve(site.module, call.func) or "").rpartition(".")
    if home == "torch.nn" and name not in _HOLDERS:
        return set()  # a layer is given numbers
    return {arg.value.value for arg in call.args if isinstance(arg.value, cst.Name)}


def _switching(site: Site) -> cst.BaseStatement | None:
    """The statement of the break, or the loop around it."""
    for node in (site.statement, *site.ancestors(site.statement)):
        if isinstance(node, cst.SimpleStatementLine | cst.For) and _frozen(node) is not None:
            return node
    return None


def _frozen(line: cst.CSTNode) -> str | None:
    """What a statement freezes or thaws: the module's name."""
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Expr(
                    value=cst.Call(
                        func=cst.Attribute(value=owner, attr=cst.Name("requires_grad_")),
                        args=[] | [cst.Arg(value=cst.Name("True" | "False"))],
                    )
                )
            ]
        ):
            return dotted(owner)
        case cst.For(
            target=cst.Name(one),
            iter=cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("parameters")), args=[]),
            body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[_]) as inner]),
            orelse=None,
        ):
            if _frozen(inner) == one or _sets_flag(inner, one):
                return dotted(owner)
    return None


def _sets_flag(line: cst.SimpleStatementLine, one: str) -> bool:
    match line.body:
        case [
            cst.Assign(
                targets=[
                    cst.AssignTarget(
                        target=cst.Attribute(value=cst.Name(it), attr=cst.Name("requires_grad"))
                    )
                ],
                value=cst.Name("True" | "False"),
            )
        ]:
            return it == one
    return False


def _bound(holder: cst.ClassDef, me: str, attribute: str) -> cst.BaseStatement | None:
    """The statement of ``__init__``'s own body that binds the attribute."""
    for item in holder.body.body:
        if isinstance(item, cst.FunctionDef) and item.name.value == "__init__":
            first = item.params.params[0].name.value if item.params.params else ""
            for line in item.body.body:
                match line:
                    case cst.SimpleStatementLine(
                        body=[cst.Assign(targets=[cst.AssignTarget(target=target)])]
                    ) if first == me and dotted(target) == f"{me}.{attribute}":
                        return line
    return None

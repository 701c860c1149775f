"""Gradients of a module's parameters, switched off around its call and on again."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, identifier, names_in
from gbfix.analysis.scopes import import_map
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site
from gbfix.rewriting.project import occurrences
from gbfix.schema import Safety

from ..api.splice import Splice

_WERE_ON = (
    "parameters that somebody froze beforehand stay frozen: the original switches all on again"
)
_SHARED = (
    "where it shares a parameter with another module that is called in between, the original blocks"
    " that module's gradient, too"
)
#: ``self.head.weight = self.embedding.weight``
_TIED = re.compile(r"\.(weight|bias)\s*=\s*[\w.\[\]]+\.(?:weight|bias)\b")


def _source(body: str, more: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    return f"""import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gen = nn.Linear(4, 4)
        self.disc = nn.Linear(4, 1)
{more}
    def forward(self, z):
{lines}"""


_OFF_ON = """self.disc.requires_grad_(False)
score = self.disc(self.gen(z))
self.disc.requires_grad_(True)
return score"""
_HELPER = """
    def toggle(self, net, flag):
        for p in net.parameters():
            p.requires_grad = flag
"""
_FROZEN = "disc_frozen = {name: p.detach() for name, p in self.disc.named_parameters()}"
_CALLED = "score = torch.func.functional_call(self.disc, disc_frozen, (self.gen(z),))"


class FrozenCall(Codemod):
    """*What it does.*  Calls a module with its parameters detached, where the original switches
    their gradients off before the call and on again after it.

    ```python
    self.disc.requires_grad_(False)
    score = self.disc(x)
    self.disc.requires_grad_(True)
    ```
    becomes ``torch.func.functional_call(self.disc, disc_frozen, (x,))``, where ``disc_frozen``
    holds ``p.detach()`` of every parameter.

    *When it applies.*  Both switches stand in one block, as ``requires_grad_``, as a loop over
    ``parameters()``, or as a call of a helper that holds nothing but such a loop; in between, the
    module is only called.

    *Fix safety.*  Safe where nothing else in the project sets ``requires_grad``; else unsafe, as
    the original switches the gradients of all its parameters on at the end. Unsafe, too, where the
    project ties parameters of modules (``a.weight = b.weight``).

    *Refuses.*  A switch without its counterpart, flags that are no literals, modules of which
    something else is read in between.
    """

    name = "frozen-call"
    codes = ("GB0125", "GB0206")
    examples = (
        Example(
            _source(_OFF_ON),
            _source(f"{_FROZEN}\n{_CALLED}\nreturn score"),
            at="self.disc.requires_grad_(False)",
            title="the method",
        ),
        Example(
            _source(
                "for p in self.disc.parameters():\n    p.requires_grad = False\n"
                "score = self.disc(self.gen(z))\n"
                "for p in self.disc.parameters():\n    p.requires_grad_(True)\n"
                "return score"
            ),
            _source(f"{_FROZEN}\n{_CALLED}\nreturn score"),
            at="p.requires_grad = False",
            code="GB0206",
            title="loops",
        ),
    )
    near_misses = (
        NearMiss(
            _source("self.disc.requires_grad_(False)\nreturn self.disc(self.gen(z))"),
            at="self.disc.requires_grad_(False)",
            why="it stays off",
        ),
        NearMiss(
            _source(_OFF_ON.replace("(self.gen(z))", "(z) + self.disc.weight")),
            at="self.disc.requires_grad_(False)",
            why="a parameter is read",
        ),
        NearMiss(
            _source(_OFF_ON.replace("self.disc.requires_grad_(True)", "self.gen.requires_grad_()")),
            at="self.disc.requires_grad_(False)",
            why="another module",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
        block = _block(site)
        if torch is None or block is None:
            return
        switches = [(line, _switch(site, line)) for line in block]
        first = next((i for i, (_, it) in enumerate(switches) if it and not it.on), None)
        if first is None:
            return
        off = switches[first][1]
        assert off is not None
        last = next(
            (
                i
                for i, (_, it) in enumerate(switches)
                if i > first and it and it.on and it.module == off.module
            ),
            None,
        )
        if last is None:
            return
        if comments_in(block[first]) or comments_in(block[last]):
            return
        calls = list(_calls(site, block[first + 1 : last], off.module))
        if not calls or any(call is None for call in calls):
            return
        splice = Splice(site)
        base = f"{identifier(off.module.rpartition('.')[2])}_frozen"
        frozen = fresh(base, names_in(site.module))
        text = f"{frozen} = {{name: p.detach() for name, p in {off.module}.named_parameters()}}"
        splice.replace_span(site.span(block[first]), text)
        for call in calls:
            assert call is not None
            splice.replace(call, _functional(splice, call, torch, frozen))
        where = site.span(block[last])
        if block[last] is block[-1]:
            return
        splice.delete_rows(where.line, where.end_line)
        alone = occurrences(site, "requires_grad") + occurrences(site, "requires_grad_") <= 2
        shared = _shares_parameters(site)
        yield splice.rewrite(
            f"call `{off.module}` with its parameters detached",
            rank=9,
            safety=Safety.SAFE if alone and not shared else Safety.UNSAFE,
            notes=(_WERE_ON, *([_SHARED] if shared else [])),
        )


def _shares_parameters(site: Site) -> bool:
    """Whether the project gives one module a parameter of another."""
    return any(_TIED.search(text) for text in (site.source, *site.sources.values()))


@dataclasses.dataclass(frozen=True)
class _Switch:
    module: str
    on: bool


def _block(site: Site) -> Sequence[cst.CSTNode] | None:
    """The statements among which the switch stands: here, or where its helper is called."""
    line = _top_line(site, site.node)
    if line is not None and _switch(site, line) is not None:
        return site.block_of(line)
    for frame in reversed(site.graph_break.frames):
        if frame.path != site.path or frame.line == site.frame.line:
            continue
        for node in walk(site.module):
            if isinstance(node, cst.SimpleStatementLine) and site.span(node).line == frame.line:
                return site.block_of(node)
    return None


def _top_line(site: Site, node: cst.CSTNode) -> cst.CSTNode | None:
    """The statement, or the loop that it is the body of."""
    line: cst.CSTNode = site.statement_of(node)
    for above in site.ancestors(line):
        if isinstance(above, cst.For):
            return above
        if isinstance(above, cst.FunctionDef):
            break
    return line


def _switch(site: Site, line: cst.CSTNode) -> _Switch | None:
    match line:
        case cst.For():
            return _loop(line, {})
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]):
            found = _method(call)
            if found is not None:
                name, flag = found
                return None if flag not in ("True", "False") else _Switch(name, flag == "True")
            return _helper(site, call)
    return None


def _method(call: cst.Call) -> tuple[str, str] | None:
    """``module.requires_grad_(flag)``."""
    match call:
        case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("requires_grad_"))):
            name = dotted(owner)
            flag = code(call.args[0].value) if call.args else "True"
            return None if name is None or len(call.args) > 1 else (name, flag)
    return None


def _loop(loop: cst.For, given: dict[str, str]) -> _Switch | None:
    """``for p in module.parameters(): p.requires_grad = flag``, in terms of the caller."""
    match loop:
        case cst.For(
            target=cst.Name(one),
            iter=cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("parameters")), args=[]),
            body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[inner])]),
            orelse=None,
        ):
            pass
        case _:
            return None
    match inner:
        case cst.Assign(
            targets=[
                cst.AssignTarget(
                    target=cst.Attribute(value=cst.Name(it), attr=cst.Name("requires_grad"))
                )
            ],
            value=value,
        ):
            flag = code(value)
        case cst.Expr(value=cst.Call() as call):
            found = _method(call)
            if found is None:
                return None
            it, flag = found
        case _:
            return None
    module = dotted(owner)
    if it != one or module is None:
        return None
    root, _, rest = module.partition(".")
    module = f"{given.get(root, root)}{'.' if rest else ''}{rest}"
    flag = given.get(flag, flag)
    return _Switch(module, flag == "True") if flag in ("True", "False") else None


def _helper(site: Site, call: cst.Call) -> _Switch | None:
    """A call of a function of this file that holds nothing but such a loop."""
    name = (dotted(call.func) or "").rpartition(".")[2]
    found = [
        node
        for node in walk(site.module)
        if isinstance(node, cst.FunctionDef) and node.name.value == name
    ]
    if len(found) != 1 or found[0].decorators or not isinstance(found[0].body, cst.IndentedBlock):
        return None
    body = found[0].body.body
    if len(body) != 1 or not isinstance(body[0], cst.For):
        return None
    names = [param.name.value for param in params_of(found[0].params)]
    given: dict[str, str] = {}
    match call.func:
        case cst.Attribute(value=owner) if names and site.class_of(found[0]) is not None:
            given[names.pop(0)] = code(owner)
    for position, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and position >= len(names)):
            return None
        given[arg.keyword.value if arg.keyword else names[position]] = code(arg.value)
    loop = _loop(body[0], given)
    return loop


def _calls(site: Site, lines: Sequence[cst.CSTNode], module: str) -> Iterator[cst.Call | None]:
    """The calls of the module in these lines; None for any other use of it."""
    for line in lines:
        for node in walk(line):
            if not isinstance(node, cst.Attribute | cst.Name) or dotted(node) != module:
                continue
            holder = site.parent(node)
            if isinstance(holder, cst.Attribute) and holder.attr is node:
                continue
            plain = isinstance(holder, cst.Call) and holder.func is node
            yield holder if plain and isinstance(holder, cst.Call) else None


def _functional(splice: Splice, call: cst.Call, torch: str, frozen: str) -> str:
    given = [splice.source_of(arg.value) for arg in call.args if arg.keyword is None]
    named = [
        f'"{arg.keyword.value}": {splice.source_of(arg.value)}' for arg in call.args if arg.keyword
    ]
    args = f"({given[0]},)" if len(given) == 1 else f"({', '.join(given)})"
    inside = [splice.source_of(call.func), frozen, args]
    if named:
        inside.append(f"{{{', '.join(named)}}}")
    return f"{torch}.func.functional_call({', '.join(inside)})"

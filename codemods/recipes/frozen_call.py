"""Gradients of a module's parameters, switched off around its call and on again."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, identifier, names_in
from gbfix.analysis.scopes import import_map
from gbfix.analysis.tree import code, dotted, walk
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site
from gbfix.rewriting.modules import keeps_given_modules
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
_NETS = """
    def switch(self, nets, flag=False):
        if not isinstance(nets, list):
            nets = [nets]
        for net in nets:
            if net is not None:
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
    ``parameters()``, or as a call of a helper that holds nothing but such a loop, for one module or
    a list of them; in between, the modules are only called.

    *Fix safety.*  Safe where nothing else in the project switches ``requires_grad`` off; else
    unsafe, as the original switches the gradients of all its parameters on at the end. Unsafe, too,
    where the project ties parameters of modules (``a.weight = b.weight``).

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
        Example(
            _source(
                "self.switch([self.disc], False)  # fixed\n"
                "score = self.disc(self.gen(z))\n"
                "self.switch([self.disc], True)\n"
                "return score",
                _NETS,
            ),
            _source(f"{_FROZEN}  # fixed\n{_CALLED}\nreturn score", _NETS),
            at="self.switch([self.disc], False)",
            code="GB0206",
            title="a helper for a list of modules",
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
                if i > first and it and it.on and it.modules == off.modules
            ),
            None,
        )
        if last is None:
            return
        on_its_line = isinstance(block[first], cst.SimpleStatementLine)  # there a comment may stay
        if (comments_in(block[first]) and not on_its_line) or comments_in(block[last]):
            return
        between = block[first + 1 : last]
        calls = {name: list(_calls(site, between, name)) for name in off.modules}
        if not any(calls.values()) or any(None in found for found in calls.values()):
            return
        splice = Splice(site)
        taken = names_in(site.module)
        texts = []
        for module, found in calls.items():
            if not found:
                continue
            frozen = fresh(f"{identifier(module.rpartition('.')[2])}_frozen", taken)
            taken = taken | {frozen}
            texts.append(
                f"{frozen} = {{name: p.detach() for name, p in {module}.named_parameters()}}"
            )
            for call in found:
                assert call is not None
                splice.replace(call, _functional(splice, call, torch, frozen))
        start = site.span(block[first])
        splice.replace_span(start, ("\n" + " " * start.column).join(texts))
        where = site.span(block[last])
        if block[last] is block[-1]:
            return
        splice.delete_rows(where.line, where.end_line)
        alone = _offs(site, _helper_name(site, block[first])) <= 1
        holder = site.class_of(site.statement)
        shared = _shares_parameters(site) or keeps_given_modules(
            site, holder.name.value if holder is not None else ""
        )
        yield splice.rewrite(
            f"call {' and '.join(f'`{it}`' for it in off.modules)} with detached parameters",
            rank=9,
            safety=Safety.SAFE if alone and not shared else Safety.UNSAFE,
            notes=(_WERE_ON, *([_SHARED] if shared else [])),
        )


def _helper_name(site: Site, line: cst.CSTNode) -> str:
    """The name of the helper that the line calls; "" where it switches by itself."""
    match line:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]):
            return "" if _method(call) else (dotted(call.func) or "").rpartition(".")[2]
    return ""


def _offs(site: Site, helper: str) -> int:
    """How many places of the project may switch off what a parameter requires: writes of anything
    but True, outside of the helper, and such calls of it.
    """
    found = 0
    for text in {site.path: site.source, **site.sources}.values():
        if "requires_grad" not in text and not (helper and helper in text):
            continue
        tree = tree_of(text)
        inside = {
            id(node)
            for part in ast.walk(tree)
            if isinstance(part, ast.FunctionDef) and part.name == helper
            for node in ast.walk(part)
        }
        found += sum(
            id(node) not in inside and _may_switch_off(node, helper) for node in ast.walk(tree)
        )
    return found


def _may_switch_off(node: ast.AST, helper: str) -> bool:
    match node:
        case ast.Assign(targets=[*_, ast.Attribute(attr="requires_grad")], value=value):
            return not _is_true(value)
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=args, keywords=keywords):
            return not all(map(_is_true, [*args, *(it.value for it in keywords)]))
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if helper == name:
            given = [*node.args, *(it.value for it in node.keywords if it.arg)]
            return not any(map(_is_true, given))
        case ast.Call(
            func=ast.Name(id="setattr"), args=[_, ast.Constant(value="requires_grad"), _]
        ):
            return True
        case ast.Call(keywords=keywords):
            return any(it.arg == "requires_grad" and not _is_true(it.value) for it in keywords)
    return False


def _is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _shares_parameters(site: Site) -> bool:
    """Whether the project gives one module a parameter of another."""
    return any(_TIED.search(text) for text in (site.source, *site.sources.values()))


@dataclasses.dataclass(frozen=True)
class _Switch:
    modules: tuple[str, ...]
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
                return None if flag not in ("True", "False") else _Switch((name,), flag == "True")
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
    return _Switch((module,), flag == "True") if flag in ("True", "False") else None


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
    parameters = params_of(found[0].params)
    names = [param.name.value for param in parameters]
    given = {
        param.name.value: code(param.default) for param in parameters if param.default is not None
    }
    match call.func:
        case cst.Attribute(value=owner) if names and site.class_of(found[0]) is not None:
            given[names.pop(0)] = code(owner)
    handed: dict[str, cst.BaseExpression] = {}
    for position, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and position >= len(names)):
            return None
        handed[arg.keyword.value if arg.keyword else names[position]] = arg.value
    given |= {name: code(value) for name, value in handed.items()}
    body = found[0].body.body
    if len(body) == 1 and isinstance(body[0], cst.For):
        whole = _loop(body[0], given)
        if whole is not None:
            return whole
    return _each(body, given, handed)


def _each(
    body: Sequence[cst.CSTNode], given: dict[str, str], handed: dict[str, cst.BaseExpression]
) -> _Switch | None:
    """A loop over modules, one or a list of which is given: ``if not isinstance(nets, list): nets =
    [nets]``, and ``for net in nets:`` below it, and perhaps ``if net is not None:``.
    """
    wraps = ""
    match body:
        case [cst.If(orelse=None) as first, cst.For() as loop]:
            match code(first).split():
                case ["if", "not", *test, name, "=", wrapped]:
                    asked = "".join(test)
                    kinds = ("list", "(list,tuple)", "(tuple,list)")
                    if asked not in [f"isinstance({name},{kind}):" for kind in kinds]:
                        return None
                    if wrapped != f"[{name}]":
                        return None
                    wraps = name
                case _:
                    return None
        case [cst.For() as loop]:
            pass
        case _:
            return None
    match loop:
        case cst.For(
            target=cst.Name(one),
            iter=cst.Name(many),
            body=cst.IndentedBlock(body=[inner]),
            orelse=None,
        ) if many in handed:
            pass
        case _:
            return None
    match inner:
        case cst.If(orelse=None, body=cst.IndentedBlock(body=[under])):
            if code(inner.test) not in (one, f"{one} is not None"):
                return None
            inner = under
    if not isinstance(inner, cst.For) or (wraps and wraps != many):
        return None
    match handed[many]:
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            texts = [dotted(element.value) for element in elements]
        case value if wraps:
            texts = [dotted(value)]
        case _:
            return None
    found = [_loop(inner, {**given, one: text}) for text in texts if text is not None]
    switches = [switch for switch in found if switch is not None]
    if not switches or len(switches) < len(texts):
        return None
    return _Switch(tuple(name for it in switches for name in it.modules), switches[0].on)


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

"""Noise from a seed of its own (``fork_rng``), drawn by an operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, statements_of, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import Parameter
from ..wrap.operator_text import (
    define,
    namespace,
    operator_name,
    place,
    register_fake,
    signature,
    torch_alias,
)

_LIKE = {"randn_like": "empty_like", "rand_like": "empty_like"}
_SIZED = {"randn": "empty", "rand": "empty"}
_FORK = "torch.random.fork_rng(devices=[])"
_FACTS = {"x": tensor(4, 3), "self.seed": scalar(7), "c": tensor(2, device="cuda:0")}


def _source(lines: str, fork: str = _FORK) -> str:
    body = "\n".join(f"        {line}" for line in lines.splitlines())
    return f"import torch\n\n\ndef f(self, x, c):\n    with {fork}:\n{body}\n    return x\n"


def _after(call: str, draw: str, made: str, seed: str = "7", more: str = "") -> str:
    names = "x, seed" if more else "x"
    return f"""import torch


@torch.library.custom_op("example::draw_f", mutates_args=())
def draw_f(x: torch.Tensor{more}) -> torch.Tensor:
    with {_FORK}:
        torch.manual_seed({seed})
        return {draw}


draw_f.register_fake(lambda {names}: {made})


def f(self, x, c):
    {call}
    return x
"""


_DRAW = "torch.manual_seed(7)\nreturn torch.randn_like(x)"


def _near_miss(why: str, lines: str = _DRAW, fork: str = _FORK) -> NearMiss:
    return NearMiss(_source(lines, fork), at=fork, why=why, facts=_FACTS)


class SeededDraw(Codemod):
    """*What it does.*  Lets an operator draw noise from a seed of its own.

    ```python
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return torch.randn_like(x)
    ```
    becomes ``return draw_noise(x.detach())``, an operator whose body are these lines.

    *When it applies.*  The block sets the seed, draws one tensor that is made like another or of
    its sizes, and returns or binds it.

    *Fix safety.*  Safe: the same lines run in every call, the stream is as before when they have
    ended, and noise has no gradient.

    *Refuses.*  Blocks that do more, draws without a seed (they show where the stream stands), seeds
    that are tensors, and streams of other devices that the block does not put back.
    """

    name = "seeded-draw"
    codes = ("GB0142", "GB0208", "GB0007")
    examples = (
        Example(
            _source(_DRAW),
            _after("return draw_f(x.detach())", "torch.randn_like(x)", "torch.empty_like(x)"),
            at=_FORK,
            facts=_FACTS,
            title="noise of a shape",
        ),
        Example(
            _source("torch.manual_seed(self.seed)\nx = torch.rand(x.shape[0], 2, dtype=x.dtype)"),
            _after(
                "x = draw_f(x.detach(), self.seed)",
                "torch.rand(x.shape[0], 2, dtype=x.dtype)",
                "torch.empty(x.shape[0], 2, dtype=x.dtype)",
                "seed",
                ", seed: int",
            ),
            at=_FORK,
            facts=_FACTS,
            title="the seed of an instance",
        ),
    )
    near_misses = (
        _near_miss("no seed", "return torch.randn_like(x)"),
        _near_miss(
            "a seed that is not a number", "torch.manual_seed(x)\nreturn torch.rand_like(x)"
        ),
        _near_miss("two draws", "torch.manual_seed(7)\nx = torch.rand_like(x)\nc = torch.rand(2)"),
        _near_miss("more than a draw", "torch.manual_seed(7)\nreturn x + torch.rand_like(x)"),
        _near_miss("sizes of no tensor", "torch.manual_seed(7)\nreturn torch.rand(3)"),
        _near_miss("another device", "torch.manual_seed(7)\nreturn torch.rand_like(c)"),
        _near_miss("not always", _DRAW, "torch.random.fork_rng(enabled=self.seed > 3)"),
        _near_miss("another context", _DRAW, "torch.random.other()"),
        _near_miss("drawn in place", "torch.manual_seed(7)\nx.normal_()"),
        _near_miss("a generator", "torch.manual_seed(7)\nreturn torch.rand(x.shape, generator=c)"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        around = (site.node, *site.ancestors(site.node))
        block = next((part for part in around if isinstance(part, cst.With)), None)
        if block is None or site.function is None:
            return
        draw = _draw_of(site, block)
        if draw is not None:
            yield _rewrite(site, block, draw)


@dataclasses.dataclass(frozen=True)
class _Draw:
    """A block that draws: the tensor that it goes by, its seed, and what is done with the noise."""

    call: cst.Call
    made: cst.Call
    like: cst.Name
    seed: cst.BaseExpression
    line: cst.Return | cst.Assign


def _draw_of(site: Site, block: cst.With) -> _Draw | None:
    match block.items:
        case [cst.WithItem(item=cst.Call() as fork, asname=None)]:
            pass
        case _:
            return None
    devices = [code(arg) for arg in fork.args]
    if resolve(site.module, fork.func) != "torch.random.fork_rng" or comments_in(block.body):
        return None
    if devices not in ([], ["devices=[]"], ["devices=()"]) or block.asynchronous is not None:
        return None
    match statements_of(block.body):
        case [
            cst.SimpleStatementLine(
                body=[cst.Expr(value=cst.Call(func=func, args=[cst.Arg(value=seed)]))]
            ),
            cst.SimpleStatementLine(body=[cst.Return() | cst.Assign() as line]),
        ] if resolve(site.module, func) == "torch.manual_seed":
            pass
        case _:
            return None
    call = line.value
    if not isinstance(call, cst.Call) or not _is_number(site, seed):
        return None
    if isinstance(line, cst.Assign) and not isinstance(line.targets[0].target, cst.Name):
        return None
    found = _made(site, call)
    fact = None if found is None else site.fact(found[1])
    if found is None or fact is None or not fact.is_tensor:
        return None
    if isinstance(line, cst.Assign) and len(line.targets) != 1:
        return None
    if devices and fact.device != "cpu":
        return None
    return _Draw(call, found[0], found[1], seed, line)


def _is_number(site: Site, seed: cst.BaseExpression) -> bool:
    if isinstance(seed, cst.Integer):
        return True
    fact = site.fact(seed)
    return isinstance(seed, cst.Name | cst.Attribute) and fact is not None and fact.kind == "int"


def _made(site: Site, call: cst.Call) -> tuple[cst.Call, cst.Name] | None:
    """The same call that leaves the memory as it is, and the one tensor that it goes by."""
    home, _, last = (resolve(site.module, call.func) or "").rpartition(".")
    plain = {**_LIKE, **_SIZED}.get(last)
    if home != "torch" or plain is None or not isinstance(call.func, cst.Attribute):
        return None
    tensors: dict[str, cst.Name] = {}
    for arg in call.args:
        if arg.star or (arg.keyword is not None and arg.keyword.value not in ("dtype", "device")):
            return None
        for node in walk(arg.value):
            if isinstance(node, cst.Call):
                func = node.func
                if not isinstance(func, cst.Attribute) or func.attr.value != "size":
                    return None
        for name in _roots(site, arg.value):
            if name.value != "torch":
                tensors[name.value] = name
    if len(tensors) != 1:
        return None
    ((_, like),) = tensors.items()
    first = call.args[0].value if call.args else None
    if last in _LIKE and not isinstance(first, cst.Name):
        return None
    if last in _SIZED and any(isinstance(arg.value, cst.Name) for arg in call.args):
        return None
    return call.with_changes(func=call.func.with_changes(attr=cst.Name(plain))), like


def _roots(site: Site, node: cst.BaseExpression) -> Iterator[cst.Name]:
    """The names that an expression reads, those of attributes and keywords aside."""
    for part in walk(node):
        holder = site.parent(part)
        named = isinstance(holder, cst.Attribute) and holder.attr is part
        if isinstance(part, cst.Name) and not named and not _is_keyword(holder, part):
            yield part


def _is_keyword(holder: cst.CSTNode | None, part: cst.Name) -> bool:
    return isinstance(holder, cst.Arg) and holder.keyword is part


def _rewrite(site: Site, block: cst.With, draw: _Draw) -> Rewrite:
    edit = site.edit()
    assert site.function is not None
    torch = torch_alias(site, edit)
    operator = operator_name(site, f"draw_{site.function.name.value}")
    like = Parameter(
        draw.like.value,
        "torch.Tensor",
        cst.parse_expression(f"{draw.like.value}.detach()"),
        Fact("tensor", "torch.Tensor"),
    )
    parameters = [like]
    seed: cst.BaseExpression = draw.seed
    if not isinstance(seed, cst.Integer):
        name = "seed" if draw.like.value != "seed" else "number"
        parameters.append(Parameter(name, "int", seed, Fact("int", "int")))
        seed = cst.Name(name)
    registered = register_fake(operator, parameters, "BODY3")
    text = f'''@{torch}.library.custom_op("{namespace(site)}::{operator}", mutates_args=())
def {operator}({signature(parameters, torch)}) -> {torch}.Tensor:
    with BODY0:
        {torch}.manual_seed(BODY1)
        return BODY2


{registered}'''
    fork = block.items[0].item
    place(site, edit, define(site, text, [fork, seed, draw.call, draw.made]))
    arguments = ", ".join(code(item.argument) for item in parameters)
    value = cst.parse_expression(f"{operator}({arguments})")
    line = cst.SimpleStatementLine([draw.line.with_changes(value=value)])
    edit.replace(block, line.with_changes(leading_lines=block.leading_lines))
    return edit.rewrite("draw the noise in a custom operator", rank=30)

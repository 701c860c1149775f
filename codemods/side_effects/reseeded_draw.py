"""Numbers that are drawn right after the stream was given a seed, drawn by an operator."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, statements_of
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.modules import DRAWING
from gbfix.rewriting.project import mentions
from gbfix.schema import Fact, Safety

from ..wrap.capture import Parameter, Refused, capture
from ..wrap.operator_text import define, namespace, operator_name, place, signature, torch_alias
from .effect_operator import anchor, operator_notes

_PLAIN = {
    "rand": "empty",
    "randn": "empty",
    "rand_like": "empty_like",
    "randn_like": "empty_like",
}
_OTHERS = (
    "inductor takes the seeds of a graph's own random numbers (a dropout) when the graph begins:"
    " what is drawn behind this seed is not the same in each call any more"
)
_DRAWING = re.compile(
    r"\brand(n|int|perm)?(_like)?\(|\.(normal|uniform|random|log_normal|cauchy|geometric)_\("
    r"|\btorch\.normal\(|\.r?sample\("
)
_LARGE = "a seed of 2**63 or more is an error: an operator takes numbers of 64 bits with a sign"
_FACTS = {
    "x": tensor(4, 3),
    "x.device": Fact("object", "torch.device"),
    "x.dtype": Fact("object", "torch.dtype"),
    "self.seed": scalar(7),
    "self": Fact("module", "Net"),
    "n": scalar(3),
}
_DRAW = "torch.randn(n, 2, dtype=x.dtype)"


def _source(*lines: str, before: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\n{before}def f(self, x, n):\n{body}    return x @ noise\n"


def _operator(parameters: str, names: str, seed: str, draw: str, made: str) -> str:
    return f"""@torch.library.custom_op("example::draw_f", mutates_args=())
def draw_f({parameters}) -> torch.Tensor:
    torch.manual_seed({seed})
    return {draw}


draw_f.register_fake(lambda {names}: {made})
draw_f.register_effect(torch.library.EffectType.ORDERED)


"""


def _near_miss(why: str, *lines: str) -> NearMiss:
    return NearMiss(_source(*lines), at="torch.manual_seed(self.seed)", why=why, facts=_FACTS)


class ReseededDraw(Codemod):
    """*What it does.*  Lets an operator give the random stream a seed and draw:

    ```python
    torch.manual_seed(self.seed)
    noise = torch.randn(n, 2)
    ```
    becomes ``noise = draw_forward(self.seed, n)``, an operator with an ordered effect whose body
    are these lines.  Under ``if self.seed is not None:`` the draw without a seed stays beside it.

    *When it applies.*  The draw follows the seed at once, is ``torch.rand``, ``randn`` or one of
    their ``_like``, and its sizes and the seed are numbers.

    *Fix safety.*  Safe: the stream stands where it stood after these lines, on all devices.  Unsafe
    where the project draws more: inductor takes the seeds of a graph's own random numbers when the
    graph begins.

    *Refuses.*  Other lines between them, seeds that are tensors, other draws, generators, and draws
    that require a gradient.
    """

    name = "reseeded-draw"
    codes = ("GB0007", "GB0008")
    examples = (
        Example(
            _source("torch.manual_seed(self.seed)", f"noise = {_DRAW}"),
            _source(
                "noise = draw_f(self.seed, n, x.detach())",
                before=_operator(
                    "seed: int, n: int, x: torch.Tensor",
                    "seed, n, x",
                    "seed",
                    _DRAW,
                    _DRAW.replace("randn", "empty"),
                ),
            ),
            at="torch.manual_seed(self.seed)",
            facts=_FACTS,
            title="a seed of an instance",
        ),
        Example(
            _source(
                "if self.seed is not None:",
                "    torch.manual_seed(self.seed)",
                "# The same in each call.",
                "noise = torch.rand_like(x)",
            ),
            _source(
                "# The same in each call.",
                "if self.seed is not None:",
                "    noise = draw_f(self.seed, x.detach())",
                "else:",
                "    noise = torch.rand_like(x)",
                before=_operator(
                    "seed: int, x: torch.Tensor",
                    "seed, x",
                    "seed",
                    "torch.rand_like(x)",
                    "torch.empty_like(x)",
                ),
            ),
            at="torch.manual_seed(self.seed)",
            facts=_FACTS,
            title="a seed that may not be there",
        ),
        Example(
            _source("torch.manual_seed(7)", "noise = torch.dropout(x, 0.5, True)[:, :n]").replace(
                "noise = torch.dropout(x", "noise = torch.rand_like(x)\n    x = torch.dropout(x"
            ),
            _source(
                "noise = draw_f(x.detach())",
                "x = torch.dropout(x, 0.5, True)[:, :n]",
                before=_operator(
                    "x: torch.Tensor", "x", "7", "torch.rand_like(x)", "torch.empty_like(x)"
                ),
            ),
            at="torch.manual_seed(7)",
            facts=_FACTS,
            title="other numbers are drawn behind it (unsafe)",
        ),
    )
    near_misses = (
        _near_miss("something between", "torch.manual_seed(self.seed)", "x = x + 1", "noise = x"),
        _near_miss("another draw", "torch.manual_seed(self.seed)", "noise = torch.randperm(n)"),
        _near_miss(
            "a leaf",
            "torch.manual_seed(self.seed)",
            "noise = torch.rand(n, requires_grad=True)",
        ),
        _near_miss("more than a draw", "torch.manual_seed(self.seed)", "noise = torch.rand(n) + 1"),
        _near_miss(
            "another condition",
            "if n > 2:",
            "    torch.manual_seed(self.seed)",
            "noise = torch.rand(n)",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        found = _found(site)
        if found is None or site.function is None:
            return
        edit = site.edit()
        torch = torch_alias(site, edit)
        func = found.draw.func
        try:
            captured = capture(site, [found.seed, found.draw], torch, kept={func: func})
        except Refused:
            return
        parameters = [_typed(it) for it in captured.parameters]
        if any(it.annotation not in _TYPES for it in parameters):
            return
        call = _define(site, edit, captured.bodies, parameters, torch)
        drawn = found.line.with_changes(value=call)
        new = cst.SimpleStatementLine([drawn])
        if found.test is not None:
            bare = cst.SimpleStatementLine([found.line])
            choice = cst.If(
                found.test,
                cst.IndentedBlock([new]),
                cst.Else(cst.IndentedBlock([bare])),
                leading_lines=[*found.first.leading_lines, *found.second.leading_lines],
            )
            edit.replace(found.second, choice)
        else:
            lines = [*found.first.leading_lines, *found.second.leading_lines]
            edit.replace(found.second, found.second.with_changes(body=[drawn], leading_lines=lines))
        edit.remove(found.first)
        others = _draws_more(site)
        yield edit.rewrite(
            "give the stream its seed, and draw, in a custom operator",
            rank=35,
            safety=Safety.UNSAFE if others else Safety.SAFE,
            notes=(
                *([_OTHERS] if others else []),
                *([] if isinstance(found.seed, cst.Integer) else [_LARGE]),
                *operator_notes(site),
            ),
        )


def _draws_more(site: Site) -> bool:
    """Whether the project draws more than this where a class computes or a function is called by
    another one, or compiled.
    """
    if mentions(site, rf"{DRAWING}|\.exponential_\("):
        return True
    texts = {site.path: site.source, **site.sources}.values()
    bodies = [(it, ast.unparse(it)) for text in texts for it in _functions(tree_of(text))]
    inside = (ast.unparse(line) for it, _ in bodies for line in it.body)
    called = {word for text in inside for word in re.findall(r"\w+", text)}
    compiled = {word for text in texts for word in re.findall(r"compile\(\s*([\w.]+)", text)}
    called |= {name.rpartition(".")[2] for name in compiled}
    drawn = sum(
        len(_DRAWING.findall(body))
        for it, body in bodies
        if it.name not in _AT_FIRST and (it.name in called or it.decorator_list or _has_self(it))
    )
    return drawn > 1


#: Run before any region does.
_AT_FIRST = frozenset({"__init__", "reset_parameters", "init_weights", "_init_weights", "main"})


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _has_self(function: ast.FunctionDef) -> bool:
    return bool(function.args.args) and function.args.args[0].arg == "self"


#: What the operator takes of a call.
_TYPES = frozenset({"torch.Tensor", "int", "float", "bool", "list[int]"})


@dataclasses.dataclass(frozen=True)
class _Found:
    first: cst.SimpleStatementLine | cst.If
    second: cst.SimpleStatementLine
    line: cst.Assign
    draw: cst.Call
    seed: cst.BaseExpression
    test: cst.BaseExpression | None


def _found(site: Site) -> _Found | None:
    """The statement that gives the seed, alone or where there is one, and the draw below it."""
    first: cst.CSTNode = site.statement
    seed, test = _seed(site, first), None
    around = site.parent(site.parent(first) or first)
    if seed is not None and isinstance(around, cst.If) and around.orelse is None:
        if len(statements_of(around.body)) != 1:
            return None
        if code(around.test) != f"{code(seed)} is not None":
            return None
        first, test = around, around.test
    if seed is None or comments_in(seed) or not isinstance(first, cst.SimpleStatementLine | cst.If):
        return None
    block = list(site.block_of(first))
    below = block[block.index(first) + 1 :]
    match below[0] if below else None:
        case (
            cst.SimpleStatementLine(
                body=[
                    cst.Assign(
                        targets=[cst.AssignTarget(target=cst.Name())],
                        value=cst.Call(func=cst.Attribute()) as draw,
                    ) as line
                ]
            ) as second
        ) if _draws(site, draw):
            return _Found(first, second, line, draw, seed, test)
    return None


def _seed(site: Site, line: cst.CSTNode) -> cst.BaseExpression | None:
    """The number in ``torch.manual_seed(number)``."""
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Expr(
                    value=cst.Call(func=func, args=[cst.Arg(value=seed, keyword=None, star="")])
                )
            ]
        ) if resolve(site.module, func) in ("torch.manual_seed", "torch.random.manual_seed"):
            fact = site.fact(seed)
            number = isinstance(seed, cst.Integer) or (fact is not None and fact.kind == "int")
            return seed if number else None
    return None


def _draws(site: Site, call: cst.Call) -> bool:
    home, _, last = (resolve(site.module, call.func) or "").rpartition(".")
    keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    plain = not any(arg.star for arg in call.args) and not comments_in(call)
    return home == "torch" and last in _PLAIN and plain and keywords <= {"dtype", "device", "size"}


def _typed(parameter: Parameter) -> Parameter:
    """The parameter as a tensor without its gradient, or as a whole number."""
    if parameter.annotation == "torch.Tensor":
        bare = cst.parse_expression(f"{code(parameter.argument)}.detach()")
        return dataclasses.replace(parameter, argument=bare)
    if parameter.annotation.startswith("torch.types.Number") and parameter.fact.type == "int":
        return dataclasses.replace(parameter, annotation="int")
    return parameter


def _define(
    site: Site,
    edit: Edit,
    bodies: Sequence[cst.BaseExpression],
    parameters: Sequence[Parameter],
    torch: str,
) -> cst.Call:
    """Define the operator in the edit; its call."""
    assert site.function is not None
    operator = operator_name(site, f"draw_{site.function.name.value}")
    seed, drawn = bodies
    assert isinstance(drawn, cst.Call) and isinstance(drawn.func, cst.Attribute)
    made = drawn.with_changes(
        func=drawn.func.with_changes(attr=cst.Name(_PLAIN[drawn.func.attr.value]))
    )
    if not any(it.annotation == "torch.Tensor" for it in parameters):
        parameters = (anchor(torch, {it.name for it in parameters}), *parameters)
    names = ", ".join(it.name for it in parameters)
    text = f'''@{torch}.library.custom_op("{namespace(site)}::{operator}", mutates_args=())
def {operator}({signature(parameters, torch)}) -> {torch}.Tensor:
    {torch}.manual_seed(BODY0)
    return BODY1


{operator}.register_fake(lambda {names}: BODY2)
{operator}.register_effect({torch}.library.EffectType.ORDERED)
'''
    place(site, edit, define(site, text, [seed, drawn, made]))
    return cst.Call(cst.Name(operator), [cst.Arg(it.argument) for it in parameters])


__all__ = ["ReseededDraw"]

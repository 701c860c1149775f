"""Moving a call with an effect into an operator whose effects stay in order.

The operator takes what the call reads, returns nothing and is registered as
``EffectType.ORDERED``: measured on torch 2.13, its effect then happens as often as in eager under
the backends eager, aot_eager and inductor, also under training, beside other such operators and
beside the print operator.  (Without the registration, aot_autograd drops an operator whose result
nobody uses.)

The order is kept under eager and aot_eager, and mostly under inductor: torch 2.13 notes what an
operator must wait for by the name of a buffer and looks it up by that of an operation, so that the
pass for peak memory may exchange two of them.  It depends on the graph; the rung `inductor` sees
it, and rejects the patches that need the order.  What has a result can be given the one before
(`draws.anchor_for`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.build import with_leading_lines
from gbfix.analysis.names import fresh
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Edit, Rewrite, Site
from gbfix.schema import Fact

from ..wrap.capture import LOOSE_NUMBER, Parameter, Refused, capture, has_loose_number
from ..wrap.operator_text import (
    define,
    namespace,
    operator_name,
    signature,
    torch_alias,
)
from ..wrap.same_operator import place_or_share
from .effects import check_autocast, check_text

OPERATOR_NOTE = (
    "the call runs inside a custom operator, in its place among the other effects and as often as"
    " before; a log record or warning that it makes carries the operator's line"
)


#: Measured on torch 2.13: the dependencies that inductor notes between operators with effects are
#: looked up under other names, so that its last pass, which moves whatever may move, moves these.
ORDER_NOTE = (
    "torch 2.13's inductor may exchange effects of one graph where that saves memory and no value"
    " ties them; `torch._inductor.config.reorder_for_peak_memory = False` keeps them in order"
)


def operator_notes(site: Site) -> tuple[str, ...]:
    """What is said of an operator with an effect in the place of the site's statement."""
    several = any("register_effect(" in text for text in (site.source, *site.sources.values()))
    rounds = any(
        isinstance(outer, cst.For | cst.While)
        for outer in site.ancestors(site.statement)
        if site.function_of(outer) is site.function
    )
    return (OPERATOR_NOTE, ORDER_NOTE) if several or rounds else (OPERATOR_NOTE,)


WHY_ANCHOR = "# inductor may misplace an operator that takes no tensor: hence the anchor."
#: Annotations that tell inductor an operator's device.
TENSORS = ("torch.Tensor", "list[torch.Tensor]")


def with_anchor(call: str, signature: str, body: str) -> tuple[str, str, str]:
    """What `define_effect` makes of an example's call, signature and body (for the examples)."""
    kinds = [part.partition(": ")[2] for part in signature.split(", ") if part]
    if any(kind in TENSORS for kind in kinds):
        return call, signature, body
    comma = ", " if kinds else ""
    return (
        call.replace("(", f"(torch.empty(0){comma}", 1),
        f"anchor: torch.Tensor{comma}{signature}",
        f"{WHY_ANCHOR}\n{body}",
    )


def anchor(torch: str, taken: set[str]) -> Parameter:
    """A tensor that the operator does not read.

    torch 2.13's inductor writes out its pending kernels before an operator only if it knows the
    operator's device.  One that takes no tensor has none, and may come before what defines the
    values that are freed beside it (``UnboundLocalError`` in the generated code).
    """
    return Parameter(
        fresh("anchor", taken),
        "torch.Tensor",
        cst.parse_expression(f"{torch}.empty(0)"),
        Fact("tensor", "torch.Tensor"),
    )


NEXT = "\n    "


@dataclasses.dataclass
class Effect:
    """What moves: a statement's expressions, put into ``template`` as ``BODY0``, ``BODY1``, ...

    ``kept`` are nodes that stay although they could not be passed (callees, loggers), each with
    what stands for it in the operator.  ``texts`` are the expressions whose text is shown, each
    with whether ``format`` makes it.
    """

    verb: str
    expressions: Sequence[cst.BaseExpression]
    kept: dict[cst.CSTNode, cst.CSTNode]
    texts: Sequence[tuple[cst.BaseExpression, bool]]
    template: str = "BODY0"
    notes: tuple[str, ...] = ()
    extra: tuple[Parameter, ...] = ()
    imports: tuple[str, ...] = ()
    #: Whether a condition moves, too: the operator is then called where nothing may happen.
    decides: bool = False
    #: A condition that stays, and under which alone the operator is called.
    under: cst.BaseExpression | None = None
    #: Statements before it that move with it (`feeding.Feeding`).
    feeding: Sequence[cst.SimpleStatementLine] = ()
    #: Lines of the operator before the template.
    first: tuple[str, ...] = ()


def effect_operator(
    site: Site,
    old: cst.CSTNode,
    effect: Effect,
    *,
    after: Sequence[cst.BaseStatement] = (),
) -> Rewrite | Advice:
    """Rewrite ``old`` (a call, or a whole statement) to a call of an effectful operator.

    ``after`` are statements of the old one that follow the call now.  Where that would not be
    right, the answer is advice that says why.
    """
    edit = site.edit()
    try:
        call = define_effect(site, edit, effect)
    except Refused as reason:
        return Advice(f"the {effect.verb} cannot move into a custom operator: {reason}.")
    if isinstance(old, cst.BaseExpression):
        edit.replace(old, call)
    else:
        line = cst.SimpleStatementLine([cst.Expr(call)])
        above: list[cst.EmptyLine] = []
        for fed in effect.feeding:
            above += fed.leading_lines
            edit.remove(fed)
        if isinstance(old, cst.SimpleStatementLine):
            line = line.with_changes(trailing_whitespace=old.trailing_whitespace)
        if effect.under is None:
            edit.replace(old, _below(above, with_leading_lines(line, like=old)), *after)
        else:
            guard = cst.If(effect.under, cst.IndentedBlock([line]))
            edit.replace(old, with_leading_lines(guard, like=old))
    notes = (*operator_notes(site), *effect.notes)
    passed = [arg.value for arg in call.args if not _is_tensor_there(site, arg.value, effect)]
    if effect.decides and has_loose_number(site, passed):
        # Called where the original looked at a condition first, and with whatever a caller gives.
        notes = (
            *notes,
            LOOSE_NUMBER,
        )
    return edit.rewrite(
        f"move the {effect.verb} into an effectful custom operator",
        rank=50,
        notes=notes,
    )


def _below(
    above: Sequence[cst.EmptyLine], line: cst.SimpleStatementLine
) -> cst.SimpleStatementLine:
    return line.with_changes(leading_lines=[*above, *line.leading_lines])


def _is_there(node: cst.BaseExpression, under: cst.BaseExpression | None) -> bool:
    """Whether ``under`` says that the value is not None."""
    return under is not None and f"{code(node)} is not None" in code(under).split(" and ")


def _is_tensor_there(site: Site, node: cst.BaseExpression, effect: Effect) -> bool:
    """Whether what may be None elsewhere was a tensor where the operator is called."""
    for expression in effect.expressions:
        for part in walk(expression):
            if isinstance(part, cst.Name) and code(part) == code(node):
                fact = site.fact(part)
                return _is_there(node, effect.under) and fact is not None and fact.is_tensor
    return False


def given_under(parameter: Parameter, under: cst.BaseExpression | None) -> Parameter:
    """The parameter, which cannot be None where ``under`` says so."""
    if _is_there(parameter.argument, under):
        annotation = parameter.annotation.removesuffix(" | None")
        return dataclasses.replace(parameter, annotation=annotation)
    return parameter


def define_effect(site: Site, edit: Edit, effect: Effect) -> cst.Call:
    """Define the operator in the edit; the call that takes the effect's place.  May `Refuse`."""
    torch = torch_alias(site, edit)
    verb = effect.verb
    check_text(site, effect.texts)
    captured = capture(
        site,
        effect.expressions,
        torch,
        kept=effect.kept,
        conditional=len(effect.expressions) > 1,
    )
    check_autocast(captured)
    home = site.function.name.value if site.function is not None else "module"
    name = operator_name(site, f"{verb}_{home}")
    for module in effect.imports:
        edit.add_import(module)
    parameters = (*(given_under(p, effect.under) for p in captured.parameters), *effect.extra)
    comment = ""
    if not any(parameter.annotation in TENSORS for parameter in parameters):
        parameters = (anchor(torch, {parameter.name for parameter in parameters}), *parameters)
        comment = (
            "# inductor may misplace an operator that takes no tensor: hence the anchor.\n    "
        )
    names = ", ".join(parameter.name for parameter in parameters)
    text = f'''@{torch}.library.custom_op("{namespace(site)}::{name}", mutates_args=())
def {name}({signature(parameters, torch)}) -> None:
    {comment}{"".join(f"{line}{NEXT}" for line in effect.first)}{effect.template}


{name}.register_fake(lambda{" " + names if names else ""}: None)
{name}.register_effect({torch}.library.EffectType.ORDERED)
'''
    call = cst.Call(cst.Name(name), [cst.Arg(parameter.argument) for parameter in parameters])
    return place_or_share(site, edit, define(site, text, captured.bodies), call)

"""Which calls have an effect that the user sees, and when its text is the same inside an operator.

A tensor that requires a gradient prints its ``grad_fn`` in eager; inside an operator, behind
aot_autograd, it has none.  Such a text would change, so that it is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import dotted, resolve
from gbfix.analysis.tree import children, code, walk, words
from gbfix.codemod import Site
from gbfix.schema import Fact

from ..wrap.capture import Captured, Refused, tensors
from ..wrap.pure import AUTOCAST_METHODS
from .moving import texts_of_tensors

_FLOATS = ("torch.float", "torch.bfloat", "torch.complex", "torch.half", "torch.double")
_NO_GRAD = re.compile(r"\b(no_grad|inference_mode)\b")


def effect_statement(site: Site) -> cst.Call | None:
    """The call that is a whole statement and in which the site stands (or which is the site)."""
    chain = [site.node, *site.ancestors(site.node)]
    for node, parent in itertools.pairwise(chain):
        if isinstance(node, cst.Lambda | cst.FunctionDef | cst.BaseComp):
            return None
        if isinstance(parent, cst.Expr):
            return node if isinstance(node, cst.Call) else None
    return None


LOG_METHODS = words(
    "debug info warning warn error exception critical fatal log warning_once info_once"
)


def logger_of(site: Site, node: cst.CSTNode) -> str:
    """The text of what a log method is called on: a logger, or the module `logging`; else ""."""
    match node:
        case cst.Call(func=cst.Attribute(value=logger, attr=cst.Name(value=level))) if (
            level in LOG_METHODS
        ):
            fact = site.fact(logger)
            known = fact is not None and fact.type.startswith("logging.")
            name = resolve(site.module, node.func, at=node) or ""
            return code(logger) if known or name.startswith("logging.") else ""
    return ""


# -- text ------------------------------------------------------------------------------------


def check_text(site: Site, texts: Iterable[tuple[cst.BaseExpression, bool]]) -> None:
    """Raise `Refused` where a text that is made of tensors would differ without autograd.

    ``texts`` are expressions, each with whether its text is made by ``format`` (else by ``str``).
    """
    for text, by_format in texts:
        for node, formatted in rendered(text, by_format):
            fact = site.fact(node)
            if fact is None and isinstance(node, cst.Name):
                fact = _fact_of_name(site, node)
            if fact is None and isinstance(node, cst.Attribute):
                fact = _fact_in_test(site, node)
            if fact is None and formatted:
                fact = _inferred(site, node)
            if fact is None and not _is_plainly_scalar(node):
                raise Refused(f"the type of `{code(node)}` was not seen")
            if fact is None:
                continue
            if fact.kind == "str" and activity(node).reads & texts_of_tensors(site):
                raise Refused(f"`{code(node)}` is a text of tensors, which no graph hands over")
            if fact.kind == "str" and not _is_path(node):
                check_text(site, ((part, False) for part in _operands(node)))
            elif _shows_autograd(fact, formatted):
                raise Refused(
                    f"`{code(node)}` prints its `grad_fn` or its class, which compiled code has"
                    " lost; print `.detach()` or `.item()` of it instead"
                )


def _inferred(site: Site, node: cst.BaseExpression) -> Fact | None:
    """What the expression gives, where it never ran, if that is a tensor of no dimensions."""

    def known(part: cst.BaseExpression) -> Fact | None:
        fact = site.fact(part)
        if fact is None and isinstance(part, cst.Name):
            return _fact_of_name(site, part)
        return fact

    fact = infer(node, known)
    return fact if fact is not None and fact.is_tensor and fact.shape == () else None


def may_require_grad(site: Site, node: cst.BaseExpression, fact: Fact) -> bool:
    """Whether the tensor of another call may record how autograd came to it."""
    facts = [fact] if fact.is_tensor else list(fact.items or ())
    if not any((item.dtype or "torch.float").startswith(_FLOATS) for item in facts):
        return False
    if re.search(r"\.(detach\(\)|data)([.\[].*)?$", code(node)):
        return False
    for part in site.ancestors(site.statement):
        if isinstance(part, cst.With) and any(
            _NO_GRAD.search(code(item.item)) for item in part.items
        ):
            return False
        if isinstance(part, cst.FunctionDef) and any(
            _NO_GRAD.search(code(item)) for item in part.decorators
        ):
            return False
    return True


def _fact_of_name(site: Site, node: cst.Name) -> Fact | None:
    """What a name held before its statement, or before the break's where that one never ran."""
    for statement in (site.statement_of(node), site.statement):
        fact = site.locals_before(statement).get(node.value)
        if fact is not None:
            return fact
    return None


def _fact_in_test(site: Site, node: cst.Attribute) -> Fact | None:
    """What an attribute was in the test of the ``if`` around it, where the branch never ran."""
    text = dotted(node)
    kinds = cst.If | cst.Assert
    around = next((part for part in site.ancestors(node) if isinstance(part, kinds)), None)
    if text is None or around is None:
        return None
    for part in walk(around.test):
        if isinstance(part, cst.Attribute) and dotted(part) == text:
            return site.fact(part)
    return None


def _is_path(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Subscript):
        return _is_path(node.value)
    return dotted(node) is not None


def _operands(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute) and not _is_path(node.func):
            yield node.func.value
        yield from (argument.value for argument in node.args)
        return
    for child in children(node):
        if isinstance(child, cst.BaseExpression):
            yield child


def _shows_autograd(fact: Fact, formatted: bool) -> bool:
    if fact.is_tensor:
        if formatted and fact.shape == ():
            return False  # ``f"{loss}"`` formats ``loss.item()``
        return bool(fact.requires_grad) or fact.type.rpartition(".")[2] != "Tensor"
    if fact.kind in ("list", "tuple", "set", "dict"):
        if fact.items is None:
            return fact.kind != "dict" or fact.keys is None or bool(fact.keys)
        return any(_shows_autograd(item, False) for item in fact.items)
    if fact.kind in ("object", "iterator", "mixed"):
        return fact.type not in ("torch.dtype", "torch.device")
    return fact.kind in ("module", "ndarray")


_SCALAR_METHODS = words("item tolist size dim numel nelement element_size ndimension detach")
_SCALAR_FUNCTIONS = words("len int float bool")


def _is_plainly_scalar(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Attribute):
        return node.attr.value in ("shape", "dtype", "device", "ndim")
    if isinstance(node, cst.Subscript):
        return _is_plainly_scalar(node.value)
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            return node.func.attr.value in _SCALAR_METHODS
        if isinstance(node.func, cst.Name) and node.func.value in ("tuple", "list", "sorted"):
            return all(_is_plainly_scalar(argument.value) for argument in node.args)
        return isinstance(node.func, cst.Name) and node.func.value in _SCALAR_FUNCTIONS
    if isinstance(node, cst.BinaryOperation):
        return _is_plainly_scalar(node.left) and _is_plainly_scalar(node.right)
    return isinstance(node, cst.BaseNumber | cst.SimpleString | cst.ConcatenatedString)


def rendered(
    node: cst.BaseExpression, formatted: bool = False
) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """The expressions whose texts make up the text of an expression (see `check_text`)."""
    match node:
        case cst.SimpleString() | cst.BaseNumber() | cst.Name(value="True" | "False" | "None"):
            return
        case cst.FormattedString():
            yield from _rendered_f_string(node)
        case cst.IfExp():
            yield from rendered(node.body, formatted)
            yield from rendered(node.orelse, formatted)
        case cst.Call() if (by_format := _shows_arguments(node)) is not None:
            for argument in node.args:
                yield from rendered(argument.value, by_format)
        case _:
            parts = _shown_parts(node)
            if parts is None:
                yield node, formatted
            for part in parts or ():
                yield from rendered(part)


def _shows_arguments(node: cst.Call) -> bool | None:
    """Whether a call makes its text by the ``format`` of its arguments; None: not out of theirs."""
    match node.func:
        case cst.Attribute(value=template, attr=cst.Name(value="format" | "join" as method)):
            if _is_text(template):
                return method == "format" and "!" not in code(template)
        case cst.Name(value="str" | "repr" | "ascii"):
            return False
        case cst.Name(value="format"):
            return True
    return None


def _shown_parts(node: cst.BaseExpression) -> Sequence[cst.BaseExpression] | None:
    """The parts out of whose texts Python itself makes the text of an expression; else None."""
    match node:
        case cst.ConcatenatedString():
            return (node.left, node.right)
        case cst.BinaryOperation() if _is_text(node.left):
            return (node.left, node.right)
        case cst.Tuple() | cst.List() | cst.Set():
            return [element.value for element in node.elements]
        case cst.Dict():
            parts: list[cst.BaseExpression] = []
            for item in node.elements:
                parts += (
                    [item.value, item.key] if isinstance(item, cst.DictElement) else [item.value]
                )
            return parts
        case cst.ListComp() | cst.SetComp() | cst.GeneratorExp():
            return (node.elt,)
    return None


def _rendered_f_string(node: cst.FormattedString) -> Iterator[tuple[cst.BaseExpression, bool]]:
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            converted = part.conversion is not None or (
                part.equal is not None and part.format_spec is None
            )
            yield from rendered(part.expression, not converted)


def _is_text(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return _is_text(node.left)
    return isinstance(node, cst.SimpleString | cst.ConcatenatedString | cst.FormattedString)


def check_autocast(captured: Captured) -> None:
    """Raise `Refused` where autocast could change the precision of what the operator computes."""
    if not any(fact.dtype in ("torch.float16", "torch.bfloat16") for fact in tensors(captured)):
        return
    for node in (part for body in captured.bodies for part in walk(body)):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        if node.func.attr.value in AUTOCAST_METHODS:
            raise Refused(f"autocast may change `{code(node)}` in half precision")

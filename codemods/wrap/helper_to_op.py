"""A helper that works on numpy, or on the values of its tensors, as a custom operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.schema import Fact, Safety

from .capture import Parameter, Refused, is_plain_tensor, lone_helper, may_be_none, schema_type
from .custom_op import FOREIGN_NOTE, SIZE_NOTE
from .differentiable import Learning, differentiable
from .fake import result_annotation
from .function_to_op import decorated
from .helper_body import Body, examine
from .helper_cases import EXAMPLES, NEAR_MISSES
from .helper_fake import helper_fake
from .integer_helper import check_uses
from .operator_text import (
    annotation,
    define,
    namespace,
    register_fake,
    register_no_gradient,
    runs_beside_operator,
    signature,
    torch_alias,
)

_FLOATS = words("torch.float32 torch.float64 torch.float16 torch.bfloat16")
_WHOLE = words("torch.bool torch.uint8 torch.int8 torch.int16 torch.int32 torch.int64")


class HelperToOp(Codemod):
    """*What it does.*  Makes a helper function that must run as Python a custom operator.

    ```python
    @torch.library.custom_op("net::count", mutates_args=("counts",))
    def count(counts: torch.Tensor, index: torch.Tensor) -> None:
        np.add.at(counts.numpy(), index.numpy(), 1.0)


    count.register_fake(lambda counts, index: None)
    ```
    Arguments that the helper writes to are declared, results that may share memory with an argument
    are cloned, tensors that may be None are optional, and a size that the data decides becomes a
    symbol (``new_dynamic_size``).  A helper that is itself differentiable torch code keeps its
    gradient: the backward operator runs it again under ``torch.func.vjp``.  What goes through numpy
    has no gradient, and is declared so.

    *When it applies.*  The break is in an undecorated function at module level that a region calls,
    which ends in its only ``return`` (or has none), takes tensors, lists of tensors, numbers and
    strings, and only computes with torch, numpy and builtins.

    *Fix safety.*  Unsafe: sizes, dtypes and what may be None are told from the recorded run, and
    the operator holds later calls to it.

    *Refuses.*  Effects, random numbers, globals that are changed, parameters that are bound anew,
    changes of lists or of tensors that require a gradient, a differentiable helper that changes its
    arguments, methods, nested functions, the region itself.
    """

    name = "helper-to-op"
    codes = (
        "GB0290",
        "GB0294",
        "GB0033",
        "GB0036",
        "GB0124",
        "GB0007",
        "GB0008",
        "GB0170",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = lone_helper(site)
        if function is None or runs_beside_operator(site):
            return
        try:
            yield _rewrite(site, _helper(site, function))
        except Refused:
            return


@dataclasses.dataclass(frozen=True)
class _Helper:
    function: cst.FunctionDef
    parameters: list[Parameter]
    value: cst.BaseExpression | None
    result: Fact | None
    body: Body
    #: Names of parameters that gradients are asked of.
    learns: tuple[str, ...]

    @property
    def results(self) -> tuple[Fact, ...]:
        if self.result is None:
            return ()
        return (self.result,) if self.result.is_tensor else self.result.items or ()

    @property
    def is_differentiable(self) -> bool:
        return any(fact.requires_grad for fact in self.results)


def _helper(site: Site, function: cst.FunctionDef) -> _Helper:
    check_uses(site, function.name.value)
    value = returned_value(function)
    parameters = _parameters(site, function)
    objects = frozenset(p.name for p in parameters if "Tensor" in p.annotation)
    body = examine(site, function, objects)
    facts = {parameter.name: parameter.fact for parameter in parameters}
    if any(not facts[name].is_tensor or facts[name].requires_grad for name in body.changed):
        raise Refused("it changes a list, or a tensor that requires a gradient")
    result = None
    if value is not None:
        result = site.fact(value)
        if result is None and isinstance(value, cst.Name):
            result = site.locals_before(site.statement_of(value)).get(value.value)
        check_tensors(result)
    elif not body.changed:
        raise Refused("it does nothing")
    learns = tuple(p.name for p in parameters if p.fact.is_tensor and p.fact.dtype in _FLOATS)
    helper = _Helper(function, parameters, value, result, body, learns)
    asked = [p for p in parameters if requires_grad(p.fact)]
    if helper.is_differentiable:
        if body.changed or body.uses_numpy or body.foreign:
            raise Refused(
                "a gradient goes through code that is not torch code, or that changes arguments"
            )
        if not all(fact.dtype in _FLOATS for fact in helper.results):
            raise Refused("only some of its results can have a gradient")
        if any(not p.fact.is_tensor for p in asked):
            raise Refused("a list of tensors requires gradients")
    elif asked and not body.uses_numpy and not all(f.dtype in _WHOLE for f in helper.results):
        raise Refused("nothing shows why its result needs no gradient")
    return helper


def returned_value(function: cst.FunctionDef) -> cst.BaseExpression | None:
    """What the function's only ``return``, its last statement, gives; None if it has none."""
    returns = [node for node in walk(function.body) if isinstance(node, cst.Return)]
    if not returns:
        return None
    last = function.body.body[-1]
    if len(returns) != 1 or not isinstance(last, cst.SimpleStatementLine):
        raise Refused("it returns at several places")
    if last.body[-1] is not returns[0] or returns[0].value is None:
        raise Refused("it does not end with its return")
    return returns[0].value


def check_tensors(result: Fact | None) -> None:
    """Raise `Refused` unless it is a tensor, or a tuple of tensors."""
    if result is None:
        raise Refused("its result was not seen")
    items = [result] if result.is_tensor else list(result.items or ())
    if result.kind not in ("tensor", "tuple") or result.type not in ("tuple", "torch.Tensor"):
        raise Refused("its result is no tensor and no tuple of tensors")
    if not items or not all(item.is_tensor and is_plain_tensor(item) for item in items):
        raise Refused("its result is not made of tensors")


def requires_grad(fact: Fact) -> bool:
    """Whether a tensor, or one in a list, asks for a gradient."""
    return bool(fact.requires_grad) or any(bool(i.requires_grad) for i in fact.items or ())


def _parameters(site: Site, function: cst.FunctionDef) -> list[Parameter]:
    facts = site.locals_before(function.body.body[0] if _has_facts(site, function) else
                               site.statement_of(site.node))  # fmt: skip
    return schema_parameters(function, facts, _is_default, _is_optional_tensor)


def schema_parameters(
    function: cst.FunctionDef,
    facts: Mapping[str, Fact],
    is_default: Callable[[cst.BaseExpression], bool],
    is_optional_tensor: Callable[[cst.FunctionDef, cst.Param, Fact], bool],
) -> list[Parameter]:
    """The parameters with the types of an operator's schema; raises `Refused` where one has none.

    ``facts`` are what was handed in, ``is_default`` says which defaults a schema takes, and
    ``is_optional_tensor`` whether what may be None is a tensor otherwise.
    """
    if function.params.star_kwarg is not None or isinstance(function.params.star_arg, cst.Param):
        raise Refused("it takes any number of arguments")
    found = []
    for parameter in params_of(function.params):
        name = parameter.name.value
        fact = facts.get(name)
        if parameter.default is not None and not is_default(parameter.default):
            raise Refused(f"the default of `{name}` is none that an operator takes")
        if fact is None:
            raise Refused(f"`{name}` was not seen")
        if may_be_none(function, parameter.name):
            if not is_optional_tensor(function, parameter, fact):
                raise Refused(f"`{name}` may be None")
            found.append(Parameter(name, "torch.Tensor | None", parameter.name, fact))
            continue
        passed = schema_type(fact, may_be_symbolic=False)
        if passed is None or passed[1]:
            raise Refused(f"`{name}` cannot be passed to an operator")
        found.append(Parameter(name, passed[0], parameter.name, fact))
    return found


def _is_default(node: cst.BaseExpression) -> bool:
    plain = isinstance(node, cst.BaseNumber | cst.SimpleString)
    return plain or code(node) in ("None", "True", "False")


def _has_facts(site: Site, function: cst.FunctionDef) -> bool:
    first = function.body.body[0]
    return isinstance(first, cst.SimpleStatementLine | cst.BaseCompoundStatement) and bool(
        site.locals_before(first)
    )


def _is_optional_tensor(function: cst.FunctionDef, parameter: cst.Param, fact: Fact) -> bool:
    """Whether a parameter that may be None is a tensor otherwise: seen, annotated or used so."""
    if fact.is_tensor:
        return is_plain_tensor(fact) and not fact.requires_grad
    note = code(parameter.annotation.annotation) if parameter.annotation is not None else ""
    if note.replace(" ", "") in ("torch.Tensor|None", "Optional[torch.Tensor]", "Tensor|None"):
        return fact.kind in ("none", "mixed")
    used = any(
        isinstance(node, cst.Attribute)
        and isinstance(node.value, cst.Name)
        and node.value.value == parameter.name.value
        and node.attr.value in ("numpy", "detach")
        for node in walk(function.body)
    )
    return used and fact.kind in ("none", "mixed")


# -- the text --------------------------------------------------------------------------------------


def _rewrite(site: Site, helper: _Helper) -> Rewrite:
    function = helper.function
    name = function.name.value
    edit = site.edit()
    torch = torch_alias(site, edit)
    operator = f"{namespace(site)}::{name}"
    if any(operator in text for text in site.sources.values()):
        raise Refused("it is an operator already")
    fake = "None"
    if helper.value is not None:
        fake = helper_fake(site, function, helper.value, helper.results, helper.parameters, torch)
    notes = [
        f"`{name}` runs as Python; a compiled graph calls it, and is not cut by it",
        f"sizes, layouts and dtypes of results are told from the recorded run: `{fake}`",
    ]
    if "new_dynamic_size" in fake:
        notes.append(SIZE_NOTE)
    lines = register_fake(name, helper.parameters, fake, function)
    if helper.is_differentiable:
        if "new_dynamic_size" in fake:
            raise Refused("a gradient of a size that the data decides")
        notes.append("its backward runs it once more; a second derivative would raise")
        edit.replace(function, function.with_changes(name=cst.Name(f"{name}_in_python")))
        assert helper.result is not None
        if function.params.kwonly_params:
            raise Refused("a differentiable helper takes keyword-only arguments")
        returns = annotation(result_annotation(helper.result), torch)
        text = differentiable(
            signature(helper.parameters, torch, function),
            Learning(name, operator, helper.parameters, helper.learns, len(helper.results)),
            returns, lines, torch,
        )  # fmt: skip
    else:
        edit.replace(function, _operator(helper, operator, torch))
        text = lines + _no_gradient(helper)
        if helper.body.foreign:
            text += f"{name}.register_effect({torch}.library.EffectType.ORDERED)\n"
            notes.append(FOREIGN_NOTE)
    first, *rest = define(site, text)
    blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    edit.insert_after(function, first.with_changes(leading_lines=blank), *rest)
    below = site.module.body[site.module.body.index(function) + 1 :]
    if below:
        edit.insert_before(below[0])  # a diff may show the new lines right above it
    return edit.rewrite(
        f"make `{name}` a custom operator", rank=52, safety=Safety.UNSAFE, notes=notes
    )


def _operator(helper: _Helper, operator: str, torch: str) -> cst.FunctionDef:
    new = decorated(
        helper.function, helper.parameters, helper.result, operator, torch,
        sorted(helper.body.changed),
    )  # fmt: skip
    if helper.value is None or not helper.body.returned:
        return new
    # An operator may not give back its argument, or a view of it.
    parts = [helper.value]
    if isinstance(helper.value, cst.Tuple):
        parts = [element.value for element in helper.value.elements]
    if not all(isinstance(part, cst.Name | cst.Call | cst.Attribute | cst.Subscript)
               for part in parts):  # fmt: skip
        raise Refused("its result may share memory with an argument")
    cloned = {id(part): cst.Call(cst.Attribute(part, cst.Name("clone"))) for part in parts}

    class Clone(cst.CSTTransformer):
        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
            return cloned.get(id(original_node), updated_node)

    return new.with_changes(body=helper.function.body.visit(Clone()))


def _no_gradient(helper: _Helper) -> str:
    """What goes through numpy comes out without a gradient, whatever went in."""
    floats = [fact for fact in helper.results if fact.dtype in _FLOATS]
    if not floats or not any(requires_grad(p.fact) for p in helper.parameters):
        return ""
    return register_no_gradient(helper.function, several=len(helper.results) > 1)

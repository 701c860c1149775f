"""A helper that launches triton kernels, as an operator that a compiler can see into."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.schema import Fact, Safety

from .capture import Parameter, Refused, is_plain_tensor, lone_helper
from .function_to_op import decorated
from .helper_to_op import check_tensors, requires_grad, returned_value, schema_parameters
from .integer_helper import check_uses
from .operator_text import define, namespace, register_no_gradient, torch_alias
from .plain_python import is_constant
from .triton_cases import EXAMPLES, NEAR_MISSES
from .triton_helper import Launching, examine_launches, wrapped
from .triton_kernel import is_interpreted, kernel_of

_WRAP = "torch.library.wrap_triton"
#: What only a tensor has: shows what a parameter is that was None whenever it was seen.
_TENSOR_USES = ("stride", "shape", "contiguous", "dtype", "numel", "size", "view", "dim", "device")


class TritonOp(Codemod):
    """*What it does.*  Makes a helper that launches triton kernels a ``torch.library.triton_op``.

    ```python
    @torch.library.triton_op("net::add", mutates_args=())
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        with torch.cuda.device_of(x):
            wrap_triton(add_kernel)[grid](x, y, out, out.numel(), BLOCK=1024)
        return out
    ```
    The compiler still sees the kernels, which it does not with ``custom_op``.  Arguments that a
    kernel may write to are declared, as told from the kernel's own text; tensors that may be None
    are optional.  What kernels write has no gradient, whatever went in; the operator is registered
    to have none (torch would expect a formula, and raise without one).

    *When it applies.*  Most launches are traced as they are.  Where something around one is not (a
    grid that is a ``functools.partial`` or another object, ``torch.cuda.device_of``, a backend that
    Dynamo does not take for triton's), and that stands in an undecorated function at module level
    that a region calls, whose kernels are functions of the project under ``@triton.jit`` (and
    ``@triton.autotune``), and which only makes tensors, looks at sizes and computes with numbers
    beside its launches.

    *Fix safety.*  Unsafe: types are told from the recorded run, and whether a compiled kernel is
    right shows on its device only.

    *Refuses.*  Results that may be, or share memory with, an argument or one another; results with
    a gradient (``register_autograd`` is advised); arguments that are written to and ask for one;
    effects, values of tensors (``.item()``, ``data_ptr``), globals that may change; kernels that
    call what is not known, or go through pointers that they load; kernels of libraries,
    under ``@triton.heuristics`` alone, or launched by another name; methods, nested functions,
    ``*args``.
    """

    name = "triton-op"
    codes = (
        "GB0216",
        "GB0361",
        "GB0007",
        "GB0008",
        "GB0059",
        "GB0142",
        "GB0156",
        "GB0290",
        "GB0294",
    )
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = site.function
        if function is None or is_interpreted(site) or not _launches(site, function):
            return
        name = function.name.value
        if site.graph_break.code == "GB0361":
            yield Advice(
                f"no compiler takes apart what the launch in `{name}` asks for, neither as it is"
                " nor in a `torch.library.triton_op`. Leave it out (settings such as `num_ctas`"
                " belong in a `triton.Config`), or make the function a `torch.library.custom_op`,"
                " which no compiler looks into, with a fake and `mutates_args`."
            )
            return
        helper = lone_helper(site)
        if helper is None:
            return
        try:
            yield _rewrite(site, _helper(site, helper))
        except Refused as refused:
            yield Advice(f"`{name}` is not made a `torch.library.triton_op`: {refused}.")


def _launches(site: Site, function: cst.FunctionDef) -> bool:
    return any(
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Subscript)
        and kernel_of(site, node.func.value) is not None
        for node in walk(function.body)
    )


@dataclasses.dataclass(frozen=True)
class _Helper:
    function: cst.FunctionDef
    parameters: list[Parameter]
    result: Fact | None
    launching: Launching
    #: Whether it is registered to have no gradient: without that, torch would expect a formula.
    without_gradient: bool


def _helper(site: Site, function: cst.FunctionDef) -> _Helper:
    check_uses(site, function.name.value)
    value = returned_value(function)
    parameters = schema_parameters(
        function, _given(site, function), _is_default, _is_optional_tensor
    )
    objects = frozenset(p.name for p in parameters if "Tensor" in p.annotation)
    result, parts = None, []
    if value is not None:
        result = site.fact(value)
        if result is None and isinstance(value, cst.Name):
            result = site.locals_before(site.statement_of(value)).get(value.value)
        check_tensors(result)
        if result is not None and result.items is not None and len(result.items) == 1:
            raise Refused(
                "it returns a tuple of one tensor, which an operator would return as the tensor"
            )
        parts = [value]
        if isinstance(value, cst.Tuple):
            parts = [element.value for element in value.elements]
    launching = examine_launches(site, function, objects, parts)
    _check_aliases(parameters, result, launching)
    learns = any(requires_grad(parameter.fact) for parameter in parameters)
    facts = _tensors(result)
    if any(fact.requires_grad for fact in facts) or (learns and not launching.detached):
        raise Refused(
            "a gradient goes through it; write its backward, and register both by hand"
            " (`torch.library.triton_op`, `register_autograd`)"
        )
    if learns and facts and launching.changed:
        raise Refused("it changes an argument, and another requires a gradient")
    # Torch takes no formula for an operator that changes arguments.
    plain = bool(facts) and launching.detached and not launching.changed
    given = [fact for parameter in parameters for fact in _tensors(parameter.fact)]
    learns = any(_may_learn(fact) for fact in given) and any(map(_may_learn, facts))
    return _Helper(function, parameters, result, launching, plain and learns)


def _may_learn(fact: Fact) -> bool:
    return (fact.dtype or "").startswith(("torch.float", "torch.bfloat", "torch.complex"))


def _check_aliases(parameters: list[Parameter], result: Fact | None, launching: Launching) -> None:
    facts = {parameter.name: parameter.fact for parameter in parameters}
    if launching.returned:
        raise Refused(f"its result may share memory with `{min(launching.returned)}`")
    if launching.twice:
        raise Refused("its results may share memory, or are not made in it")
    given = [fact.storage for p in parameters for fact in _tensors(p.fact) if fact.storage]
    made = [fact.storage for fact in _tensors(result) if fact.storage]
    if set(made) & set(given) or len(set(made)) != len(made):
        raise Refused("its results shared memory in the recorded run")
    for name in launching.changed:
        fact = facts[name]
        if fact.kind not in ("tensor", "none", "mixed"):
            raise Refused(f"it changes what the list `{name}` holds")
        if fact.requires_grad:
            raise Refused(f"it changes `{name}`, which requires a gradient")
        if fact.storage and given.count(fact.storage) > 1:
            raise Refused(f"it changes `{name}`, which shares memory with another argument")
    if result is None and not launching.changed:
        raise Refused("it does nothing")


def _tensors(fact: Fact | None) -> list[Fact]:
    if fact is None:
        return []
    return [fact] if fact.is_tensor else [item for item in fact.items or () if item.is_tensor]


def _is_default(node: cst.BaseExpression) -> bool:
    return is_constant(node) and not isinstance(node, cst.Tuple)


def _given(site: Site, function: cst.FunctionDef) -> dict[str, Fact]:
    """Facts of the parameters as they are handed in: before the first statement that ran."""
    names = frozenset(function_scope(function).parameters)
    for statement in function.body.body:
        facts = site.locals_before(statement)
        if facts:
            return dict(facts)
        if activity(statement).bound & names:
            break
    raise Refused("its arguments were not seen")


def _is_optional_tensor(function: cst.FunctionDef, parameter: cst.Param, fact: Fact) -> bool:
    """Whether a parameter that may be None is a tensor otherwise: seen, annotated or used so."""
    if fact.is_tensor:
        return is_plain_tensor(fact)
    if fact.kind not in ("none", "mixed"):
        return False
    note = code(parameter.annotation.annotation) if parameter.annotation is not None else ""
    if note:
        return "Tensor" in note and note.replace(" ", "").replace("torch.", "") in (
            "Tensor|None",
            "None|Tensor",
            "Optional[Tensor]",
            "typing.Optional[Tensor]",
        )
    return any(
        isinstance(node, cst.Attribute)
        and code(node.value) == parameter.name.value
        and node.attr.value in _TENSOR_USES
        for node in walk(function.body)
    )


# -- the text --------------------------------------------------------------------------------------


def _rewrite(site: Site, helper: _Helper) -> Rewrite:
    function, launching = helper.function, helper.launching
    name = function.name.value
    operator = f"{namespace(site)}::{name}"
    if any(operator in text for text in site.sources.values()):
        raise Refused("it is an operator already")
    edit = site.edit()
    torch = torch_alias(site, edit)
    if _lacks_wrap(site, function):
        edit.add_import("torch.library", "wrap_triton")
    new = decorated(
        wrapped(function, launching.launches), helper.parameters, helper.result, operator, torch,
        sorted(launching.changed), kind="triton_op",
    )  # fmt: skip
    edit.replace(function, new)
    notes = [
        f"whether the kernels of `{name}` are right where they are compiled was shown only if they"
        " ran on their device, under inductor",
        "its Python runs while compiling, and not for each call",
    ]
    if helper.without_gradient and helper.result is not None:
        first, *rest = define(
            site, register_no_gradient(function, several=not helper.result.is_tensor)
        )
        blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
        edit.insert_after(function, first.with_changes(leading_lines=blank), *rest)
        notes.append(f"results of `{name}` have no gradient, as they had none")
    elif helper.result is not None and any(map(_may_learn, _tensors(helper.result))):
        notes.append("a backward pass through the operator would raise: it has no formula")
    if launching.changed:
        listed = " and ".join(f"`{each}`" for each in sorted(launching.changed))
        notes.append(f"its kernels may write to {listed}")
    below = site.module.body[site.module.body.index(function) + 1 :]
    if below:
        edit.insert_before(below[0])  # a diff may show the new lines right above it
    return edit.rewrite(f"make `{name}` a triton_op", rank=45, safety=Safety.UNSAFE, notes=notes)


def _lacks_wrap(site: Site, function: cst.FunctionDef) -> bool:
    """Whether ``wrap_triton`` is still to be imported; raises `Refused` if it is something else."""
    bound = module_bindings(site.module).get("wrap_triton", ())
    taken = "wrap_triton" in function_scope(function).locals
    at = function.body.body[0]
    if bound and resolve(site.module, cst.Name("wrap_triton"), at=at) != _WRAP:
        taken = True
    if taken:
        raise Refused("`wrap_triton` is a name of its own there")
    return not bound

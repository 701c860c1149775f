"""A helper of the project that hands memory to foreign code, as a custom operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety

from .capture import (
    Parameter,
    Refused,
    is_global_object,
    lone_helper,
    may_be_none,
    schema_type,
)
from .custom_op import FOREIGN_NOTE, check_layout, check_result
from .fake import Fake, fakes, result_annotation
from .operator_text import annotation, define, namespace, register_fake, torch_alias
from .pure import is_pure_function, is_pure_method, is_tensor_state

#: What a helper does to its own new tensors on the way to foreign code.
_MEMORY = words(
    "data_ptr contiguous numel size dim stride new_empty new_zeros new_ones numpy detach"
)
_TORCH = words(
    """torch.empty torch.empty_like torch.zeros torch.zeros_like torch.ones torch.ones_like
    torch.full torch.full_like torch.from_numpy torch.as_tensor torch.tensor"""
)
_FORBIDDEN = (
    cst.Global,
    cst.Nonlocal,
    cst.Yield,
    cst.Await,
    cst.Lambda,
    cst.FunctionDef,
    cst.ClassDef,
    cst.With,
    cst.Del,
)

_HEAD = """import ctypes
import torch

lib = ctypes.CDLL("libkernel.so")


"""


def _source(body: str, head: str = "def square(x):") -> str:
    return _HEAD + f"{head}\n    out = torch.empty_like(x)\n    {body}\n    return out\n"


_CALL = "lib.square(x.data_ptr(), out.data_ptr(), x.numel())"
_FACTS = {"x": tensor(3), "out": tensor(3)}


def _near_miss(body: str, why: str, facts: dict[str, Fact] | None = None, **how: str) -> NearMiss:
    source = _source(f"{_CALL}\n    {body}" if body else _CALL, **how)
    return NearMiss(source, at=_CALL, why=why, facts=_FACTS | (facts or {}))


class FunctionToOp(Codemod):
    """*What it does.*  Makes a helper function of the module a ``torch.library.custom_op``.

    ```python
    @torch.library.custom_op("kernels::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        lib.square(x.data_ptr(), out.data_ptr(), x.numel())
        return out


    square.register_fake(lambda x: torch.empty_like(x))
    square.register_effect(torch.library.EffectType.ORDERED)
    ```

    *When it applies.*  The break is a call into foreign code (ctypes, a C extension) in an
    undecorated function at module level that a region calls; the function takes what an operator
    takes and returns, at its end, one new tensor or a flat tuple of them without gradients.

    *Fix safety.*  Unsafe: nobody can see here whether the foreign code writes to its arguments,
    which the operator promises that it does not.  Ordered effects keep every call, in order.

    *Refuses.*  Arguments that require a gradient, methods, nested functions, several returns,
    results that are arguments, changes of arguments or globals that can be seen, the region itself.
    """

    name = "function-to-custom-op"
    codes = ("GB0156", "GB0007", "GB0059")
    examples = (
        Example(
            _source(_CALL),
            _source(
                _CALL,
                '@torch.library.custom_op("example::square", mutates_args=())\n'
                "def square(x: torch.Tensor) -> torch.Tensor:",
            )
            + "\n\nsquare.register_fake(lambda x: torch.empty_like(x))\n"
            "square.register_effect(torch.library.EffectType.ORDERED)\n",
            at=_CALL,
            facts=_FACTS,
            title="a kernel that is handed pointers",
        ),
    )
    near_misses = (
        _near_miss("", "a gradient is lost", {"x": tensor(3, requires_grad=True)}),
        _near_miss("", "a result with a gradient", {"out": tensor(3, requires_grad=True)}),
        _near_miss("", "an object goes in", {"x": Fact("object", "Box")}),
        _near_miss("x.add_(1)", "changes its argument"),
        _near_miss("print(x)", "does more than compute"),
        _near_miss("if x.numel(): return x", "returns twice"),
        _near_miss("out = x", "returns its argument", {"out": tensor(3)}),
        _near_miss("", "decorated", head="@torch.no_grad()\ndef square(x):"),
        _near_miss("", "a default that is no constant", head="def square(x=[]):"),
        _near_miss("", "the region itself", head="def f(x):"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = lone_helper(site)
        if function is None:
            return
        name = function.name.value
        try:
            result = _check(site, function)
            parameters = parameters_to_pass(site, function)
        except Refused:
            return
        edit = site.edit()
        torch = torch_alias(site, edit)
        fake = next(fakes(result, parameters, torch), None)
        if fake is None:
            return
        operator = f"{namespace(site)}::{name}"
        if any(operator in text for text in site.sources.values()):
            return
        edit.replace(function, decorated(function, parameters, result, operator, torch))
        edit.insert_after(function, *_registrations(site, function, parameters, fake, torch))
        yield edit.rewrite(
            f"make `{name}` a custom operator",
            rank=51,
            safety=Safety.UNSAFE,
            notes=(
                FOREIGN_NOTE,
                "a backward pass through the operator would raise: it has no formula",
            ),
        )


def _check(site: Site, function: cst.FunctionDef) -> Fact:
    """The fact of the function's result; raises `Refused` unless it can be an operator."""
    scope = function_scope(function)
    inside = activity(function.body)
    if inside.mutates & frozenset(scope.parameters) or inside.dynamic or inside.global_writes:
        raise Refused("it changes an argument, or a global")
    if inside.writes & frozenset(scope.parameters):
        raise Refused("it binds a parameter again")
    if len(module_bindings(site.module).get(function.name.value, ())) != 1:
        raise Refused("its name is bound again")
    returns: list[cst.Return] = []
    for node in walk(function.body):
        if isinstance(node, _FORBIDDEN):
            raise Refused(f"it holds `{code(node)[:30]}`")
        if isinstance(node, cst.Return):
            returns.append(node)
        elif isinstance(node, cst.Call):
            _check_call(site, node)
        elif isinstance(node, cst.Assign):
            _check_new(site, node.value, scope.parameters)
    last = function.body.body[-1]
    if len(returns) != 1 or not isinstance(last, cst.SimpleStatementLine):
        raise Refused("it returns at several places")
    value = returns[0].value
    if returns[0] is not last.body[-1] or not isinstance(value, cst.Name | cst.Tuple | cst.Call):
        raise Refused("it does not end with one return")
    if isinstance(value, cst.Name) and value.value in scope.parameters:
        raise Refused("it returns an argument")
    fact = site.fact(value)
    if fact is None and isinstance(value, cst.Name):
        fact = site.locals_before(last).get(value.value)
    if fact is None:
        raise Refused("its result was not seen")
    check_result(fact)
    check_layout(fact)
    return fact


def _check_call(site: Site, node: cst.Call) -> None:
    name = resolve(site.module, node.func)
    last = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if name is not None and (is_pure_function(name) or name in _TORCH):
        return
    if name is not None and name.startswith(("ctypes.", "numpy.")) and ".random" not in name:
        return
    root: cst.BaseExpression = node.func
    while isinstance(root, cst.Attribute):
        root = root.value
    if name is None and is_global_object(site, root):
        return  # the foreign code itself
    if name is None and (last in _MEMORY or is_pure_method(last) or is_tensor_state(last)):
        return
    raise Refused(f"`{code(node)}` does more than compute")


def _check_new(site: Site, value: cst.BaseExpression, parameters: tuple[str, ...]) -> None:
    """A local must not be another name of an argument: it could be written to, or returned."""
    while isinstance(value, cst.Attribute | cst.Subscript):
        value = value.value
    if isinstance(value, cst.Name) and value.value in parameters:
        raise Refused(f"`{value.value}` gets another name")


def parameters_to_pass(site: Site, function: cst.FunctionDef) -> list[Parameter]:
    facts = site.locals_before(site.statement_of(site.node))
    found: list[Parameter] = []
    if function.params.star_kwarg is not None or isinstance(function.params.star_arg, cst.Param):
        raise Refused("it takes any number of arguments")
    for parameter in params_of(function.params):
        name = parameter.name.value
        fact = facts.get(name)
        if parameter.default is not None and not isinstance(
            parameter.default, cst.BaseNumber | cst.SimpleString
        ):
            raise Refused("a default is no constant")
        passed = schema_type(fact, may_be_symbolic=False)
        if may_be_none(function, parameter.name):
            raise Refused(f"`{name}` may be None")
        if fact is None or passed is None or passed[1] or fact.requires_grad:
            raise Refused(f"`{name}` cannot be passed to an operator")
        found.append(Parameter(name, passed[0], parameter.name, fact))
    return found


def decorated(
    function: cst.FunctionDef,
    parameters: list[Parameter],
    result: Fact | None,
    operator: str,
    torch: str,
    changed: Sequence[str] = (),
    kind: str = "custom_op",
) -> cst.FunctionDef:
    """The function as an operator: decorated, with types of its parameters and its result."""
    types = {p.name: annotation(p.annotation, torch) for p in parameters}

    class Annotate(cst.CSTTransformer):
        def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
            kind = cst.Annotation(cst.parse_expression(types[original_node.name.value]))
            if updated_node.default is None:
                return updated_node.with_changes(annotation=kind)
            equal = cst.AssignEqual(cst.SimpleWhitespace(" "), cst.SimpleWhitespace(" "))
            return updated_node.with_changes(annotation=kind, equal=equal)

    listed = ", ".join(f'"{name}"' for name in changed)
    writes = f"({listed},)" if len(changed) == 1 else f"({listed})"
    call = cst.parse_expression(f'{torch}.library.{kind}("{operator}", mutates_args={writes})')
    returns = "None" if result is None else annotation(result_annotation(result), torch)
    return function.with_changes(
        decorators=[cst.Decorator(call)],
        params=function.params.visit(Annotate()),
        returns=cst.Annotation(cst.parse_expression(returns)),
    )


def _registrations(
    site: Site, function: cst.FunctionDef, parameters: list[Parameter], fake: Fake, torch: str
) -> list[cst.BaseStatement]:
    name = function.name.value
    text = register_fake(name, parameters, fake.text, function)
    text += f"{name}.register_effect({torch}.library.EffectType.ORDERED)\n"
    first, *rest = define(site, text)
    blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    return [first.with_changes(leading_lines=blank), *rest]

"""An untraceable call as a custom operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from gbfix.analysis.build import call as build_call
from gbfix.analysis.scopes import dotted, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .capture import Captured, Parameter, Refused, capture, is_global_object, tensors
from .fake import Fake, fakes, is_contiguous, result_annotation
from .numpy_results import dense_arguments, known_fake, selecting_fake
from .operator_text import (
    annotation,
    define,
    namespace,
    operator_name,
    place,
    register_fake,
    signature,
    torch_alias,
)
from .pure import is_pure_function, is_pure_method
from .triton_kernel import triton_advice

#: Packages whose functions neither keep state nor change their arguments (with few exceptions).
_PURE_PACKAGES = ("numpy.", "scipy.", "math.", "sklearn.metrics.", "skimage.", "cv2.")
_IMPURE = words(
    """random seed shuffle rand randn randint choice permutation normal uniform default_rng save
    savez savetxt load tofile put place copyto putmask fill_diagonal sort_ imwrite imshow input
    open exec eval print getattr setattr iter next"""
)
#: Modules whose functions answer otherwise each time, or break by design: not for this codemod.
_OTHER_MODULES = (
    "torch.",
    "builtins.",
    "time.",
    "datetime.",
    "random.",
    "numpy.random.",
    "secrets.",
    "uuid.",
    "os.",
    "sys.",
    "logging.",
    "warnings.",
    "copy.",
    "inspect.",
    "gc.",
    "threading.",
)
FOREIGN_NOTE = (
    "check that the foreign code does not write to its arguments: nothing here can see it"
)
SIZE_NOTE = (
    "a size of the result is known at run time only: compiled code takes it to be neither 0 nor 1,"
    " and may fail where it is"
)
_TORCH_BRIDGES = words("torch.from_numpy torch.as_tensor torch.tensor")


_X = replace(tensor(3, 4), storage=1)
_HEAD = """import numpy as np
import torch

import build

ext = build.load("ext")


def helper(x):
    return x
"""


def _source(call: str) -> str:
    return f"""

def f(x, n, self):
    y = {call}
    return y + 1
"""


def _example(
    title: str,
    before: str,
    after: str,
    name: str,
    parameters: str,
    returns: str,
    fake: str,
    facts: dict[str, Fact],
    *,
    effect: bool = True,
    body: str = "",
) -> Example:
    names = ", ".join(part.partition(":")[0] for part in parameters.split(", "))
    register = f"\n{name}.register_effect(torch.library.EffectType.ORDERED)" if effect else ""
    fake = f"lambda {names}: {fake}"
    if len(fake) > 80:
        fake = f"\n    {fake}\n"
    operator = f"""

@torch.library.custom_op("example::{name}", mutates_args=())
def {name}({parameters}) -> {returns}:
    return {body or before}


{name}.register_fake({fake}){register}
"""
    return Example(
        _HEAD + _source(before),
        _HEAD + operator + _source(after),
        at=before,
        facts={"x": replace(_X, storage=7), "n": scalar(3), **facts},
        title=title,
    )


def _near_miss(call: str, why: str, result: Fact | None) -> NearMiss:
    facts = {"x": replace(_X, storage=7), "n": scalar(3)}
    if result is not None:
        facts[call] = result
    return NearMiss(_HEAD + _source(call), at=call, why=why, facts=facts)


class WrapInCustomOp(Codemod):
    """*What it does.*  Makes an untraceable call an operator that the compiler does not look into.

    ```python
    y = ext.square(x)
    ```
    becomes
    ```python
    @torch.library.custom_op("net::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return ext.square(x)


    square.register_fake(lambda x: torch.empty_like(x))
    ```
    and ``y = square(x)``.

    *When it applies.*  The callee is a function of an imported module or of a global object (a C
    extension, numpy, scipy), and what comes out is a tensor or a flat tuple of tensors that does
    not require a gradient and shares no memory with what goes in.

    *Fix safety.*  Safe for functions of numpy whose result is known for all arguments
    (``np.unwrap``, ``np.digitize``, ``np.isin``).  Else unsafe: a compiler believes the sizes and
    the dtype that the recorded run showed, or sizes are known at run time only
    (``np.setdiff1d``).  A callee that is not known to be pure is registered with ordered effects,
    so that no call of it is dropped, merged or moved.

    *Refuses.*  Launches of triton kernels (``torch.library.triton_op`` is for them, and advised);
    results that require a gradient (the operator would have no formula), that alias an
    argument, or are no tensors; arguments that cannot be passed; random numbers, clocks and files;
    in-place functions.
    """

    name = "wrap-in-custom-op"
    codes = ("GB0007", "GB0008", "GB0059", "GB0156", "GB0294", "GB0124", "GB0109")

    examples = (
        _example(
            "a function of an extension",
            "ext.square(x)",
            "square_op(x)",
            "square_op",
            "x: torch.Tensor",
            "torch.Tensor",
            "torch.empty_like(x)",
            {"ext.square(x)": _X},
        ),
        _example(
            "a pure function of numpy, reduced",
            "torch.from_numpy(np.unwrap(x.detach().numpy(), n)[0])",
            "unwrap_op(x.detach(), n)",
            "unwrap_op",
            "x: torch.Tensor, n: torch.types.Number",
            "torch.Tensor",
            "x.new_empty((x.shape[1],), dtype=torch.float64)",
            {
                "x": tensor(3, 4, requires_grad=True),
                "torch.from_numpy(np.unwrap(x.detach().numpy(), n)[0])": tensor(
                    4, dtype="torch.float64"
                ),
            },
            effect=False,
        ),
        _example(
            "a function of numpy whose result is known for all arguments",
            "torch.from_numpy(np.unwrap(x.numpy(), axis=0))",
            "unwrap_op(x)",
            "unwrap_op",
            "x: torch.Tensor",
            "torch.Tensor",
            "torch.empty_like(x, dtype=x.dtype if x.is_floating_point() else torch.float64)",
            {"torch.from_numpy(np.unwrap(x.numpy(), axis=0))": _X},
            effect=False,
            body="torch.from_numpy(np.unwrap(x.clone().numpy(), axis=0))",
        ),
        _example(
            "a size that the data decides",
            "torch.from_numpy(np.setdiff1d(x.numpy(), x.numpy()))",
            "setdiff1d_op(x)",
            "setdiff1d_op",
            "x: torch.Tensor",
            "torch.Tensor",
            "x.new_empty((torch.library.get_ctx().new_dynamic_size(),))",
            {"torch.from_numpy(np.setdiff1d(x.numpy(), x.numpy()))": tensor(3)},
            effect=False,
        ),
        _example(
            "several results",
            "ext.split(x, 2.5)",
            "split_op(x)",
            "split_op",
            "x: torch.Tensor",
            "tuple[torch.Tensor, torch.Tensor]",
            "(torch.empty_like(x), x.new_empty(()))",
            {"ext.split(x, 2.5)": Fact("tuple", "tuple", items=(_X, tensor()))},
        ),
    )
    near_misses = (
        _near_miss("ext.square(x)", "requires a gradient", tensor(3, 4, requires_grad=True)),
        _near_miss("ext.square(x)", "a subclass", Fact("tensor", "Own", shape=(3, 4))),
        _near_miss("ext.square(x)", "not contiguous", replace(_X, strides=(1, 3))),
        _near_miss("ext.square(x)", "shares memory", replace(_X, storage=7)),
        _near_miss("ext.square(x)", "a number", scalar(2.0)),
        _near_miss("ext.square(x)", "of unknown type", None),
        _near_miss("ext.square_(x)", "in place", _X),
        _near_miss("ext.square(x, out=x)", "in place", _X),
        _near_miss("np.unwrap(x, overwrite_a=True)", "in place", _X),
        _near_miss("ext.square(self)", "an object", _X),
        _near_miss("n(x)", "a callee that is passed in", _X),
        _near_miss("self.ext.square(x)", "a callee of an object", _X),
        _near_miss("np.random.permutation(x)", "random", _X),
        _near_miss("torch.load(n)", "torch's own", _X),
        _near_miss("np.fromfile(open(n))", "reads a file", _X),
        _near_miss("helper(x)", "the project's own", _X),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None:
            return
        kernels = list(triton_advice(site))
        if kernels:
            yield from kernels
            return
        reason = ""
        for node in _candidates(site):
            try:
                yield from _wrap(site, node)
                return
            except Refused as refused:
                reason = reason or str(refused)
        if reason:
            yield Advice(f"the call cannot be wrapped in a custom operator: {reason}.")


def _candidates(site: Site) -> Iterator[cst.Call]:
    """The calls around the site whose result is made of tensors, innermost first."""
    for node in (site.node, *site.ancestors(site.node)):
        if isinstance(node, cst.BaseStatement | cst.Lambda | cst.BaseComp):
            return
        if isinstance(node, cst.Call):
            fact = site.fact(node)
            if fact is not None and (fact.is_tensor or fact.kind in ("tuple", "list")):
                yield node


def _wrap(site: Site, node: cst.Call) -> Iterator[Rewrite]:
    result = site.fact(node)
    assert result is not None
    check_result(result)
    kept, is_pure = _callees(site, node)
    if not kept:
        raise Refused(f"nothing in `{code(node)}` is known to be a call that Dynamo cannot trace")
    edit = site.edit()
    torch = torch_alias(site, edit)
    captured = capture(site, [node], torch, kept=kept)
    _check_aliases(result, captured)
    name = operator_name(site, _name(node, kept))
    known = known_fake(site, node, captured.parameters, torch)
    if known is None:
        check_layout(result)
    fake = (
        known
        or selecting_fake(site, node, result, captured.parameters, torch)
        or next(fakes(result, captured.parameters, torch), None)
    )
    if fake is None:
        raise Refused("the shape of its result could not be told from its arguments")
    if fake.dense:
        captured = replace(captured, bodies=tuple(map(dense_arguments, captured.bodies)))
    place(site, edit, _definition(site, name, captured, result, fake, torch, is_pure))
    edit.replace(node, build_call(name, *map(_argument, captured.parameters)))
    notes = ["the compiler does not look into the operator; a backward pass through it would raise"]
    if not is_pure:
        notes.append(FOREIGN_NOTE)
    if "new_dynamic_size" in fake.text:
        notes.append(SIZE_NOTE)
    elif known is None:
        notes.append(
            f"size and dtype of the result are guesses from the recorded run: `{fake.text}`"
        )
    yield edit.rewrite(
        f"wrap `{dotted(node.func) or name}` in a custom operator",
        rank=50,
        notes=notes,
        safety=Safety.SAFE if known is not None and is_pure else Safety.UNSAFE,
    )


def check_result(result: Fact) -> None:
    """Raise `Refused` unless an operator can return such a result."""
    items = [result] if result.is_tensor else list(result.items or ())
    if not items or not all(item.is_tensor for item in items):
        raise Refused("its result is not made of tensors")
    for item in items:
        if item.requires_grad:
            raise Refused(
                "its result requires a gradient, for which an operator needs a formula"
                " (`register_autograd`)"
            )
        if item.type.rpartition(".")[2] != "Tensor":
            raise Refused("its result is of a tensor subclass")


def check_layout(result: Fact) -> None:
    """Raise `Refused` unless what was seen of a result is contiguous, as guessed fakes are."""
    if not all(is_contiguous(item) for item in (result, *(result.items or ()))):
        raise Refused("its result is not contiguous")


def _check_aliases(result: Fact, captured: Captured) -> None:
    inside = {fact.storage for fact in tensors(captured) if fact.storage}
    for item in (result, *(result.items or ())):
        if item.storage and item.storage in inside:
            raise Refused("its result shares memory with an argument; clone it first")


def _callees(site: Site, node: cst.Call) -> tuple[dict[cst.CSTNode, cst.CSTNode], bool]:
    """The opaque functions called in the expression, and whether all are known to be pure."""
    kept: dict[cst.CSTNode, cst.CSTNode] = {}
    is_pure = True
    for part in walk(node):
        if not isinstance(part, cst.Call):
            continue
        name = resolve(site.module, part.func)
        if name is not None and (is_pure_function(name) or name in _TORCH_BRIDGES):
            kept |= {part.func: part.func} if name in _TORCH_BRIDGES else {}
            continue
        if name is None and not _is_opaque_method(site, part.func):
            last = part.func.attr.value if isinstance(part.func, cst.Attribute) else ""
            if not is_pure_method(last):
                raise Refused(
                    f"`{code(part.func)}` is not a function whose name always means the same"
                )
            continue
        last = (dotted(part.func) or "").rpartition(".")[2]
        if name is not None and name.startswith(_OTHER_MODULES):
            raise Refused(f"`{name}` is not for a custom operator")
        if last in _IMPURE or last.endswith("_") or "inplace" in last:
            raise Refused(f"`{last}` draws numbers, changes its argument or does input and output")
        keywords = [arg.keyword.value for arg in part.args if arg.keyword is not None]
        if any(word == "out" or word.startswith("overwrite") for word in keywords):
            raise Refused("it writes to its arguments")
        kept[part.func] = part.func
        is_pure = is_pure and name is not None and name.startswith(_PURE_PACKAGES)
    opaque = [func for func in kept if resolve(site.module, func) not in _TORCH_BRIDGES]
    return (kept if opaque else {}), is_pure


def _is_opaque_method(site: Site, func: cst.BaseExpression) -> bool:
    """``extension.square`` where the module binds ``extension`` once."""
    while isinstance(func, cst.Attribute):
        func = func.value
    return is_global_object(site, func)


def _name(node: cst.Call, kept: dict[cst.CSTNode, cst.CSTNode]) -> str:
    for func in kept:
        last = (dotted(func) or "").rpartition(".")[2]
        if last not in ("from_numpy", "as_tensor", "tensor"):
            return f"{last}_op"
    return "wrapped"


def _argument(parameter: Parameter) -> cst.BaseExpression:
    """A tensor that requires a gradient goes in detached, since the result has none either."""
    if parameter.fact.is_tensor and parameter.fact.requires_grad:
        return build_call(cst.Attribute(parameter.argument, cst.Name("detach")))
    return parameter.argument


def _definition(
    site: Site,
    name: str,
    captured: Captured,
    result: Fact,
    fake: Fake,
    torch: str,
    is_pure: bool,
) -> list[cst.BaseStatement]:
    parameters = captured.parameters
    arrow = annotation(result_annotation(result), torch)
    effect = "" if is_pure else f"{name}.register_effect({torch}.library.EffectType.ORDERED)\n"
    text = f'''@{torch}.library.custom_op("{namespace(site)}::{name}", mutates_args=())
def {name}({signature(parameters, torch)}) -> {arrow}:
    return BODY0


{register_fake(name, parameters, fake.text)}{effect}'''
    return define(site, text, captured.bodies)

"""``F.apply(x)`` of the user's own `torch.autograd.Function`, as an operator with that gradient.

The forward of such a class may be Python that no graph holds, and so may its backward.  Both run
inside operators as they are: the first one applies the class; the second one, for the backward,
runs the forward once more, for what that keeps in its context, and then the class's backward.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site

from ..side_effects.moving import Replace
from .effects_in import acts
from .inputs import PRODUCTS, Refused, local_names
from .pieces import Piece
from .reached import called

_WIDTH = 100
#: Of a context, what the one of the second operator has not.
_OTHERS = words(
    """mark_dirty set_materialize_grads materialize_grads saved_variables next_functions metadata
    register_hook"""
)


@dataclasses.dataclass(frozen=True)
class Applied:
    """A class whose ``apply`` is called, and how.

    ``arguments`` are what it is given, as texts over the operator's parameters; ``gradients`` the
    parameters that get a gradient, with the place of each among the arguments.
    """

    name: str
    kept: str
    arguments: tuple[str, ...]
    gradients: dict[str, int]
    #: Parameters that the class keeps itself: a later change of these is an error anyway.
    saved: frozenset[str]
    #: Whether the class has a ``setup_context`` of its own.
    apart: bool
    marks: bool


def applied(piece: Piece) -> Applied | None:
    """What is applied, if the piece is such a call and no more; raises `Refused`."""
    site, call = piece.level.site, piece.nodes[0]
    match call:
        case cst.Call(func=cst.Attribute(value=cst.Name(name), attr=cst.Name("apply"))):
            pass
        case _:
            return None
    match module_bindings(site.module).get(name, ()):
        case [cst.ClassDef() as made]:
            pass
        case _:
            return None
    bases = [resolve(site.module, base.value) or "" for base in made.bases]
    if bases not in (["torch.autograd.Function"], ["torch.autograd.function.Function"]):
        return None
    methods = {
        item.name.value: item for item in made.body.body if isinstance(item, cst.FunctionDef)
    }
    forward, backward = methods.get("forward"), methods.get("backward")
    if forward is None or backward is None or set(methods) & {"vmap", "jvp"}:
        return None
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    if len(leaves) != 1 or leaves[0].kind != "tensor":
        raise Refused("what the class gives is not one tensor")
    bodies = [method.body for method in methods.values()]
    _check(site, bodies)
    _check_names(site, made, bodies)
    replace = Replace({**piece.inputs.replacements})
    arguments = []
    for argument in cst.ensure_type(call, cst.Call).args:
        if argument.star or argument.keyword is not None:
            raise Refused("what the class is given is not written out")
        arguments.append(code(cast(cst.BaseExpression, argument.value.visit(replace))))
    gives = _gives(backward, len(arguments))
    places = {}
    for parameter in piece.inputs.parameters:
        if not parameter.is_tensor:
            continue
        at = [n for n, text in enumerate(arguments) if text == parameter.inside]
        if len(at) != 1 or parameter.annotation != "torch.Tensor":
            raise Refused(f"a gradient goes through it, and `{parameter.given}` is no argument")
        if gives[at[0]]:
            places[parameter.name] = at[0]
    if not places:
        raise Refused("its backward gives no gradient")
    keeps = methods.get("setup_context", forward)
    own = [param.name.value for param in params_of(forward.params)]
    own = own if "setup_context" in methods else own[1:]
    kept = {
        code(arg.value)
        for node in walk(keeps.body)
        if isinstance(node, cst.Call) and code(node.func).endswith(".save_for_backward")
        for arg in node.args
    }
    named = dict(zip(arguments, own, strict=False))
    saved = frozenset(p.name for p in piece.inputs.parameters if named.get(p.inside, "") in kept)
    taken = names_in(site.module)
    text = "".join(code(body) for body in bodies)
    return Applied(
        name,
        next(kept for kept in (f"{name}Kept", f"Kept{name}") if kept not in taken),
        tuple(arguments),
        places,
        saved,
        "setup_context" in methods,
        "mark_non_differentiable" in text,
    )


def _check(site: Site, bodies: Sequence[cst.BaseSuite]) -> None:
    """Refuse what would not be the same inside an operator, or when it runs again."""
    inside = {
        param.name.value
        for body in bodies
        for param in params_of(cst.ensure_type(site.parent(body), cst.FunctionDef).params)
    }
    if acts(site, bodies, inside):
        raise Refused("its class does more than compute, and would do it again in the backward")
    for node in (part for body in bodies for part in walk(body)):
        product = isinstance(node, cst.BinaryOperation) and isinstance(
            node.operator, cst.MatrixMultiply
        )
        called_product = (
            isinstance(node, cst.Call) and code(node.func).rpartition(".")[2] in PRODUCTS
        )
        if product or called_product:
            raise Refused("a matrix product inside an operator would escape autocast")
        if isinstance(node, cst.Attribute) and node.attr.value in _OTHERS:
            raise Refused(f"its class uses `{node.attr.value}`")
    does = activity(*bodies)
    if does.global_writes:
        raise Refused(f"its class sets `{min(does.global_writes)}`")


def _check_names(site: Site, made: cst.ClassDef, bodies: Sequence[cst.BaseSuite]) -> None:
    """Refuse what may hold something else when the backward comes: state outside of the class's
    methods, and of the class.
    """
    functions = called(site, bodies)
    bindings = module_bindings(site.module)
    rebound = {
        item.name.value
        for node in walk(site.module)
        if isinstance(node, cst.Global)
        for item in node.names
    }
    own = {item.name.value for item in made.body.body if isinstance(item, cst.FunctionDef)}
    for body in (*bodies, *(function.body for function in functions)):
        mine = local_names(site, body)
        for node in walk(body):
            if not isinstance(node, cst.Name) or node.value in mine:
                continue
            holder = site.parent(node)
            if isinstance(holder, cst.Attribute) and holder.attr is node:
                continue
            if isinstance(holder, cst.Arg) and holder.keyword is node:
                continue
            found = bindings.get(node.value, ())
            method = isinstance(holder, cst.Attribute) and holder.attr.value in own
            if node.value in rebound or not all(_stays(site, it, of_class=method) for it in found):
                raise Refused(f"nothing tells what `{node.value}` holds when the backward comes")


def _stays(site: Site, bound: cst.CSTNode, *, of_class: bool) -> bool:
    """Whether what a module binds is the same later: functions, other packages, literals."""
    match bound:
        case cst.FunctionDef():
            return True
        case cst.ClassDef():
            return of_class
        case cst.Assign(targets=[_], value=value) | cst.AnnAssign(value=value):
            return isinstance(value, cst.BaseNumber | cst.SimpleString)
    name = _package(bound)
    own = {Path(path).stem for path in site.sources} | {
        Path(path).parent.name for path in site.sources
    }
    return bool(name) and name not in own


def _package(bound: cst.CSTNode) -> str:
    """The package that an import is of."""
    match bound:
        case cst.ImportFrom(module=module, relative=relative):
            return "" if relative or module is None else code(module).partition(".")[0]
        case cst.Import(names=names):
            return code(names[0].name).partition(".")[0]
        case cst.ImportAlias(name=name):
            return code(name).partition(".")[0]
    return ""


def _gives(backward: cst.FunctionDef, count: int) -> list[bool]:
    """For each argument, whether the backward gives a gradient for it; raises `Refused`."""
    if len(params_of(backward.params)) != 2 or backward.params.star_arg not in (
        cst.MaybeSentinel.DEFAULT,
        None,
    ):
        raise Refused("its backward takes more than one gradient")
    found: list[list[bool]] = []
    for node in walk(backward.body):
        if not isinstance(node, cst.Return):
            continue
        parts: list[cst.BaseExpression | None] = [node.value]
        if isinstance(node.value, cst.Tuple):
            parts = [element.value for element in node.value.elements]
        if len(parts) < count or any(part is None for part in parts):
            raise Refused("its backward does not say which gradients it gives")
        found.append([code(cast(cst.CSTNode, part)) != "None" for part in parts[:count]])
    if not found or any(each != found[0] for each in found):
        raise Refused("its backward gives other gradients in other cases")
    return found[0]


def backward_of(applied_: Applied, name: str, piece: Piece, torch: str) -> str:
    """The lines that define the second operator, what it needs, and register it."""
    parameters = piece.inputs.parameters
    names = [p.name for p in parameters]
    tensors = [p.name for p in parameters if p.is_tensor]
    others = [n for n in names if n not in tensors]
    back, cls, gradients = f"{name}_backward", applied_.name, applied_.gradients
    grad = fresh("grad", set(names))
    ctx = fresh("ctx", set(names))
    given = [f"{grad}: {torch}.Tensor"]
    given += [f"{p.name}: {p.annotation.replace('torch.', f'{torch}.')}" for p in parameters]
    kind = f"{torch}.Tensor"
    layout = f"memory_format={torch}.contiguous_format"
    if len(gradients) > 1:
        kind = f"tuple[{', '.join([kind] * len(gradients))}]"
    head = [f"def {back}({', '.join(given)}) -> {kind}:"]
    if len(head[0]) > _WIDTH:
        head = [f"def {back}(", *(f"    {item}," for item in given), f") -> {kind}:"]
    needs = ["False"] * len(applied_.arguments)
    for place in gradients.values():
        needs[place] = "True"
    listed = ", ".join(applied_.arguments)
    run = [f"    {cls}.forward({ctx}, {listed})"]
    if applied_.apart:
        inputs = f"({listed},)" if len(applied_.arguments) == 1 else f"({listed})"
        run = [f"    {cls}.setup_context({ctx}, {inputs}, {cls}.forward({listed}))"]
    asked = f"{cls}.backward({ctx}, {grad})"
    like = {n: f".to({n}.dtype).clone({layout})" for n in gradients}
    if len(applied_.arguments) == 1:
        (only,) = gradients
        out = [f"    return {asked}{like[only]}"]
    else:
        found = fresh("grads", set(names))
        out = [f"    {found} = {asked}"]
        parts = [f"{found}[{place}]{like[n]}" for n, place in gradients.items()]
        out += [f"    return {parts[0]}"] if len(parts) == 1 else []
        out += (
            ["    return (", *(f"        {part}," for part in parts), "    )"]
            if len(parts) > 1
            else []
        )
    empty = [f"{torch}.empty_like({n}, {layout})" for n in gradients]
    made = (
        [f"    return {empty[0]}"]
        if len(empty) == 1
        else ["    return (", *(f"        {part}," for part in empty), "    )"]
    )
    texts = [f"ctx.{n}" if n in others else n for n in names]
    call = f"{back}({', '.join(['grad', *texts])})"
    if len(names) == len(gradients) or len(gradients) == 1:
        results = [call if n in gradients else "None" for n in names]
        pulled = [f"    return {', '.join(results) if len(gradients) == 1 else call}"]
    else:
        targets = [f"of_{n}" for n in gradients]
        results = [f"of_{n}" if n in gradients else "None" for n in names]
        pulled = [f"    {', '.join(targets)} = {call}", f"    return {', '.join(results)}"]
    # The forward must find again what it was given, whatever is changed in place before.
    kept = [n if n in applied_.saved else f"{n}.clone()" for n in tensors]
    several = f"({tensors[0]},)" if len(tensors) == 1 else ", ".join(tensors)
    all_names = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
    marks = ["", "    def mark_non_differentiable(self, *tensors):", "        pass"]
    lines = [
        f"class {applied_.kept}:",
        f'    """What `{cls}` keeps in its forward for its backward."""',
        "",
        "    def __init__(self, *needs):",
        "        self.needs_input_grad = needs",
        "        self.saved_tensors = ()",
        "",
        "    def save_for_backward(self, *tensors):",
        "        self.saved_tensors = tensors",
        *(marks if applied_.marks else []),
        "",
        "",
        f"# The backward runs the forward of `{cls}` once more, for what that keeps.",
        f'@{torch}.library.custom_op("SPACE::{back}", mutates_args=())',
        *head,
        f"    {ctx} = {applied_.kept}({', '.join(needs)})",
        *run,
        *out,
        "",
        "",
        f"@{back}.register_fake",
        f"def _({', '.join([grad, *names])}):",
        *made,
        "",
        "",
        f"def {name}_keep(ctx, inputs, output):",
        f"    {all_names} = inputs",
        f"    ctx.save_for_backward({', '.join(kept)})",
        *(f"    ctx.{n} = {n}" for n in others),
        "",
        "",
        f"def {name}_pull(ctx, grad):",
        f"    {several} = ctx.saved_tensors",
        *pulled,
        "",
        "",
        f"{name}.register_autograd({name}_pull, setup_context={name}_keep)",
        "",
    ]
    return "\n".join(lines)

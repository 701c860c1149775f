"""An operator without a fake: ``register_fake`` beside its registration."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Edit, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety

from ..wrap.operator_text import define, torch_alias
from .fakes import Maker
from .inputs import Parameter, Refused, crossing
from .kernels import Kernel, kernel_of, operator_called
from .results import Carries, Result, carried
from .size_values import UNKNOWN, Value
from .sizes import Reader, fact_value


def _source(after: str = "") -> str:
    return f"""
import torch

lib = torch.library.Library("shop", "FRAGMENT")
lib.define("twice(Tensor x) -> Tensor")
lib.impl("twice", lambda x: x * 2, "CPU")
{after}

@torch.compile
def f(x):
    return torch.ops.shop.twice(x) + 1
"""


_AFTER = """

@torch.library.register_fake("shop::twice")
def _(x):
    return torch.empty_like(x)
"""
_FACTS = {"x": tensor(3), "torch.ops.shop.twice(x)": tensor(3)}


class RegisterFake(Codemod):
    """*What it does.*  Registers a fake for an operator of the project that has none.

    ```python
    lib.impl("twice", lambda x: x * 2, "CPU")


    @torch.library.register_fake("shop::twice")
    def _(x):
        return torch.empty_like(x)
    ```
    The fake stands beside the registration: below ``lib.impl`` or ``torch.library.impl``, or below
    the function that ``torch.library.custom_op`` decorates.  Sizes are told from the kernel's text,
    and from what was recorded where that does not tell.

    *When it applies.*  A compiled region calls an operator that is registered in the project's own
    Python, with tensors, and tensors come out.

    *Fix safety.*  Safe where the text tells the sizes; unsafe where only the recorded run does.

    *Refuses.*  Operators whose registration is in no file of the project, results that are lists.
    """

    name = "register-fake"
    codes = ("GB0090", "GB4315", "torch-runtime-error")
    examples = (
        Example(
            _source(), _source(_AFTER), at="torch.ops.shop.twice(x)", facts=_FACTS,
            title="a kernel that was given to a library",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            "import torch\n\ndef f(x):\n    return torch.ops.shop.twice(x)\n",
            at="torch.ops.shop.twice(x)",
            why="its registration is elsewhere",
            facts=_FACTS,
        ),
        NearMiss(
            _source(_AFTER),
            at="torch.ops.shop.twice(x)",
            why="it has a fake",
            facts=_FACTS,
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        name = operator_called(site)
        if not name:
            return
        for path in [site.path, *(p for p in site.sources if p != site.path)]:
            home = site if path == site.path else site.other(path)
            if home is None:
                continue
            kernel = kernel_of(home, name)
            if kernel is None:
                continue
            if re.search(rf"(register_fake|impl_abstract)\([\"']{name}[\"']", home.source) or (
                kernel.target and kernel.target in home.source
            ):
                return
            call = _call(site, kernel)
            fact = site.fact(call) if call is not None else None
            if call is None or fact is None:
                return
            try:
                yield _rewrite(site, home, [(kernel, call, fact), *_others(site, home, kernel)])
            except Refused as why:
                yield Advice(
                    f"`{name}` has no fake implementation, and gbfix could not write one: {why}."
                )
            return


_Seen = tuple[Kernel, cst.Call, Fact]


def _call(site: Site, kernel: Kernel) -> cst.Call | None:
    """The operator's call: the break's own, or the first in its function."""
    names = [f"ops.{kernel.operator.replace('::', '.')}"]
    if isinstance(kernel.function, cst.FunctionDef) and kernel.target:
        names.append(kernel.function.name.value)
    around = [site.node, *site.ancestors(site.node)]
    inside = walk(site.function.body) if site.function is not None else walk(site.node)
    for node in (*around, *inside):
        if isinstance(node, cst.Call):
            text = re.sub(r"\.default$", "", code(node.func))
            if any(text == name or text.endswith(f".{name}") for name in names):
                return node
    return None


def _others(site: Site, home: Site, first: Kernel) -> list[_Seen]:
    """Other operators without a fake that the function calls: one error hides the next."""
    found: list[_Seen] = []
    for statement in home.module.body:
        if not isinstance(statement, cst.FunctionDef) or statement is first.function:
            continue
        for decorator in statement.decorators:
            match decorator.decorator:
                case cst.Call(func=func, args=[name, *_]) as made if code(func).endswith(
                    "custom_op"
                ):
                    target = f"{statement.name.value}.register_fake"
                    operator = code(name.value).strip("\"'")
                    kernel = Kernel(statement, statement, target, operator, made)
                    call = _call(site, kernel)
                    fact = site.fact(call) if call is not None else None
                    if target not in home.source and call is not None and fact is not None:
                        found.append((kernel, call, fact))
    return found


def _rewrite(site: Site, home: Site, seen: list[_Seen]) -> Rewrite:
    edit = home.edit()
    torch = torch_alias(home, edit)
    notes: list[str] = []
    guessed = False
    for kernel, call, fact in seen:
        maker, text = _fake(site, home, torch, (kernel, call, fact))
        _insert(home, edit, torch, kernel, maker, text)
        notes.append(f"the fake of `{kernel.operator}` says what the kernel gives: `{text}`")
        if maker.guessed:
            guessed = True
            told = " and ".join(f"`{size}`" for size in maker.guessed)
            notes.append(f"only the recorded run shows {told}")
    return edit.rewrite(
        f"register a fake for {' and '.join(f'`{kernel.operator}`' for kernel, _, _ in seen)}",
        rank=30,
        safety=Safety.UNSAFE if guessed else Safety.SAFE,
        notes=notes,
    )


def _fake(site: Site, home: Site, torch: str, seen: _Seen) -> tuple[Maker, str]:
    kernel, call, fact = seen
    parameters = _parameters(site, call, kernel)
    reader = Reader(home, {p.name: fact_value(p.fact, p.name) for p in parameters}, {})
    function = kernel.function
    for param in params_of(function.params):
        if param.default is not None and param.name.value not in reader.names:
            reader.names[param.name.value] = reader.value(param.default)
    if isinstance(function, cst.Lambda):
        value = reader.value(function.body)
    else:
        reader.statement(function.body, ())
        value = reader.result()
    result = carried("", _without_gradient(fact), Carries.NUMBERS)
    if result is None or result.kind not in ("tensor", "tuple"):
        raise Refused("its result is no tensor and no tuple of tensors")
    maker = Maker(parameters, code(function), torch)
    leaves = result.leaves()
    values = [value] if len(leaves) == 1 else list(value.parts or [UNKNOWN] * len(leaves))
    texts = [_empty(maker, leaf, each) for leaf, each in zip(leaves, values, strict=True)]
    if maker.dynamic > 1:
        raise Refused("several sizes depend on the data")
    return maker, texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _insert(home: Site, edit: Edit, torch: str, kernel: Kernel, maker: Maker, text: str) -> None:
    """Put the fake below the registration."""
    decorator = kernel.target or f'{torch}.library.register_fake("{kernel.operator}")'
    names = ", ".join(
        code(param).rstrip(", ") if param.default is not None else param.name.value
        for param in params_of(kernel.function.params)
    )
    names = re.sub(r":[^=,]*=\s*", "=", names)
    size = f"    size = {torch}.library.get_ctx().new_dynamic_size()\n" if maker.dynamic else ""
    first, *rest = define(home, f"@{decorator}\ndef _({names}):\n{size}    return {text}\n")
    blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    edit.insert_after(kernel.after, first.with_changes(leading_lines=blank), *rest)
    below = home.module.body[home.module.body.index(kernel.after) + 1 :]
    if below:
        edit.insert_before(below[0])  # a diff may show the new lines right above it


def _without_gradient(fact: Fact) -> Fact:
    items = tuple(_without_gradient(item) for item in fact.items) if fact.items else fact.items
    return dataclasses.replace(fact, requires_grad=False, items=items)


def _empty(maker: Maker, leaf: Result, value: Value) -> str:
    """Elementwise kernels keep the layout of their argument, too."""
    shape = leaf.fact.shape
    for p in maker.tensors:
        dims = [f"{p.name}.shape[{n}]" for n in range(len(p.fact.shape or ()))]
        texts = [size.text for size in value.sizes or ()]
        if shape == p.fact.shape and texts == dims and maker.follows(p, leaf.dtype):
            return f"{maker.torch}.empty_like({p.name})"
    return maker.tensor(leaf, value)


def _fact(site: Site, node: cst.BaseExpression) -> Fact | None:
    if isinstance(node, cst.Integer):
        return Fact("int", "int", value=int(node.value, 0), constant=True)
    return site.fact(node)


def _parameters(site: Site, call: cst.Call, kernel: Kernel) -> list[Parameter]:
    given: dict[str, cst.BaseExpression] = {}
    names = [param.name.value for param in params_of(kernel.function.params)]
    plain = [argument for argument in call.args if argument.keyword is None]
    given.update(zip(names, (argument.value for argument in plain), strict=False))
    for argument in call.args:
        if argument.keyword is not None:
            given[argument.keyword.value] = argument.value
    found = []
    for name in names:
        fact = _fact(site, given[name]) if name in given else None
        passed = crossing(name, name, fact) if fact is not None else None
        if fact is not None and passed is not None:
            found.append(Parameter(name, passed[0], name, name, fact))
    return found

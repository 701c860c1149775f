"""A kernel of tensor code, registered for one backend: registered for all of them, it is traced."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from .kernels import Kernel, kernel_of, operator_called

_KEYS = ("CPU", "CUDA", "CompositeExplicitAutograd")
_DEVICES = ("cpu", "cuda", "default")
_KINDS = {
    "Tensor": "tensor", "float": "float", "int": "int", "SymInt": "int", "bool": "bool"
}  # fmt: skip
_BUILTINS = words("abs min max sum len range float int bool zip enumerate")
_ALL = "CompositeImplicitAutograd"


def _source(
    key: str = "CPU", kernel: str = "x * 2", returns: str = "Tensor", after: str = ""
) -> str:
    return f"""
import torch

lib = torch.library.Library("shop", "FRAGMENT")
lib.define("twice(Tensor x) -> {returns}")
lib.impl("twice", lambda x: {kernel}, "{key}")
{after}

@torch.compile
def f(x):
    return torch.ops.shop.twice(x) + 1
"""


_BY_NAME = """
import torch

torch.library.define("shop::twice", "(Tensor x) -> Tensor")


@torch.library.impl("shop::twice", {})
def twice(x):
    return x * 2


@torch.compile
def f(x):
    return torch.ops.shop.twice(x) + 1
"""
_FACTS = {"x": tensor(3), "torch.ops.shop.twice(x)": tensor(3)}


class CompositeKernel(Codemod):
    """*What it does.*  Registers a kernel that is tensor code for all backends at once, so that
    torch traces into it.

    ```python
    lib.impl("twice", lambda x: x * 2, "CPU")
    ```
    becomes
    ```python
    lib.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    ```
    The operator then needs no fake, and its gradient is that of the operators inside: torch runs
    a kernel of one backend under autograd, too, but a compiled graph would lose that gradient.

    *When it applies.*  A compiled region calls an operator without a fake whose only kernel stands
    in the project's Python and does nothing but compute with its tensors.

    *Fix safety.*  Safe: the same kernel runs.

    *Refuses.*  Kernels that call what is not torch, draw random numbers, print or change something;
    kernels with another decorator, operators with a second kernel, a fake or a gradient of their
    own; operators that change an argument or give a view of it.
    """

    name = "composite-kernel"
    codes = ("GB0090", "GB4315", "torch-runtime-error")
    examples = (
        Example(
            _source(), _source(_ALL), at="torch.ops.shop.twice(x)", facts=_FACTS,
            title="a kernel for one backend",
        ),
        Example(
            _BY_NAME.format('"cpu"'), _BY_NAME.format(f'"{_ALL}"'),
            at="torch.ops.shop.twice(x)", facts=_FACTS, title="a kernel for one device",
        ),
    )  # fmt: skip
    near_misses = tuple(
        NearMiss(source, at="torch.ops.shop.twice(x)", why=why, facts=_FACTS)
        for source, why in (
            (_source(kernel="x.mul_(2)"), "it changes its argument"),
            (_source(kernel="x * torch.rand(3)"), "it draws random numbers"),
            (_source(kernel="print(x) or x * 2"), "it prints"),
            (_source(kernel="torch.from_numpy(x.numpy() * 2)"), "it leaves torch"),
            (_source(kernel="x * lib.factor"), "it reads what may change"),
            (_source(returns="Tensor(a)", kernel="x"), "it gives a view"),
            (_source(after='lib.impl("twice", lambda x: x + x, "CUDA")'), "it has two kernels"),
            (
                _source(
                    after='torch.library.register_fake("shop::twice", lambda x: torch.empty(3))'
                ),
                "it has a fake",
            ),
            (_source(_ALL), "it is for all backends already"),
            (_BY_NAME.format('("cpu", "cuda")'), "two devices have it"),
            (_BY_NAME.format('"meta"'), "no kernel that computes"),
            (
                _BY_NAME.format('"cpu"').replace("\ndef twice", "\n@scaled\ndef twice"),
                "another decorator changes what it computes",
            ),
            (
                _source(kernel="abs(x)", after="def abs(x):\n    return x * lib.factor"),
                "a function of the project's with the name of Python's",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        name = operator_called(site)
        if not name:
            return
        for path in [site.path, *(p for p in site.sources if p != site.path)]:
            home = site if path == site.path else site.other(path)
            kernel = kernel_of(home, name) if home is not None else None
            if home is None or kernel is None:
                continue
            key, facts = _key(home, kernel.registration), _schema(home, name)
            if key is not None and facts is not None and _computes(home, kernel, facts):
                edit = home.edit()
                edit.replace(key, cst.SimpleString(_quoted(key, _ALL)))
                yield edit.rewrite(
                    f"register the kernel of `{name}` for all backends, so that it is traced",
                    rank=31,
                    notes=[
                        f"`{name}` is traced into: its kernel's operators stand in the graph, and"
                        " gradients are theirs. It runs on other devices as well, where it raised"
                        " an error."
                    ],
                )
            return


def _quoted(old: cst.SimpleString, text: str) -> str:
    return f"{old.quote}{text}{old.quote}"


def _key(site: Site, call: cst.Call) -> cst.SimpleString | None:
    """The text that names the one backend in a kernel's registration."""
    if not code(call.func).endswith("impl"):
        return None
    by_name = resolve(site.module, call.func) == "torch.library.impl"
    by_device = by_name and isinstance(call.args[0].value, cst.SimpleString)
    found = [
        argument.value
        for argument in call.args[1:]
        if isinstance(argument.value, cst.SimpleString)
        and argument.value.evaluated_value in (*_KEYS, *(_DEVICES if by_device else ()))
        and (argument.keyword is None or argument.keyword.value in ("dispatch_key", "types"))
    ]
    return found[0] if len(found) == 1 else None


def _schema(site: Site, name: str) -> list[Fact] | None:
    """What the operator's parameters are, where it gives new tensors and nothing else concerns it.

    The kernel must be all that is registered for it, in any file of the project.
    """
    space, _, last = name.partition("::")
    named = rf"[\"'](?:{re.escape(space)}::)?{re.escape(last)}[\"']"
    schemas: list[str] = []
    registered = 0
    for path in site.sources:
        home = site if path == site.path else site.other(path)
        if home is None:
            return None
        registered += len(re.findall(rf"(?<!define)\((?:\w+,\s*)?{named}", home.source))
        schemas += re.findall(rf"define\(\s*{named},\s*[\"']\(([^\"']*)[\"']", home.source)
        schemas += re.findall(
            rf"[\"'](?:{re.escape(space)}::)?{re.escape(last)}\(([^\"']*)[\"']", home.source
        )
    if registered != 1 or len(schemas) != 1:
        return None
    given, arrow, back = schemas[0].partition(") ->")
    if not arrow or "(" in given or not set(re.findall(r"\w+", back)) <= {"Tensor"}:
        return None
    facts = []
    for part in given.replace("*,", "").split(","):
        if part.strip():
            kind = _KINDS.get(part.split()[0])
            if kind is None:
                return None
            facts.append(Fact(kind, "torch.Tensor" if kind == "tensor" else kind))
    return facts


def _computes(site: Site, kernel: Kernel, facts: list[Fact]) -> bool:
    """Whether a kernel's text does nothing but compute with its arguments."""
    function = kernel.function
    names = [param.name.value for param in params_of(function.params)]
    if len(names) != len(facts) or not isinstance(function.params.star_arg, cst.MaybeSentinel):
        return False
    others = getattr(function, "decorators", ())
    if any(decorator.decorator is not kernel.registration for decorator in others):
        return False  # what is registered is what another decorator made of it
    seen = dict(zip(names, facts, strict=True))

    def kind_of(node: cst.BaseExpression) -> Fact | None:
        return seen.get(node.value) if isinstance(node, cst.Name) else None

    effects = effects_of(function.body, kind_of)
    if not effects.pure or effects.modules:
        return False
    what = activity(function.body)
    if {"requires_grad", "grad", "grad_fn", "is_leaf"} & {
        node.attr.value for node in walk(function.body) if isinstance(node, cst.Attribute)
    }:
        return False
    bound = import_map(site.module)
    own = what.writes | set(names)
    return all(
        name in own
        or bound.get(name, "").split(".")[0] in ("torch", "math")
        or (
            name in _BUILTINS
            and resolve(site.module, cst.Name(name), at=function) == f"builtins.{name}"
        )
        for name in what.reads
    )

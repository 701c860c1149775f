"""Numbers that are drawn from a generator of one's own, drawn by an operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import definitely_bound_before
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, walk
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..wrap.capture import Parameter, is_global_object
from ..wrap.operator_text import (
    define,
    namespace,
    operator_name,
    place,
    register_fake,
    signature,
    torch_alias,
)
from ..wrap.own_state import qualified
from .draws import may_be_replaced
from .effect_operator import operator_notes
from .owners import attribute_of_self, find_owners

#: Functions of torch that draw, and the dtype of what they give where none is given.
_DRAWS = {"rand": "", "randn": "", "randint": "int64", "randperm": "int64"}
_REPLACED = (
    "the project gives the object another generator: compiled code does that behind its graph, and"
    " the operator draws from what was there before"
)
_GENERATOR = Fact("object", "torch._C.Generator")
_SIZE = Fact("tuple", "torch.Size", items=(scalar(2), scalar(3)))
_FACTS = {
    "self": Fact("module", "Net", qualname="Net"),
    "self.gen": _GENERATOR,
    "GEN": _GENERATOR,
    "given": _GENERATOR,
    "x": tensor(2, 3),
    "x.shape": _SIZE,
    "x.shape[0]": scalar(2),
    "n": scalar(3),
}


def _source(
    line: str, *, before: str = "", noted: bool = False, first: str = "", more: str = ""
) -> str:
    new = (
        "\n    def __new__(cls, *args, **kwargs):\n        self = super().__new__(cls)\n"
        "        OWNERS[id(self)] = self\n        return self\n"
        if noted
        else ""
    )
    table = (
        "#: Objects by their identity, which is what an operator can take of them.\n"
        "OWNERS = weakref.WeakValueDictionary()\n\n\n"
        if noted
        else ""
    )
    imports = "import torch\nimport weakref\n" if noted else "import torch\n"
    return (
        f"{imports}\nGEN = torch.Generator()\n\n\n{table}{before}class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        f"        self.gen = torch.Generator()\n{new}"
        f"\n    def forward(self, x, n, given):\n{first}        y = {line}\n        return x + y\n"
        f"{more}"
    )


_ANOTHER = "\n\ndef begin(net, generator):\n    net.gen = generator\n"


def _operator(parameters: str, draw: str, names: str, fake: str, lines: str = "") -> str:
    named = qualified("draw_forward", keeps_state="GEN" in draw or "OWNERS" in draw)
    return (
        f"@torch.library.custom_op({named}, mutates_args=())\n"
        f"def draw_forward({parameters}) -> torch.Tensor:\n"
        "    # inductor may misplace an operator that takes no tensor: hence the anchor.\n"
        f"    return {draw}\n\n\n"
        f"draw_forward.register_fake(lambda {names}: {fake})\n"
        "draw_forward.register_effect(torch.library.EffectType.ORDERED)\n\n\n"
    )


def _near_miss(why: str, line: str, *, first: str = "") -> NearMiss:
    return NearMiss(_source(line, first=first), at=line, why=why, facts=_FACTS, code="GB0055")


class PrivateDraw(Codemod):
    """*What it does.*  Lets an operator draw from a generator that a module or the file keeps:

    ```python
    noise = torch.randn(x.shape, generator=self.generator)
    ```
    becomes ``noise = draw_forward(x.detach(), id(self), x.shape)``, an operator with an ordered
    effect that finds the object by its identity and draws from the same generator.

    *When it applies.*  ``torch.rand``, ``randn``, ``randint`` or ``randperm``, whose sizes are
    numbers or the shape of a tensor, and whose generator is an attribute of ``self`` or a global
    name.

    *Fix safety.*  Safe: the same generator draws the same numbers.  A draw that follows another
    one is handed what that one drew, the first one a tensor that the function is given, so that no
    compiler can exchange them.

    Unsafe where the project gives the object another generator after ``__init__``: compiled code
    does that behind its graph, when the operator has drawn.

    *Refuses.*  Generators that are arguments or local names, dtypes and devices that are not
    written out, tensors that require a gradient, and classes that cannot note their objects.
    """

    name = "private-draw"
    codes = ("GB0055",)

    examples = (
        Example(
            _source("torch.randn(x.shape, generator=self.gen)"),
            _source(
                "draw_forward(x.detach(), id(self), x.shape)",
                noted=True,
                before=_operator(
                    "anchor: torch.Tensor, owner: int, size: list[int]",
                    "torch.randn(size, generator=OWNERS[owner].gen)",
                    "anchor, owner, size",
                    "torch.empty(size)",
                ),
            ),
            at="torch.randn(x.shape, generator=self.gen)",
            facts=_FACTS,
            title="noise of a module's own",
        ),
        Example(
            _source("torch.randperm(n, generator=GEN)"),
            _source(
                "draw_forward(x.detach(), n)",
                before=_operator(
                    "anchor: torch.Tensor, n: int",
                    "torch.randperm(n, generator=GEN)",
                    "anchor, n",
                    "torch.empty((n,), dtype=torch.int64)",
                ),
            ),
            at="torch.randperm(n, generator=GEN)",
            facts=_FACTS,
            title="an order, by a generator of the file",
        ),
        Example(
            _source("torch.randn(x.shape, generator=self.gen)", more=_ANOTHER),
            _source(
                "draw_forward(x.detach(), id(self), x.shape)",
                noted=True,
                before=_operator(
                    "anchor: torch.Tensor, owner: int, size: list[int]",
                    "torch.randn(size, generator=OWNERS[owner].gen)",
                    "anchor, owner, size",
                    "torch.empty(size)",
                ),
                more=_ANOTHER,
            ),
            at="torch.randn(x.shape, generator=self.gen)",
            facts=_FACTS,
            title="a generator that may be another one (unsafe)",
        ),
    )
    near_misses = (
        _near_miss("a generator that is given", "torch.rand(n, generator=given)"),
        _near_miss("the generator of the process", "torch.rand(n)"),
        _near_miss("a leaf", "torch.rand(n, generator=self.gen, requires_grad=True)"),
        _near_miss("a dtype that may change", "torch.rand(n, generator=self.gen, dtype=x.dtype)"),
        _near_miss("into memory of another one", "torch.rand(n, generator=self.gen, out=x)"),
        _near_miss("a size that is not known", "torch.rand(m, generator=self.gen)"),
        _near_miss("another object's", "torch.rand(n, generator=x.gen)"),
        _near_miss(
            "an object under another name",
            "torch.rand(n, generator=self.gen)",
            first="        self = self\n",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        for call in walk(site.statement):
            if isinstance(call, cst.Call) and site.function_of(call) is site.function:
                draw = _draw(site, call)
                rewrite = _rewrite(site, draw) if draw is not None else None
                if rewrite is not None:
                    yield rewrite
                    return


@dataclasses.dataclass(frozen=True)
class _Draw:
    call: cst.Call
    #: The generator, and the attribute of ``self`` that holds it ("": a global name).
    generator: cst.BaseExpression
    attribute: str
    #: The call's other arguments inside of the operator, and the size there.
    arguments: tuple[cst.Arg, ...]
    size: str
    dtype: str
    parameters: tuple[Parameter, ...]


def _draw(site: Site, call: cst.Call) -> _Draw | None:
    home, _, name = (resolve(site.module, call.func) or "").rpartition(".")
    if home != "torch" or name not in _DRAWS or comments_in(call):
        return None
    if any(arg.star for arg in call.args):
        return None
    keywords = {arg.keyword.value: arg for arg in call.args if arg.keyword is not None}
    if not keywords.keys() <= {"generator", "dtype", "device", "size"}:
        return None
    held = keywords.get("generator")
    attribute = _held(site, held.value) if held is not None else None
    if held is None or attribute is None or not _is_written_out(site, keywords):
        return None
    parameters: list[Parameter] = []
    arguments: list[cst.Arg] = []
    sizes: list[str] = []
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value != "size":
            if arg is not held:
                arguments.append(arg)
            continue
        value = _passed(site, arg.value, parameters)
        if value is None:
            return None
        arguments.append(arg.with_changes(value=value))
        sizes.append(code(value))
    size = _size(name, sizes, "size" in keywords, arguments)
    if size is None:
        return None
    dtype = code(keywords["dtype"].value) if "dtype" in keywords else _DRAWS[name]
    return _Draw(call, held.value, attribute, tuple(arguments), size, dtype, tuple(parameters))


def _size(name: str, sizes: list[str], keyword: bool, arguments: list[cst.Arg]) -> str | None:
    """The size of what is drawn, as the fake has it."""
    if name == "randperm":
        return f"({sizes[0]},)" if len(sizes) == 1 and sizes[0] != "size" else None
    if name == "randint":
        return sizes[-1] if len(sizes) in (2, 3) and sizes[-1][:1] in "([s" else None
    if len(sizes) == 1 and (sizes[0] == "size" or sizes[0][:1] in "(["):
        return sizes[0]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})" if sizes else "()"


def _held(site: Site, node: cst.BaseExpression) -> str | None:
    """The attribute of ``self`` that a generator is; "" for a global name, None for others."""
    if isinstance(node, cst.Name) and is_global_object(site, node):
        return ""
    return attribute_of_self(site, node) or None


def _is_written_out(site: Site, keywords: dict[str, cst.Arg]) -> bool:
    dtype, device = keywords.get("dtype"), keywords.get("device")
    if dtype is not None and not (resolve(site.module, dtype.value) or "").startswith("torch."):
        return False
    return device is None or (
        isinstance(device.value, cst.SimpleString) and device.value.raw_value == "cpu"
    )


def _passed(
    site: Site, value: cst.BaseExpression, parameters: list[Parameter]
) -> cst.BaseExpression | None:
    """What stands for a size in the operator; None where it is no number and no shape."""
    if isinstance(value, cst.Integer):
        return value
    if isinstance(value, cst.Tuple | cst.List):
        parts = []
        for element in value.elements:
            new = _passed(site, element.value, parameters)
            if new is None or not isinstance(element, cst.Element):
                return None
            parts.append(element.with_changes(value=new))
        return value.with_changes(elements=parts)
    fact = site.fact(value)
    if fact is None:
        return None
    kinds = {"int": "int"} if fact.type == "int" else {}
    if fact.type == "torch.Size":
        kinds = {fact.kind: "list[int]"}
    kind = kinds.get(fact.kind)
    if kind is None:
        return None
    known = next((item for item in parameters if code(item.argument) == code(value)), None)
    if known is None:
        last = (dotted(value) or "").rpartition(".")[2]
        base = "size" if kind != "int" else last if last.isidentifier() else "count"
        taken = {"anchor", "owner", *(item.name for item in parameters)}
        known = Parameter(fresh(base, taken), kind, value.deep_clone(), fact)
        parameters.append(known)
    return cst.Name(known.name)


def _rewrite(site: Site, draw: _Draw) -> Rewrite | None:
    edit = site.edit()
    torch = torch_alias(site, edit)
    function = site.function
    assert function is not None
    generator, owner = code(draw.generator), []
    if draw.attribute:
        holder = site.class_of(function)
        table = find_owners(site, edit, holder.name.value) if holder is not None else ""
        if not table:
            return None
        generator = f"{table}[owner].{draw.attribute}"
        owner = [Parameter("owner", "int", cst.parse_expression("id(self)"), Fact("int", "int"))]
    anchor = _anchor(site, draw, torch)
    if anchor is None:
        return None
    first = Parameter("anchor", "torch.Tensor", cst.parse_expression(anchor), tensor())
    parameters = (first, *owner, *draw.parameters)
    _define(site, edit, draw, torch, generator, parameters)
    replaces = draw.attribute and may_be_replaced(site, draw.attribute, seeded=False)
    replaced = (_REPLACED,) if replaces else ()
    return edit.rewrite(
        "draw from the generator in a custom operator",
        rank=40,
        safety=Safety.UNSAFE if replaced else Safety.SAFE,
        notes=(*replaced, *operator_notes(site)[1:]),
    )


def _define(
    site: Site,
    edit: Edit,
    draw: _Draw,
    torch: str,
    generator: str,
    parameters: tuple[Parameter, ...],
) -> None:
    assert site.function is not None
    operator = operator_name(site, f"draw_{site.function.name.value}")
    held = cst.Arg(
        cst.parse_expression(generator),
        keyword=cst.Name("generator"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    arguments = [arg.with_changes(comma=comma) for arg in draw.arguments]
    body = draw.call.with_changes(args=[*arguments, held], lpar=(), rpar=())
    dtype = draw.dtype if "." in draw.dtype else f"{torch}.{draw.dtype}" if draw.dtype else ""
    fake = f"{torch}.empty({draw.size}{f', dtype={dtype}' if dtype else ''})"
    registered = register_fake(operator, parameters, fake)
    text = f'''@{torch}.library.custom_op("{namespace(site)}::{operator}", mutates_args=())
def {operator}({signature(parameters, torch)}) -> {torch}.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return BODY0


{registered}{operator}.register_effect({torch}.library.EffectType.ORDERED)
'''
    place(site, edit, define(site, text, [body]))
    given = ", ".join(code(item.argument) for item in parameters)
    edit.replace(draw.call, cst.parse_expression(f"{operator}({given})"))


def _anchor(site: Site, draw: _Draw, torch: str) -> str | None:
    """What the draw before it gave; None where that has no name."""
    function = site.function
    assert function is not None
    bound = definitely_bound_before(function, site.statement_of(draw.call))
    drawing = _operators_of(site)
    anchor: str | None = _data(site, draw) or f"{torch}.empty(0)"
    for node in walk(function.body):
        if node is draw.call:
            break
        if not isinstance(node, cst.Call):
            continue
        own = any(code(arg.value) == code(draw.generator) for arg in node.args)
        if not own and code(node.func) not in drawing:
            continue
        match site.parent(node):
            case cst.Assign(targets=[cst.AssignTarget(cst.Name(name))]) if not own:
                stores = [
                    place
                    for place in site.places_of(name, function)
                    if isinstance(site.parent(place), cst.AssignTarget)
                ]
                anchor = name if name in bound and len(stores) == 1 else None
            case _:
                anchor = None
    return anchor


def _data(site: Site, draw: _Draw) -> str:
    """A tensor that the function is given: in a second call, it comes of the first one's draws."""
    function = site.function
    assert function is not None
    before = site.locals_before(site.statement_of(draw.call))
    inside = {node.value for node in walk(draw.call) if isinstance(node, cst.Name)}
    # One with a default may be None in another call.
    names = [param.name.value for param in params_of(function.params) if param.default is None]
    names.sort(key=lambda name: name not in inside)
    for name in names:
        fact = before.get(name)
        if fact is not None and fact.is_tensor:
            return f"{name}.detach()"
    return ""


def _operators_of(site: Site) -> set[str]:
    """The functions of the file that draw from a generator: two names may hold the same one."""
    return {
        item.name.value
        for item in site.module.body
        if isinstance(item, cst.FunctionDef)
        and "custom_op(" in "".join(code(it.decorator) for it in item.decorators)
        and "generator=" in code(item)
    }

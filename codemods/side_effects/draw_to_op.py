"""A number that numpy or Python draws, and that decides something, drawn by an operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from ..wrap.capture import Parameter
from ..wrap.operator_text import (
    define,
    namespace,
    operator_name,
    place,
    register_fake,
    signature,
    torch_alias,
)
from .draws import (
    Cast,
    Draw,
    anchor_for,
    body_in,
    chosen_by,
    draw_of,
    fits,
    kept_as,
    may_be_replaced,
)
from .effect_operator import operator_notes
from .owners import find_owners

_DRAW = "np.random.uniform(0, 1)"
_SKIPS = "skip = self.training and (chance < self.rate)"
_FACTS = {
    "self.training": scalar(False),
    "self.rate": scalar(0.1),
    "chance": Fact("float", "float"),
    "chance < self.rate": scalar(False),
}


def _source(
    draw: str = _DRAW, skips: str = _SKIPS, test: str = "not skip", more: str = "return x"
) -> str:
    return f"""import random

import numpy as np
import torch


def f(self, x):
    for layer in self.layers:
        chance = {draw}
        {skips}
        if {test}:
            x = layer(x)
    {more}
"""


def _operator(draw: str, name: str) -> str:
    return f"""@torch.library.custom_op("example::{name}", mutates_args=())
def {name}(anchor: torch.Tensor) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor({draw}, dtype=torch.float64, device="cpu")


{name}.register_fake(lambda anchor: torch.empty((), dtype=torch.float64, device="cpu"))
{name}.register_effect(torch.library.EffectType.ORDERED)


def f("""


_MIX = """import numpy as np
import torch


def mix(x, alpha):
    lam = {0}
    order = {1}
    return lam * x + (1 - lam) * x[order], lam * x.mean()
"""
_MIX_OPERATOR = """@torch.library.custom_op("example::draw_mix", mutates_args=())
def draw_mix(anchor: torch.Tensor, alpha: torch.types.Number) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(np.random.beta(alpha, alpha), dtype=torch.float64, device="cpu")


draw_mix.register_fake(lambda anchor, alpha: torch.empty((), dtype=torch.float64, device="cpu"))
draw_mix.register_effect(torch.library.EffectType.ORDERED)


def mix("""


_REPLACED = (
    "the project gives the object another generator, or the generator another seed: compiled code"
    " does that behind its graph, and the operator draws from what was there before"
)
_DICE = "self.dice.random()"
_KEPT = """import random
import torch
{0}
AXIS = -1

{1}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dice = random.Random(0)
{2}
    def forward(self, x, p, other):
{4}        if {3} < p:
            x = x.flip(AXIS)
        return x
"""
_KEPT_FACTS = {
    "self": Fact("module", "Net", qualname="Net"),
    "self.dice": Fact("object", "random.Random"),
    "other.dice": Fact("object", "random.Random"),
    "x": tensor(2, 3),
    "p": Fact("float", "float"),
}
_KEPT_OPERATOR = """
#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{__name__.replace('.', '_')}::draw_forward", mutates_args=())
def draw_forward(anchor: torch.Tensor, owner: int) -> torch.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    return torch.tensor(OWNERS[owner].dice.random(), dtype=torch.float64, device="cpu")


draw_forward.register_fake(lambda anchor, owner: torch.empty((), dtype=torch.float64, device="cpu"))
draw_forward.register_effect(torch.library.EffectType.ORDERED)

"""
_KEPT_NEW = """
    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self
"""


def _kept_near_miss(why: str, draw: str = _DICE, first: str = "", kind: str = "") -> NearMiss:
    facts = _KEPT_FACTS | ({"self.dice": Fact("object", kind)} if kind else {})
    source = _KEPT.format("", "", "", draw, first)
    return NearMiss(source, at=f"if {draw}", why=why, facts=facts, code="GB0170")


def _near_miss(why: str, at: str = _DRAW, **parts: str) -> NearMiss:
    return NearMiss(_source(**parts), at=at, why=why, facts=_FACTS)


_BETA = "np.random.beta(alpha, alpha)"
_ONE = 'torch.tensor(1.0, dtype=torch.float64, device="cpu")'


class DrawToOp(Codemod):
    """*What it does.*  Lets an operator draw a number that numpy or ``random`` drew.

    ```python
    chance = np.random.uniform(0, 1)
    if not (self.training and chance < self.layerdrop):
        x = layer(x)
    ```
    becomes ``chance = draw_forward(torch.empty(0))``, a tensor in which the operator hands on what
    it drew.  Where the number does not count, in evaluation, the draw is no break any more; where
    it does, the question about it is a question about a tensor, for which other codemods exist.

    *When it applies.*  One number is drawn from the stream of `random` or numpy (or a generator of
    the module, or one that ``self`` keeps: the operator finds the object by its identity), and is
    only compared with numbers in tests, or added to and multiplied with numbers and tensors; or a
    permutation is drawn that is only an index.

    A number that stands in for the drawn one in a ternary (``... if self.training else 1.0``)
    becomes a tensor, too.

    *Fix safety.*  Safe: the same generator draws the same numbers in the same order, also where
    they do not count, and arithmetic in float64 answers alike.  Beside a tensor without dimensions
    the number is converted to its dtype, as Python's numbers are.

    Unsafe where the project gives ``self`` another generator, or the generator another seed, after
    ``__init__``: compiled code does that behind its graph, when the operator has drawn.

    *Refuses.*  Other draws of several numbers, those of one integer (`draw-number`), other uses of
    the number (also beside tensors of integers), and names that inner functions read.
    """

    name = "draw-to-op"
    codes = (
        "data-dependent-guard", "GB0007", "GB0033", "GB0036", "GB0059", "GB0124", "GB0156",
        "GB0170", "GB0291", "GB0294", "GB0298", "GB4315",
    )  # fmt: skip

    examples = (
        Example(
            _source(),
            _source("draw_f(torch.empty(0))").replace("def f(", _operator(_DRAW, "draw_f")),
            at=_DRAW,
            code="data-dependent-guard",
            facts=_FACTS,
            title="layers that are left out by chance",
        ),
        Example(
            _source("random.random()", "pass", "not self.training or chance > 0.5"),
            _source("draw_f(torch.empty(0))", "pass", "not self.training or chance > 0.5").replace(
                "def f(", _operator("random.random()", "draw_f")
            ),
            at="random.random()",
            code="GB0007",
            facts=_FACTS,
            title="asked about at once",
        ),
        Example(
            _MIX.format("np.random.beta(alpha, alpha)", "np.random.permutation(x.shape[0])", ""),
            _MIX.format(
                "draw_mix(torch.empty(0), alpha)", "np.random.permutation(x.shape[0])", "lam"
            )
            .replace("lam * x.mean()", "lam.to(x.dtype) * x.mean()")
            .replace("def mix(", _MIX_OPERATOR),
            at="np.random.beta(alpha, alpha)",
            code="GB0294",
            facts={
                "alpha": Fact("float", "float"),
                "np.random.beta(alpha, alpha)": Fact("float", "float"),
                "x": tensor(4, 3),
                "x[order]": tensor(4, 3),
                "x.mean()": tensor(),
            },
            title="a number that weighs tensors",
        ),
        Example(
            _MIX.format(f"{_BETA} if x.dim() else 1.0", "[1, 0, 3, 2]").replace("x[order]", "x"),
            _MIX.format(f"draw_mix(torch.empty(0), alpha) if x.dim() else {_ONE}", "[1, 0, 3, 2]")
            .replace("x[order]", "x")
            .replace("lam * x.mean()", "lam.to(x.dtype) * x.mean()")
            .replace("def mix(", _MIX_OPERATOR),
            at=_BETA,
            code="GB0294",
            facts={
                "alpha": Fact("float", "float"),
                _BETA: Fact("float", "float"),
                "x": tensor(4, 3),
                "x.mean()": tensor(),
            },
            title="a number that is drawn in some calls only",
        ),
        Example(
            _KEPT.format("", "", "", _DICE, ""),
            _KEPT.format(
                "import weakref\n",
                _KEPT_OPERATOR,
                _KEPT_NEW,
                "draw_forward(torch.empty(0), id(self))",
                "",
            ),
            at=f"if {_DICE}",
            code="GB0170",
            facts=_KEPT_FACTS,
            title="a generator that an object keeps",
        ),
        *(
            Example(
                _KEPT.format("", "", "", _DICE, f"        if other:\n            {anew}\n"),
                _KEPT.format(
                    "import weakref\n",
                    _KEPT_OPERATOR,
                    _KEPT_NEW,
                    "draw_forward(torch.empty(0), id(self))",
                    f"        if other:\n            {anew}\n",
                ),
                at=f"if {_DICE}",
                code="GB0170",
                facts=_KEPT_FACTS,
                title=f"a generator that is given {what} (unsafe)",
            )
            for what, anew in (
                ("another seed", "self.dice.seed(3)"),
                ("way to another one", "self.dice = random.Random(3)"),
            )
        ),
    )
    near_misses = (
        _kept_near_miss("another object's generator", "other.dice.random()"),
        _kept_near_miss("an object under another name", first="        self = self\n"),
        _kept_near_miss("a generator of its own making", kind="example.Dice"),
        _near_miss("beside a tensor that was not seen", more="return x * (1 - chance)"),
        _near_miss("an array of numbers", "np.random.rand(3)", draw="np.random.rand(3)"),
        _near_miss("an integer", "np.random.randint(3)", draw="np.random.randint(3)"),
        _near_miss(
            "three numbers",
            "np.random.uniform(0, 1, 3)",
            draw="np.random.uniform(0, 1, 3)",
        ),
        _near_miss("the number is used", more="return x * chance"),
        _near_miss("the answer is used", more="return x, skip"),
        _near_miss("compared with what was not seen", skips="skip = chance < other"),
        _near_miss("compared for equality", skips="skip = chance == self.rate"),
        _near_miss("the answer of one name goes into a number", skips="skip = 1 + (chance < 0.5)"),
        _near_miss("a name of an inner function", more="return lambda: chance"),
        _near_miss("bound twice", skips="chance = 0.5; skip = chance < self.rate"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        for call in walk(site.function.body):
            if not isinstance(call, cst.Call) or site.function_of(call) is not site.function:
                continue
            draw = draw_of(site, call)
            if draw is None or not _concerns(site, call):
                continue
            casts = fits(site, draw)
            if casts is None or (draw.count and chosen_by(site, call) is not None):
                continue
            rewrite = _rewrite(site, draw, casts)
            if rewrite is not None:
                yield rewrite
            return


def _rewrite(site: Site, draw: Draw, casts: Sequence[Cast]) -> Rewrite | None:
    edit = site.edit()
    torch = torch_alias(site, edit)
    table = find_owners(site, edit, draw.keeper) if draw.keeper else ""
    if draw.keeper and not table:
        return None
    where = 'device="cpu"'
    if draw.count:
        listed = code(draw.call.func).endswith("sample")  # an empty list has no dtype
        value = f"{torch}.as_tensor(BODY0{f', dtype={torch}.int64' if listed else ''})"
        fake = f"{torch}.empty({draw.count}, dtype={torch}.int64, {where})"
    else:
        value = f"{torch}.tensor(BODY0, dtype={torch}.float64, {where})"
        fake = f"{torch}.empty((), dtype={torch}.float64, {where})"
    new = drawing_operator(
        site, edit, draw.call, body_in(draw, table), draw.parameters, f"return {value}", fake
    )
    for cast in casts:
        if cast.node is draw.call:
            new += f".to({cast.dtype})"
        else:
            edit.replace(cast.node, cst.parse_expression(f"{cast.text}.to({cast.dtype})"))
    edit.replace(draw.call, cst.parse_expression(new))
    choice = chosen_by(site, draw.call)
    if choice is not None:
        # What takes the one takes the other.
        number = choice.orelse if choice.body is draw.call else choice.body
        text = f"{torch}.tensor({code(number)}, dtype={torch}.float64, {where})"
        edit.replace(number, cst.parse_expression(text))
    replaced = (_REPLACED,) if draw.keeper and may_be_replaced(site, kept_as(draw)) else ()
    what = f"`{draw.name}`" if draw.name else "the number"
    return edit.rewrite(
        f"draw {what} in a custom operator",
        rank=40,
        safety=Safety.UNSAFE if replaced else Safety.SAFE,
        notes=(
            *replaced,
            "CUDA graphs skip a graph that holds a CPU tensor",
            *operator_notes(site)[1:],
        ),
        prepares=True,
    )


def drawing_operator(
    site: Site,
    edit: Edit,
    call: cst.Call,
    body: cst.BaseExpression,
    given: Sequence[Parameter],
    lines: str,
    fake: str,
) -> str:
    """Put a draw into an operator of its own; the text that calls it.

    ``lines`` are what the operator does, with ``BODY0`` where the draw stands.
    """
    assert site.function is not None
    torch = torch_alias(site, edit)
    operator = operator_name(site, f"draw_{site.function.name.value}")
    anchor = Parameter(
        "anchor",
        "torch.Tensor",
        cst.parse_expression(anchor_for(site, call, (), torch) or f"{torch}.empty(0)"),
        Fact("tensor", "torch.Tensor"),
    )
    parameters = (anchor, *given)
    registered = register_fake(operator, parameters, fake)
    text = f'''@{torch}.library.custom_op("{namespace(site)}::{operator}", mutates_args=())
def {operator}({signature(parameters, torch)}) -> {torch}.Tensor:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    {lines}


{registered}{operator}.register_effect({torch}.library.EffectType.ORDERED)
'''
    made = define(site, text, [body])
    known = _defined(site, made[0])
    if not known:
        place(site, edit, made)
    arguments = ", ".join(code(item.argument) for item in parameters)
    return f"{known or operator}({arguments})"


def _defined(site: Site, made: cst.CSTNode) -> str:
    """The operator above that draws in the same way, which an earlier patch has put there."""
    assert isinstance(made, cst.FunctionDef)
    top = site.top_level_statement(site.node)
    above = site.module.body[: list(site.module.body).index(top)]
    for item in above:
        if isinstance(item, cst.FunctionDef) and "custom_op(" in "".join(
            map(code, item.decorators)
        ):
            alike = (code(item.params), code(item.body)) == (code(made.params), code(made.body))
            if alike and item.name.value.startswith(made.name.value.rstrip("_0123456789")):
                return item.name.value
    return ""


def _concerns(site: Site, call: cst.Call) -> bool:
    """Whether the break is the draw, or a question about the number."""
    line = site.statement_of(call)
    if site.statement is line:
        return True
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))])]
        ) if isinstance(site.statement, cst.SimpleStatementLine | cst.If | cst.While):
            return name in activity(site.statement).reads
    return False

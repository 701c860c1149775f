"""``weight = self.filter.weight(loss.item())``: a number out of an object that keeps something."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.names import fresh
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.settings import set_options
from gbfix.schema import Fact

from ..operator.earlier import is_caught
from ..wrap.capture import local_names
from .block import NoBlock
from .callees import Unfit
from .effect_to_op import Gives, define_block, rewritten
from .moving import is_host_read

_SOURCE = """
import statistics

import torch

torch._dynamo.config.capture_scalar_outputs = True


class Window:
    def __init__(self):
        self.recent = []

    def weight(self, value):
        self.recent.append(value)
        {}


class Step:
    def __init__(self):
        self.window = Window()

    def __call__(self, loss):
        {}
"""
_GIVES = "return 1.0 if value < 3.0 * statistics.median(self.recent) else 0.1"
_CALL = "self.window.weight(loss.item())"
_FACTS = {
    "self": Fact("object", "Step"),
    "self.window": Fact("object", "Window"),
    "self.window.weight": Fact("method", "method", in_project=True),
    "loss": tensor(),
    "loss.item()": scalar(0.5),
    _CALL: scalar(1.0),
}
_NEW = """class Window:"""
_TABLE = """#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


@torch.library.custom_op(f"{{__name__.replace('.', '_')}}::weight_call", mutates_args=())
def weight_call(loss: torch.Tensor, owner_id: int) -> torch.Tensor:
    owner = OWNERS[owner_id]
    {name} = owner.window.weight(loss.item())
    if type({name}) is not float:
        raise TypeError(f"{{type({name}).__name__}} where float is carried")
    return torch.tensor({name}, dtype=torch.float64)


weight_call.register_fake(lambda loss, owner_id: torch.empty((), dtype=torch.float64))
weight_call.register_effect(torch.library.EffectType.ORDERED)


class Step:
    def __init__(self):
        self.window = Window()

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self
"""


def _after(body: str, name: str) -> str:
    text = _SOURCE.format(_GIVES, body).replace("import torch\n", "import torch\nimport weakref\n")
    old = "class Step:\n    def __init__(self):\n        self.window = Window()\n"
    return text.replace(old, _TABLE.format(name=name))


def _scaled(name: str, result: str) -> str:
    return f"{name} = weight_call(loss.detach(), id(self)).item()\n        return {result}"


def _near_miss(body: str, why: str, gives: str = _GIVES, facts: dict[str, Fact] | None = None):  # type: ignore[no-untyped-def]
    return NearMiss(_SOURCE.format(gives, body), at=_CALL, why=why, facts=_FACTS | (facts or {}))


class HeldNumberToOp(Codemod):
    """*What it does.*  Makes an operator of a call that asks an object for a number, where the
    object keeps something from call to call: a window of losses, a controller, a schedule.

    ```python
    return loss * self.window.weight(loss.item())
    ```
    becomes
    ```python
    weight = weight_forward(loss.detach(), id(self)).item()
    return loss * weight
    ```
    where ``weight_forward`` is a ``torch.library.custom_op`` with ordered effects, whose body is
    the call.  The number is carried as a tensor of ``float64``, ``int64`` or ``bool``.

    *When it applies.*  The call gives a number, takes numbers that are read from tensors, and the
    object is found by the identity of the object whose method this is; see `effect-to-op`.

    *Fix safety.*  Safe: the call runs on the same values, as often and in the same order.  What it
    changes is not read by what stays compiled.  A result that is no number of that kind in another
    call is an error there.

    *Refuses.*  Calls that are not always made in their statement, in a ``try`` of compiled code, or
    behind others whose order would change; methods that give whole numbers in some places and
    fractions in others, or nothing; what `effect-to-op` refuses of objects and of what they keep.
    """

    name = "held-number-to-op"
    codes = (
        "GB0007", "GB0008", "GB0033", "GB0036", "GB0059", "GB0092", "GB0124", "GB0142", "GB0147",
        "GB0156", "GB0170", "GB0207", "GB0208", "GB0228", "GB0264", "GB0271", "GB0291", "GB0293",
        "GB0294", "GB0298", "GB0299", "GB0312", "GB7000", "GB0005", "GB0009", "GB0043", "GB0105",
        "GB0146", "GB0148", "GB0157", "GB0158", "GB0160", "GB0193",
        "data-dependent-guard", "data-dependent-specialization", "user-error", "internal-error",
    )  # fmt: skip
    examples = (
        Example(
            _SOURCE.format(_GIVES, f"return loss * {_CALL}"),
            _after(_scaled("weight", "loss * weight"), "weight"),
            at=_CALL,
            facts=_FACTS,
            title="a weight out of the losses before",
        ),
        Example(
            _SOURCE.format(_GIVES, f"scale = {_CALL}\n        return loss * scale"),
            _after(_scaled("scale", "loss * scale"), "scale"),
            at=_CALL,
            facts=_FACTS,
            title="a number with a name",
        ),
    )
    near_misses = (
        _near_miss(f"return loss if loss is None else loss * {_CALL}", "it is not always called"),
        _near_miss(
            f"try:\n            return loss * {_CALL}\n        except KeyError:\n"
            "            return loss",
            "what it raises is caught",
        ),
        _near_miss(f"return print(loss) or loss * {_CALL}", "another effect before it"),
        _near_miss(
            f"return loss * {_CALL}",
            "whole numbers and fractions",
            gives="return 1 if value < 3.0 else 0.1",
        ),
        _near_miss(
            f"return loss * {_CALL} + len(self.window.recent)",
            "it changes what the graph reads",
        ),
        _near_miss(f"return loss * {_CALL}", "a tensor", facts={_CALL: tensor()}),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        for number, view in enumerate([site, *site.callers()][:4]):
            if view.function is None:
                continue
            for call in _calls(view):
                rewrite = _rewrite(view, call, 53 + number)
                if rewrite is not None:
                    yield rewrite
                    return


def _calls(site: Site) -> Iterator[cst.Call]:
    """The calls around the break that give a number, the innermost first."""
    for node in (site.node, *site.ancestors(site.node)):
        if isinstance(node, cst.BaseStatement):
            return
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        fact = site.fact(node)
        if fact is None or fact.kind not in ("int", "float", "bool") or fact.type != fact.kind:
            continue
        if not is_host_read(node.with_changes(args=())):
            yield node


def _rewrite(site: Site, call: cst.Call, rank: int) -> Rewrite | None:
    fact = site.fact(call)
    assert fact is not None
    statement = site.statement_of(call)
    if is_caught(site) or not _is_first(site, statement, call) or _mixes(site, call, fact.kind):
        return None
    edit = site.edit()
    named = _named(statement, call)
    try:
        if named:
            run = (statement,)
            operator = define_block(site, edit, run, gives=Gives(named, fact.kind))
        else:
            name = _name_for(site, call)
            line = cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], call)])
            operator = define_block(
                site,
                edit,
                (line,),
                before=statement,
                members=(call,),
                gives=Gives(name, fact.kind),
            )
            edit.replace(call, cst.Name(name))
        also = set_options(site, edit, ["capture_scalar_outputs"])
        if also is None:
            return None
        # What keeps nothing is better a plain operator, if it can be one.
        return rewritten(site, edit, [operator], rank if operator.touches else rank + 30, also)
    except (NoBlock, Unfit):
        return None


def _named(statement: cst.CSTNode, call: cst.Call) -> str:
    """The name to which a statement binds the call's result, and does nothing else."""
    match statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
        ) if value is call:
            return name
    return ""


def _name_for(site: Site, call: cst.Call) -> str:
    attribute = cst.ensure_type(call.func, cst.Attribute).attr
    last = attribute.value.strip("_")
    taken = set(local_names(site, site.statement_of(call)))
    taken |= activity(site.function.body).reads if site.function is not None else set()
    return fresh(last if last.isidentifier() else "number", taken)


def _is_first(site: Site, statement: cst.CSTNode, call: cst.Call) -> bool:
    """Whether the statement makes the call in any case, and before all that has an effect."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    inside: cst.CSTNode = call
    for outer in site.ancestors(call):
        if outer is statement:
            break
        if isinstance(outer, cst.Lambda | cst.BaseComp | cst.Assert | cst.Comparison):
            return False
        if isinstance(outer, cst.IfExp) and inside is not outer.test:
            return False
        if isinstance(outer, cst.BooleanOperation) and inside is not outer.left:
            return False
        inside = outer
    own = {id(part) for part in (*walk(call), *site.ancestors(call))}
    start = site.span(call)
    for part in walk(statement):
        if not isinstance(part, cst.Call) or id(part) in own:
            continue
        span = site.span(part)
        if (span.line, span.column) < (start.line, start.column) and not _computes(site, part):
            return False
    return True


def _computes(site: Site, call: cst.Call) -> bool:
    """Whether a call is one of torch's own that gives a tensor and changes none."""
    result, func = site.fact(call), site.fact(call.func)
    if result is None or not result.is_tensor or (func is not None and func.in_project):
        return False
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else code(call.func)
    return not name.endswith("_") and not any(
        arg.keyword is not None and arg.keyword.value == "out" for arg in call.args
    )


def _mixes(site: Site, call: cst.Call, kind: str) -> bool:
    """Whether the method's text gives another kind of number, or nothing, in some place."""
    name = cst.ensure_type(call.func, cst.Attribute).attr.value
    texts = [cst.parse_module(text) for text in _texts(site) if f"def {name}(" in text]
    returned = [
        part.value
        for module in texts
        for function in walk(module)
        if isinstance(function, cst.FunctionDef) and function.name.value == name
        for part in walk(function.body)
        if isinstance(part, cst.Return)
    ]
    others = {
        "float": cst.Integer | cst.SimpleString,
        "int": cst.Float | cst.SimpleString,
        "bool": cst.Integer | cst.Float | cst.SimpleString,
    }[kind]
    words_ = ("None",) if kind == "bool" else ("None", "True", "False")
    return any(
        value is None or isinstance(part, others) or code(part) in words_
        for value in returned
        for part in (_ends(value) if value is not None else [cst.Name("None")])
    )


def _ends(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What an expression may give: both sides of a choice, else itself."""
    if isinstance(node, cst.IfExp):
        yield from _ends(node.body)
        yield from _ends(node.orelse)
    elif isinstance(node, cst.BooleanOperation):
        yield from _ends(node.left)
        yield from _ends(node.right)
    else:
        yield node


def _texts(site: Site) -> set[str]:
    return {site.source, *site.sources.values()}

"""``F.ctc_loss``, for which torch has no fake: an operator that runs it, gradient included."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in, with_leading_lines
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, statements_of, walk
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.schema import Fact, Safety

from .capture import (
    Parameter,
    Refused,
    capture,
    has_loose_number,
    is_plain_tensor,
    own_parameters,
)
from .ctc_cases import EXAMPLES, NEAR_MISSES
from .differentiable import Learning, differentiable
from .loose import annotated
from .operator_text import (
    define,
    namespace,
    operator_name,
    place,
    register_fake,
    signature,
    torch_alias,
)

_FUNCTION = "torch.nn.functional.ctc_loss"
_MODULE = "torch.nn.modules.loss.CTCLoss"
_MODULES = frozenset({"torch.nn.CTCLoss", _MODULE, "torch.nn.modules.CTCLoss"})
_FLAGS = "torch.backends.cudnn.flags"
_HOOKS = re.compile(r"\bregister_\w*hook\b")
#: Parameters of ``F.ctc_loss`` (torch 2.13), in order, with the defaults of the last three.
_PARAMETERS = (
    "log_probs",
    "targets",
    "input_lengths",
    "target_lengths",
    "blank",
    "reduction",
    "zero_infinity",
)
_WIDTH = 100
_DTYPES = ("torch.float32", "torch.float64")


class CtcLossToOp(Codemod):
    """*What it does.*  Runs ``F.ctc_loss`` (or a layer ``nn.CTCLoss``) in an operator of its own.

    ```python
    flat = labels.masked_select(mask)
    with torch.backends.cudnn.flags(enabled=False):
        loss = F.ctc_loss(log_probs, flat, input_lengths, target_lengths)
    ```
    becomes ``loss = ctc_loss_op(log_probs, labels, mask, input_lengths, target_lengths)``: the loss
    has no fake, as the size of what it keeps for its backward depends on the targets.  Setting the
    flags, which Dynamo does not trace, and picking the targets, whose number the data decides, move
    along.  The backward operator runs the loss again under ``torch.func.vjp``.

    *When it applies.*  The break is the loss, a ``with`` of cuDNN's flags around nothing else, or
    the statement that picks the targets by a mask, for the loss alone.

    *Fix safety.*  Safe: the same function runs on the same values, and what its result looks like
    follows from its arguments.  Unsafe where an option comes from a parameter without annotation
    or lengths do (an operator takes none but what the program gave), or where another place of the
    program may put something else where a layer was seen.

    *Refuses.*  Options that were not seen, flags around more than the loss, layers in a project
    that registers hooks.
    """

    name = "ctc-loss-to-op"
    codes = ("GB0036", "GB0142", "GB0208")
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        if site.function is None:
            return
        for node in walk(site.function.body):
            if not isinstance(node, cst.Call) or site.function_of(node) is not site.function:
                continue
            loss = _loss(site, node)
            if loss is None:
                continue
            try:
                yield _rewrite(site, loss)
                return
            except Refused as reason:
                yield Advice(f"`{code(node.func)}` cannot move into an operator: {reason}.")
                return


@dataclasses.dataclass(frozen=True)
class _Loss:
    """A call of the loss, and the statements that go with it."""

    node: cst.Call
    #: Given arguments by the names of ``F.ctc_loss``; a layer's options are its attributes.
    given: Mapping[str, cst.BaseExpression]
    #: The ``with`` of cuDNN's flags around it.
    flags: cst.With | None
    #: What picks the targets, and the statement that does.
    picked: cst.BaseExpression | None
    picks: cst.SimpleStatementLine | None
    #: Whether a layer computes it.
    layer: bool


def _loss(site: Site, node: cst.Call) -> _Loss | None:
    """What is to move if the call is of the loss, and the site one of its statements."""
    layer = _is_layer(site, node.func)
    if not layer and resolve(site.module, node.func) != _FUNCTION:
        return None
    given = _arguments(node, _PARAMETERS[:4] if layer else _PARAMETERS)
    if given is None:
        return None
    flags = _flags_around(site, node)
    statement: cst.CSTNode = flags or site.statement_of(node)
    picked, picks = _picked(site, given["targets"], statement)
    if site.statement not in (statement, site.statement_of(node), picks):
        return None
    return _Loss(node, given, flags, picked, picks, layer)


def _is_layer(site: Site, func: cst.BaseExpression) -> bool:
    fact = site.fact(func)
    return fact is not None and fact.type == _MODULE and dotted(func) is not None


def _arguments(node: cst.Call, names: Sequence[str]) -> dict[str, cst.BaseExpression] | None:
    """The arguments by name; None unless all are plain, and the four tensors are among them."""
    given: dict[str, cst.BaseExpression] = {}
    for place_, argument in enumerate(node.args):
        if argument.star or (argument.keyword is None and place_ >= len(names)):
            return None
        name = argument.keyword.value if argument.keyword is not None else names[place_]
        if name not in names or name in given:
            return None
        given[name] = argument.value
    return given if set(_PARAMETERS[:4]) <= given.keys() else None


def _flags_around(site: Site, node: cst.Call) -> cst.With | None:
    """The ``with torch.backends.cudnn.flags(...)`` around the call."""
    for outer in site.ancestors(node):
        if isinstance(outer, cst.FunctionDef | cst.Lambda):
            return None
        if isinstance(outer, cst.With) and any(_is_flags(site, item) for item in outer.items):
            return outer
    return None


def _is_flags(site: Site, item: cst.WithItem) -> bool:
    return isinstance(item.item, cst.Call) and resolve(site.module, item.item.func) == _FLAGS


def _picked(
    site: Site, targets: cst.BaseExpression, statement: cst.CSTNode
) -> tuple[cst.BaseExpression | None, cst.SimpleStatementLine | None]:
    """``labels.masked_select(mask)`` and its statement, if it is for the loss alone.

    What stands between that statement and the loss does not speak of what it reads, and changes
    nothing in place.
    """
    assert site.function is not None
    if not isinstance(targets, cst.Name):
        return None, None
    places = [part for part in walk(site.function) if _is_name(part, targets.value)]
    block = list(site.block_of(statement))
    if len(places) != 2 or statement not in block:
        return None, None
    end = block.index(statement)
    for number in range(end):
        line = block[number]
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
            ) if name == targets.value and not comments_in(line):
                pass
            case _:
                continue
        if not _is_masked(site, value):
            return None, None
        reads = activity(value).reads
        for between in block[number + 1 : end]:
            does = activity(between)
            plain = isinstance(between, cst.SimpleStatementLine) and all(
                isinstance(small, cst.Assign) for small in between.body
            )
            if not plain or does.mutates or (does.reads | does.writes) & reads:
                return None, None
        return value, line
    return None, None


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _is_masked(site: Site, value: cst.BaseExpression) -> bool:
    """``x.masked_select(mask)`` or ``x[mask]`` of names that hold tensors."""
    match value:
        case cst.Call(
            func=cst.Attribute(value=cst.Name() as base, attr=cst.Name("masked_select")),
            args=[cst.Arg(value=cst.Name() as mask, keyword=None, star="")],
        ):
            pass
        case cst.Subscript(
            value=cst.Name() as base, slice=[cst.SubscriptElement(cst.Index(cst.Name() as mask))]
        ):
            pass
        case _:
            return False
    facts = [site.fact(part) for part in (base, mask)]
    if not all(fact is not None and fact.is_tensor and is_plain_tensor(fact) for fact in facts):
        return False
    return facts[1] is not None and facts[1].dtype == "torch.bool"


# -- the text --------------------------------------------------------------------------------------


def _rewrite(site: Site, loss: _Loss) -> Rewrite:
    edit = site.edit()
    torch = torch_alias(site, edit)
    old = _statement(site, loss)
    parameters, texts = _parameters(site, loss, torch)
    name = operator_name(site, "ctc_loss_op")
    operator = f"{namespace(site)}::{name}"
    plain = [texts[key] for key in _PARAMETERS[:4]]
    plain += [f"{key}={texts[key]}" for key in _PARAMETERS[4:] if key in texts]
    indent = "    " if loss.flags is None else "        "
    call = f"{torch}.nn.functional.ctc_loss({', '.join(plain)})"
    if len(indent) + len("return ") + len(call) > _WIDTH:
        lines = "".join(f"{indent}    {text},\n" for text in plain)
        call = f"{torch}.nn.functional.ctc_loss(\n{lines}{indent})"
    body = f"{indent}return {call}"
    if loss.flags is not None:
        body = f"    with {_flags_text(site, loss.flags, torch)}:\n{body}"
    names = [parameter.name for parameter in parameters]
    first = names[0]
    shape = {"'mean'": "()", "'sum'": "()", "'none'": f"{first}.shape[1:-1]"}.get(
        texts.get("reduction", "'mean'").replace('"', "'"),
        f'{first}.shape[1:-1] if {texts.get("reduction")} == "none" else ()',
    )
    fake = register_fake(name, parameters, f"{first}.new_empty({shape})")
    # The loss itself keeps copies of its targets and lengths.
    learning = Learning(name, operator, parameters, [first], copies=True)
    text = differentiable(signature(parameters, torch), learning, f"{torch}.Tensor", fake, torch)
    inner = f"def {name}_in_python({', '.join(names)}):\n{body}\n\n\n"
    place(site, edit, define(site, inner + text))
    arguments = [parameter.argument for parameter in parameters]
    made = cst.Call(cst.Name(name), [cst.Arg(argument) for argument in arguments])
    new = loss.node.with_changes(func=made.func, args=made.args, whitespace_before_args=_NOTHING)
    statement = site.statement_of(loss.node).deep_replace(loss.node, new)
    assert isinstance(statement, cst.SimpleStatementLine)
    if loss.flags is not None:
        above = _above(loss.flags, statement)
        edit.replace(loss.flags, statement.with_changes(leading_lines=above))
    else:
        edit.replace(old, with_leading_lines(statement, like=old))
    if loss.picks is not None:
        edit.moved(loss.picks)
    notes = ["its backward runs the loss once more; a second derivative would raise, as before"]
    safety = Safety.SAFE
    if has_loose_number(site, arguments[1:]):
        safety = Safety.UNSAFE
        notes.append("a parameter without annotation is taken for what the program gave")
    loose = _loose_lengths(site, loss)
    if loose:
        safety = Safety.UNSAFE
        notes.append(f"`{loose}` is taken for a tensor, as it was seen: the loss takes tuples, too")
    if loss.layer and not _is_made_once(site, loss.node.func):
        safety = Safety.UNSAFE
        notes.append(f"`{code(loss.node.func)}` is taken to be an `nn.CTCLoss`, as it was seen")
    return edit.rewrite(
        "move the CTC loss into a custom operator", rank=15, safety=safety, notes=notes
    )


def _loose_lengths(site: Site, loss: _Loss) -> str:
    """A parameter without annotation that is given as the lengths as it is."""
    assert site.function is not None
    for key in ("input_lengths", "target_lengths"):
        given = loss.given[key]
        if not isinstance(given, cst.Name) or given.value not in own_parameters(site, given):
            continue
        if annotated(site.function, given.value) not in ("torch.Tensor", "Tensor"):
            return given.value
    return ""


_NOTHING = cst.SimpleWhitespace("")


def _statement(site: Site, loss: _Loss) -> cst.SimpleStatementLine:
    """The statement of the call; raises `Refused` where cuDNN's flags hold for anything else."""
    line = site.statement_of(loss.node)
    if not isinstance(line, cst.SimpleStatementLine):
        raise Refused("it is a part of a larger statement")
    if comments_in(loss.node):
        raise Refused("there are comments among its arguments")
    if loss.flags is None:
        return line
    if len(loss.flags.items) != 1 or loss.flags.asynchronous is not None:
        raise Refused("other contexts are entered with cuDNN's flags")
    if list(statements_of(loss.flags.body)) != [line] or len(line.body) != 1:
        raise Refused("cuDNN's flags hold for more than the loss")
    small = line.body[0]
    value = small.value if isinstance(small, cst.Return | cst.Assign | cst.AnnAssign) else None
    if value is not loss.node:
        raise Refused("cuDNN's flags hold for more than the loss")
    return line


def _above(flags: cst.With, line: cst.SimpleStatementLine) -> list[cst.EmptyLine]:
    """What stands above the ``with``, and the comments in it that are not at the loss itself."""
    own = list(comments_in(line.with_changes(leading_lines=[])))
    found = []
    for text in comments_in(flags.with_changes(leading_lines=[])):
        if text in own:
            own.remove(text)
        else:
            found.append(cst.EmptyLine(comment=cst.Comment(text)))
    return [*flags.leading_lines, *found]


def _flags_text(site: Site, flags: cst.With, torch: str) -> str:
    call = flags.items[0].item
    assert isinstance(call, cst.Call)
    if flags.items[0].asname is not None:
        raise Refused("what cuDNN's flags give is named")
    for argument in call.args:
        literal = isinstance(argument.value, cst.Integer) or code(argument.value) in _CONSTANTS
        if argument.star or not literal:
            raise Refused("cuDNN's flags are not written out")
    return f"{torch}.backends.cudnn.flags({', '.join(code(arg).rstrip(', ') for arg in call.args)})"


_CONSTANTS = ("True", "False", "None")


def _parameters(site: Site, loss: _Loss, torch: str) -> tuple[list[Parameter], dict[str, str]]:
    """What to pass, and what stands for each argument of the loss in the operator."""
    expressions = dict(loss.given)
    probabilities = expressions.pop("log_probs")
    fact = site.fact(probabilities)
    if fact is None and isinstance(probabilities, cst.Name):
        fact = site.locals_before(site.statement_of(loss.node)).get(probabilities.value)
    if fact is None or not fact.is_tensor or not is_plain_tensor(fact):
        raise Refused("its probabilities were not seen")
    if fact.dtype not in _DTYPES:
        raise Refused("its probabilities are not of a dtype that it takes")
    if loss.picked is not None:
        expressions["targets"] = loss.picked
    # What picks the targets is evaluated first: the facts of its statement are its own.
    keys = sorted(expressions, key=_PARAMETERS.index)
    kept: dict[cst.CSTNode, cst.CSTNode] = {}
    if isinstance(loss.picked, cst.Call) and isinstance(loss.picked.func, cst.Attribute):
        kept[loss.picked.func.attr] = loss.picked.func.attr
    captured = capture(site, [expressions[key] for key in keys], torch, kept=kept)
    texts = {key: code(body) for key, body in zip(keys, captured.bodies, strict=True)}
    taken = {parameter.name for parameter in captured.parameters}
    found = [_required(parameter) for parameter in captured.parameters]
    first = fresh(
        probabilities.value if isinstance(probabilities, cst.Name) else "log_probs", taken
    )
    taken.add(first)
    texts["log_probs"] = first
    if loss.layer:
        for key, kind in (("blank", "int"), ("reduction", "str"), ("zero_infinity", "bool")):
            name = fresh(key, taken)
            taken.add(name)
            option = cst.Attribute(loss.node.func.deep_clone(), cst.Name(key))
            annotation = "str" if kind == "str" else "torch.types.Number"
            found.append(Parameter(name, annotation, option, Fact(kind, kind)))
            texts[key] = name
    return [Parameter(first, "torch.Tensor", probabilities.deep_clone(), fact), *found], texts


def _required(parameter: Parameter) -> Parameter:
    """The loss takes no None: a parameter that may be None elsewhere is none here."""
    return dataclasses.replace(parameter, annotation=parameter.annotation.removesuffix(" | None"))


def _is_made_once(site: Site, layer: cst.BaseExpression) -> bool:
    """Whether the name, or the attribute of ``self``, is bound once, to a new ``nn.CTCLoss``."""
    if any(_HOOKS.search(text) for text in site.sources.values()):
        raise Refused("the project registers hooks, which a layer may have")
    if isinstance(layer, cst.Attribute) and code(layer.value) == "self":
        class_ = site.class_of(layer)
        bases = (
            [] if class_ is None else [resolve(site.module, base.value) for base in class_.bases]
        )
        if class_ is None or bases != ["torch.nn.Module"]:
            return False
        attribute = layer.attr.value
        used = [text for text in site.sources.values() if re.search(rf"\b{attribute}\b", text)]
        bound = [
            node
            for node in walk(site.module)
            if isinstance(node, cst.Assign)
            and any(code(target.target).endswith(f".{attribute}") for target in node.targets)
        ]
        holds = [node for node in walk(class_) if node in bound]
        # Its word stands where it is made and where it is called, and nowhere else, in quotes or
        # out of them: nothing puts another layer there.
        word = rf"\b{attribute}\b"
        calls = [
            node
            for node in walk(class_)
            if isinstance(node, cst.Call) and code(node.func) == f"self.{attribute}"
        ]
        alone = len(used) == 1 and len(bound) == 1 and holds == bound
        named = [part for text in used for part in re.findall(word, text)]
        return alone and len(named) == len(calls) + 1 and _makes_one(site, bound[0].value)
    return False


def _makes_one(site: Site, value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and resolve(site.module, value.func) in _MODULES

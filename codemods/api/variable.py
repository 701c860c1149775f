"""The ``Variable`` of torch 0.3, which every tensor has been since 0.4."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import libcst as cst

from gbfix.analysis.build import comments_in, grouped
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .legacy_sizes import NOTE, sized_constructors
from .splice import Splice
from .unread import NOTE as NOTE_OF_LEAF
from .unread import READ, gradient_is_read, is_handed_on

_VARIABLE = frozenset({"torch.autograd.Variable", "torch.autograd.variable.Variable"})
_PARAMETERS = ("data", "requires_grad", "volatile")
#: Functions of torch that give a new tensor that requires no gradient.
_FACTORIES = words(
    """zeros ones empty full rand randn randint randperm arange linspace logspace eye tensor
    from_numpy zeros_like ones_like full_like empty_like rand_like randn_like randint_like"""
)
#: Legacy constructors: new tensors, unless their argument is a tensor.
_CONSTRUCTORS = words(
    """Tensor FloatTensor DoubleTensor HalfTensor LongTensor IntTensor ShortTensor ByteTensor
    CharTensor BoolTensor"""
)
#: Methods whose result is a new tensor object, of the receiver's data or not.
_NEW_METHODS = words("new new_zeros new_ones new_empty new_full new_tensor detach")
#: Methods that fill their receiver and give it back.
_FILLING = words("zero_ fill_ normal_ uniform_ random_ bernoulli_ exponential_")
_PLAIN = words("Tensor Parameter")
_NUMBERS = words("int float bool list tuple str none")

_GRAD_ADVICE = (
    "`Variable(..., requires_grad=True)` makes a new leaf inside of the compiled function, and"
    " Dynamo cannot return what depends on it. Make the leaf before the call and pass it, or drop"
    " the flag where no gradient of it is read."
)


def _torch(body: str) -> str:
    return f"import torch\nfrom torch.autograd import Variable\n\n\ndef f(x, n):\n    {body}\n"


class RemoveVariable(Codemod):
    """*What it does.*  Replaces the legacy ``Variable(x)`` by what it gives: ``x.detach()``.

    ``Variable(x)`` makes a new tensor object over the same memory, without history.  Where ``x`` is
    such an object already, and nobody else has it (``torch.zeros(3)``, ``x.data``, ``x.detach()``),
    it becomes ``x`` itself.  ``requires_grad=True`` becomes ``.requires_grad_()``.

    With it go the legacy constructors of that time where they get a size: as Dynamo traces it,
    ``torch.FloatTensor(x.size())`` holds the size's numbers, and no patch could be right.

    *When it applies.*  The callee is ``torch.autograd.Variable`` and its argument was recorded as a
    plain tensor or parameter, or is a call that makes one.

    *Fix safety.*  Safe, except where a warning goes: ``volatile=`` warns in eager, and has had no
    other effect since torch 0.4; and where ``requires_grad=True`` has to be dropped of what is not
    new, or where the project reads gradients of tensors.

    *Refuses.*  Tensor subclasses (``Variable`` gives a plain tensor), arguments of unknown kind,
    and flags that are no literals.
    """

    name = "remove-variable"
    uncovers = True
    codes = ("GB0007",)

    examples = tuple(
        Example(_torch(before), _torch(after), at=at, facts=facts, title=title)
        for title, before, after, at, facts in (
            (
                "a tensor with history",
                "return Variable(x) + 1",
                "return x.detach() + 1",
                "Variable(x)",
                {"x": tensor(3, requires_grad=True)},
            ),
            (
                "a new tensor",
                "h = Variable(torch.zeros(n, 3)).to(x.device)",
                "h = torch.zeros(n, 3).to(x.device)",
                "Variable(torch.zeros(n, 3))",
                {},
            ),
            (
                "others beside it",
                "h, g = Variable(x), Variable(torch.ones(n)) if n else Variable(m, True)",
                "h, g = x.detach(), torch.ones(n) if n else Variable(m, True)",
                "Variable(x)",
                {"x": tensor(3, requires_grad=True)},
            ),
            (
                "data of a tensor is a new object",
                "h = Variable(x.data)",
                "h = x.data",
                "Variable(x.data)",
                {"x": tensor(3, requires_grad=True), "x.data": tensor(3)},
            ),
            (
                "a legacy constructor of a size",
                "e = Variable(torch.FloatTensor(x.size()).normal_())",
                "e = torch.empty(x.size(), dtype=torch.float32).normal_()",
                "Variable(torch.FloatTensor(x.size()).normal_())",
                {"x.size()": Fact("tuple", "torch.Size", items=(scalar(3),))},
            ),
            (
                "a legacy constructor elsewhere, which did not run",
                "y = torch.cuda.LongTensor(x.shape) if n else Variable(x)",
                'y = torch.empty(x.shape, dtype=torch.int64, device="cuda") if n else x.detach()',
                "Variable(x)",
                {"x": tensor(3, requires_grad=True)},
            ),
            (
                "legacy constructors of numbers stay",
                "y = torch.Tensor([2, 3]) + torch.FloatTensor(n, 3) + Variable(x)",
                "y = torch.Tensor([2, 3]) + torch.FloatTensor(n, 3) + x.detach()",
                "Variable(x)",
                {"x": tensor(3, requires_grad=True)},
            ),
            (
                "a legacy constructor, filled",
                "h = Variable(torch.FloatTensor(n, 3).uniform_())",
                "h = torch.FloatTensor(n, 3).uniform_()",
                "Variable(torch.FloatTensor(n, 3).uniform_())",
                {"n": scalar(4)},
            ),
            (
                "a legacy constructor of a tensor is an alias",
                "h = Variable(torch.FloatTensor(x))",
                "h = torch.FloatTensor(x).detach()",
                "Variable(torch.FloatTensor(x))",
                {"x": tensor(3), "torch.FloatTensor(x)": tensor(3)},
            ),
            (
                "new zeros",
                "h = Variable(x.data.new(n, 3).zero_())",
                "h = x.data.new(n, 3).zero_()",
                "Variable(x.data.new(n, 3).zero_())",
                {"x.data.new(n, 3)": tensor(4, 3), "n": scalar(4)},
            ),
            (
                "an expression, over lines",
                "h = Variable(x +\n                 1, requires_grad=False)",
                "h = (x +\n                 1).detach()",
                "Variable(x +\n                 1, requires_grad=False)",
                {"x": tensor(3)},
            ),
            (
                "a chain over lines keeps its parentheses",
                "h = Variable(x\n        .abs())",
                "h = (x\n        .abs()).detach()",
                "Variable(x\n        .abs())",
                {"x": tensor(3)},
            ),
            (
                "a new leaf",
                "h = Variable(x, requires_grad=True)",
                "h = x.detach().requires_grad_()",
                "Variable(x, requires_grad=True)",
                {"x": tensor(3)},
            ),
            (
                "a parameter, with its module's name",
                "h = torch.autograd.Variable(data=x)",
                "h = x.detach()",
                "torch.autograd.Variable(data=x)",
                {"x": Fact("tensor", "torch.nn.parameter.Parameter", requires_grad=True)},
            ),
            (
                "volatile only warns",
                "h = Variable(x, volatile=True)",
                "h = x.detach()",
                "Variable(x, volatile=True)",
                {"x": tensor(3)},
            ),
        )
    )
    near_misses = (
        *(
            NearMiss(_torch(source), at=at, why=why, facts=facts)
            for source, at, why, facts in (
                ("return Variable(x)", "Variable(x)", "unknown kind", {}),
                (
                    "return Variable(x)",
                    "Variable(x)",
                    "a subclass becomes a plain tensor",
                    {"x": Fact("tensor", "mine.Masked")},
                ),
                ("return Variable(n)", "Variable(n)", "an error in eager", {"n": scalar(1)}),
                ("return Variable()", "Variable()", "no data", {}),
                (
                    "return Variable(x, requires_grad=n)",
                    "Variable(x, requires_grad=n)",
                    "the flag is not known",
                    {"x": tensor(3), "n": scalar(True)},
                ),
                (
                    "return Variable(*x)",
                    "Variable(*x)",
                    "arguments not plain to see",
                    {"x": tensor(3)},
                ),
                (
                    "return Variable(x, name='h')",
                    "Variable(x, name='h')",
                    "an argument of another time",
                    {"x": tensor(3)},
                ),
                (
                    "return isinstance(x, Variable)",
                    "isinstance(x, Variable)",
                    "no call of it",
                    {"x": tensor(3)},
                ),
            )
        ),
        NearMiss(
            "from sympy import Variable\n\n\ndef f(x):\n    return Variable(x)\n",
            at="Variable(x)",
            why="another library's name",
            facts={"x": tensor(3)},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        call = _variable_call(site)
        made = _arguments(call) if call is not None else None
        if call is None or made is None or _loses_comments(call, made.data):
            return
        text = _without_history(site, made.data)
        if text is None:
            return
        notes = ("the warning about `volatile` goes, too",) if made.volatile else ()
        safety = Safety.UNSAFE if made.volatile else Safety.SAFE
        rank = 90 if made.volatile else 10
        leaf = f"{text}.requires_grad_()" if made.requires_grad else text
        title = f"replace `Variable` by `{_first_line(leaf)}`"
        others = _others(site, call)
        if others and not made.volatile:
            yield _rewrite(
                site, call, leaf, f"{title}, with others beside it", safety, notes, rank - 1, others
            )
        yield _rewrite(site, call, leaf, title, safety, notes, rank)
        if made.requires_grad:
            quiet = _is_new(site, made.data) and not gradient_is_read(site)
            quiet = quiet and not is_handed_on(site)
            yield _rewrite(
                site,
                call,
                text,
                "drop `Variable` and its `requires_grad=True`",
                safety if quiet else Safety.UNSAFE,
                (*notes, NOTE_OF_LEAF if quiet else READ),
                rank - 2 if quiet else 90,
            )
            yield Advice(_GRAD_ADVICE)


def _rewrite(
    site: Site,
    call: cst.Call,
    text: str,
    title: str,
    safety: Safety,
    notes: tuple[str, ...],
    rank: int,
    others: Mapping[cst.Call, str] | None = None,
) -> Rewrite:
    splice = Splice(site)
    for other, written in (others or {}).items():
        splice.replace_span(site.span(other), written)
    inside = {node for each in (call, *(others or {})) for node in walk(each)}
    for sized, written in sized_constructors(site):
        notes = notes if NOTE in notes else (*notes, NOTE)
        if sized in set(walk(call)):
            text = text.replace(splice.source_of(sized), written)
        elif sized in inside:
            continue
        else:
            splice.replace_span(site.span(sized), written)
    splice.replace_span(site.span(call), text)
    return splice.rewrite(title, safety=safety, notes=notes, rank=rank)


def _others(site: Site, call: cst.Call) -> dict[cst.Call, str]:
    """The other calls of the function that only wrap what they are given, and what is the same."""
    found: dict[cst.Call, str] = {}
    if site.function is None:
        return found
    nested = set(walk(call))
    for node in walk(site.function.body):
        if not isinstance(node, cst.Call) or node in nested or not _is_variable(site, node):
            continue
        made = _arguments(node)
        if made is None or made.volatile or made.requires_grad or call in set(walk(node)):
            continue
        if _loses_comments(node, made.data) or any(node in set(walk(one)) for one in found):
            continue
        text = _without_history(site, made.data)
        if text is not None:
            found[node] = text
    return found


def _first_line(text: str) -> str:
    line, *more = text.splitlines()
    return f"{line} ..." if more else line


def _variable_call(site: Site) -> cst.Call | None:
    """The call of ``Variable`` at the site: the node itself, or the only one below it."""
    if isinstance(site.node, cst.BaseCompoundStatement):
        return None
    if isinstance(site.node, cst.Call) and _is_variable(site, site.node):
        return site.node
    found = [
        node for node in walk(site.node) if isinstance(node, cst.Call) and _is_variable(site, node)
    ]
    return found[0] if len(found) == 1 else None


def _is_variable(site: Site, call: cst.Call) -> bool:
    if resolve(site.module, call.func) in _VARIABLE:
        return True
    fact = site.fact(call.func)
    return fact is not None and fact.kind == "class" and fact.qualname in _VARIABLE


@dataclasses.dataclass(frozen=True)
class _Arguments:
    data: cst.BaseExpression
    requires_grad: bool
    volatile: bool


def _arguments(call: cst.Call) -> _Arguments | None:
    """The arguments by name; None where they are not plain to see or the flags no literals."""
    given: dict[str, cst.BaseExpression] = {}
    for position, arg in enumerate(call.args):
        name = arg.keyword.value if arg.keyword is not None else ""
        if arg.star or (not name and position >= len(_PARAMETERS)):
            return None
        name = name or _PARAMETERS[position]
        if name not in _PARAMETERS:
            return None
        given[name] = arg.value
    flags = {}
    for name in ("requires_grad", "volatile"):
        value = given.get(name, cst.Name("False"))
        if not isinstance(value, cst.Name) or value.value not in ("True", "False"):
            return None
        flags[name] = value.value == "True"
    data = given.get("data")
    return None if data is None else _Arguments(data, flags["requires_grad"], flags["volatile"])


def _loses_comments(call: cst.Call, data: cst.BaseExpression) -> bool:
    return comments_in(call) != comments_in(data)


def _without_history(site: Site, data: cst.BaseExpression) -> str | None:
    """Source text of a new tensor over the same memory; None where the kind is not known."""
    text = Splice(site).source_of(data)
    if _is_new(site, data):
        return _on_its_own(text)
    fact = infer(data, site.fact)
    plain = fact is not None and fact.is_tensor and fact.type.rpartition(".")[2] in _PLAIN
    if not plain:
        return None
    return f"{_on_its_own(text) if grouped(data) is data else f'({text})'}.detach()"


def _on_its_own(text: str) -> str:
    """The text of an argument, in parentheses where it could not span its lines without them."""
    if "\n" not in text:
        return text
    try:
        cst.parse_module(f"_ = {text}\n")
    except cst.ParserSyntaxError:
        return f"({text})"
    return text


def _is_new(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the expression makes a tensor object that nobody else has, and without history."""
    if isinstance(node, cst.Attribute):
        fact = site.fact(node.value)
        return node.attr.value == "data" and fact is not None and fact.is_tensor
    if not isinstance(node, cst.Call):
        return False
    target = resolve(site.module, node.func) or ""
    if target.startswith("torch."):
        name = target.removeprefix("torch.")
        if name in _FACTORIES:
            return not any(
                arg.star or _keyword(arg) in ("requires_grad", "out") for arg in node.args
            )
        return name in _CONSTRUCTORS and all(_is_number(site, arg) for arg in node.args)
    if not isinstance(node.func, cst.Attribute):
        return False
    method, receiver = node.func.attr.value, node.func.value
    if method in _FILLING:
        return _is_new(site, receiver)
    made = site.fact(node)
    return (
        method in _NEW_METHODS
        and not any(arg.star or _keyword(arg) == "requires_grad" for arg in node.args)
        and made is not None
        and made.is_tensor
        and not made.requires_grad
        and (method != "new" or all(_is_number(site, arg) for arg in node.args))
    )


def _keyword(arg: cst.Arg) -> str:
    return arg.keyword.value if arg.keyword is not None else ""


def _is_number(site: Site, arg: cst.Arg) -> bool:
    fact = infer(arg.value, site.fact)
    return not arg.star and fact is not None and fact.kind in _NUMBERS

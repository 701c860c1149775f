"""A whole step of training in one region: its forward half is what compiles."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import cast

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.binding import states
from gbfix.analysis.build import as_tuple
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, dotted, is_docstring, walk, words
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site, SiteError, Statement
from gbfix.rewriting.project import mentions

from ..hoist.compiled import Compiled, compiled
from ..hoist.halves import CannotSplit

_EAGER = words("zero_grad train")
_WORD = re.compile(r"\w+")
_NOTE = (
    "splits the region: forward pass and loss are one graph; the backward pass and the optimizer's"
    " step run as Python calls them"
)


def _step(body: str, decorator: str = "@torch.compile\n") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"""import torch

model = torch.nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


{decorator}def step(x, y):
{lines}"""


_BODY = """opt.zero_grad()
loss = torch.nn.functional.cross_entropy(model(x), y)
loss.backward()
opt.step()
return loss.detach()"""
_TAIL = """opt.zero_grad()
loss = step_loss(x, y)
loss.backward()
opt.step()
return loss.detach()"""
_LOSS = """@torch.compile
def step_loss(x, y):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    return loss


"""


_TRAINER = """import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
        self.losses = []

{}

def main(model, batches):
    trainer = Trainer(model)
{}    for x, y in batches:
        trainer.step(x, y)
"""
_METHOD = """    def step(self, x, y):
        self.opt.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.opt.step()
        self.losses.append(loss.item())
"""
_METHOD_AFTER = """    @torch.compile(backend="aot_eager")
    def step_loss(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        return loss

    def step(self, x, y):
        self.opt.zero_grad()
        loss = self.step_loss(x, y)
        loss.backward()
        self.opt.step()
        self.losses.append(loss.item())
"""
_BOUND = '    trainer.step = torch.compile(trainer.step, backend="aot_eager")\n'


class TrainStep(Codemod):
    """*What it does.*  Compiles the forward half of a training step: what stands between
    ``zero_grad()`` and ``loss.backward()`` moves to a function of its own, which is compiled
    instead of the whole.

    *When it applies.*  The function that is compiled (by its decorator, by one call of
    ``torch.compile``, or as a method: ``self.step = torch.compile(self._step)``) calls
    ``backward()`` and an optimizer's ``step()`` in its own body. Dynamo breaks at the optimizer by
    design.

    *Fix safety.*  Safe: the same statements run in the same order.

    *Refuses.*  ``return`` before the backward pass, names that are deleted or declared global,
    functions with more than one ``backward()``.
    """

    name = "train-step"
    codes = ("GB0008", "GB0025", "GB0123", "GB0007", "GB9186")
    examples = (
        Example(
            _step(_BODY),
            _step(_TAIL, "").replace("def step(", _LOSS + "def step("),
            at="opt.zero_grad()",
            title="a decorated function",
        ),
        Example(
            _TRAINER.format(_METHOD, _BOUND),
            _TRAINER.format(_METHOD_AFTER, ""),
            at="self.opt.zero_grad()",
            title="a method that somebody else compiles",
        ),
    )
    near_misses = (
        NearMiss(_step(_BODY.replace("loss.backward()\n", "")), at="opt.step()", why="no backward"),
        NearMiss(
            _step(_BODY.replace("loss.back", "if x is None:\n    return x\nloss.back")),
            at="opt.step()",
            why="it may return before",
        ),
        NearMiss(_step(_BODY, ""), at="opt.step()", why="not compiled here"),
        NearMiss(
            _step(
                _BODY.replace("loss.back", "hook = lambda: loss\nloss.back").replace(
                    "opt.step()", "opt.step()\nloss = hook()"
                )
            ),
            at="opt.step()",
            why="a function sees what is bound below",
        ),
        NearMiss(
            _TRAINER.format(_METHOD, _BOUND) + "\n\nclass Other:\n    step = Trainer.step\n",
            at="self.opt.zero_grad()",
            why="another class takes the method",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        whole = _compiled(site)
        if whole is None or not isinstance(whole.function.body, cst.IndentedBlock):
            return
        function = whole.function
        found = _forward(whole.function.body.body)
        if found is None or whole.decorator is None:
            return
        first, last = found
        lines = [cast(Statement, line) for line in function.body.body]
        half, after = lines[first:last], lines[last:]
        made, read = _interface(half, after)
        if not made or not set(made) <= states(function).definitely_before(after[0]):
            return
        me = _me(site, function)
        given = [name for name in parameters_of(function.params) if name in read]
        if me is not None:
            given = [me, *(name for name in given if name != me)]
        if me is not None and _is_borrowed(site, function):
            return
        base = f"{function.name.value}_{'loss' if len(made) == 1 else 'forward'}"
        # A class in another file may have a method of that name, and somebody may set it.
        taken = {word for text in site.sources.values() for word in _WORD.findall(text)}
        name = fresh(base, names_in(site.module) | taken)
        edit = site.edit()
        yield _rewrite(site, edit, whole, _Half(name, tuple(given), made, half, me))


@dataclasses.dataclass(frozen=True)
class _Half:
    name: str
    given: tuple[str, ...]
    made: tuple[str, ...]
    lines: Sequence[Statement]
    me: str | None


def _rewrite(site: Site, edit: Edit, whole: Compiled, half: _Half) -> Rewrite:
    function = whole.function
    assert isinstance(function.body, cst.IndentedBlock) and whole.decorator is not None
    result = cst.Name(half.made[0]) if len(half.made) == 1 else as_tuple(half.made)
    own = cst.parse_statement("def f():\n    pass\n")
    lines = [*half.lines, cst.SimpleStatementLine([cst.Return(result)])]
    first = half.lines[0]
    lines[0] = first.with_changes(leading_lines=_comments(first))
    own = own.with_changes(
        name=cst.Name(half.name),
        params=cst.Parameters([cst.Param(cst.Name(name)) for name in half.given]),
        body=function.body.with_changes(body=lines),
        decorators=[whole.decorator.with_changes(leading_lines=())],
        leading_lines=function.leading_lines,
    )
    args = [cst.Arg(cst.Name(name)) for name in half.given if name != half.me]
    func = cst.parse_expression(f"{half.me}.{half.name}" if half.me else half.name)
    target = cst.Name(half.made[0]) if len(half.made) == 1 else as_tuple(half.made)
    if isinstance(target, cst.Tuple):
        target = target.with_changes(lpar=(), rpar=())
    line = cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], cst.Call(func, args))])
    edit.replace(half.lines[0], line)
    for rest in half.lines[1:]:
        edit.moved(rest)
    edit.insert_before(function, own)
    if whole.call is None:
        edit.remove(_decorator(function))
    elif half.me is None:
        whole.release(site, edit)
    elif _rebinds(site, whole.call):
        edit.remove(site.statement_of(whole.call))
    else:
        edit.replace(whole.call, whole.call.args[0].value)
    title = f"compile the forward half of `{function.name.value}`"
    return edit.rewrite(title, rank=14, notes=(_NOTE,))


def _decorator(function: cst.FunctionDef) -> cst.Decorator:
    """The innermost decorator, which compiles the function."""
    return function.decorators[-1]


def _comments(line: cst.BaseStatement) -> tuple[cst.EmptyLine, ...]:
    return tuple(above for above in getattr(line, "leading_lines", ()) if above.comment)


def _compiled(site: Site) -> Compiled | None:
    """What compiles the function of this file in which the break's stack begins."""
    frames = [item for item in site.graph_break.frames if item.path == site.path]
    for frame in [*frames, site.frame]:
        found = dataclasses.replace(site.graph_break, site=frame)
        try:
            outer = Site(site.path, site.source, found, site.facts, region=site.region)
        except SiteError:
            continue
        if outer.function is None:
            continue
        try:
            return compiled(site, outer.function)
        except CannotSplit:
            return _bound_call(site, outer.function)
    return None


def _bound_call(site: Site, function: cst.FunctionDef) -> Compiled | None:
    """``self.step = torch.compile(self._step, ...)`` in the function's own class, once."""
    holder = site.class_of(function)
    if holder is None or function.decorators:
        return None
    calls = []
    for node in walk(site.module):
        match node:
            case cst.Call(func=func, args=[cst.Arg(value=cst.Attribute(attr=attr)), *options]):
                if resolve(site.module, func) == "torch.compile" and attr.value == (
                    function.name.value
                ):
                    calls.append((node, options))
    if len(calls) != 1:
        return None
    if site.class_of(calls[0][0]) is not holder and len(_named(site, function.name.value)) != 1:
        return None  # nothing shows whose method that is
    (call, options) = calls[0]
    if not all(arg.keyword and isinstance(arg.value, cst.BaseString | cst.Name) for arg in options):
        return None
    func = call.func
    by = cst.Call(func, options) if options else func
    return Compiled(function, cst.Decorator(by), call)


def _named(site: Site, name: str) -> list[cst.FunctionDef]:
    return [
        node
        for node in walk(site.module)
        if isinstance(node, cst.FunctionDef) and node.name.value == name
    ]


def _rebinds(site: Site, call: cst.Call) -> bool:
    """Whether a statement gives a method its own name again: ``t.step = torch.compile(t.step)``."""
    match site.statement_of(call):
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
        ):
            return value is call and code(target) == code(call.args[0].value)
    return False


def _forward(lines: Sequence[cst.BaseStatement]) -> tuple[int, int] | None:
    """Where the forward half begins and ends among the statements of the step."""
    backward = [i for i, line in enumerate(lines) if _calls(line) == "backward"]
    if len(backward) != 1 or not any(_calls(line) == "step" for line in lines):
        return None  # without an optimizer, the backward pass can be traced, too
    last = backward[0]
    first = 0
    while first < last and (_calls(lines[first]) in _EAGER or is_docstring(lines[first])):
        first += 1
    end = first
    while end < last and _calls(lines[end]) not in _EAGER:
        end += 1
    if any(_calls(line) not in _EAGER for line in lines[end:last]) or end == first:
        return None
    bad = (cst.Return, cst.Yield, cst.Await, cst.Global, cst.Nonlocal, cst.Del)
    half = lines[first:end]
    return None if any(isinstance(n, bad) for line in half for n in walk(line)) else (first, end)


def _calls(line: cst.CSTNode) -> str:
    """The method's name, where a statement is the call of a method and nothing else."""
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name(name)) as func))]
        ) if dotted(func) is not None or name == "backward":
            return name
    return ""


def _interface(
    half: Sequence[Statement],
    after: Sequence[Statement],
) -> tuple[tuple[str, ...] | None, frozenset[str]]:
    """What the half makes that is read afterwards (None: not plain to see), and what it reads."""
    what = activity(cst.Module(half))
    later = activity(cst.Module(after))
    if what.dynamic or what.nonlocals or what.globals:
        return None, frozenset()
    if what.captures & later.writes:
        return None, frozenset()  # a function of the half's own would see the old value
    made = what.writes & later.reads
    order = [node.value for line in half for node in walk(line) if isinstance(node, cst.Name)]
    return tuple(dict.fromkeys(name for name in order if name in made)), frozenset(what.reads)


def _is_borrowed(site: Site, function: cst.FunctionDef) -> bool:
    """Whether somebody takes the method from the class, for objects without the new one."""
    holder = site.class_of(function)
    text = f"{holder.name.value}.{function.name.value}" if holder is not None else ""
    return mentions(site, rf"\b{re.escape(text)}\b")


def _me(site: Site, function: cst.FunctionDef) -> str | None:
    """The name of the object, for a method."""
    if site.class_of(function) is None or not function.params.params:
        return None
    return function.params.params[0].name.value

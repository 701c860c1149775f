"""A tensor's truth, read once and asked later, maybe in other functions: the tensor tells it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.tree import code, walk
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.names import bindings, only_line
from gbfix.schema import Safety

from ..wrap.operator_text import torch_alias
from .truth_to_tensor import _asked, _is_held

_DEPTH = 6
_ANY = "(mask > 1).any()"
_FACTS = {
    "x": tensor(3),
    "mask": tensor(3),
    _ANY: tensor(dtype="torch.bool"),
    "self.ready": tensor(1, dtype="torch.bool"),
}
_CALLEE = """

class Layer(torch.nn.Module):
    def forward(self, x, wide=False):
        if wide:
            x = x + 1
        return self.last(x, wide)

    def last(self, x, wide):
        return x if not wide else -x
"""


def _source(body: str, callee: str = _CALLEE) -> str:
    return (
        f"import torch\n{callee}\n\nclass Net(torch.nn.Module):\n"
        f"    def forward(self, x, mask):\n{body}"
    )


def _lines(*lines: str) -> str:
    return "".join(f"        {line}\n" for line in lines)


_ENDED = "(x > 1).all()"


def _loop(
    starts: str = "False", ends: str = _ENDED, more: str = "pass", last: str = "return x"
) -> str:
    return _source(
        _lines(
            f"ended = {starts}",
            "while not ended:",
            "    x = x * 2",
            f"    {more}",
            f"    ended = {ends}",
            last,
        )
    )


def _loop_near_miss(why: str, **parts: str) -> NearMiss:
    facts = _FACTS | {_ENDED: tensor(dtype="torch.bool"), "x > 1": tensor(3, dtype="torch.bool")}
    return NearMiss(_loop(**parts), at="while not ended", why=why, facts=facts, code="GB0170")


_BOUND = f"wide = {_ANY}.item()"
_KEPT = f"wide = {_ANY}"


def _near_miss(why: str, *lines: str, callee: str = _CALLEE) -> NearMiss:
    return NearMiss(
        _source(_lines(_BOUND, *lines), callee), at=f"{_ANY}.item()", why=why, facts=_FACTS
    )


class FlagToTensor(Codemod):
    """*What it does.*  Leaves a truth value in its tensor that is only asked later:
    ``wide = (mask > 1).any().item()`` becomes ``wide = (mask > 1).any()``.  Other rewrites can then
    lower each ``if wide:``, in this function and in those that it is handed to.

    A flag that a loop binds to a tensor, and that is a Python bool before the first round, becomes
    a tensor from the start.

    *When it applies.*  The name is bound once (such a flag, once in the loop).  All that becomes of
    it is a question (``if``, ``while``, ``assert``, a conditional expression, ``not``, ``and`` and
    ``or`` in these), or an argument of a function, a method or a module of the project whose
    parameter is only asked, too.

    *Fix safety.*  Safe: a tensor of one element has the same truth.  Unsafe where a function that
    it is handed to is called with a Python bool elsewhere: once its ``if`` is lowered, that is an
    error.

    *Refuses.*  Truth values that are returned, kept, compared, computed with or printed, also
    further in, and those that go to functions whose text is not known.
    """

    name = "flag-to-tensor"
    codes = ("GB0124", "GB0033", "GB0170", "data-dependent-guard")
    examples = (
        Example(
            _source(
                _lines(_BOUND, "for layer in self.layers:", "    x = layer(x, wide)", "return x")
            ),
            _source(
                _lines(_KEPT, "for layer in self.layers:", "    x = layer(x, wide)", "return x")
            ),
            at=f"{_ANY}.item()",
            facts=_FACTS,
            title="a flag for all layers",
        ),
        Example(
            _source(_lines("on = bool(self.ready)", "return -x if on else x")),
            _source(_lines("on = self.ready.reshape(()).clone()", "return -x if on else x")),
            at="bool(self.ready)",
            facts=_FACTS,
            title="a buffer that is asked",
        ),
        Example(
            _source(_lines(_BOUND, "return self.layer(x, wide) + self.layer(x)")),
            _source(_lines(_KEPT, "return self.layer(x, wide) + self.layer(x)")),
            at=f"{_ANY}.item()",
            facts=_FACTS,
            title="a flag that a layer gets from one call, and not from another (unsafe)",
        ),
        Example(
            _loop(),
            _loop("torch.tensor(False, device=mask.device)"),
            at="while not ended",
            facts=_FACTS | {_ENDED: tensor(dtype="torch.bool")},
            title="a flag that is a Python bool before the first round",
            code="GB0170",
        ),
    )
    near_misses = (
        _loop_near_miss("the flag is a result", last="return x, ended"),
        _loop_near_miss("the flag is compared", last="return x if ended is True else -x"),
        _loop_near_miss("bound in two places of the loop", more="ended = x is None"),
        _loop_near_miss("no bool at first", starts="None"),
        _loop_near_miss("several truth values", ends="x > 1"),
        _loop_near_miss("the loop binds no tensor to it", ends="self.count > 3"),
        _loop_near_miss(
            "others read it", starts="None\n        global ended\n        ended = False"
        ),
        _loop_near_miss("a closure reads it", more="self.hook = lambda: ended"),
        _near_miss("it is returned", "return x, wide"),
        _near_miss("it is a number", "return x * wide"),
        _near_miss("it is kept", "self.wide = wide", "return x"),
        _near_miss("it is compared", "return x if wide is True else -x"),
        _near_miss("nobody knows what is done with it", "return self.other(x, narrow=wide)"),
        _near_miss("it is printed", "print(wide)", "return x"),
        _near_miss("torch is told", "return torch.dropout(x, 0.5, wide)"),
        _near_miss("it is bound anew", "if mask is None:", "    wide = False", "return x"),
        _near_miss(
            "a layer computes with it",
            "return self.layer(x, wide)",
            callee=_CALLEE.replace("-x", "x * wide"),
        ),
        _near_miss(
            "another layer, which calls it otherwise, computes with it",
            "return self.layer(x, wide)",
            callee=f"{_CALLEE}\n\nclass Other(torch.nn.Module):\n"
            "    def forward(self, x, strong):\n        return x * strong\n",
        ),
        _near_miss(
            "another layer takes it among its options",
            "return self.layer(x, wide=wide)",
            callee=f"{_CALLEE}\n\nclass Other(torch.nn.Module):\n"
            "    def forward(self, x, **options):\n        return self.inner(x, **options)\n",
        ),
        _near_miss(
            "a layer binds it anew",
            "return self.layer(x, wide)",
            callee=_CALLEE.replace("if wide:", "wide = wide or x is None\n        if wide:"),
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for view in (site, *site.callers()):
            if view.function is None:
                continue
            asked = {it.value for it in walk(view.statement) if isinstance(it, cst.Name)}
            for line in walk(view.function.body):
                if not isinstance(line, cst.SimpleStatementLine):
                    continue
                if line is not view.statement and not asked & _bound(line):
                    continue
                rewrite = _kept(view, line) or _started(view, line)
                if rewrite is not None:
                    yield rewrite
                    return


def _bound(line: cst.SimpleStatementLine) -> set[str]:
    match line.body:
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))])]:
            return {name}
    return set()


def _kept(site: Site, line: cst.SimpleStatementLine) -> Rewrite | None:
    """The line with the tensor bound, if it reads a tensor's truth."""
    match line.body:
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)]:
            read = _read(value)
        case _:
            return None
    fact = infer(read, site.fact) if read is not None and not comments_in(value) else None
    if read is None or fact is None or not fact.is_tensor or fact.shape is None:
        return None
    if any(size != 1 for size in fact.shape) or only_line(site, name) is not line:
        return None
    flags = _Flags(site)
    if not flags.is_only_asked(name, site.span(line).line):
        return None
    bools = flags.bools()
    text = code(read)
    if not isinstance(read, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        text = f"({text})"
    text += ".reshape(())" if fact.shape else ""
    # What may be changed before it is asked.
    text += ".clone()" if _is_held(read) else ""
    edit = site.edit()
    edit.replace(value, cst.parse_expression(text))
    return edit.rewrite(
        f"keep `{name}` as a tensor instead of a Python scalar",
        notes=[f"`{name}` is a tensor now, also where it is handed on.", *bools],
        safety=Safety.UNSAFE if bools else Safety.SAFE,
        rank=15,
    )


def _started(site: Site, line: cst.SimpleStatementLine) -> Rewrite | None:
    """``done = False`` above a loop that binds it to a tensor: a tensor from the start."""
    match line.body:
        case [
            cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(name))],
                value=cst.Name("True" | "False") as value,
            )
        ]:
            pass
        case _:
            return None
    function = site.function
    scope = activity(function.body) if function is not None else None
    if function is None or scope is None or name in scope.globals | scope.nonlocals:
        return None
    lines = [it for it in bindings(site, name) if isinstance(it, cst.SimpleStatementLine)]
    match lines:
        case [first, cst.SimpleStatementLine(body=[cst.Assign(value=ends)]) as second]:
            pass
        case _:
            return None
    above = list(site.ancestors(line))
    looped = any(
        isinstance(it, cst.For | cst.While) and it not in above for it in site.ancestors(second)
    )
    fact = infer(ends, site.fact)
    if first is not line or not looped or fact is None or not fact.is_tensor:
        return None
    if fact.shape != () or fact.dtype != "torch.bool":
        return None
    flags = _Flags(site)
    if not flags.is_only_asked(name, site.span(line).line, bindings=2) or flags.bools():
        return None
    edit = site.edit()
    # One that has a default may be None in another call.
    options = {it.name.value for it in params_of(function.params) if it.default is not None}
    beside = sorted(
        other
        for other, held in site.locals_before(line).items()
        if held.is_tensor and held.device == fact.device and other not in options
    )
    device = f", device={beside[0]}.device" if beside else ""
    if not beside and fact.device != "cpu":
        return None
    edit.replace(
        value, cst.parse_expression(f"{torch_alias(site, edit)}.tensor({value.value}{device})")
    )
    return edit.rewrite(
        f"let `{name}` be a tensor from the start",
        notes=[f"`{name}` is a tensor now, in each round."],
        rank=15,
        prepares=True,
    )


def _read(value: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor whose truth is read."""
    match value:
        case cst.Call(func=cst.Attribute(value=held, attr=cst.Name("item")), args=[]):
            return held
        case cst.Call(func=cst.Name("bool"), args=[cst.Arg(value=inner, keyword=None, star="")]):
            read = _read(inner)
            return inner if read is None else read
    return None


class _Flags:
    """Follows a truth value through the project's functions."""

    def __init__(self, site: Site) -> None:
        self._path = site.path
        texts = {**site.sources, site.path: site.source}
        self._trees: dict[str, ast.Module] = {}
        for path, text in texts.items():
            try:
                self._trees[path] = tree_of(text)
            except (SyntaxError, ValueError):
                continue
        self._asked = {id(it) for tree in self._trees.values() for it in _asked(tree)}
        self._seen: set[tuple[int, str]] = set()
        #: Functions that the value goes to, with the parameter and the call.
        self._reached: list[tuple[ast.FunctionDef, str, ast.Call]] = []

    def is_only_asked(self, name: str, line: int, *, bindings: int = 1) -> bool:
        """Whether the name that this line binds is only asked, or handed to what only asks it.

        ``bindings`` is how many lines of the function bind it.
        """
        tree = self._trees.get(self._path)
        around = [
            node
            for node in ast.walk(tree or ast.Module([], []))
            if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        if not around:
            return False
        return self._only_asks(
            max(around, key=lambda node: node.lineno), self._path, name, bindings
        )

    def _only_asks(
        self, function: ast.FunctionDef, path: str, name: str, bindings: int, depth: int = 0
    ) -> bool:
        if (id(function), name) in self._seen:
            return True
        self._seen.add((id(function), name))
        # What a decorator does to the arguments of a function concerns those who call it.
        if depth > _DEPTH or (depth and function.decorator_list):
            return False
        handed: dict[int, tuple[ast.Call, int | str]] = {}
        inside: set[int] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                handed |= _given(node, name)
            if (
                isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef)
                and node is not function
            ):
                inside |= {id(part) for part in ast.walk(node)}
        uses = [it for it in ast.walk(function) if isinstance(it, ast.Name) and it.id == name]
        if sum(not isinstance(use.ctx, ast.Load) for use in uses) != bindings:
            return False
        for use in uses:
            if id(use) in inside:
                return False
            if not isinstance(use.ctx, ast.Load) or id(use) in self._asked:
                continue
            if id(use) not in handed:
                return False
            call, place = handed[id(use)]
            callees = list(self._callees(call, path, place, function))
            if not callees:
                return False
            for where, callee, parameter in callees:
                if not parameter:
                    return False  # among ``**options``, it may go anywhere
                self._reached.append((callee, parameter, call))
                if not self._only_asks(callee, where, parameter, 0, depth + 1):
                    return False
        return True

    def _callees(
        self, call: ast.Call, path: str, place: int | str, around: ast.FunctionDef
    ) -> Iterator[tuple[str, ast.FunctionDef, str]]:
        """The functions that a call may run, each with the parameter that gets the value: "" where
        it is one of several that have no names.
        """
        called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        root: ast.AST = call.func
        while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(call.func, ast.Name):
            called = call.func.id
        first = root.id if isinstance(root, ast.Name) else ""
        if first in _imported(self._trees[path]) and first != called:
            return  # another library's function
        named = list(self._functions(called))
        if not named and (called == first and hasattr(builtins, called)):
            return
        kinds = None if named else self._kinds_of(_last(call.func))
        for where, function, is_method in named or self._functions("forward"):
            if not named and kinds is not None and function not in kinds:
                continue
            parameters = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
            known = {*parameters, *(arg.arg for arg in function.args.kwonlyargs)}
            number = place + is_method if isinstance(place, int) else 0
            if isinstance(place, str):
                found = place if place in known else ""
            else:
                found = parameters[number] if number < len(parameters) else ""
            more = function.args.kwarg if isinstance(place, str) else function.args.vararg
            if (found or more is not None) and function is not around:
                yield where, function, found

    def _kinds_of(self, name: str) -> set[ast.FunctionDef] | None:
        """The ``forward`` of each class whose objects a name or an attribute holds; None where
        something else may be there.
        """
        nodes = [node for tree in self._trees.values() for node in ast.walk(tree)]
        classes = {it.name: it for it in nodes if isinstance(it, ast.ClassDef)}
        held = {name}
        for node in nodes:
            match node:
                case (
                    ast.For(target=target, iter=value)
                    | ast.comprehension(target=target, iter=value)
                ) if name in _words(target):
                    held |= {it.attr for it in ast.walk(value) if isinstance(it, ast.Attribute)}
        found: set[ast.FunctionDef] = set()
        told = False
        for node in nodes:
            match node:
                case ast.Assign(targets=[target], value=value) if _last(target) in held:
                    kinds = [classes[word] for word in _words(value) if word in classes]
                    forwards = [
                        line
                        for kind in kinds
                        for line in kind.body
                        if isinstance(line, ast.FunctionDef) and line.name == "forward"
                    ]
                    if not kinds or len(forwards) != len(kinds):
                        return None
                    told = True
                    found |= {*forwards}
        return found if told else None

    def bools(self) -> list[str]:
        """What says that functions, to which the value is handed, are given others elsewhere."""
        found: dict[str, None] = {}
        for function, parameter, followed in self._reached:
            names = {function.name}
            if function.name == "forward":
                names = {_last(followed.func), *self._instances(function)}
            for tree in self._trees.values():
                for around in ast.walk(tree):
                    own = around if isinstance(around, ast.FunctionDef | ast.Module) else None
                    for call in _calls(own) if own is not None else ():
                        if _last(call.func) in names and not self._is_given(
                            call, function, parameter, own
                        ):
                            text = f"`{ast.unparse(call)[:60]}` gives `{function.name}` no tensor"
                            found[text] = None
        return list(found)

    def _is_given(
        self, call: ast.Call, function: ast.FunctionDef, parameter: str, around: ast.AST | None
    ) -> bool:
        """Whether a call hands on the value that is followed."""
        parameters = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        by_name = {it.arg: it.value for it in call.keywords}
        value = by_name.get(parameter)
        if value is None and parameter in parameters:
            place = parameters.index(parameter) - (parameters[:1] in (["self"], ["cls"]))
            value = call.args[place] if place < len(call.args) else None
        if not isinstance(value, ast.Name):
            return False
        return (id(around), value.id) in self._seen

    def _instances(self, forward: ast.FunctionDef) -> set[str]:
        """Names and attributes that hold modules of the class, or several of them."""
        nodes = [node for tree in self._trees.values() for node in ast.walk(tree)]
        kinds = {it.name for it in nodes if isinstance(it, ast.ClassDef) and forward in it.body}
        found: set[str] = set()
        for node in nodes:
            match node:
                case ast.Assign(targets=[target], value=value) if kinds & _words(value):
                    found.add(_last(target))
                case (
                    ast.For(target=target, iter=value)
                    | ast.comprehension(target=target, iter=value)
                ) if found & _words(value):
                    found |= _words(target)
        return found

    def _functions(self, name: str) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
        """The project's functions of a name, and whether they are methods."""
        for path, tree in self._trees.items():
            for node in ast.walk(tree):
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.FunctionDef) and part.name == name:
                        yield path, part, isinstance(node, ast.ClassDef)


def _given(call: ast.Call, name: str) -> Mapping[int, tuple[ast.Call, int | str]]:
    """Where a call is given the name: by position or by keyword."""
    found: dict[int, tuple[ast.Call, int | str]] = {}
    if not any(isinstance(arg, ast.Starred) for arg in call.args):
        for place, arg in enumerate(call.args):
            if isinstance(arg, ast.Name) and arg.id == name:
                found[id(arg)] = (call, place)
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Name) and keyword.value.id == name and keyword.arg:
            found[id(keyword.value)] = (call, keyword.arg)
    return found


def _imported(tree: ast.Module) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def _words(node: ast.AST) -> set[str]:
    """The names and attributes in an expression."""
    names = {it.id for it in ast.walk(node) if isinstance(it, ast.Name)}
    return names | {it.attr for it in ast.walk(node) if isinstance(it, ast.Attribute)}


def _last(node: ast.AST) -> str:
    """``layer`` of ``layer`` and of ``self.layer``."""
    if isinstance(node, ast.Subscript | ast.Call):
        return _last(node.value if isinstance(node, ast.Subscript) else node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _calls(around: ast.FunctionDef | ast.Module) -> Iterator[ast.Call]:
    """The calls in a function's own body, or outside of all functions."""
    stack: list[ast.AST] = list(ast.iter_child_nodes(around))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        stack += ast.iter_child_nodes(node)

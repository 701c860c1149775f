"""Chains of tests that do nothing but raise, and what they raise."""

from __future__ import annotations

import ast
import builtins
import dataclasses
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, statements_of, walk
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Site

from ..wrap.capture import is_global_object
from .effect_operator import Effect
from .effects import rendered

Statements = Sequence[cst.BaseStatement]
_Text = tuple[cst.BaseExpression, bool]
NOTE = "The traceback of the error ends in the operator."


@dataclasses.dataclass
class Raised:
    """What a block raises, and does nothing else: names that it binds first, then the error."""

    exception: cst.BaseExpression
    kind: cst.BaseExpression
    bound: list[tuple[str, cst.BaseExpression]]
    texts: list[_Text]
    kept: dict[cst.CSTNode, cst.CSTNode]
    cause: str = ""
    comments: tuple[str, ...] = ()


@dataclasses.dataclass
class Guard:
    """A chain whose branches raise, but for what is left of it as ``rest``."""

    tests: list[cst.BaseExpression | None]
    raised: list[Raised]
    rest: Statements = ()
    #: Whether ``rest`` is the first branch, and the errors come where its test fails.
    rest_first: bool = False

    def effect(self, under: cst.BaseExpression | None, first: cst.BaseExpression) -> Effect:
        """The operator's effect; ``first`` is the first test, without what is asked ``under``."""
        expressions: list[cst.BaseExpression] = []
        kept: dict[cst.CSTNode, cst.CSTNode] = {}
        texts: list[_Text] = []
        lines: list[str] = []

        def put(node: cst.BaseExpression) -> str:
            expressions.append(node)
            return f"BODY{len(expressions) - 1}"

        raised = list(self.raised)
        if self.rest_first:
            lines += [f"if {put(first)}:", "    pass"]
        for test in self.tests[1 if self.rest_first else 0 :]:
            word = "elif" if lines else "if"
            node = test if expressions else first
            lines.append("else:" if test is None or node is None else f"{word} {put(node)}:")
            one = raised.pop(0)
            lines += [f"    {text}" for text in one.comments]
            lines += [f"    {name} = {put(value)}" for name, value in one.bound]
            lines.append(f"    raise {put(one.exception)}{one.cause}")
            kept |= one.kept
            texts += one.texts
        if self.rest_first and lines[2:3] == ["else:"]:
            match first:
                case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                    lines[:3], expressions[0] = ["if BODY0:"], inner
                case cst.Name() | cst.Call() | cst.Comparison() | cst.Attribute():
                    lines[:3] = ["if not BODY0:"]
        return Effect(
            "check",
            expressions,
            kept,
            texts,
            "\n    ".join(lines),
            (NOTE,),
            decides=True,
            under=under,
        )


def guard_of(site: Site, head: cst.If) -> Guard | None:
    """The chain as a guard; None where a branch does more than to raise."""
    tests: list[cst.BaseExpression | None] = []
    raised: list[Raised] = []
    branch: cst.If | cst.Else | None = head
    guard = Guard(tests, raised)
    while branch is not None:
        block = branch.body
        test = branch.test if isinstance(branch, cst.If) else None
        one = raised_by(site, block)
        if one is not None:
            tests.append(test)
            raised.append(one)
        elif isinstance(branch, cst.Else) and raised:
            if not _moves(branch):
                return None
            guard.rest = _body(block)
        elif branch is head and isinstance(head.orelse, cst.Else) and _moves(head):
            tests.append(test)
            guard.rest, guard.rest_first = _body(block), True
        else:
            return None
        branch = branch.orelse if isinstance(branch, cst.If) else None
    return guard if raised else None


def asserted(line: cst.SimpleStatementLine) -> Effect | None:
    """The effect of an ``assert`` with a line of its own."""
    match line.body:
        case [cst.Assert(test=test, msg=message) as small] if not comments_in(small):
            pass
        case _:
            return None
    if message is not None and not is_text(message):
        return None
    return Effect(
        "check",
        [test] if message is None else [test, message],
        {},
        [] if message is None else [(message, False)],
        "assert BODY0" if message is None else "assert BODY0, BODY1",
        (NOTE,),
        decides=True,
    )


def raised_by(site: Site, block: cst.BaseSuite) -> Raised | None:
    """What the block raises, if it does nothing else."""
    small = [part for line in statements_of(block) for part in _smalls(line)]
    if not small or not isinstance(small[-1], cst.Raise):
        return None
    bound: list[tuple[str, cst.BaseExpression]] = []
    for part in small[:-1]:
        match part:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                bound.append((name, value))
            case cst.Expr(value=cst.SimpleString()):
                continue
            case _:
                return None
    if len({name for name, _ in bound}) < len(bound):
        return None
    if site.function is not None and any(name in shared_names(site.function) for name, _ in bound):
        return None
    found = _raised(site, small[-1], {name for name, _ in bound})
    if found is None:
        return None
    exception, kind, texts, cause = found
    kept: dict[cst.CSTNode, cst.CSTNode] = {kind: kind}
    names = dict(bound)
    for index, (_, value) in enumerate(bound):
        _keep_names(value, {name for name, _ in bound[:index]}, kept)
    _keep_names(exception, set(names), kept)
    shown = [text for node in (exception, *names.values()) for text in comments_in(node)]
    if any(comments_in(node) for node in small):
        return None
    comments = tuple(text for text in comments_in(block) if text not in shown)
    return Raised(exception, kind, bound, _shown(texts, names), kept, cause, comments)


def shared_names(function: cst.FunctionDef) -> frozenset[str]:
    """Names that others read, too: a function inside, the module, a function around it."""
    return activity(function.body).captures | frozenset(
        item.name.value
        for part in walk(function.body)
        if isinstance(part, cst.Global | cst.Nonlocal)
        for item in part.names
    )


def _smalls(line: cst.CSTNode) -> Sequence[cst.CSTNode]:
    return line.body if isinstance(line, cst.SimpleStatementLine) else [line]


def _keep_names(node: cst.CSTNode, names: set[str], kept: dict[cst.CSTNode, cst.CSTNode]) -> None:
    for part in walk(node):
        if isinstance(part, cst.Name) and part.value in names:
            kept[part] = part


def _shown(texts: Sequence[_Text], names: dict[str, cst.BaseExpression]) -> list[_Text]:
    """What is shown, and for a name that the block itself has bound, what it was bound to."""
    found: list[_Text] = []
    for text, by_format in texts:
        for part, formatted in rendered(text, by_format):
            if isinstance(part, cst.Name) and part.value in names:
                found += _shown([(names[part.value], formatted)], {})
            else:
                found.append((part, formatted))
    return found


def _raised(
    site: Site, small: cst.Raise, bound: set[str]
) -> tuple[cst.BaseExpression, cst.BaseExpression, list[_Text], str] | None:
    cause = ""
    if small.cause is not None:
        if code(small.cause.item) != "None":
            return None
        cause = " from None"
    if small.exc is None or comments_in(small):
        return None
    texts: list[_Text] = []
    kind = small.exc
    if isinstance(small.exc, cst.Call):
        kind = small.exc.func
        for argument in small.exc.args:
            plain = _is_simple(argument.value, bound) or _is_plain_name(site, argument.value)
            if argument.star or not plain:
                return None
            texts.append((argument.value, False))
    if not is_error(site, kind, custom=len(texts) > 1):
        return None
    return small.exc, kind, texts, cause


def _is_simple(node: cst.BaseExpression, bound: set[str]) -> bool:
    """A text, a number, or a name of one: an argument that an exception shows as it is."""
    if is_text(node) or isinstance(node, cst.BaseNumber):
        return True
    match node:
        case cst.Name(value=name):
            return name in bound
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="item" | "tolist")), args=[]):
            return True
        case cst.Call(func=cst.Name(value="int" | "float" | "str" | "len")):
            return True
    return False


def _is_plain_name(site: Site, node: cst.BaseExpression) -> bool:
    """A name of a text or a number, as far as the run saw."""
    if not isinstance(node, cst.Name):
        return False
    fact = site.fact(node) or site.locals_before(site.statement).get(node.value)
    return fact is not None and fact.kind in ("str", "int", "float")


def is_text(node: cst.BaseExpression) -> bool:
    match node:
        case cst.ConcatenatedString():
            return is_text(node.left) and is_text(node.right)
        case cst.BinaryOperation(operator=cst.Modulo() | cst.Add()):
            return is_text(node.left)
        case cst.Call(func=cst.Attribute(value=template, attr=cst.Name(value="format" | "join"))):
            return is_text(template)
    return isinstance(node, cst.SimpleString | cst.FormattedString)


def is_error(site: Site, node: cst.BaseExpression, *, custom: bool = False) -> bool:
    """Whether the expression is certainly a class of plain errors, at module level.

    A ``custom`` class may have more than one argument.
    """
    name = resolve(site.module, node) or ""
    module, _, last = name.rpartition(".")
    if module == "builtins":
        found = getattr(builtins, last, None)
        plain = isinstance(found, type) and issubclass(found, Exception)
        return plain and last not in ("StopIteration", "StopAsyncIteration") and not custom
    if not isinstance(node, cst.Name) or not is_global_object(site, node):
        return False
    for part in site.module.body:
        if isinstance(part, cst.ClassDef) and part.name.value == node.value:
            return bool(part.bases) and all(
                not base.star and _is_base(site, base.value) for base in part.bases
            )
    return "." in name and _is_imported_error(site, name)


def _is_imported_error(site: Site, name: str, depth: int = 0) -> bool:
    """Whether another file of the project defines a class of that dotted name, of plain errors."""
    module, _, last = name.rpartition(".")
    tail = module.strip(".").replace(".", "/")
    ends = (f"/{tail}.py", f"/{tail}/__init__.py")
    texts = [text for path, text in site.sources.items() if tail and path.endswith(ends)]
    tree = tree_of(texts[0]) if len(texts) == 1 else ast.Module([], [])
    found = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.ClassDef) and node.name == last)
        or (isinstance(node, ast.Name) and node.id == last and isinstance(node.ctx, ast.Store))
    ]
    match found:
        case [ast.ClassDef(bases=[_, *_] as bases, keywords=[]) as holder] if holder in tree.body:
            pass
        case _:
            return False
    for base in bases:
        if not isinstance(base, ast.Name):
            return False
        kind = getattr(builtins, base.id, None)
        plain = isinstance(kind, type) and issubclass(kind, Exception)
        plain = plain and base.id not in ("StopIteration", "StopAsyncIteration")
        own = depth < 4 and _is_imported_error(site, f"{module}.{base.id}", depth + 1)
        if not plain and not own:
            return False
    return True


def _is_base(site: Site, node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and is_error(site, node)


def _moves(branch: cst.If | cst.Else) -> bool:
    """Whether the branch's statements can stand where the chain stood."""
    body = branch.body
    if not isinstance(body, cst.IndentedBlock) or body.header.comment:
        return False
    if any(line.comment for line in body.footer):
        return False
    lines = getattr(branch, "leading_lines", ())
    return isinstance(branch, cst.If) or not any(line.comment for line in lines)


def _body(block: cst.BaseSuite) -> list[cst.BaseStatement]:
    return [node for node in statements_of(block) if isinstance(node, cst.BaseStatement)]

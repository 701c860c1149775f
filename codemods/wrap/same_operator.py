"""One operator of a file for one effect: a second statement of the same form calls the first's.

``print("after a", x.mean())`` and ``print("after b", y.mean())`` are one operator with a text for
its second argument.  What may differ are the names of what is passed, and texts: the operator that
is there is given a parameter for these, and its calls hand them over.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh
from gbfix.analysis.tree import code, walk
from gbfix.analysis.trees import tree_of
from gbfix.codemod import Edit, Site

from .operator_text import define, place, spellings

_HEAD = re.compile(r"@(\w+)\.library\.custom_op\((f?\".+\"), mutates_args=\(\)\)\s*\Z")
#: Conditions are forced where no input makes them hold, which is done in the operator: shared, the
#: first call would take the other side, too, and what the second one does would stay unseen.
_CHOICES = (ast.If, ast.IfExp, ast.While, ast.Assert, ast.BoolOp, ast.Match)
#: Texts that may differ before an operator is rather one of its own.
_TEXTS = 2


def place_or_share(
    site: Site, edit: Edit, definition: Sequence[cst.BaseStatement], call: cst.Call
) -> cst.Call:
    """Place an effectful operator's definition in the edit, or find one of the file that does the
    same; the call of that.  ``call`` is the new operator's, whose arguments are all positional.
    """
    for known in _operators(site):
        shared = _shared(site, edit, known, definition, call)
        if shared is not None:
            return shared
    place(site, edit, definition)
    return call


@dataclasses.dataclass(frozen=True)
class _Operator:
    """An operator of the file: what defines it, and the text and tree of that."""

    definition: cst.FunctionDef
    fake: cst.SimpleStatementLine
    text: str
    tree: ast.FunctionDef

    @property
    def name(self) -> str:
        return self.definition.name.value


def _operators(site: Site) -> Iterator[_Operator]:
    """The operators with ordered effects and no result that stand before the site."""
    top = site.top_level_statement(site.node)
    body = list(site.module.body)
    for first, second, third in zip(body, body[1:], body[2:], strict=False):
        if first is top or second is top or third is top:
            return
        if not isinstance(first, cst.FunctionDef) or len(first.decorators) != 1:
            continue
        found = _HEAD.match(code(first.decorators[0]).strip())
        name = first.name.value
        if found is None or found[2] not in spellings(site, name):
            continue
        ordered = f"{name}.register_effect({found[1]}.library.EffectType.ORDERED)"
        if not isinstance(second, cst.SimpleStatementLine) or code(third).strip() != ordered:
            continue
        text = code(first.with_changes(leading_lines=()))
        tree = _function(text)
        if tree is None or not _is_plain(tree.args):
            continue
        names = ", ".join(parameter.arg for parameter in tree.args.args)
        if code(second).strip() == f"{name}.register_fake(lambda {names}: None)":
            yield _Operator(first, second, text, tree)


def _is_plain(arguments: ast.arguments) -> bool:
    """Whether all parameters have a type and no default, and may be given by position."""
    others = (arguments.posonlyargs, arguments.kwonlyargs, arguments.defaults)
    stars = arguments.vararg or arguments.kwarg
    return not any(others) and stars is None and all(it.annotation for it in arguments.args)


def _function(text: str) -> ast.FunctionDef | None:
    tree = tree_of(text)
    match tree.body if tree is not None else []:
        case [ast.FunctionDef() as function]:
            return function
    return None


def _shared(
    site: Site,
    edit: Edit,
    known: _Operator,
    definition: Sequence[cst.BaseStatement],
    call: cst.Call,
) -> cst.Call | None:
    """The call of a known operator that does what the definition says, changed where it must be."""
    text = code(definition[0].with_changes(leading_lines=()))
    new = _function(text)
    if new is None or any(isinstance(part, _CHOICES) for part in ast.walk(new)):
        return None
    if not set(comments_in(definition[0])) <= set(comments_in(known.definition)):
        return None
    match = _Match(known.tree, new)
    if not match.fits():
        return None
    if match.differing and not _generalise(site, edit, known, match):
        return None
    arguments = dict(zip((it.arg for it in new.args.args), call.args, strict=True))
    given = [
        arguments[match.names[it.arg]]
        if it.arg in match.names
        else cst.Arg(_literal(match.texts[it.arg]))
        for it in known.tree.args.args
    ]
    given += [cst.Arg(_literal(theirs)) for _, theirs in match.differing]
    return call.with_changes(func=cst.Name(known.name), args=given)


def _literal(node: ast.Constant) -> cst.BaseExpression:
    text = repr(node.value)
    if text[0] == "'" and '"' not in text:
        text = f'"{text[1:-1]}"'
    return cst.SimpleString(text)


def _warns(function: ast.FunctionDef) -> bool:
    """Whether it warns: Python shows the same text once for each line that gives it."""
    return any(
        isinstance(part, ast.Name | ast.Attribute)
        and (part.id if isinstance(part, ast.Name) else part.attr) in ("warn", "warn_explicit")
        for part in ast.walk(function)
    )


class _Match:
    """How a new operator's body is an old one's, by other names and other texts."""

    def __init__(self, old: ast.FunctionDef, new: ast.FunctionDef) -> None:
        self.old, self.new = old, new
        self._old = {it.arg: it for it in old.args.args}
        self._new = {it.arg: it for it in new.args.args}
        #: The new parameter that an old one stands for.
        self.names: dict[str, str] = {}
        #: The text that the new body has where the old one reads a parameter.
        self.texts: dict[str, ast.Constant] = {}
        #: Texts of the old body that are others in the new one.
        self.differing: list[tuple[ast.Constant, ast.Constant]] = []

    def fits(self) -> bool:
        if not self._same(self.old.body, self.new.body) or _warns(self.new):
            return False
        for name, parameter in self._old.items():
            unread = name not in self.names and name not in self.texts
            if unread and not (name in self._new and self._pair(parameter.arg, name)):
                return False
        texts = len(self.texts) + len(self.differing)
        return set(self.names.values()) == set(self._new) and texts <= _TEXTS

    def _pair(self, old: str, new: str) -> bool:
        """Note that two parameters stand for each other."""
        kinds = [
            ast.dump(it.annotation) if it.annotation is not None else ""
            for it in (self._old[old], self._new[new])
        ]
        taken = new in self.names.values() and self.names.get(old) != new
        if kinds[0] != kinds[1] or taken or old in self.texts:
            return False
        return self.names.setdefault(old, new) == new

    def _same(self, old: object, new: object, *, strict: bool = False) -> bool:
        """Whether two parts are the same; where ``strict``, down to their texts."""
        match old, new:
            case ast.Name(id=mine), ast.Constant(value=str()) if mine in self._old and not strict:
                assert isinstance(new, ast.Constant)
                return self._is_text(mine, new)
            case ast.Name(id=mine), ast.Name(id=theirs):
                if mine in self._old or theirs in self._new:
                    both = mine in self._old and theirs in self._new
                    return both and self._pair(mine, theirs)
                return mine == theirs
            case ast.Expr(value=ast.Constant()), ast.Expr():
                return ast.dump(old) == ast.dump(new)
            case ast.Constant(value=str()), ast.Constant(value=str()):
                assert isinstance(old, ast.Constant) and isinstance(new, ast.Constant)
                if old.value != new.value and not strict:
                    self.differing.append((old, new))
                return old.value == new.value or not strict
            case list(), list():
                pairs = zip(old, new, strict=False)
                return len(old) == len(new) and all(
                    self._same(mine, theirs, strict=strict) for mine, theirs in pairs
                )
            case ast.AST(), ast.AST():
                if type(old) is not type(new):
                    return False
                # A name in the place of a text means something else in a pattern, and an f-string
                # does not tell where its parts stand.
                strict = strict or isinstance(old, ast.JoinedStr | ast.pattern)
                return all(
                    self._same(getattr(old, field, None), getattr(new, field, None), strict=strict)
                    for field in old._fields
                )
        return old == new and type(old) is type(new)

    def _is_text(self, mine: str, new: ast.Constant) -> bool:
        annotation = self._old[mine].annotation
        known = self.texts.setdefault(mine, new)
        kind = ast.unparse(annotation) if annotation is not None else ""
        return kind == "str" and known.value == new.value and mine not in self.names


def _generalise(site: Site, edit: Edit, known: _Operator, match: _Match) -> bool:
    """Give the known operator parameters for the texts that differ; False where it cannot be."""
    calls = _calls(site, known)
    if calls is None:
        return False
    taken = {part.id for part in ast.walk(known.tree) if isinstance(part, ast.Name)}
    taken |= {it.arg for it in known.tree.args.args}
    names: list[str] = []
    for _ in match.differing:
        names.append(fresh("text", taken))
        taken.add(names[-1])
    olds = [old for old, _ in match.differing]
    texts = [node for old in olds if (node := _text_at(site, known, old)) is not None]
    if len(texts) < len(olds):
        return False
    *_, last = known.definition.params.params
    more = [
        cst.Param(cst.Name(name), cst.Annotation(cst.Name("str")), equal=cst.MaybeSentinel.DEFAULT)
        for name in names
    ]
    edit.replace(last, last.with_changes(comma=cst.MaybeSentinel.DEFAULT), *more)
    for node, name in zip(texts, names, strict=True):
        edit.replace(node, cst.Name(name))
    parameters = ", ".join([*(it.arg for it in known.tree.args.args), *names])
    (fake,) = define(site, f"{known.name}.register_fake(lambda {parameters}: None)\n")
    assert isinstance(fake, cst.SimpleStatementLine)
    edit.replace(known.fake, fake.with_changes(leading_lines=known.fake.leading_lines))
    for call in calls:
        more_args = [cst.Arg(_literal(old)) for old in olds]
        edit.replace(call, call.with_changes(args=[*_closed(call.args), *more_args]))
    return True


def _closed(arguments: Sequence[cst.Arg]) -> list[cst.Arg]:
    """Arguments without a comma behind the last one, which is a comma between, now."""
    return [*arguments[:-1], arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]


def _text_at(site: Site, known: _Operator, text: ast.Constant) -> cst.BaseExpression | None:
    """The node of the file that is a text of the operator's tree: what else the operator says is
    left alone, so that nothing takes its conditions for new ones.
    """
    first = site.span(known.definition.decorators[0]).line
    lines = known.text.split("\n")
    column = len(lines[text.lineno - 1].encode()[: text.col_offset].decode())
    for node in walk(known.definition):
        if isinstance(node, cst.SimpleString | cst.ConcatenatedString):
            span = site.span(node)
            if (span.line, span.column) == (first + text.lineno - 1, column):
                return node if node.evaluated_value == text.value else None
    return None


def _calls(site: Site, known: _Operator) -> list[cst.Call] | None:
    """The calls of an operator; None where something else names it, or where one is to move."""
    name = known.name
    others = (text for path, text in site.sources.items() if path != site.path)
    if any(re.search(rf"\b{name}\b", text) for text in others):
        return None
    found: list[cst.Call] = []
    for node in walk(site.module):
        if not isinstance(node, cst.Name) or node.value != name:
            continue
        above = site.parent(node)
        if isinstance(above, cst.FunctionDef) and above is known.definition:
            continue
        if isinstance(above, cst.Attribute) and above.value is node:
            if above.attr.value in ("register_fake", "register_effect"):
                continue
            return None  # a kernel of its own, say, that takes what the operator took
        if not isinstance(above, cst.Call) or above.func is not node:
            return None
        if any(argument.star or argument.keyword is not None for argument in above.args):
            return None
        if any(part is site.statement for part in site.ancestors(above)) or not above.args:
            return None
        found.append(above)
    return found

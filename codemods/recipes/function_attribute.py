"""What a function keeps in its own attributes, kept in a dictionary beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import enclosing_functions, function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site
from gbfix.rewriting.project import catches
from gbfix.schema import Safety

_ASKS = ("hasattr", "getattr", "setattr")
_NOTE = "`{0}` has no such attributes any more: what reads them from elsewhere does not find them"
_RAISES = "what is not there raises a `KeyError`, and the project handles an `AttributeError`"


def _source(*lines: str, more: str = "", first: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\n{first}def places(x, n):\n{body}    return x\n{more}"


_FIRST = "#: What `places` keeps from call to call.\n_places_kept = {}\n\n\n"
_BUFFER = (
    'if not hasattr(places, "table"):',
    "    places.table = torch.arange(n)",
    "x = x + places.table[0]  # the first",
)
_KEPT = (
    'if "table" not in _places_kept:',
    '    _places_kept["table"] = torch.arange(n)',
    'x = x + _places_kept["table"][0]  # the first',
)


def _near_miss(why: str, more: str = "", lines: tuple[str, ...] = _BUFFER) -> NearMiss:
    return NearMiss(_source(*lines, more=more), at="places.table = torch.arange(n)", why=why)


class FunctionAttribute(Codemod):
    """*What it does.*  Keeps in a dictionary of the file what a function keeps in its own
    attributes:

    ```python
    if not hasattr(places, "table"):
        places.table = torch.arange(n)
    ```
    becomes ``if "table" not in _places_kept:`` and ``_places_kept["table"] = ...``.

    *When it applies.*  Dynamo sets no attributes of functions.  The function is one of the file,
    which does no more with it than to call it and to ask for, read and set such attributes.

    *Fix safety.*  Safe: a value is kept as long, and found under the same name.  Unsafe where the
    project handles an ``AttributeError``, which what is not there does not raise any more.

    *Refuses.*  Functions with decorators, or that are used as values, in other files, too;
    attributes that are deleted.
    """

    name = "function-attribute"
    uncovers = True
    codes = ("GB0467",)
    examples = (
        Example(
            _source(*_BUFFER),
            _source(*_KEPT, first=_FIRST),
            at="places.table = torch.arange(n)",
            title="a table that is made once",
        ),
        Example(
            _source(
                'name = f"table_{n}"',
                "setattr(places, name, getattr(places, name, x).type_as(x))",
                "while getattr(places, name).numel() < n and hasattr(places, name):",
                "    places.calls += 1",
                more="\n\nplaces.calls = 0\n",
            ),
            _source(
                'name = f"table_{n}"',
                "_places_kept[name] = _places_kept.get(name, x).type_as(x)",
                "while _places_kept[name].numel() < n and (name in _places_kept):",
                '    _places_kept["calls"] += 1',
                more='\n\n_places_kept["calls"] = 0\n',
                first=_FIRST,
            ),
            at="setattr(places, name, getattr(places, name, x).type_as(x))",
            title="attributes by names that are computed",
        ),
        Example(
            _source(
                "places.table = x",
                'found = hasattr(places, "a" if n else "b") == (n > 1)',
            ),
            _source(
                '_places_kept["table"] = x',
                'found = (("a" if n else "b") in _places_kept) == (n > 1)',
                first=_FIRST,
            ),
            at="places.table = x",
            title="what is asked, compared",
        ),
    )
    near_misses = (
        NearMiss(
            _source(*_BUFFER, first="@functools.lru_cache\n"),
            at="places.table = torch.arange(n)",
            why="it is another object",
        ),
        _near_miss("used as a value", more="\n\nother = places\n"),
        _near_miss("bound again", more="\n\nplaces = torch.compile(places)\n"),
        _near_miss("deleted", more="\n\ndef forget():\n    del places.table\n"),
        _near_miss("all of them", more="\n\ndef forget():\n    vars(places).clear()\n"),
        _near_miss(
            "another function of that name", more="\n\ndef g(places):\n    places.table = 1\n"
        ),
        _near_miss("set in a loop", lines=(*_BUFFER, "for places.table in x:", "    pass")),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for name in dict.fromkeys(_named(site)):
            home = module_bindings(site.module).get(name, ())
            if len(home) != 1 or not isinstance(home[0], cst.FunctionDef):
                continue
            if home[0] not in site.module.body or home[0].decorators:
                continue  # (what a decorator gives has attributes of its own)
            if _is_known_elsewhere(site, name):
                continue
            kept = "_" + fresh(f"{name.lstrip('_')}_kept", _without_underscores(site))
            change = _Change(site, name, kept)
            spots = _spots(site, change)
            if spots is None:
                continue
            edit = site.edit()
            for spot in spots:
                changed = spot.visit(change)
                assert isinstance(changed, cst.CSTNode)
                edit.replace(spot, changed)
            line = cst.parse_statement(f"{kept} = {{}}")
            told = cst.Comment(f"#: What `{name}` keeps from call to call.")
            blank = [cst.EmptyLine(indent=False)] * 2
            edit.insert_before(
                home[0], line.with_changes(leading_lines=[*blank, cst.EmptyLine(comment=told)])
            )
            handled = catches(site, "AttributeError")
            yield edit.rewrite(
                f"keep the attributes of `{name}` in a dictionary",
                rank=12,
                safety=Safety.UNSAFE if handled else Safety.SAFE,
                notes=(*([_RAISES] if handled else []), _NOTE.format(name)),
                assumes=("same-questions",),
            )
            return


def _without_underscores(site: Site) -> set[str]:
    return {it.lstrip("_") for it in names_in(site.module)}


def _named(site: Site) -> Iterator[str]:
    """The names whose attributes the site's statement sets."""
    for node in (*walk(site.node), *walk(site.statement)):
        match node:
            case cst.Attribute(value=cst.Name(name)):
                yield name
            case cst.Call(func=cst.Name("setattr"), args=[cst.Arg(value=cst.Name(name)), *_]):
                yield name


def _is_known_elsewhere(site: Site, name: str) -> bool:
    """Whether another file does more with the function than to import and to call it."""
    used = re.compile(rf"\b{re.escape(name)}\b(?!\()")
    for path, text in site.sources.items():
        lines = text.splitlines() if path != site.path else []
        for line in lines:
            if used.search(line) and not re.match(r"\s*(from|import)\b", line):
                return True
    return False


class _Change(cst.CSTTransformer):
    """Attributes of the function become items of the dictionary."""

    def __init__(self, site: Site, name: str, kept: str) -> None:
        super().__init__()
        self.site, self.name, self.kept = site, name, kept

    def is_use(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.Attribute(value=cst.Name(name), attr=cst.Name(attribute)):
                return name == self.name and not attribute.startswith("__")
            case cst.Call(func=cst.Name(asks), args=[cst.Arg(value=cst.Name(name)), *others]):
                counts = {"hasattr": (1,), "getattr": (1, 2), "setattr": (2,)}.get(asks, ())
                plain = all(it.keyword is None and not it.star for it in others)
                return name == self.name and len(others) in counts and plain
        return False

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        if not self.is_use(original_node):
            return updated_node
        return cst.parse_expression(f'{self.kept}["{original_node.attr.value}"]')

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not self.is_use(original_node):
            return updated_node
        key, *others = (code(it.value) for it in updated_node.args[1:])
        match code(updated_node.func):
            case "hasattr":
                return self._asked(original_node, updated_node, "in")
            case "getattr" if others:
                return cst.parse_expression(f"{self.kept}.get({key}, {others[0]})")
        return cst.parse_expression(f"{self.kept}[{key}]")

    def leave_UnaryOperation(
        self, original_node: cst.UnaryOperation, updated_node: cst.UnaryOperation
    ) -> cst.BaseExpression:
        inner = original_node.expression
        asked = isinstance(inner, cst.Call) and code(inner.func) == "hasattr"
        if asked and self.is_use(inner) and isinstance(original_node.operator, cst.Not):
            return self._asked(original_node, cst.ensure_type(inner, cst.Call), "not in")
        return updated_node

    def _asked(self, node: cst.CSTNode, call: cst.Call, sign: str) -> cst.BaseExpression:
        """``name in kept``, apart from what stands around it: comparisons would be chained."""
        key = call.args[1].value
        tight = isinstance(key, cst.Name | cst.SimpleString | cst.FormattedString | cst.Attribute)
        text = f"{code(key) if tight else f'({code(key)})'} {sign} {self.kept}"
        around = self.site.parent(node)
        inside = isinstance(around, cst.BaseExpression | cst.ComparisonTarget)
        return cst.parse_expression(f"({text})" if inside else text)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        match original_node.body, updated_node.body:
            case [cst.Expr(value=cst.Call(func=cst.Name("setattr")) as call)], [
                cst.Expr(value=place)
            ] if self.is_use(call):
                value = call.args[2].value.visit(self)
                target = cst.ensure_type(place, cst.Subscript)
                assert isinstance(value, cst.BaseExpression)
                return updated_node.with_changes(
                    body=[cst.Assign([cst.AssignTarget(target)], value)]
                )
        return updated_node


def _spots(site: Site, change: _Change) -> list[cst.CSTNode] | None:
    """The lines and tests in which the attributes stand; None where there are other uses."""
    found: dict[int, cst.CSTNode] = {}
    for node in walk(site.module):
        if not isinstance(node, cst.Name) or node.value != change.name:
            continue
        holder = site.parent(node)
        if isinstance(holder, cst.FunctionDef) and holder.name is node:
            continue
        if isinstance(holder, cst.Attribute) and holder.attr is node:
            continue
        around = enclosing_functions(site.module, node)
        if any(change.name in function_scope(it).locals for it in around):
            return None  # something else has that name there
        if isinstance(holder, cst.Call) and holder.func is node:
            continue
        use = holder if isinstance(holder, cst.Attribute) else site.parent(holder or node)
        if isinstance(use, cst.Call) and resolve(site.module, use.func) == "torch.compile":
            return None  # attributes of what that gives are these, too
        if use is None or not change.is_use(use) or not _is_builtin(site, use):
            return None
        spot = _spot(site, use)
        if spot is None:
            return None
        found[id(spot)] = spot
    return list(found.values())


def _is_builtin(site: Site, use: cst.CSTNode) -> bool:
    if not isinstance(use, cst.Call):
        return True
    return resolve(site.module, use.func) in {f"builtins.{name}" for name in _ASKS}


def _spot(site: Site, use: cst.CSTNode) -> cst.CSTNode | None:
    """The whole line, or the test or list of a compound statement, in which a use stands."""
    child = use
    for parent in site.ancestors(use):
        if isinstance(parent, cst.Del | cst.Lambda | cst.BaseComp | cst.NamedExpr):
            return None
        if isinstance(parent, cst.SimpleStatementLine):
            return parent if len(parent.body) == 1 and _is_written_plainly(parent, use) else None
        if isinstance(parent, cst.If | cst.While):
            return child if child is parent.test else None
        if isinstance(parent, cst.For):
            return child if child is parent.iter else None
        if isinstance(parent, cst.BaseCompoundStatement | cst.SimpleStatementSuite):
            return None
        child = parent
    return None


def _is_written_plainly(line: cst.SimpleStatementLine, use: cst.CSTNode) -> bool:
    """Whether ``setattr`` is a statement of its own."""
    if not isinstance(use, cst.Call) or code(use.func) != "setattr":
        return True
    return isinstance(line.body[0], cst.Expr) and line.body[0].value is use


__all__ = ["FunctionAttribute"]

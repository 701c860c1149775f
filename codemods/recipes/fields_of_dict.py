"""A dict that a function fills key by key: a name for each, and the dict where it is returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import libcst as cst

from gbfix.analysis.build import expression, line_length
from gbfix.analysis.names import fresh, identifier, names_in
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor

_SOURCE = """
import torch


def f(x, mask, other, log):
    count = mask.sum()
{}
"""
_FACTS = {
    "x": tensor(3),
    "mask": tensor(3, dtype="torch.bool"),
    "other": scalar(2),
    "count": tensor(dtype="torch.int64"),
    "count == 0": tensor(dtype="torch.bool"),
}


def _text(*lines: str) -> str:
    return _SOURCE.format("\n".join(f"    {line}" for line in lines))


def _near_miss(why: str, *lines: str) -> NearMiss:
    return NearMiss(_text(*lines), at="count == 0", why=why, facts=_FACTS)


class FieldsOfDict(Codemod):
    """*What it does.*  Gives each key of a dict that a function fills a name of its own, and makes
    the dict where the function ends:

    ```python
    if count == 0:
        return {"box": boxes.sum() * 0, "giou": boxes.sum() * 0}
    losses = {"box": distance.sum() / count}
    losses["giou"] = (1 - overlap).sum() / count
    return losses
    ```
    ends in
    ```python
    box = distance.sum() / count
    giou = (1 - overlap).sum() / count
    return {"box": box, "giou": giou}
    ```

    *When it applies.*  A function with a test that only the data answer fills a dict by constant
    strings, and does nothing else with it than to read these and to return it.  Which keys there
    are, and in which order, is the same on all ways to a ``return``.

    *Fix safety.*  Safe: nobody but the function sees the dict before it is returned.  Other
    codemods do the rest, which know what to do with names: where none can, this rewrite is not
    kept.

    *Refuses.*  Dicts that are handed on, gone through, updated or deleted from, that a loop, a
    ``try`` or an inner function mentions, and keys that are set in one of two arms.
    """

    name = "fields-of-dict"
    codes = (
        "GB0170",
        "GB0033",
        "GB0036",
        "GB0088",
        "GB0124",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = (
        Example(
            _text(
                "if count == 0:",
                '    return {"sum": x.sum() * 0, "mean": x.sum() * 0}',
                "# What counts.",
                'found = {"sum": (x * mask).sum()}',
                'found["mean"] = found["sum"] / count',
                "return found",
            ),
            _text(
                "if count == 0:",
                '    return {"sum": x.sum() * 0, "mean": x.sum() * 0}',
                "# What counts.",
                "found_sum = (x * mask).sum()",
                "mean = found_sum / count",
                'return {"sum": found_sum, "mean": mean}',
            ),
            at="count == 0",
            facts=_FACTS,
            title="filled line by line",
        ),
        Example(
            _text(
                "out = dict()",
                'out["x"] = x * 2',
                "if count == 0:",
                '    out["rate"] = x * 0  # nothing',
                "else:",
                '    out["rate"] = x / count',
                'out["rate"] += 1',
                "return x, out",
            ),
            _text(
                "out_x = x * 2",
                "if count == 0:",
                "    rate = x * 0  # nothing",
                "else:",
                "    rate = x / count",
                "rate += 1",
                'return x, {"x": out_x, "rate": rate}',
            ),
            at="count == 0",
            facts=_FACTS,
            title="in both arms",
        ),
        Example(
            _text(
                'out = {"sum": x.sum()}',
                'if out["sum"] > 1 and other:',
                '    out["sum"] = out["sum"] * 2',
                "if count == 0:",
                '    out["sum"] = x.sum() * 0',
                "return out",
            ),
            _text(
                "out_sum = x.sum()",
                "if out_sum > 1 and other:",
                "    out_sum = out_sum * 2",
                "if count == 0:",
                "    out_sum = x.sum() * 0",
                'return {"sum": out_sum}',
            ),
            at="count == 0",
            facts=_FACTS,
            title="asked by a test",
        ),
    )
    near_misses = (
        _near_miss(
            "one arm sets a key", "out = {}", "if count == 0:", '    out["none"] = x', "return out"
        ),
        _near_miss(
            "another order",
            "out = {}",
            "if count == 0:",
            '    out["a"] = x',
            '    out["b"] = x',
            "else:",
            '    out["b"] = x',
            '    out["a"] = x',
            "return out",
        ),
        _near_miss(
            "handed on",
            'out = {"a": x}',
            "log(out)",
            "if count == 0:",
            '    out["a"] = x * 2',
            "return out",
        ),
        _near_miss(
            "another name",
            'out = kept = {"a": x}',
            "if count == 0:",
            '    out["a"] = x * 2',
            "return kept",
        ),
        _near_miss(
            "a key that varies",
            'out = {"a": x}',
            "if count == 0:",
            "    out[other] = x * 2",
            "return out",
        ),
        _near_miss(
            "read before it is set",
            "out = {}",
            "if count == 0:",
            '    out["a"] = out["b"] * 2',
            "else:",
            '    out["a"] = x',
            "return out",
        ),
        _near_miss(
            "in a loop",
            'out = {"a": x}',
            "for part in x:",
            '    out["a"] = out["a"] + part',
            "if count == 0:",
            '    out["a"] = x * 2',
            "return out",
        ),
        _near_miss(
            "a function that reads it later",
            'out = {"a": x}',
            'late = lambda: out["a"]',
            "if count == 0:",
            '    out["a"] = x * 2',
            "late()",
            "return out",
        ),
        _near_miss(
            "an error that is caught on the way",
            'out = {"a": x}',
            "try:",
            '    out["a"] = x[other]',
            "except IndexError:",
            "    pass",
            "if count == 0:",
            '    out["a"] = x * 2',
            "return out",
        ),
        _near_miss(
            "made of the dict before it",
            'out = {"a": x, "b": -x}',
            'out = {"a": out["b"], "b": out["a"]}',
            "if count == 0:",
            '    out["a"] = x * 2',
            "return out",
        ),
        _near_miss(
            "returned as often as a list is long",
            "out = {}",
            "if count == 0:",
            '    out["a"] = x',
            "else:",
            '    out["a"] = -x',
            "return [out for _ in range(other)]",
        ),
        _near_miss(
            "returned twice",
            "out = {}",
            "if count == 0:",
            '    out["a"] = x',
            "else:",
            '    out["a"] = -x',
            "return out, out",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None or not isinstance(function.body, cst.IndentedBlock):
            return
        if "locals" in names_in(function):
            return
        for name in _dicts(function):
            fields = _Fields(function, name)
            try:
                fields.block(function.body.body, None)
            except _NotThisOne:
                continue
            if fields.returns and fields.stores:
                yield fields.rewrite(site)


class _NotThisOne(Exception):
    """The dict is used in another way."""


#: The keys of the dict so far, in their order; None where there is no dict.
_Keys = tuple[str, ...] | None


class _Fields:
    """What a function does with one of its dicts."""

    def __init__(self, function: cst.FunctionDef, name: str) -> None:
        self.function, self.name = function, name
        self.taken = names_in(function)
        self.names: dict[str, str] = {}
        #: By statement: what binds the dict, with its values.
        self.made: dict[cst.CSTNode, list[tuple[str, cst.BaseExpression]]] = {}
        #: By node: the key that a subscript names.
        self.parts: dict[cst.Subscript, str] = {}
        self.returns: dict[cst.Name, tuple[str, ...]] = {}
        self.stores = 0
        #: Tests and contexts, which stand in no line of their own.
        self.heads: list[cst.CSTNode] = []

    # -- reading -----------------------------------------------------------------------------

    def block(self, statements: Sequence[cst.CSTNode], keys: _Keys) -> tuple[_Keys, bool]:
        """The keys behind statements, and whether anything gets there."""
        for statement in statements:
            match statement:
                case cst.SimpleStatementLine(body=body):
                    if len(body) > 1 and self._mentions(statement):
                        raise _NotThisOne
                    for small in body:
                        keys = self._small(small, keys)
                        if isinstance(small, cst.Return | cst.Raise):
                            return keys, False
                case cst.If():
                    keys, goes_on = self._if(statement, keys)
                    if not goes_on:
                        return keys, False
                case cst.With(items=items, body=cst.IndentedBlock(body=body)):
                    # A context may swallow an error on the way: then some keys are missing.
                    before = keys
                    for item in items:
                        self._reads(item, keys)
                        self.heads.append(item)
                    keys, goes_on = self.block(body, keys)
                    if not goes_on or keys != before:
                        raise _NotThisOne
                case _ if self._mentions(statement):
                    raise _NotThisOne
        return keys, True

    def _if(self, node: cst.If, keys: _Keys) -> tuple[_Keys, bool]:
        self._reads(node.test, keys)
        self.heads.append(node.test)
        first, goes_on = self.block(_lines(node.body), keys)
        match node.orelse:
            case None:
                second, others = keys, True
            case cst.Else(body=body):
                second, others = self.block(_lines(body), keys)
            case cst.If() as other:
                second, others = self._if(other, keys)
        if goes_on and others and first != second:
            raise _NotThisOne
        return (first if goes_on else second), goes_on or others

    def _small(self, node: cst.BaseSmallStatement, keys: _Keys) -> _Keys:
        match node:
            case (
                cst.Assign(targets=[cst.AssignTarget(target=cst.Name(word))], value=value)
                | cst.AnnAssign(target=cst.Name(word), value=cst.BaseExpression() as value)
            ) if word == self.name and (values := _display(value)) is not None:
                # What is read of the dict before it, the new names would hide.
                if any(self._mentions(item) for _, item in values):
                    raise _NotThisOne
                self.made[node] = values
                for key, _ in values:
                    self._named(key)
                return tuple(key for key, _ in values)
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Subscript(value=cst.Name(word)) as place)],
                value=value,
            ) if word == self.name:
                self._reads(value, keys)
                key = self._part(place)
                if keys is None:
                    raise _NotThisOne
                self.stores += 1
                return keys if key in keys else (*keys, key)
            case cst.AugAssign(target=cst.Subscript(value=cst.Name(word)) as place) if (
                word == self.name
            ):
                self._reads(node, keys)
                self.stores += 1
                self._part(place)
                return keys
            case cst.Return(value=cst.BaseExpression() as value):
                bare = [it for it in walk(value) if self._is_bare(it, value)]
                again = any(
                    isinstance(it, cst.BaseComp) and self._mentions(it) for it in walk(value)
                )
                if len(bare) > 1 or again or (bare and keys is None):
                    raise _NotThisOne
                for found in bare:
                    assert isinstance(found, cst.Name) and keys is not None
                    self.returns[found] = keys
                self._reads(value, keys, but=bare)
                return keys
        self._reads(node, keys)
        return keys

    def _is_bare(self, node: cst.CSTNode, inside: cst.CSTNode) -> bool:
        """Whether the node is the dict, and not one of its items."""
        if not (isinstance(node, cst.Name) and node.value == self.name):
            return False
        return not any(isinstance(it, cst.Subscript) and it.value is node for it in walk(inside))

    def _reads(self, node: cst.CSTNode, keys: _Keys, but: Sequence[cst.CSTNode] = ()) -> None:
        """Items that are read must be there, and nothing else may be done with the dict."""
        held: list[cst.CSTNode] = list(but)
        for part in walk(node):
            if isinstance(part, cst.Lambda) and self._mentions(part):
                raise _NotThisOne
            match part:
                case cst.Subscript(value=cst.Name(word) as owner) if word == self.name:
                    if keys is None or self._part(part) not in keys:
                        raise _NotThisOne
                    held.append(owner)
        for part in walk(node):
            if not isinstance(part, cst.Name) or part.value != self.name:
                continue
            if not any(part is it for it in held) and not self._is_label(part, node):
                raise _NotThisOne

    @staticmethod
    def _is_label(name: cst.Name, inside: cst.CSTNode) -> bool:
        """Whether the word names an attribute or a keyword argument."""
        return any(
            (isinstance(it, cst.Attribute) and it.attr is name)
            or (isinstance(it, cst.Arg) and it.keyword is name)
            for it in walk(inside)
        )

    def _mentions(self, node: cst.CSTNode) -> bool:
        return any(isinstance(it, cst.Name) and it.value == self.name for it in walk(node))

    def _part(self, node: cst.Subscript) -> str:
        match node.slice:
            case [
                cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() as key, star=None))
            ]:
                text = key.evaluated_value
                if isinstance(text, str):
                    self.parts[node] = text
                    self._named(text)
                    return text
        raise _NotThisOne

    def _named(self, key: str) -> None:
        if key in self.names:
            return
        wish = identifier(key)
        if wish != fresh(wish, self.taken):
            wish = f"{self.name}_{wish}"
        self.names[key] = fresh(wish, self.taken)
        self.taken.add(self.names[key])

    # -- writing -----------------------------------------------------------------------------

    def rewrite(self, site: Site) -> Rewrite:
        edit = site.edit()
        for head in self.heads:
            if self._mentions(head):
                put = _Put(self, site.span(head).column, line_length(site.module))
                edit.replace(head, cast(cst.CSTNode, head.visit(put)))
        for node in walk(self.function):
            if not isinstance(node, cst.SimpleStatementLine) or not self._mentions(node):
                continue
            put = _Put(self, site.span(node).column, line_length(site.module))
            values = self.made.get(node.body[0])
            if values is None:
                edit.replace(node, cst.ensure_type(node.visit(put), cst.SimpleStatementLine))
                continue
            lines = [self._line(key, value) for key, value in values]
            if not lines:
                edit.remove(node)
                continue
            lines[0] = lines[0].with_changes(leading_lines=node.leading_lines)
            lines[-1] = lines[-1].with_changes(trailing_whitespace=node.trailing_whitespace)
            edit.replace(
                node, *(cst.ensure_type(it.visit(put), cst.SimpleStatementLine) for it in lines)
            )
        return edit.rewrite(f"give each key of `{self.name}` a name", rank=31, prepares=True)

    def _line(self, key: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
        target = cst.AssignTarget(cst.Name(self.names[key]))
        return cst.SimpleStatementLine([cst.Assign([target], value)])


class _Put(cst.CSTTransformer):
    """Names in place of items, and a display in place of the dict."""

    def __init__(self, fields: _Fields, column: int, width: int) -> None:
        self.fields, self.column, self.width = fields, column, width

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        key = self.fields.parts.get(original_node)
        return updated_node if key is None else cst.Name(self.fields.names[key])

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        keys = self.fields.returns.get(original_node)
        if keys is None:
            return updated_node
        pairs = [f"{_quoted(key)}: {self.fields.names[key]}" for key in keys]
        text = "{" + ", ".join(pairs) + "}"
        if self.column + len("return ") + len(text) > self.width:
            inside = "".join(f"\n{' ' * (self.column + 4)}{pair}," for pair in pairs)
            text = "{" + inside + f"\n{' ' * self.column}" + "}"
        return expression(text)


def _quoted(key: str) -> str:
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _dicts(function: cst.FunctionDef) -> list[str]:
    """Names that are bound to a dict of constant strings."""
    return list(
        dict.fromkeys(
            target.value
            for node in walk(function)
            for target, value in _bindings(node)
            if _display(value) is not None
        )
    )


def _bindings(node: cst.CSTNode) -> list[tuple[cst.Name, cst.BaseExpression]]:
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)], value=value):
            return [(target, value)]
        case cst.AnnAssign(target=cst.Name() as target, value=cst.BaseExpression() as value):
            return [(target, value)]
    return []


def _display(value: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]] | None:
    """The items of `{"a": ..., "b": ...}`, `{}` or `dict()`."""
    match value:
        case cst.Call(func=cst.Name("dict"), args=[]):
            return []
        case cst.Dict(elements=elements):
            found: list[tuple[str, cst.BaseExpression]] = []
            for element in elements:
                match element:
                    case cst.DictElement(key=cst.SimpleString() as key, value=item):
                        text = key.evaluated_value
                        if not isinstance(text, str) or any(text == it for it, _ in found):
                            return None
                        found.append((text, item))
                    case _:
                        return None
            return found
    return None


def _lines(body: cst.BaseSuite) -> Sequence[cst.CSTNode]:
    return body.body

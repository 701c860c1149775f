"""A loop over the different numbers in a tensor, each of which changes its own element."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in
from gbfix.analysis.liveness import live_after
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, statements_of, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor

from ..control_flow.texts import number_of, operand
from ..control_flow.values import Values
from .selections import HOMES, SMOOTH, STEEP, TWO

_FLOATS = words("torch.float16 torch.bfloat16 torch.float32 torch.float64")
_SIGNS: dict[type[cst.BaseAugOp], str] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
}
_FACTS = {
    "scores": tensor(2, 9),
    "seen": tensor(2, 4, dtype="torch.int64"),
    "seen[b]": tensor(4, dtype="torch.int64"),
    "bytes_": tensor(4, dtype="torch.uint8"),
    "counts": tensor(2, 9, dtype="torch.int64"),
    "b": scalar(0, constant=False),
    "p": scalar(1.5, constant=False),
    "one": tensor(2, 9),
}


def _source(body: str, over: str = "seen[b].unique()", end: str = "scores") -> str:
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    return (
        "import torch\n\n\ndef f(scores, seen, bytes_, counts, one, p):\n"
        f"    for b in range(2):\n        for i in {over}:\n{lines}\n    return {end}\n"
    )


def _after(body: str, index: str) -> str:
    first = (
        f"ids = {index}\n"
        "hits = scores.new_zeros(2, scores.shape[-1], dtype=torch.bool)\n"
        "hits[(ids >= 0).long(), ids] = True\nfor hit in hits:\n"
    )
    lines = "\n".join(f"        {line}" for line in first.splitlines())
    lines += "".join(f"\n            {line}" for line in body.splitlines())
    return (
        "import torch\n\n\ndef f(scores, seen, bytes_, counts, one, p):\n"
        f"    for b in range(2):\n{lines}\n    return scores\n"
    )


_PLAIN = "scores[b, i] -= p"
_WHERE = "score = scores[b, i]\nscores[b, i] = torch.where(score < 0, score * p, score / p)"
_IF = "if scores[b, i] < 0:\n    scores[b, i] *= p\nelse:\n    scores[b, i] /= p"


def _example(title: str, before: str, after: str, over: str = "seen[b].unique()") -> Example:
    listed = "tolist" in over
    at, index = ("seen[b].tolist()", "seen[b].long()") if listed else (over, "seen[b]")
    return Example(_source(before, over), _after(after, index), at=at, facts=_FACTS, title=title)


def _near_miss(why: str, body: str = _PLAIN, over: str = "seen[b].unique()", end: str = "scores"):  # type: ignore[no-untyped-def]
    return NearMiss(_source(body, over, end), at=over, why=why, facts=_FACTS)


class EachId(Codemod):
    """*What it does.*  Changes all elements at once whose numbers a tensor holds:

    ```python
    for i in seen[b].unique():
        score = scores[b, i]
        scores[b, i] = torch.where(score < 0, score * p, score / p)
    ```
    becomes ``scores[b] = torch.where(hit, ..., scores[b])``, with ``hit`` a mask of the row: one
    of what is numbered from the end, and one of what is numbered from the front.

    *When it applies.*  The loop goes over ``t.unique()`` or ``set(t.tolist())`` of whole numbers,
    which are only the last index of one and the same row; what it stores is computed from that
    element and from numbers, element by element, in one store or in one ``if``.

    *Fix safety.*  Safe: each number comes once, and changes nothing but its own element.  Where the
    last element is named by -1 and from the front as well, it changes twice, as before.

    *Refuses.*  Loops over ``t.tolist()`` alone, where a number may come twice; other uses of the
    number; other elements of the row; whole numbers as elements; names that are used afterwards.
    """

    name = "each-id"
    codes = (
        "GB0036",
        "GB0033",
        "GB0088",
        "GB0124",
        "GB0170",
        "GB7000",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
    )
    examples = (
        _example("a penalty", _PLAIN, "scores[b] = torch.where(hit, scores[b] - p, scores[b])"),
        _example(
            "by their sign",
            _WHERE,
            "score = torch.where(hit, scores[b], 0)\n"
            "scores[b] = torch.where(hit, torch.where(score < 0, score * p, score / p), scores[b])",
        ),
        _example(
            "by an if",
            _IF,
            "old = torch.where(hit, scores[b], 0)\nscores[b] = torch.where(hit, torch.where("
            "old < 0, torch.where(old < 0, old, 1) * p, torch.where(old < 0, 1, old) / p"
            "), scores[b])",
            "set(seen[b].tolist())",
        ),
        _example(
            "a number",
            "scores[b, i] = -1e4  # never again",
            "# never again\nscores[b] = torch.where(hit, -1e4, scores[b])",
        ),
    )
    near_misses = (
        _near_miss("a number may come twice", over="seen[b].tolist()"),
        _near_miss("as many as there are", "scores[b, i] -= i"),
        _near_miss("another row", "scores[0, i] -= scores[b, i]"),
        _near_miss("the neighbour", "scores[b, i] = scores[b, i + 1]"),
        _near_miss("the whole row", "scores[b, i] = scores[b].max()"),
        _near_miss("a bool for each", over="bytes_.unique()"),
        _near_miss("whole numbers", "counts[b, i] = counts[b, i] / p", end="counts"),
        _near_miss("a total", "p = p + scores[b, i]", end="scores, p"),
        _near_miss("the last one is a result", "p = scores[b, i] * 2\nscores[b, i] = p", end="p"),
        _near_miss("stored, read again", f"a = scores[b, i]\n{_PLAIN}\nscores[b, i] += a"),
        _near_miss("it stops", f"{_PLAIN}\nbreak"),
        _near_miss("an effect", f"print(b)\n{_PLAIN}"),
        _near_miss("random numbers", "scores[b, i] += torch.rand(())"),
        _near_miss("a tensor of its own", "scores[b, i] = one[b, i]"),
        _near_miss("else", _PLAIN + "\nif scores[b, i] > 0: pass\nelse: p = 2"),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for parent in (site.node, *site.ancestors(site.node)):
            if isinstance(parent, cst.FunctionDef | cst.Lambda):
                return
            if isinstance(parent, cst.For) and site.function is not None:
                try:
                    yield _Loop(site, parent, site.function).rewrite()
                except _NotSo:
                    continue
                return


class _NotSo(Exception):
    pass


@dataclasses.dataclass
class _Row:
    """The row whose elements change: the text of an element, of the row, and of where it goes."""

    element: str
    row: str
    store: str


class _Loop:
    def __init__(self, site: Site, loop: cst.For, function: cst.FunctionDef) -> None:
        self.site = site
        self.loop = loop
        self.function = function
        self.values = Values(site)
        self.torch = self.values.torch
        self.locals: set[str] = set()
        #: Names for the element itself.
        self.wholes: set[str] = set()
        self.reads_directly = self.guards = False

    def rewrite(self) -> Rewrite:
        loop = self.loop
        over = _of_different(loop.iter)
        if loop.orelse is not None or loop.asynchronous or not isinstance(loop.target, cst.Name):
            raise _NotSo
        fact = None if over is None else self.values.fact(over)
        if over is None or fact is None or fact.dtype not in ("torch.int64", "torch.int32"):
            raise _NotSo
        self.number = loop.target.value
        self.row = self._row()
        *firsts, last = statements_of(loop.body)
        if live_after(self.function, loop) & activity(loop).bound:
            raise _NotSo
        # What the lines say is checked first; only then it is known what has to be guarded.
        for _ in range(2):
            self.locals = set()
            lines = [self._local(line) for line in firsts]
            value = self._stored(last)
        taken = names_in(self.site.module)
        ids, hits, hit, old = (fresh(name, taken) for name in ("ids", "hits", "hit", "old"))
        row, base = self.row.row, self.row.row.partition("[")[0]
        # A number from the end and one from the front are two, should they mean one element.
        head = [
            f"{ids} = {self._index(over)}",
            f"{hits} = {base}.new_zeros(2, {base}.shape[-1], dtype={self.torch}.bool)",
            f"{hits}[({ids} >= 0).long(), {ids}] = True",
        ]
        kept = f"{self.torch}.where({hit}, {row}, 0)" if self.guards else row
        lines = [line.replace(_WHOLE, kept).replace(_ELEMENT, old) for line in lines]
        element = old if self.guards else row
        stored = value.replace(_WHOLE, kept).replace(_ELEMENT, element)
        lines = [line.replace(_ELEMENT, element) for line in lines]
        text = f"{self.row.store} = {self.torch}.where({hit}, {stored}, {row})"
        if self.guards and self.reads_directly:
            lines = [f"{old} = {kept}", *lines]
        inside = [cst.parse_statement(line) for line in (*lines, text)]
        new = [cst.parse_statement(line) for line in head]
        above = [
            line for line in loop.leading_lines if line.comment is not None or not line.comment
        ]
        comments = [cst.EmptyLine(comment=cst.Comment(text)) for text in comments_in(loop)]
        own = {line.comment.value for line in loop.leading_lines if line.comment is not None}
        comments = [line for line in comments if line.comment and line.comment.value not in own]
        new[0] = new[0].with_changes(leading_lines=above)
        inside[0] = inside[0].with_changes(leading_lines=comments)
        new.append(cst.For(cst.Name(hit), cst.Name(hits), cst.IndentedBlock(inside)))
        edit = self.site.edit()
        edit.replace(loop, *new)
        if self.values.torch_missing:
            edit.add_import("torch")
        notes = [
            "The whole row is computed with, whatever the numbers are.",
            "A number that is no place of the row raises before anything is changed.",
        ]
        return edit.rewrite("change all elements at once, by a mask", notes=notes, rank=15)

    def _index(self, over: cst.BaseExpression) -> str:
        """The numbers as an index: of bytes, a tensor is a mask, and Python's numbers are not."""
        listed = any(isinstance(n, cst.Name) and n.value == "tolist" for n in walk(self.loop.iter))
        return f"{operand(code(over))}.long()" if listed else code(over)

    # -- the row -----------------------------------------------------------------------------

    def _row(self) -> _Row:
        """The one row of which the number is an index, and nothing else."""
        rows: dict[str, cst.Subscript] = {}
        for place in self.site.places_of(self.number, self.loop.body):
            index = self.site.parent(place)
            element = self.site.parent(index) if isinstance(index, cst.Index) else None
            holder = self.site.parent(element) if element is not None else None
            if not isinstance(holder, cst.Subscript) or holder.slice[-1] is not element:
                raise _NotSo
            rows[code(holder)] = holder
        if len(rows) != 1:
            raise _NotSo
        ((text, node),) = rows.items()
        fact = self.values.fact(node.value)
        if not isinstance(node.value, cst.Name) or fact is None or fact.shape is None:
            raise _NotSo
        if fact.dtype not in _FLOATS or len(fact.shape) != len(node.slice):
            raise _NotSo
        firsts = node.slice[:-1]
        for part in firsts:
            if not isinstance(part.slice, cst.Index):
                raise _NotSo
            known = self.values.fact(part.slice.value)
            if known is None or known.kind != "int":
                raise _NotSo
        changed = activity(self.loop.body).bound
        names = {n.value for part in firsts for n in walk(part) if isinstance(n, cst.Name)}
        if (names | {node.value.value}) & changed:
            raise _NotSo
        base = node.value.value
        if not firsts:
            return _Row(text, base, f"{base}[:]")
        row = f"{base}[{', '.join(code(part.slice) for part in firsts)}]"
        return _Row(text, row, row)

    # -- lines -------------------------------------------------------------------------------

    def _local(self, line: cst.CSTNode) -> str:
        """``score = scores[b, i]``: a name for something of the element."""
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=v)]
            ) if name not in self.locals and name != self.number:
                whole = code(v) == self.row.element
                text = _WHOLE if whole else self._text(v)
                self.locals.add(name)
                if whole:
                    self.wholes.add(name)
                return f"{name} = {text}"
        raise _NotSo

    def _stored(self, line: cst.CSTNode) -> str:
        """What the last line stores in the element."""
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
            ) if code(target) == self.row.element:
                return self._text(value)
            case cst.SimpleStatementLine(
                body=[cst.AugAssign(target=target, operator=operator, value=value)]
            ) if code(target) == self.row.element and type(operator) in _SIGNS:
                self.reads_directly = True
                sign = _SIGNS[type(operator)]
                self.guards = self.guards or (sign in "*/" and not number_of(value))
                return f"{_ELEMENT} {sign} {operand(self._text(value))}"
            case cst.If(test=test, body=body, orelse=orelse):
                asked = self._text(test)
                if not isinstance(test, cst.Comparison) or len(statements_of(body)) != 1:
                    raise _NotSo
                one = self._arm(statements_of(body)[0], f"{asked}, ELEMENT, 1")
                other = _ELEMENT
                rest = f"{asked}, 1, ELEMENT"
                if isinstance(orelse, cst.Else) and len(statements_of(orelse.body)) == 1:
                    other = self._arm(statements_of(orelse.body)[0], rest)
                elif isinstance(orelse, cst.If):
                    other = self._arm(orelse, rest)
                elif orelse is not None:
                    raise _NotSo
                else:
                    self.reads_directly = True
                if all(number_of(cst.parse_expression(text)) is not None for text in (one, other)):
                    raise _NotSo  # torch.where makes numbers of the default dtype of them
                return f"{self.torch}.where({asked}, {one}, {other})"
        raise _NotSo

    def _arm(self, line: cst.CSTNode, chosen: str) -> str:
        """What one side of an ``if`` stores; where its gradient may be NaN for elements of the
        other side (``0 * inf``), it computes with 1 in their place.
        """
        before, self.guards = self.guards, False
        text = self._stored(line)
        if self.guards:
            names = "|".join((_ELEMENT, *sorted(self.wholes)))
            text = re.sub(
                rf"\b(?:{names})\b",
                lambda found: f"{self.torch}.where({chosen.replace('ELEMENT', found[0])})",
                text,
            )
        self.guards = self.guards or before
        return text

    def _text(self, node: cst.BaseExpression) -> str:
        """The expression with the row in place of the element."""
        if not self._follows(node):
            raise _NotSo
        replace = _Replace(self.row.element)
        new = node.visit(replace)
        assert isinstance(new, cst.BaseExpression)
        self.reads_directly = self.reads_directly or replace.found
        return code(new)

    def _follows(self, node: cst.BaseExpression) -> bool:
        """Whether it is computed from the element and numbers, element by element."""
        if code(node) == self.row.element:
            return True
        match node:
            case cst.Integer() | cst.Float():
                return True
            case cst.Name(value=name) if name in self.locals:
                return True
            case cst.Name() | cst.Attribute():
                fact = self.values.fact(node)
                known = fact is not None and fact.kind in ("int", "float")
                return known and not {n.value for n in walk(node) if isinstance(n, cst.Name)} & (
                    activity(self.loop).bound
                )
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                return self._follows(inner)
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                return self._operates(left, operator, right) and all(
                    map(self._follows, (left, right))
                )
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
                plain = not isinstance(operator, cst.In | cst.NotIn | cst.Is | cst.IsNot)
                return plain and all(map(self._follows, (left, right)))
            case cst.Call():
                return self._calls(node)
        return False

    def _operates(
        self, left: cst.BaseExpression, operator: cst.BaseBinaryOp, right: cst.BaseExpression
    ) -> bool:
        if isinstance(operator, cst.Divide | cst.Power):
            self.guards = self.guards or not number_of(right)
        if isinstance(operator, cst.Multiply):  # by inf, what does not count has a NaN gradient
            self.guards = self.guards or not (number_of(left) or number_of(right))
        return isinstance(operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.Power)

    def _calls(self, node: cst.Call) -> bool:
        """A function of elements (`float("inf")` is a number)."""
        if code(node.func) == "float":
            return len(node.args) == 1 and isinstance(node.args[0].value, cst.SimpleString)
        name = resolve(self.site.module, node.func) or ""
        home, _, last = name.rpartition(".")
        values = [arg.value for arg in node.args]
        if f"{home}." not in HOMES:
            if name.startswith("torch") or not isinstance(node.func, cst.Attribute):
                return False
            last = node.func.attr.value
            values = [node.func.value, *values]
        if last not in SMOOTH | STEEP | TWO or any(arg.star for arg in node.args):
            return False
        self.guards = self.guards or last in STEEP or last.startswith(("div", "true_div", "atan"))
        return all(map(self._follows, values))


#: Stand for the element where it is read, and for a name's whole value, until it is known how.
_ELEMENT, _WHOLE = "__element__", "__whole__"


class _Replace(cst.CSTTransformer):
    def __init__(self, element: str) -> None:
        super().__init__()
        self.element = element
        self.found = False

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        if code(original_node) != self.element:
            return updated_node
        self.found = True
        return cst.Name(_ELEMENT)


def _of_different(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor of ``t.unique()``, ``torch.unique(t)`` and ``set(t.tolist())``."""
    match node:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("tolist")), args=[]) if (
            _of_different(inner) is not None
        ):
            return _of_different(inner)
        case cst.Call(func=cst.Attribute(value=cst.Name("torch"), attr=cst.Name("unique")),
                      args=[cst.Arg(keyword=None, star="", value=inner)]):  # fmt: skip
            return inner
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("unique")), args=[]):
            return inner
        case cst.Call(
            func=cst.Name("set"),
            args=[
                cst.Arg(value=cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("tolist"))))
            ],
        ):
            return inner
    return None

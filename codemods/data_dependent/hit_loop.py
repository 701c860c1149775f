"""A loop over what a mask hits (the experts that some token chose) becomes one over all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.liveness import live_after
from gbfix.analysis.scopes import function_scope, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Rewrite, Site
from gbfix.schema import Fact, Safety

from .hit_cases import EXAMPLES, NEAR_MISSES


class HitLoop(Codemod):
    """*What it does.*  Lets a loop over the places that a mask hits go over all places:
    ```python
    hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
    for number in hit:
        place, row = torch.where(mask[number].squeeze(0))
        update = self.experts[number](states[row]) * weights[row, place, None]
        result.index_add_(0, row, update)
    ```
    ``hit`` stays a mask, the loop counts to its length, and ``torch.where(mask[number] *
    hit[number])`` finds no rows where nothing was hit.

    *When it applies.*  The body finds its rows with ``torch.where``, computes with them, and adds
    the result with ``index_add_``; no name of the body is used in another iteration, or after the
    loop.

    *Fix safety.*  Unsafe: sums are the same, but what nothing reaches is now called with no rows.
    Its parameters get zero gradients in place of none (an optimizer with momentum or weight decay
    moves them), its hooks run, and a layer that cannot do without rows fails.

    *Refuses.*  Everything else in the body: other changes in place, other uses of the loop
    variable, returns, inner loops, and masks of floats (NaN times False is not False).
    """

    name = "hit-loop"
    codes = (
        "GB0036",
        "GB0088",
        "GB0170",
        "GB4347",
        "data-dependent-specialization",
        "data-dependent-guard",
        "data-dependent-other",
    )
    examples = EXAMPLES
    near_misses = NEAR_MISSES

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = site.function
        if function is None or "torch" in function_scope(function).locals:
            return
        for loop in walk(function.body):
            if not isinstance(loop, cst.For):
                continue
            found = _Found.of(site, function, loop)
            if found is not None and (
                site.statement is loop
                or any(node is site.node for node in walk(found.hits))
                or any(parent is loop for parent in site.ancestors(site.node))
            ):
                yield found.rewrite()
                return


_RANDOM = words(
    """rand randn randint randperm normal bernoulli multinomial rand_like randn_like randint_like
    poisson"""
)
_BOOLEAN = words("greater gt greater_equal ge less lt less_equal le ne not_equal eq any bool")
_WHOLE = words("torch.bool torch.uint8 torch.int8 torch.int16 torch.int32 torch.int64")
_CHANGES = words(
    "append extend insert pop popitem remove clear update add discard setdefault sort reverse "
    "write send put record"
)
_FORBIDDEN = (
    cst.Lambda, cst.NamedExpr, cst.Yield, cst.Await, cst.BaseComp, cst.FormattedStringExpression,
)  # fmt: skip


class _Refused(Exception):
    pass


@dataclasses.dataclass
class _Found:
    """A loop that can be rewritten, and what is to be replaced in it."""

    site: Site
    loop: cst.For
    name: str
    #: The call of ``nonzero``, and the mask that it is called on.
    hits: cst.BaseExpression
    mask: cst.BaseExpression
    #: What is replaced inside the loop, and statements that go.
    replaced: list[tuple[cst.CSTNode, cst.BaseExpression]] = dataclasses.field(default_factory=list)
    removed: list[cst.CSTNode] = dataclasses.field(default_factory=list)
    #: The loop variable's new name, where the first statement gave its number one.
    target: str = ""
    #: Whether the body has the number itself, and no tensor of it.
    numbered: bool = False

    @classmethod
    def of(cls, site: Site, function: cst.FunctionDef, loop: cst.For) -> _Found | None:
        if not isinstance(loop.iter, cst.Name) or not isinstance(loop.target, cst.Name):
            return None
        if loop.orelse is not None or loop.asynchronous is not None:
            return None
        name = loop.iter.value
        hits = _only_value(function, name)
        mask = _mask_of(site, hits) if hits is not None else None
        fact = site.fact(loop.iter) or site.locals_before(loop).get(name)
        if hits is None or mask is None or not _is_column(fact):
            return None
        found = cls(site, loop, name, hits, mask)
        try:
            found._read(function)
        except _Refused:
            return None
        return found

    def rewrite(self) -> Rewrite:
        edit = self.site.edit()
        edit.replace(self.hits, self.mask.deep_clone())
        edit.replace(self.loop.iter, cst.parse_expression(f"range({self.name}.shape[0])"))
        for node, new in self.replaced:
            edit.replace(node, new)
        for node in self.removed:
            edit.remove(node)
        if self.target:
            edit.replace(self.loop.target, cst.Name(self.target))
        index = self.target or code(self.loop.target)
        return edit.rewrite(
            f"go over all places of `{self.name}`, hit or not",
            rank=25,
            safety=Safety.UNSAFE,
            assumes=("zero-gradients", *self._one_sided()),
            notes=(
                f"Where `{self.name}[{index}]` is False the body runs with no rows: parameters "
                "there get zero gradients in place of none, hooks run, layers that count their "
                "calls count them, and what cannot do without rows (or has another dtype) fails.",
                "Rows are found by `torch.where`, which a graph holds with "
                "`fullgraph=True` or `capture_dynamic_output_shape_ops` only.",
            ),
        )

    def _one_sided(self) -> tuple[str, ...]:
        """The assumption that a removed test needs no forcing: the body runs without rows."""
        return ("one-sided",) if any(isinstance(node, cst.If) for node in self.removed) else ()

    # -- the body ----------------------------------------------------------------------------

    def _read(self, function: cst.FunctionDef) -> None:
        assert isinstance(self.loop.target, cst.Name)
        index = self.loop.target.value
        if not isinstance(self.loop.body, cst.IndentedBlock):
            raise _Refused("a body on one line")
        statements = list(self.loop.body.body)
        number = self._rename(index, statements)
        rows: set[str] = set()
        written = set(activity(self.loop.body).writes)
        if (written | {index}) & live_after(function, self.loop):
            raise _Refused("a value of the last round is used")
        self.numbered = bool(number)
        if number and number != index:
            self.target = index = number
        self._read_all(statements, index, rows, {index}, written)
        if not rows:
            raise _Refused("no rows are found")
        self._check_uses(index, self.numbered)

    def _read_all(
        self,
        statements: Sequence[cst.BaseStatement],
        index: str,
        rows: set[str],
        defined: set[str],
        written: set[str],
    ) -> None:
        """Statements in their order; ``defined`` grows with what they surely bind."""
        for statement in statements:
            if statement in self.removed:
                continue
            if isinstance(statement, cst.If):
                if activity(statement.test).reads & written - defined:
                    raise _Refused("a value of the round before is used")
                if not self._read_if(statement, index, rows):
                    self._read_choice(statement, index, rows, defined, written)
                continue
            if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
                raise _Refused("a compound statement")
            small = statement.body[0]
            if activity(small).reads & written - defined:
                raise _Refused("a value of the round before is used")
            if isinstance(small, cst.Assign):
                self._read_assign(small, index, rows)
            elif isinstance(small, cst.Expr):
                self._read_add(small, rows, written)
            else:
                raise _Refused(f"`{code(small)[:30]}`")
            defined |= activity(small).writes

    def _rename(self, index: str, statements: list[cst.BaseStatement]) -> str:
        """What the first statement, which then goes, calls the number; empty if it does not."""
        forms = ("{}[0]", "{}.item()", "int({})", "int({}.item())", "int({}[0])")
        first = statements[0]
        if not isinstance(first, cst.SimpleStatementLine) or len(first.body) != 1:
            return ""
        name, equals, value = code(first.body[0]).partition(" = ")
        if not equals or not name.isidentifier() or value not in [f.format(index) for f in forms]:
            return ""
        others = [node for item in statements[1:] for node in walk(item)]
        if name != index and any(isinstance(n, cst.Name) and n.value == index for n in others):
            return ""
        self.removed.append(first)
        return name

    def _read_choice(
        self, node: cst.If, index: str, rows: set[str], defined: set[str], written: set[str]
    ) -> None:
        """``if number >= self.routed: ... else: ...``: computes one way or the other."""
        parts = node.test
        for inner in walk(parts):
            if isinstance(inner, cst.Call | cst.Await | cst.NamedExpr | cst.Lambda | cst.BaseComp):
                raise _Refused("a branch on data")
        if activity(parts).reads - {index, "self"} or not _of_numbers(parts, index):
            raise _Refused("a branch on data")
        if not isinstance(node.orelse, cst.Else):
            raise _Refused("one branch alone")
        bound = []
        for block in (node.body, node.orelse.body):
            if not isinstance(block, cst.IndentedBlock):
                raise _Refused("a branch on one line")
            if any(not isinstance(item, cst.SimpleStatementLine) for item in block.body):
                raise _Refused("a compound statement")
            if activity(block).writes & rows:
                raise _Refused("the name of the rows is bound to something else")
            inside = set(defined)
            self._read_all(block.body, index, set(rows), inside, written)
            bound.append(inside)
        defined |= bound[0] & bound[1]

    def _read_if(self, node: cst.If, index: str, rows: set[str]) -> bool:
        """``if number == self.count: continue`` stays; ``if row.numel() == 0: continue`` goes.

        Whether it is one of these.
        """
        block = node.body
        if not isinstance(block, cst.IndentedBlock):
            raise _Refused("another branch")
        if [code(item).strip() for item in block.body] != ["continue"]:
            return False
        if node.orelse is not None:
            raise _Refused("another branch")
        text = code(node.test)
        empty = {
            form.format(row)
            for row in rows
            for form in ("{}.numel() == 0", "{}.shape[0] == 0", "{}.size(0) == 0", "len({}) == 0")
        }
        if text in empty:
            self.removed.append(node)
            return True
        does = activity(node.test)
        calls = any(isinstance(inner, cst.Call) for inner in walk(node.test))
        compared = isinstance(node.test, cst.Comparison) and code(node.test.left) == index
        if calls or not compared or does.reads & rows or does.writes:
            raise _Refused("a branch on data")
        return True

    def _read_assign(self, node: cst.Assign, index: str, rows: set[str]) -> None:
        if len(node.targets) != 1:
            raise _Refused("several targets")
        target = node.targets[0].target
        names: list[cst.CSTNode] = [target]
        if isinstance(target, cst.Tuple):
            names = [element.value for element in target.elements]
        if not all(isinstance(name, cst.Name) for name in names):
            raise _Refused("something else than a name is bound")
        call = node.value
        if (
            isinstance(call, cst.Call)
            and resolve(self.site.module, call.func) == "torch.where"
            and len(call.args) == 1
            and call.args[0].keyword is None
            and isinstance(target, cst.Tuple)
        ):
            self._read_where(call.args[0].value, index)
            rows |= {code(name) for name in names}
            return
        if rows & {code(name) for name in names}:
            raise _Refused("the name of the rows is bound to something else")
        self._check_value(call)

    def _read_where(self, value: cst.BaseExpression, index: str) -> None:
        """``mask[number]`` of a number, ``mask[number].squeeze(0)`` of a row of ``nonzero()``."""
        inner = value
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
            inner = value.func.value
            if code(value) != f"{code(inner)}.squeeze(0)":
                raise _Refused("one more index")
        elif not self.numbered:
            raise _Refused("one more index")
        if not isinstance(inner, cst.Subscript) or not isinstance(inner.value, cst.Name):
            raise _Refused("rows of something else")
        if code(inner) != f"{inner.value.value}[{index}]":
            raise _Refused("rows of something else")
        fact = self.site.locals_before(self.loop).get(inner.value.value)
        if fact is None or not fact.is_tensor or fact.dtype not in _WHOLE:
            raise _Refused("not certainly a mask")
        # Of a number, the squeeze takes nothing away that a row of ``nonzero()`` has brought.
        kept = value if self.numbered else inner
        new = cst.parse_expression(f"{code(kept)} * {self.name}[{index}]")
        self.replaced.append((value, new))

    def _read_add(self, node: cst.Expr, rows: set[str], written: set[str]) -> None:
        """``result.index_add_(0, row, update)``: adds nothing where there are no rows."""
        call = node.value
        if isinstance(call, cst.SimpleString | cst.ConcatenatedString):
            return
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            raise _Refused("another statement")
        result, method = call.func.value, call.func.attr.value
        if method != "index_add_" or not isinstance(result, cst.Name) or result.value in written:
            raise _Refused("another statement")
        if len(call.args) < 3 or any(arg.star for arg in call.args):
            raise _Refused("another statement")
        dim, row, update = call.args[:3]
        if dim.keyword or row.keyword or code(dim.value) != "0" or code(row.value) not in rows:
            raise _Refused("rows that the mask did not find")
        fact = self.site.locals_before(self.loop).get(result.value)
        if fact is not None and not fact.is_tensor:
            raise _Refused("not a tensor")
        for arg in (update, *call.args[3:]):
            self._check_value(arg.value)

    def _check_value(self, value: cst.BaseExpression) -> None:
        """Refuse what does more than compute, by its looks; the ladder sees the rest."""
        for node in walk(value):
            if isinstance(node, _FORBIDDEN) and not isinstance(node, cst.FormattedStringExpression):
                raise _Refused(f"`{code(node)[:30]}`")
            if not isinstance(node, cst.Call):
                continue
            name = resolve(self.site.module, node.func) or ""
            last = node.func.attr.value if isinstance(node.func, cst.Attribute) else name
            if last.rpartition(".")[2] in _RANDOM:
                raise _Refused("random numbers, which would be drawn for what is not hit, too")
            if last.endswith("_") or last in _CHANGES or name.startswith("builtins."):
                raise _Refused(f"`{code(node)[:30]}`")
            if any(arg.keyword is not None and arg.keyword.value == "out" for arg in node.args):
                raise _Refused("writes into an argument")

    def _check_uses(self, index: str, numbers: bool) -> None:
        """Refuse uses of the loop variable that a number does not fit."""
        done = {id(node) for old, _ in self.replaced for node in walk(old)}
        done |= {id(node) for old in self.removed for node in walk(old)}
        for node in walk(self.loop.body):
            if not isinstance(node, cst.Name) or node.value != index or id(node) in done:
                continue
            use, parent = self._number_of(node, numbers)
            if use is not node:
                self.replaced.append((use, cst.Name(index)))
            elif not numbers:
                self._check_module(parent)
            if not self._takes_number(use, parent):
                raise _Refused("the loop variable is used otherwise")

    def _number_of(
        self, node: cst.Name, numbers: bool
    ) -> tuple[cst.BaseExpression, cst.CSTNode | None]:
        """``number[0]`` or ``number.item()`` around the loop variable, and what holds it."""
        for parent in self.site.ancestors(node):
            if isinstance(parent, cst.Call | cst.Subscript):
                text = code(parent)
                if text == f"{node.value}.item()" or (not numbers and text == f"{node.value}[0]"):
                    return parent, self._holder(parent)
            if isinstance(parent, cst.BaseStatement):
                break
        return node, self._holder(node)

    def _holder(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """What holds an expression, through an index."""
        parent = self.site.parent(node)
        while isinstance(parent, cst.Index | cst.SubscriptElement | cst.ComparisonTarget):
            parent = self.site.parent(parent)
        return parent

    def _takes_number(self, use: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
        if isinstance(parent, cst.Comparison):
            return True
        if isinstance(parent, cst.FormattedStringExpression):
            return parent.format_spec is None and parent.conversion is None
        return (
            isinstance(parent, cst.Subscript)
            and len(parent.slice) == 1
            and isinstance(parent.slice[0].slice, cst.Index)
            and parent.slice[0].slice.value is use
        )

    def _check_module(self, parent: cst.CSTNode | None) -> None:
        """Only a list of modules takes a tensor of one place for its number."""
        if not isinstance(parent, cst.Subscript):
            raise _Refused("the loop variable is used otherwise")
        fact = self.site.fact(parent.value)
        if fact is None or fact.kind != "module":
            raise _Refused("not certainly a list of modules")


def _of_numbers(test: cst.BaseExpression, index: str) -> bool:
    """Whether a test compares the number of the round, or asks whether something is None."""
    if isinstance(test, cst.BooleanOperation):
        return _of_numbers(test.left, index) and _of_numbers(test.right, index)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _of_numbers(test.expression, index)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    (target,) = test.comparisons
    if isinstance(target.operator, cst.Is | cst.IsNot):
        return code(target.comparator) == "None" and code(test.left) != index
    ordered = (
        cst.Equal
        | cst.NotEqual
        | cst.LessThan
        | cst.LessThanEqual
        | cst.GreaterThan
        | (cst.GreaterThanEqual)
    )
    return code(test.left) == index and isinstance(target.operator, ordered)


def _only_value(function: cst.FunctionDef, name: str) -> cst.BaseExpression | None:
    """What the name is set to, where it is set once and read once."""
    names = [node for node in walk(function) if isinstance(node, cst.Name) and node.value == name]
    if len(names) != 2:
        return None
    for node in walk(function.body):
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            if target is names[0] or target is names[1]:
                return node.value
    return None


def _mask_of(site: Site, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The mask of bools whose places ``nonzero`` gives."""
    if not isinstance(node, cst.Call):
        return None
    rest = [code(arg).strip(", ") for arg in node.args]
    mask: cst.BaseExpression
    if resolve(site.module, node.func) == "torch.nonzero" and node.args:
        mask, rest = node.args[0].value, rest[1:]
        if node.args[0].keyword is not None or node.args[0].star:
            return None
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "nonzero":
        mask = node.func.value
    else:
        return None
    if rest not in ([], ["as_tuple=False"], ["as_tuple = False"]):
        return None
    if isinstance(mask, cst.Comparison):
        plain = len(mask.comparisons) == 1 and not isinstance(
            mask.comparisons[0].operator, cst.Is | cst.IsNot | cst.In | cst.NotIn
        )
        return mask if plain else None
    if isinstance(mask, cst.Call):
        name = (resolve(site.module, mask.func) or "").removeprefix("torch.")
        last = mask.func.attr.value if isinstance(mask.func, cst.Attribute) else ""
        if last == "bool" and isinstance(mask.func, cst.Attribute):
            # Of a tensor of bools that is the tensor itself, which may change before the loop.
            summed = mask.func.value
            made = summed.func if isinstance(summed, cst.Call) else None
            if not isinstance(made, cst.Attribute) or made.attr.value not in ("sum", "any"):
                return None
        return mask if last in _BOOLEAN and ("." not in name) else None
    return None


def _is_column(fact: Fact | None) -> bool:
    """Whether a tensor holds one place a row."""
    if fact is None or not fact.is_tensor or fact.shape is None:
        return False
    return len(fact.shape) == 2 and fact.shape[1] == 1

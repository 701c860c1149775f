"""Which expressions hold, row by row, what a mask selects, so that they may be computed whole."""

from __future__ import annotations

import re
from typing import NamedTuple

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.kinds import infer
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Site
from gbfix.rewriting.modules import is_always
from gbfix.rewriting.project import mentions
from gbfix.schema import Fact

from ..choice.computing import class_computes, made_by
from .nested import Atom, Bare, Parts
from .row_calls import is_column, is_gather, is_one_of_each, is_squeezed, row_loss, takes_rows
from .rowwise import Row, Value, helper_rows, is_of_file, literal
from .selections import HOMES, SMOOTH, STEEP, TWO, same_mask, selection_of, tensor_fact

#: Compute along a dimension: the last one of a row is whole, whatever the mask selects.
_LAST = words(
    """softmax log_softmax sum mean norm vector_norm argmax argmin amax amin logsumexp cumsum
    normalize cosine_similarity any all"""
)
#: Make one number of what is selected.
REDUCTIONS = words("sum mean norm var std")
#: Show a matrix in another order.
_TURNS = words("t transpose permute to type_as contiguous detach")
#: Of these, what has no finite derivative where all are zero.
_AT_ZERO = words("norm vector_norm normalize cosine_similarity")
_LAYERS = words("Linear LayerNorm ReLU GELU SiLU Tanh Sigmoid LeakyReLU ELU Softplus Identity")
_DTYPE = re.compile(r"torch\.(float|bfloat|int|long|half|double|bool)\w*|[\w.]+\.dtype")
_FLOATS = words("torch.float16 torch.bfloat16 torch.float32 torch.float64")
_INTS = words("torch.uint8 torch.int8 torch.int16 torch.int32 torch.int64 torch.bool")
#: May be without bounds, or jump, beside what is differentiable in its own right.
_RISKY = STEEP | _AT_ZERO | words("div divide true_divide atan2 hypot")


class _Version(NamedTuple):
    """What a name stands for from somewhere on."""

    since: tuple[int, int]
    value: cst.BaseExpression | None
    #: Whether it is computed with a risky function, and with what learns.
    marks: tuple[bool, bool]


class Chosen:
    """Expressions of selections by one mask."""

    def __init__(
        self, site: Site, mask: str, written: cst.BaseExpression, *, flat: bool = False
    ) -> None:
        self.site = site
        #: What the mask is called in the new text; ``written`` is how selections have it now.
        self.mask = mask
        self._written = written
        #: Names that hold such expressions.
        self.names: dict[str, cst.BaseExpression] = {}
        #: From where on each holds which (None: no such expression), and how: with a risky
        #: function, with what learns.
        self._versions: dict[str, list[_Version]] = {}
        fact = tensor_fact(site, written)
        #: How many dimensions the mask has.
        self.masked = len((fact.shape or ()) if fact is not None else ())
        #: How many of them what is computed has: one, where they are put into one at once, so that
        #: everything has as many dimensions as what was selected.
        self.dims = min(self.masked, 1) if flat else self.masked
        self.flat = flat and self.masked > 1
        self._ranks: dict[cst.CSTNode, int] = {}
        self._risky = self._learns = False
        #: Of ``w[mask, k]``, what stands behind the mask.
        self.columns: dict[cst.CSTNode, list[str]] = {}
        #: Layers that are other ones in another instance, for all that the text says.
        self.given: dict[str, None] = {}

    def uses_of(self, node: cst.BaseExpression) -> list[cst.CSTNode] | None:
        """The selections and names that it is computed from row by row; None if it is not so."""
        self._risky = self._learns = False
        uses: list[cst.CSTNode] = []
        if self.dims == 0 or not self._follow(node, uses) or not uses:
            return None
        # What is zero where it does not count has no gradient of its own; a parameter may have.
        return None if self._risky and self._learns else uses

    def uses_of_both(
        self, one: cst.BaseExpression, other: cst.BaseExpression
    ) -> list[cst.CSTNode] | None:
        """The same of two expressions that are computed with together; each has to be by rows."""
        first = self.uses_of(one)
        risky, learns = self._risky, self._learns
        second = self.uses_of(other)
        risky, learns = risky or self._risky, learns or self._learns
        return None if first is None or second is None or (risky and learns) else [*first, *second]

    @property
    def is_risky(self) -> bool:
        """Whether what `uses_of` was asked for last may be infinite, or have such a derivative."""
        return self._risky

    def bind(self, name: str, value: cst.BaseExpression, since: tuple[int, int] = (0, 0)) -> None:
        """Lets a name stand for the expression that `uses_of` was asked for last.

        ``since``: the line and the column behind which it does; a name may be bound again.
        """
        self.names[name] = value
        marks = (self._risky, self._learns)
        self._versions.setdefault(name, []).append(_Version(since, value, marks))

    def end(self, name: str, since: tuple[int, int]) -> None:
        """Lets a name stand for something else from there on."""
        self._versions[name].append(_Version(since, None, (False, False)))

    def holds(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """The expression that a name stands for where it is written; None if for no such one."""
        version = self._version(node)
        return version.value if version is not None else None

    def _version(self, node: cst.CSTNode) -> _Version | None:
        if not isinstance(node, cst.Name) or node.value not in self._versions:
            return None
        versions = self._versions[node.value]
        if len(versions) == 1 and versions[0].since == (0, 0):
            return versions[0]
        span = self.site.span(node)
        place = (span.line, span.column)
        return next((it for it in reversed(versions) if it.since <= place), None)

    def rank(self, node: cst.BaseExpression) -> int:
        """How many dimensions a selection or an expression of it has; 0 where it is not known."""
        selected = self._selected(node)
        if selected is not None:
            held = tensor_fact(self.site, selected)
            if held is None or held.shape is None:
                return 0
            return len(held.shape) - self.masked + 1
        if node in self._ranks:
            return self._ranks[node]
        held_now = self.holds(node)
        if held_now is not None:
            return self.rank(held_now)
        fact = tensor_fact(self.site, node)
        return 0 if fact is None or fact.shape is None else len(fact.shape)

    def wide(self, rank: int) -> str:
        """The mask with a dimension for each that what it selects has more."""
        return _widened(f"{self.mask}.flatten()" if self.flat else self.mask, rank - 1)

    def widest(self, rank: int) -> str:
        """The same with all dimensions of the mask, whatever is computed."""
        return _widened(self.mask, rank - 1)

    def zeroed(self, node: cst.BaseExpression, torch: str, none: str) -> Parts:
        """A selection as a tensor of all rows, with zeros for those that are not selected."""
        selected = self._selected(node)
        assert selected is not None
        wide = _widened(self.mask, self.rank(node) - 1)
        flat = f".flatten(0, {self.masked - 1})" if self.flat else ""
        return (f"{torch}.where({wide}, ", Bare(selected), f", {none}){flat}")

    def selects(self, node: cst.CSTNode) -> bool:
        """Whether a node selects by the mask."""
        return self._selected(node) is not None

    def is_mask(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is the mask."""
        return same_mask(self.site, node, self._written)

    def is_direct(self, node: cst.BaseExpression) -> bool:
        """Whether it is zero where it does not count, without any more ado."""
        value = self.holds(node)
        if value is not None:
            return self.is_direct(value)
        return self._selected(node) is not None

    def _selected(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        """What a selection by the mask selects from."""
        found = selection_of(self.site, node)
        return (
            found[0]
            if found is not None and same_mask(self.site, found[1], self._written)
            else None
        )

    def _follow(self, node: cst.BaseExpression, uses: list[cst.CSTNode]) -> bool:
        match node:
            case cst.Name() if (version := self._version(node)) and version.value is not None:
                uses.append(node)
                risky, learns = version.marks
                self._risky, self._learns = self._risky or risky, self._learns or learns
                return True
            case cst.Subscript() | cst.Call() if (selected := self._selected(node)) is not None:
                held = tensor_fact(self.site, selected)
                known = held is not None and (held.dtype or "") in _FLOATS | _INTS
                uses.append(node)
                return known and self.rank(node) > 0
            case cst.Subscript():
                return (
                    self._column(node, uses)
                    or self._part(node, uses)
                    or is_one_of_each(self, node, uses)
                )
            case cst.UnaryOperation(operator=operator, expression=inner):
                return not isinstance(operator, cst.Not) and self._follow(inner, uses)
            case cst.BinaryOperation(left=left, operator=cst.MatrixMultiply(), right=right):
                return self._product(left, right, uses)
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                return self._operator(left, operator, right) and self._all([left, right], uses)
            case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator, right)]):
                if isinstance(operator, cst.In | cst.NotIn | cst.Is | cst.IsNot):
                    return False
                return self._all([left, right], uses)
            case cst.Call():
                return self._call(node, uses)
        return False

    def follows(self, node: cst.BaseExpression, uses: list[cst.CSTNode]) -> bool:
        """Whether an expression is computed row by row; what it is made of comes into ``uses``."""
        return self._follow(node, uses)

    def _all(self, nodes: list[cst.BaseExpression], uses: list[cst.CSTNode]) -> bool:
        """Whether all are of this kind, with as many dimensions, or the same for all rows."""
        ranks: set[int] = set()
        shared = 0
        for node in nodes:
            if self._is_single(node):
                continue
            if dims := self._dims_for_all(node):
                shared = max(shared, dims)
                continue
            if not self._follow(node, uses):
                return False
            ranks.add(self.rank(node))
        return len(ranks) == 1 and 0 not in ranks and shared < min(ranks)

    def _dims_for_all(self, node: cst.BaseExpression) -> int:
        """The dimensions of a tensor that is no selection, which all rows have: ``self.weight``."""
        if not isinstance(node, cst.Name | cst.Attribute):
            return 0
        if self.holds(node) is not None:
            return 0
        fact = tensor_fact(self.site, node)
        if fact is None or not fact.shape or (fact.dtype or "") not in _FLOATS:
            return 0
        self._learns = True
        return len(fact.shape)

    def _is_single(self, node: cst.BaseExpression) -> bool:
        """A Python number, or a tensor without dimensions that is no selection."""
        if isinstance(node, cst.Integer | cst.Float):
            return True
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return self._is_single(node.expression)
        if isinstance(node, cst.Call) and self._reduces(node):
            self._learns = True
            return True
        if not isinstance(node, cst.Name | cst.Attribute):
            return False
        fact = infer(node, self.site.fact)
        if fact is None:
            return False
        if fact.is_tensor and fact.shape == ():
            self._learns = True
            return True
        return fact.kind in ("int", "float", "bool")

    def _reduces(self, node: cst.Call) -> bool:
        """``x.mean()`` of a selection: one number, which whoever asks has to put in itself."""
        match node:
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(kind)), args=[]) if (
                kind in REDUCTIONS
            ):
                pass
            case cst.Call(args=[cst.Arg(value=value, keyword=None, star="")]) if (
                resolve(self.site.module, node.func) or ""
            ) in {f"torch.{kind}" for kind in REDUCTIONS}:
                pass
            case _:
                return False
        marks = self._risky, self._learns
        uses = self.uses_of(value)
        self._risky, self._learns = marks
        return bool(uses)

    def _operator(
        self, left: cst.BaseExpression, operator: cst.BaseBinaryOp, right: cst.BaseExpression
    ) -> bool:
        """Whether the operator works on elements and cannot fail for zero."""
        if isinstance(operator, cst.LeftShift | cst.RightShift):
            return False
        if isinstance(operator, cst.FloorDivide | cst.Modulo):
            facts = [tensor_fact(self.site, side) for side in (left, right)]
            if not any(fact is not None and fact.dtype in _FLOATS for fact in facts):
                return False
        whole = isinstance(right, cst.Integer)
        if isinstance(operator, cst.Power) and not whole:
            # A negative power of a whole number fails, and who knows what a name holds.
            fact = tensor_fact(self.site, left)
            if fact is None or fact.dtype not in _FLOATS:
                return False
        risky = isinstance(operator, cst.Divide | cst.FloorDivide | cst.Modulo | cst.Power)
        self._risky = self._risky or (risky and not (whole and code(right) != "0"))
        return True

    def _product(
        self, left: cst.BaseExpression, right: cst.BaseExpression, uses: list[cst.CSTNode]
    ) -> bool:
        """``rows @ weight``: each row by itself, where the other is a matrix that has none."""
        fact = tensor_fact(self.site, right)
        if fact is None or len(fact.shape or ()) != 2 or (fact.dtype or "") not in _FLOATS:
            return False
        for part in walk(right):
            own = self.holds(part) is not None
            if own or self._selected(part) is not None or part in self.columns:
                return False
            if isinstance(part, cst.Call):
                plain = isinstance(part.func, cst.Attribute) and part.func.attr.value in _TURNS
                if not plain:
                    return False
        self._learns = True
        return self._follow(left, uses) and self.rank(left) > 1

    def _part(self, node: cst.Subscript, uses: list[cst.CSTNode]) -> bool:
        """``p[..., 0]``, and ``p[:, 1:]`` where each row of the tensor is one of the mask."""
        first, *others = [element.slice for element in node.slice]
        whole = code(first) == "..." or (code(first) == ":" and self.dims == 1)
        plain = all(re.fullmatch(r"-?\d+|-?\d*:(-?\d+)?|None", code(part)) for part in others)
        if not whole or not plain or not others or not self._follow(node.value, uses):
            return False
        return self.rank(node.value) > sum(code(part) != "None" for part in others)

    def _column(self, node: cst.Subscript, uses: list[cst.CSTNode]) -> bool:
        """``w[mask, k]`` and ``w[mask, None]``: of each row one number, or a dimension more."""
        first, *others = [element.slice for element in node.slice]
        if not others or not isinstance(first, cst.Index) or not self.is_mask(first.value):
            return False
        held, found = tensor_fact(self.site, node.value), tensor_fact(self.site, node)
        if held is None or found is None or held.shape is None or found.shape is None:
            return False
        if self.flat or (held.dtype or "") not in _FLOATS | _INTS:
            return False
        for part in others:
            if not isinstance(part, cst.Index):
                return False
            fact = infer(part.value, self.site.fact)
            number = isinstance(part.value, cst.Name | cst.Attribute | cst.Integer)
            known = number and fact is not None and fact.kind == "int"
            if not (known or isinstance(part.value, cst.Integer) or code(part) == "None"):
                return False
        dims = self.masked + sum(code(part) != "None" for part in others)
        if len(held.shape) < dims or len(found.shape) < 1:
            return False
        self.columns[node] = [code(part) for part in others]
        uses.append(node)
        return True

    def zeroed_column(self, node: cst.Subscript, torch: str, none: str) -> Parts:
        """What ``w[mask, k]`` takes of each row, for all rows, with zeros where not selected."""
        whole = ", ".join([":"] * self.masked + self.columns[node])
        wide = _widened(self.mask, self.rank(node) - 1)
        return (f"{torch}.where({wide}, ", Atom(node.value), f"[{whole}], {none})")

    def _call(self, node: cst.Call, uses: list[cst.CSTNode]) -> bool:
        if any(arg.star for arg in node.args):
            return False
        name = resolve(self.site.module, node.func) or ""
        home, _, last = name.rpartition(".")
        values = list(node.args)
        if loss := row_loss(self.site, node, home, last):
            plain = [arg.value for arg in values if arg.keyword is None]
            return takes_rows(self, loss, plain, uses)
        if is_squeezed(self, node, uses):
            return True
        if f"{home}." in HOMES or home == "torch.linalg":
            pass
        elif self._is_layer(node):
            self._learns = True
            return len(values) == 1 and self._follow(values[0].value, uses)
        elif self.dims == 1 and is_of_file(self.site, node):
            return self._helper(node, uses)
        elif isinstance(node.func, cst.Attribute) and not name.startswith("torch"):
            last = node.func.attr.value
            values = [cst.Arg(node.func.value), *values]
        else:
            return False
        self._risky = self._risky or last in _RISKY
        if last in ("matmul", "mm") and len(values) == 2:
            return self._product(values[0].value, values[1].value, uses)
        return self._known_call(last, values, uses)

    def _helper(self, node: cst.Call, uses: list[cst.CSTNode]) -> bool:
        """A function of the file that treats each row by itself."""
        given: list[Value | None] = []
        for arg in node.args:
            plain = literal(arg.value)
            if plain.told or self._is_single(arg.value):
                given.append(plain)
            elif self._follow(arg.value, uses) and self.rank(arg.value):
                given.append(Row(self.rank(arg.value)))
            else:
                return False
        row = helper_rows(self.site, node, given)
        if row is None:
            return False
        self._risky = self._risky or row.risky
        self._ranks[node] = row.rank
        return True

    def _known_call(self, last: str, args: list[cst.Arg], uses: list[cst.CSTNode]) -> bool:
        keywords = {arg.keyword.value: code(arg.value) for arg in args if arg.keyword is not None}
        values = [arg.value for arg in args if arg.keyword is None]
        if not values or any(code(value) in ("True", "False") for value in values):
            return False  # `F.relu(p, True)` changes `p`
        if last in ("to", "type"):
            plain = len(values) == 2 and not keywords and _DTYPE.fullmatch(code(values[1]))
            return bool(plain) and self._follow(values[0], uses)
        if last == "one_hot":
            # Zero is a class; a number less is none.
            direct = len(values) == 2 and not keywords and self.is_direct(values[0])
            return direct and self._follow(values[0], uses)
        if last == "gather":
            return is_gather(self, values, keywords, uses)
        if last in ("view", "reshape"):
            told = [code(value) for value in values[1:]]
            return is_column(self, last, values[0], told) and self._follow(values[0], uses)
        if last == "unsqueeze":
            dims = [code(v) for v in values[1:]]
            if not self._follow(values[0], uses):
                return False
            return dims == ["-1"] or (dims == ["1"] and self.dims == self.rank(values[0]) == 1)
        if last in _LAST:
            return self._along(last, values, keywords, uses)
        if last not in SMOOTH | STEEP | TWO or not set(keywords) <= {"min", "max", "alpha"}:
            return False
        more = [arg.value for arg in args if arg.keyword is not None]
        if last == "pow" and not self._operator(values[0], cst.Power(), values[-1]):
            return False
        return self._all([*values, *more], uses)

    def _along(
        self,
        last: str,
        values: list[cst.BaseExpression],
        keywords: dict[str, str],
        uses: list[cst.CSTNode],
    ) -> bool:
        """Whether it works along the last dimension, which is not the mask's."""
        count = 2 if last == "cosine_similarity" else 1
        told = [code(value) for value in values[count:]]
        if set(keywords) - {"dim", "keepdim"} or len(values) < count:
            return False
        dims = [*told, *([keywords["dim"]] if "dim" in keywords else [])]
        if last == "norm" and told:
            return False  # its second argument is the order of the norm
        if dims != ["-1"] or not self._all(values[:count], uses):
            return False
        return self.rank(values[0]) > 1

    def _is_layer(self, node: cst.Call) -> bool:
        """A layer of torch that treats each row by itself."""
        fact = self.site.fact(node.func)
        if fact is None or fact.kind != "module" or len(node.args) != 1:
            return False
        kind = fact.type.rpartition(".")[2]
        if kind not in _LAYERS or not fact.type.startswith("torch.nn."):
            return self._is_made_of_layers(node, fact)
        if not (is_always(self.site, node.func, _LAYERS) or self._is_one_of_layers(node)):
            self.given.setdefault(code(node.func))
        return kind not in ("Linear", "LayerNorm") or self.rank(node.args[0].value) > 1

    def _is_one_of_layers(self, node: cst.Call) -> bool:
        """Whether all that the list holds, of which an item is called, are such layers."""
        owner, held = self.site.class_of(node), self._held(node.func)
        if owner is None or not held or mentions(self.site, r"\bregister_\w*hook\b"):
            return False
        made = made_by(self.site, owner.name.value, held)
        return bool(made) and set(made or ()) <= {f"torch.nn.{name}" for name in _LAYERS}

    def _is_made_of_layers(self, node: cst.Call, fact: Fact) -> bool:
        """A module of the project, or a sequence, whose text shows that each row is by itself."""
        owner, held = self.site.class_of(node), self._held(node.func)
        if owner is None or not held:
            return False
        made = made_by(self.site, owner.name.value, held)
        name = fact.type.rpartition(".")[2]
        # It was given rows: with more dimensions, it may do something else.
        if self.dims != 1 or made is None or mentions(self.site, r"\bregister_\w*hook\b"):
            return False
        names = set(made)
        if not fact.type.startswith("torch.nn."):
            names.add(name)
        elif name != "Sequential":
            return False
        for each in names:
            found = class_computes(self.site, each)
            if found.why_not or not found.rows_alone:
                return False
            self._risky = self._risky or not found.tame
        return self.rank(node.args[0].value) > 1 and self.rank(node) > 1

    def _held(self, func: cst.BaseExpression) -> str:
        """The attribute of ``self`` that is called, or of which an item is called."""
        match func:
            case cst.Attribute(value=cst.Name("self"), attr=cst.Name(held)):
                return held
            case cst.Subscript(value=cst.Attribute(value=cst.Name("self"), attr=cst.Name(held))):
                return held
            case cst.Name(name):
                return self._item_of(name)
        return ""

    def _item_of(self, name: str) -> str:
        """The attribute of ``self`` over whose items the one loop goes that binds the name."""
        function = self.site.function
        bound: list[str] = []
        for node in walk(function.body) if function is not None else ():
            if not isinstance(node, cst.BaseSmallStatement | cst.For):
                continue
            does = activity(node) if isinstance(node, cst.BaseSmallStatement) else None
            if does is not None and name not in does.bound:
                continue
            match node:
                case (
                    cst.For(
                        target=cst.Tuple(elements=[_, cst.Element(cst.Name(target))]),
                        iter=cst.Call(func=cst.Name("enumerate"), args=[cst.Arg(value=of)]),
                    )
                    | cst.For(target=cst.Name(target), iter=of)
                ) if target == name:
                    pass
                case cst.For(
                    target=cst.Tuple(elements=names), iter=cst.Call(func=cst.Name("zip"), args=args)
                ) if name in [code(each.value) for each in names] and len(names) == len(args):
                    of = args[[code(each.value) for each in names].index(name)].value
                case cst.For(target=target_node):
                    if any(isinstance(n, cst.Name) and n.value == name for n in walk(target_node)):
                        bound.append("")
                    continue
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name())], value=cst.Subscript(value=of)
                ):
                    pass
                case _:
                    bound.append("")
                    continue
            match of:
                case (
                    cst.Attribute(value=cst.Name("self"), attr=cst.Name(held))
                    | cst.Call(
                        func=cst.Attribute(
                            value=cst.Attribute(value=cst.Name("self"), attr=cst.Name(held)),
                            attr=cst.Name("values"),
                        ),
                        args=[],
                    )
                ):
                    bound.append(held)
                case _:
                    bound.append("")
        return bound[0] if len(bound) == 1 else ""


def _widened(mask: str, more: int) -> str:
    """The mask's text with so many dimensions more."""
    return f"{mask}[..., {', '.join(['None'] * more)}]" if more > 0 else mask


class PartRows(Chosen):
    """Expressions of a part of some rows, by its name: each row of them is of one of the part's."""

    def __init__(self, site: Site, part: cst.Name, rank: int) -> None:
        super().__init__(site, "", part)
        self.masked = self.dims = 1
        self._known = {part.value: rank}
        self.bind(part.value, part)

    def rank(self, node: cst.BaseExpression) -> int:
        """How many dimensions an expression has; 0 where it is not known."""
        if isinstance(node, cst.Name) and node.value in self._known:
            return self._known[node.value]
        return super().rank(node)

    def _selected(self, node: cst.CSTNode) -> cst.BaseExpression | None:
        del node
        return None

    def is_mask(self, node: cst.BaseExpression) -> bool:
        """Nothing is a mask here."""
        del node
        return False

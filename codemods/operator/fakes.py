"""The fake of a piece: sizes from its text where that tells, else from what was recorded."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

import libcst as cst

from gbfix.analysis.tree import code, walk
from gbfix.rewriting.project import mentions as mentioned
from gbfix.schema import Told

from .inputs import Parameter, Refused
from .pieces import Piece
from .reached import called
from .results import Result
from .size_values import OPEN, UNKNOWN, Size, Value
from .sizes import Reader, fact_value


@dataclasses.dataclass(frozen=True)
class Fake:
    """``lines`` come first, ``text`` is the result; ``guessed`` are sizes that nothing proves,
    ``likely`` those that one argument alone was seen to have.
    """

    text: str
    lines: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    dynamic: bool = False
    likely: tuple[str, ...] = ()
    #: Whether a dtype may follow another argument than the fake says, or be another of integers.
    mixes: bool = False
    #: Results and dimensions that share a size which the data decide; ``supposes``: as recorded.
    alike: tuple[tuple[tuple[int, int], ...], ...] = ()
    supposes: bool = False


def fake_of(
    piece: Piece,
    torch: str,
    *,
    follow: bool | None = None,
    guesses: bool = True,
    told: Told | None = None,
) -> Fake:
    """The fake of a piece's results; raises `Refused` where it cannot be told.

    ``follow`` says whether results of the dtype of an argument follow it; None asks the text.
    A size that nothing proves is the recorded one, or (not ``guesses``) one that data decide; where
    it was found out by running the piece with other sizes, it is what was ``told``.
    """
    leaves = [leaf for result in piece.results for leaf in result.leaves()]
    if not leaves:
        return Fake("None")
    values = leaf_values(piece)
    maker = Maker(
        piece.inputs.parameters,
        written(piece),
        torch,
        follow,
        guesses=guesses,
        read=read_by_python(piece),
        numbers=told is not None and told.real,
    )
    maker.own = own_text(piece)
    maker.as_wide = told.follows if told is not None else None
    maker.stays = told.stays if told is not None else ()
    maker.default = mentioned(piece.level.site, _SETS_DEFAULT)
    maker.one_size = told.alike if told is not None else None
    wider = told.wider if told is not None else ()
    whole = told.integers if told is not None else ()
    sums = _added_up(piece)
    known = told.sizes if told is not None else ()
    texts = [
        maker.sum_of(sums[leaf.name])
        if leaf.name in sums
        else maker.tensor(
            leaf,
            value,
            known[place] if place < len(known) else (),
            wider[place] if place < len(wider) else None,
            whole[place] if place < len(whole) else None,
            place,
        )
        for place, (leaf, value) in enumerate(zip(leaves, values, strict=True))
    ]
    text = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    new = f"{torch}.library.get_ctx().new_dynamic_size()"
    lines = tuple(f"{name} = {new}" for name in maker.sizes)
    shared = tuple(tuple(places) for places in maker.places.values() if len(places) > 1)
    return Fake(
        text,
        lines,
        tuple(maker.guessed),
        bool(maker.dynamic),
        tuple(maker.likely),
        maker.mixes,
        shared,
        bool(shared) and maker.one_size is None,
    )


def _added_up(piece: Piece) -> dict[str, Parameter]:
    """Results to which the piece only adds, each to what it is given: ``out = out + h @ w``.

    What is added had the sizes that the sum had: it is as large as what it is added to.
    """
    given = {p.inside: p for p in piece.inputs.parameters if p.annotation == "torch.Tensor"}
    found: dict[str, Parameter] = {}
    for result in piece.results:
        parameter = given.get(result.name)
        facts = result.fact, parameter.fact if parameter is not None else None
        if parameter is None or result.kind != "tensor" or facts[1] is None:
            continue
        alike = facts[0].shape == facts[1].shape and facts[0].dtype == facts[1].dtype
        floats = (facts[0].dtype or "").startswith("torch.float")
        if alike and floats and _only_adds(piece.nodes, result.name):
            found[result.name] = parameter
    return found


def _only_adds(nodes: Sequence[cst.CSTNode], name: str) -> bool:
    """Whether code binds the name in no other way than by ``name = name + ...``."""
    parts = [part for node in nodes for part in walk(node)]
    sums: set[cst.CSTNode] = set()
    for part in parts:
        match part:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(target)) as only],
                value=cst.BinaryOperation(
                    left=cst.Name(left), operator=cst.Add() | cst.Subtract(), right=right
                ),
            ) if target == left == name and not _has_name(right, name):
                sums.add(only)
    binding = (
        cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.For | cst.AsName
    )
    return not any(
        isinstance(part, binding)
        and part not in sums
        and _has_name(part.name if isinstance(part, cst.AsName) else part.target, name)
        for part in parts
    )


def _has_name(node: cst.CSTNode, name: str) -> bool:
    return any(isinstance(part, cst.Name) and part.value == name for part in walk(node))


def leaf_values(piece: Piece) -> list[Value]:
    """What the text tells of each tensor that the operator gives."""
    site = piece.level.site
    names: dict[str, Value] = {}
    nodes: dict[cst.CSTNode, Value] = {}
    by_text = {p.inside: p for p in piece.inputs.parameters}
    for node, new in piece.inputs.replacements.items():
        parameter = by_text.get(code(new))
        if parameter is None:
            continue
        value = fact_value(parameter.fact, parameter.name)
        if isinstance(node, cst.Name):
            names[node.value] = value
        else:
            nodes[node] = value
    reader = Reader(site, names, nodes)
    if piece.is_expression:
        node = piece.nodes[0]
        assert isinstance(node, cst.BaseExpression)
        return _leaves(piece.results[0], reader.value(node))
    reader.run(piece.nodes)
    if piece.tail is not None:
        return _leaves(piece.results[0], reader.value(piece.tail))
    if piece.returns:
        return _leaves(piece.results[0], reader.result()) if piece.results else []
    return [
        value
        for result in piece.results
        for value in _leaves(result, reader.names.get(result.name, UNKNOWN))
    ]


def _leaves(result: Result, value: Value) -> list[Value]:
    if not result.parts:
        return [value]
    parts = value.parts if value.parts and len(value.parts) == len(result.parts) else None
    return [
        leaf
        for place, part in enumerate(result.parts)
        for leaf in _leaves(part, parts[place] if parts else UNKNOWN)
    ]


#: Gives fewer (or more) items than it is given, as the data has it: a size that nothing in the text
#: tells may be the recorded one by chance.
_MERGES = re.compile(
    r"\.(?:values|keys|items|split|splitlines|join|fromkeys|most_common)\(|\b(?:set|filter|groupby"
    r"|takewhile|dropwhile|Counter|defaultdict|argwhere|nonzero|flatnonzero|unique|unique_consecutive"
    r"|masked_select|compress|extract|trim_zeros|(?:union|intersect|setdiff|setxor)1d|nms)\("
    r"|\bwhere\([^,()]*(?:\([^()]*\)[^,()]*)*\)"
)


#: Of integers, the first gives fractions, the second wide integers.
_DIVIDES = re.compile(r"\S / |\bmean\(")
_SUMS = re.compile(r"\b(?:sum|prod|cumsum|cumprod)\(")
_CASTS = {
    "long": "torch.int64", "int": "torch.int32", "double": "torch.float64", "half": "torch.float16",
}  # fmt: skip
_TYPED = re.compile(r"\.type_as\((\w+)\)|\.type\((\w+)(?:\.data)?\.type\(\)\)|\.to\((\w+)\)")
_JOINS = re.compile(r"\b(?:stack|cat|where|concat|hstack|vstack|lerp)\(|\S [-+*/] ")


#: Changes the dtype of new tensors; what makes these.
_SETS_DEFAULT = r"\bset_default_(?:dtype|tensor_type)\b"
_NEW = re.compile(r"\b(?:tensor|as_tensor|Tensor|zeros|ones|full|empty|rand|randn|linspace)\(")

#: The module, in what runs tell.
_MODULE = re.compile(r"\btorch\.(?=broadcast_shapes)")


class Maker:
    """Writes empty tensors like the results; ``made`` is the text that makes these."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        made: str,
        torch: str,
        follow: bool | None = None,
        *,
        guesses: bool = True,
        read: frozenset[str] = frozenset(),
        numbers: bool = False,
    ) -> None:
        """``numbers``: what runs told of sizes, they told with numbers that were made up."""
        self.parameters = parameters
        self.made = made
        #: The text in which the results have their names, without functions that it calls.
        self.own = made
        self.torch = torch
        self.follow = follow
        self.guesses = guesses
        self.read = read
        self.numbers = numbers
        self.guessed: list[str] = []
        self.likely: list[str] = []
        self.dynamic = 0
        #: Names of sizes that the data decide, one for each: that two were equal may be chance.
        self.sizes: list[str] = []
        #: Which of these are one, as runs tell; without them, those that were equal in the run.
        self.one_size: Sequence[Sequence[tuple[int, int]]] | None = None
        #: By name of such a size, the results and dimensions that have it; what was seen of them.
        self.places: dict[str, list[tuple[int, int]]] = {}
        self.seen: dict[str, int | None] = {}
        #: Which result is made at present, and how many dimensions it has.
        self.leaf = self.rank = 0
        #: The arguments that the present result gets a wider dtype from, if runs have told.
        self.wider: Sequence[str] | None = None
        #: What the present result is of integers, if runs have told.
        self.integers: str | None = None
        self.mixes = False
        #: By result, whether it is as wide as the floats that are given, if runs have told.
        self.as_wide: Sequence[bool] | None = None
        #: By result, whether it is of int64 whatever integers are given, as runs have told.
        self.stays: Sequence[bool] = ()
        #: Whether the program may give new tensors another dtype than float32.
        self.default = False
        #: Whether each item of a list has sizes of its own.
        self.in_list = False
        self.tensors = [p for p in parameters if p.annotation == "torch.Tensor"]

    def sum_of(self, given: Parameter) -> str:
        """A tensor like the one that the piece adds to, in the widest dtype of all that it gets."""
        floats = [
            p
            for p in self.tensors
            if (p.fact.dtype or "").startswith("torch.float") and p.name not in self.read
        ]
        others = [p.name for p in floats if p is not given]
        if not others:
            return f"{given.name}.new_empty({given.name}.shape)"
        dtype = f"{given.name}.dtype"
        for name in others:
            dtype = f"{self.torch}.promote_types({dtype}, {name}.dtype)"
        return f"{given.name}.new_empty({given.name}.shape, dtype={dtype})"

    def listed(self, result: Result, value: Value) -> str:
        """A list of tensors; its length has to be told by the text."""
        length = value.length
        seen = result.count
        differs = bool(seen) and length.value is not None and length.value != seen
        if not length.known or length.data or differs:
            raise Refused("how many tensors it gives is not known")
        self.in_list = True
        try:
            each = self.tensor(dataclasses.replace(result, kind="tensor"), value.item)
        finally:
            self.in_list = False
        return f"[{each} for _ in range({length.text})]"

    def data_size(self, seen: int | None, dim: int) -> str:
        """What stands for a size that the data decide."""
        self.dynamic += 1
        if self.in_list:
            return f"{self.torch}.library.get_ctx().new_dynamic_size()"
        name = self.same_size(seen, dim)
        if not name:
            self.sizes.append(f"size_{len(self.sizes)}" if self.sizes else "size")
            name = self.sizes[-1]
        self.places.setdefault(name, []).append((self.leaf, dim))
        self.seen[name] = seen
        return name

    def same_size(self, seen: int | None, dim: int) -> str:
        """The name of a size of another result that this one has as well ("": there is none)."""
        if self.one_size is None:
            others = self.seen if self.guesses else {}
            alike = (
                name
                for name, other in others.items()
                if other == seen and all(leaf != self.leaf for leaf, _ in self.places[name])
            )
            return next(alike, "")
        mine = next((group for group in self.one_size if (self.leaf, dim) in group), ())
        return next((n for n, places in self.places.items() if {*places} & {*mine}), "")

    def tensor(
        self,
        result: Result,
        value: Value,
        told: Sequence[str | None] = (),
        wider: Sequence[str] | None = None,
        integers: str | None = None,
        leaf: int = 0,
    ) -> str:
        """``told`` are its sizes as runs of the piece tell them, if it was run, ``wider`` the
        arguments that it gets a wider dtype from, and ``integers`` what it is of whole numbers (see
        `Told`).
        """
        self.wider, self.integers, self.leaf = wider, integers, leaf
        if result.kind == "list":
            return self.listed(result, value)
        if result.is_number:
            return f"{self.torch}.empty((), dtype={self.named(result.dtype)})"
        shape = result.fact.shape
        if value.sparse:
            raise Refused("its result is a sparse tensor")
        if shape is None:
            raise Refused("the sizes of its result were not seen")
        sizes: Sequence[Size] = value.sizes or ()
        if value.sizes is None or len(sizes) != len(shape):
            sizes = [OPEN] * len(shape)
        told = told if len(told) == len(shape) else (None,) * len(shape)
        self.rank = len(shape)
        texts = [
            self.size(size, seen, place - len(shape), told[place])
            for place, (size, seen) in enumerate(zip(sizes, shape, strict=True))
        ]
        if value.lists != len(shape) and not value.plain:
            return self.empty(texts, result)
        if value.plain and result.dtype == "torch.float32":
            return self.born(texts)
        return self.empty(texts, result, forgets=value.forgets, untyped=value.untyped)

    def born(self, sizes: list[str]) -> str:
        """A tensor that was made without a dtype: it has the one of new tensors."""
        text = _shape(sizes)
        like = self.like("torch.float32") if "device=" in self.made else None
        if like is None:
            return f"{self.torch}.empty({text})"
        return f"{like.name}.new_empty({text}, dtype={self.torch}.get_default_dtype())"

    def size(self, size: Size, seen: int | None, place: int, told: str | None = None) -> str:
        """One size; ``place`` counts from the last one, -1."""
        dim = place + self.rank
        if size.data:
            return self.data_size(seen, dim)
        agrees = size.value is None or seen is None or size.value == seen
        if size.known and agrees:
            return size.text
        merges = bool(_MERGES.search(self.made))
        # Numbers that were made up may miss what the data can do; symbols miss nothing.
        if told is not None and not (self.numbers and (size.torn or merges)):
            return _MODULE.sub(f"{self.torch}.", told) or self.data_size(seen, dim)
        found = [
            (n - len(p.fact.shape or ()) != place, f"{p.name}.shape[{n}]")
            for p in self.tensors
            for n, other in enumerate(p.fact.shape or ())
            if other == seen and seen is not None
        ]
        # Of several that were as large, the one that stands where this one does.
        choices = [text for _, text in sorted(found, key=lambda pair: pair[0])]
        numbers = [
            p.name for p in self.parameters if p.annotation == "int" and p.fact.value == seen
        ]
        choices += numbers
        if not choices:
            if seen is None or not self.guesses:
                return self.data_size(seen, dim)
            self.guessed.append(str(seen))
            return str(seen)
        torn = size.torn or not agrees or merges
        if len(choices) > 1 or torn:
            if not self.guesses:
                return self.data_size(seen, dim)
            self.guessed.append(choices[0])
        else:
            self.likely.append(choices[0])
        return choices[0]

    def empty(
        self, sizes: list[str], result: Result, *, forgets: bool = False, untyped: str = ""
    ) -> str:
        """``forgets``: made of lists of lists, of which an empty one has no second size.

        ``untyped``: made of numbers; without any, it is of this dtype.
        """
        dtype = result.dtype
        like = self.like(dtype)
        text = _shape(sizes)
        for p in self.tensors:
            dims = len(p.fact.shape or ())
            if sizes and sizes == [f"{p.name}.shape[{n}]" for n in range(dims)]:
                text = f"{p.name}.shape"
        if forgets and not _is_of_data(sizes[0]):
            text = f"{text} if {sizes[0]} else (0,)"
        asked = self.asked_dtype(dtype)
        alike = self.asked_type(dtype)
        if alike is not None:
            return f"{alike.name}.new_empty({text})"
        if like is None:
            kind = self.of_some(asked or self.named(dtype), sizes, dtype, untyped)
            return f"{self.torch}.empty({text}, dtype={kind})"
        if asked:
            for name in self.added(result, asked):
                asked = f"{self.torch}.promote_types({asked}, {name}.dtype)"
            return f"{like.name}.new_empty({text}, dtype={asked})"
        if dtype == like.fact.dtype == "torch.float32" and ".float()" in self.made:
            # Joined with what is not converted, the wider of the two; alone, what it says.
            single = f"{self.torch}.float32"
            if _JOINS.search(self.made):
                single = f"{self.torch}.promote_types({like.name}.dtype, {single})"
            return f"{like.name}.new_empty({text}, dtype={single})"
        if not (self.follows(like, dtype) or self.is_as_wide(like, dtype)):
            kind = self.of_some(self.named(dtype), sizes, dtype, untyped)
            made = f"{self.torch}.empty" if result.kind == "ndarray" else f"{like.name}.new_empty"
            return f"{made}({text}, dtype={kind})"
        # What may be given integers: it has no gradient.
        floats = dtype.startswith("torch.float") and not like.fact.requires_grad
        if floats and (mixed := self.mixed(result)):
            return f"{mixed[0].name}.new_empty({text}, dtype={self.promoted(mixed)})"
        wider = self.of_integers(like, result.name) if floats else ""
        return f"{like.name}.new_empty({text}{self.with_others(like, wider)})"

    def with_others(self, like: Parameter, said: str) -> str:
        """The dtype (``said``, if it is no more than that of ``like``), with all that widens it."""
        others = [
            p.name
            for p in self.tensors
            if p is not like
            and p.name not in self.read
            and (p.fact.dtype or "").startswith("torch.float")
            and f"{p.name}.dtype" not in said
        ]
        if self.wider is None:
            self.mixes = self.mixes or bool(others)
            return said
        dtype = said.removeprefix(", dtype=") or f"{like.name}.dtype"
        missing = [name for name in self.wider if name in others]
        for name in missing:
            dtype = f"{self.torch}.promote_types({dtype}, {name}.dtype)"
        return f", dtype={dtype}" if missing else said

    def mixed(self, result: Result) -> list[Parameter]:
        """The arguments that are joined in what is bound to the result, if there are several.

        They had one dtype, and as many dimensions: the widest dtype is the result's.
        """
        made = rf"^ *{re.escape(result.name)} = (.*)$"
        values = re.findall(made, self.own, re.MULTILINE)
        if not values or any(re.search(r"\w\(", value) for value in values):
            return []  # a call may give anything
        words_in = {word for value in values for word in re.findall(r"\w+", value)}
        found = [p for p in self.tensors if p.name in words_in and p.name not in self.read]
        alike = all(p.fact.dtype == result.dtype for p in found)
        dims = {len(p.fact.shape or ()) for p in found}
        return found if alike and len(found) > 1 and len(dims) == 1 else []

    def added(self, result: Result, asked: str) -> list[str]:
        """Arguments that are added to (or the like) what has the dtype that the text asks for."""
        made = rf"^ *(?:{re.escape(result.name or 'return')} = |return )(.*)$"
        values = re.findall(made, self.made, re.MULTILINE)
        try:
            node = cst.parse_expression(values[-1]) if len(values) == 1 else None
        except cst.ParserSyntaxError:
            return []  # it goes on in the next line
        found: list[str] = []
        while isinstance(node, cst.BinaryOperation):
            for side in (node.left, node.right):
                if isinstance(side, cst.Name):
                    found.append(side.value)
            node = node.left
        dims = [p.name for p in self.tensors if p.fact.shape and p.fact.dtype == result.dtype]
        return [name for name in found if name in dims and f"{name}.dtype" != asked]

    def promoted(self, parameters: Sequence[Parameter]) -> str:
        """The widest dtype of several arguments."""
        first, *others = parameters
        dtype = f"{first.name}.dtype"
        for other in others:
            dtype = f"{self.torch}.promote_types({dtype}, {other.name}.dtype)"
        return dtype

    def of_some(self, kind: str, sizes: list[str], dtype: str, untyped: str) -> str:
        """The dtype, which is ``untyped`` where a list of numbers had none."""
        some = dict.fromkeys(size for size in sizes if not size.isdigit())
        asked_for = self.asked_whether_empty()
        if asked_for and any(map(_is_of_data, some)):
            some = {asked_for: None}
        told = some and not any(map(_is_of_data, some))
        if untyped and told and not dtype.startswith("torch.float"):
            kind += f" if {' and '.join(some)} else {self.named(untyped)}"
        return kind

    def of_integers(self, like: Parameter, name: str) -> str:
        """The dtype of what is divided or summed: of integers it is another one than theirs."""
        made = rf"^ *{re.escape(name)}(?: = |\.append\()(.*)$"
        values = re.findall(made, self.own if name else self.made, re.MULTILINE)
        last = values[-1] if values else ""
        kind = self.integers
        if not kind:
            kind = "fraction" if _DIVIDES.search(last) else "sum" if _SUMS.search(last) else ""
            self.mixes = self.mixes or not kind
        if kind == "fraction":
            dtype = f"{self.torch}.result_type({like.name}, 1.0)"
            for other in self.beside(like, values):
                dtype = f"{self.torch}.promote_types({dtype}, {other.name}.dtype)"
            return f", dtype={dtype}"
        if kind == "sum":
            return f", dtype={self.torch}.promote_types({like.name}.dtype, {self.torch}.int64)"
        return ""

    def beside(self, like: Parameter, values: Sequence[str]) -> list[Parameter]:
        """The other arguments of one dtype with it that a result's values are joined with: each may
        be wider in another call, but for a number in a tensor.
        """
        words_in = {word for value in values for word in re.findall(r"\w+", value)}
        return [
            p
            for p in self.tensors
            if p.name in words_in - {like.name}
            and p.name not in self.read
            and p.fact.shape
            and p.fact.dtype == like.fact.dtype
        ]

    def asked_whether_empty(self) -> str:
        """The count of an argument that the text goes on with as long as there are any."""
        for name, other in re.findall(r"while (?:(\w+)\.numel\(\)|len\((\w+)\)) > 0", self.made):
            for p in self.tensors:
                if p.name in (name, other):
                    return f"{p.name}.numel()"
        return ""

    def like(self, dtype: str) -> Parameter | None:
        """The argument on whose device the result is; None for results that are always on cpu."""
        made = self.made
        if "device=" in made or "_like(" in made or ".new_" in made:
            asked = self.tensors
        elif any(text in made for text in ("torch.tensor(", "from_numpy(", "as_tensor(")):
            asked = []
        else:
            asked = self.tensors
        same = [p for p in asked if p.fact.dtype == dtype]
        return next(iter(same or asked), None)

    def asked_dtype(self, dtype: str) -> str:
        """``x.dtype`` where the text asks for the dtype of an argument."""
        for name in re.findall(r"dtype=(\w+)\.dtype", self.made):
            if any(p.name == name and p.fact.dtype == dtype for p in self.tensors):
                return f"{name}.dtype"
        return ""

    def asked_type(self, dtype: str) -> Parameter | None:
        """The argument whose type the result is given in the end: ``y.type_as(x)``."""
        for found in _TYPED.finditer(self.made):
            for p in self.tensors:
                if p.name in found.groups() and p.fact.dtype == dtype:
                    return p
        return None

    def follows(self, like: Parameter, dtype: str) -> bool:
        if like.fact.dtype != dtype or gives_sizes_only(like, self.made):
            return False
        if dtype == "torch.int64" and self.leaf < len(self.stays) and self.stays[self.leaf]:
            return False
        if self.follow is not None:
            return self.follow
        if any(f".{cast}()" in self.made for cast, kind in _CASTS.items() if kind == dtype):
            return False  # on one way it is this dtype, whatever is given
        if like.name not in self.read and not any(
            t in self.made for t in ("tensor(", "Tensor(", "dtype=")
        ):
            return True  # numbers that Python reads are of other arguments
        return not any(
            t in self.made for t in ("torch.tensor(", "Tensor(", "tolist(", "dtype=", ".item(")
        )

    def is_as_wide(self, like: Parameter, dtype: str) -> bool:
        """Whether runs tell that a float follows those that are given; without them, they are
        asked.
        """
        if not dtype.startswith("torch.float") or like.fact.dtype != dtype:
            return False
        if gives_sizes_only(like, self.made):
            return False  # it is the others that it follows
        if self.as_wide is None:
            self.mixes = True
            return False
        return self.leaf < len(self.as_wide) and self.as_wide[self.leaf]

    def named(self, dtype: str) -> str:
        made_anew = self.default and dtype == "torch.float32" and _NEW.search(self.made)
        if made_anew and "dtype=" not in self.made and ".float()" not in self.made:
            return f"{self.torch}.get_default_dtype()"
        return dtype.replace("torch", self.torch, 1)


def gives_sizes_only(parameter: Parameter, made: str, *, dtype: bool = False) -> bool:
    """Whether the text asks an argument for its sizes and its device (and its ``dtype``), and for
    nothing else.
    """
    names = {re.escape(parameter.name), re.escape(parameter.given)}
    uses = rf"(?<![\w.])(?:{'|'.join(sorted(names))})\b"
    more = "|dtype" if dtype else ""
    asked = rf"{uses}(?=\.(?:shape|size|ndim|dim|numel|device{more})\b)|(?<=\blen\(){uses}(?=\))"
    found = len(re.findall(uses, made))
    return found > 0 and found == len(re.findall(asked, made))


def _shape(sizes: Sequence[str]) -> str:
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def _is_of_data(size: str) -> bool:
    return size == "size" or size.startswith("size_") or size.endswith("new_dynamic_size()")


_READS = frozenset({"tolist", "item", "numpy", "__array__"})
_READERS = frozenset({"int", "float", "bool", "list", "sorted"})


def read_by_python(piece: Piece) -> frozenset[str]:
    """Parameters whose data go on as Python's numbers or numpy's, by way of any name."""
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    parts = [part for node in nodes for part in walk(node)]
    found = set()
    for parameter in piece.inputs.parameters:
        holders = holders_of(parts, {parameter.given, parameter.name})
        if any(isinstance(part, cst.Call) and _reads(part, holders) for part in parts):
            found.add(parameter.name)
    return frozenset(found)


def holders_of(parts: Sequence[cst.CSTNode], names: Collection[str]) -> set[str]:
    """The names, and those that code binds to what is made of them."""
    holders = set(names)
    while (
        more := {
            name
            for part in parts
            for target, value in _bindings(part)
            if mentions(value, holders)
            for name in _bound_names(target)
        }
        - holders
    ):
        holders |= more
    return holders


def _bindings(node: cst.CSTNode) -> list[tuple[cst.CSTNode, cst.CSTNode]]:
    match node:
        case cst.Assign(targets=targets, value=value):
            return [(target.target, value) for target in targets]
        case cst.AugAssign(target=target, value=value) | cst.NamedExpr(target=target, value=value):
            return [(target, value)]
        case cst.For(target=target, iter=value) | cst.CompFor(target=target, iter=value):
            return [(target, value)]
        case cst.Call(func=cst.Attribute(value=target, attr=cst.Name("append")), args=[value]):
            return [(target, value)]
    return []


def _bound_names(node: cst.CSTNode) -> set[str]:
    return {part.value for part in walk(node) if isinstance(part, cst.Name)}


def mentions(node: cst.CSTNode, texts: set[str]) -> bool:
    return any(
        isinstance(part, cst.Name | cst.Attribute) and code(part) in texts for part in walk(node)
    )


def _reads(call: cst.Call, holders: set[str]) -> bool:
    match call.func:
        case cst.Attribute(value=receiver, attr=cst.Name(name)):
            if name in _READS:
                return mentions(receiver, holders)
            if code(receiver).partition(".")[0] in ("np", "numpy"):
                return any(mentions(arg.value, holders) for arg in call.args)
        case cst.Name(name) if name in _READERS:
            return any(mentions(arg.value, holders) for arg in call.args)
    return False


def written(piece: Piece) -> str:
    """The piece's text, with that of the file's functions that it calls."""
    site = piece.level.site
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    return "\n".join([*map(site.text, nodes), *(code(f) for f in called(site, nodes))])


def own_text(piece: Piece) -> str:
    """The piece's text alone: what functions call by the name of an argument is something else."""
    nodes = [*piece.nodes, *([piece.tail] if piece.tail is not None else [])]
    return "\n".join(map(piece.level.site.text, nodes))

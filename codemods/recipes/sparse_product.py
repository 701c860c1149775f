"""A sparse matrix that is made for one product: the product, row by row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in, indent_of, line_length
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.project import mentions
from gbfix.schema import Safety

_FACTS = {
    "edges": tensor(2, 7, dtype="torch.int64"),
    "w": tensor(7),
    "x": tensor(5, 3),
    "h": tensor(5, 3, dtype="torch.float64"),
    "v": tensor(5),
}
_MAKERS = ("torch.sparse_coo_tensor", "torch.sparse.FloatTensor")
_PRODUCTS = ("torch.sparse.mm", "torch.mm", "torch.matmul", "torch.spmm", "torch.sparse.mm")
_MADE = "adj = torch.sparse_coo_tensor(edges, w, (n, n))"
_USED = "return torch.sparse.mm(adj, x) + x"
_AUTOCAST = "under autocast the product had a lower precision, which `index_add` has not"
_NOTES = (
    "each entry of the matrix makes a row of the right side, which takes memory that the sparse"
    " product does not",
    "a negative index of a column raised an error, and counts from the end now; so did sizes that"
    " do not fit (more rows on the right side than the matrix has columns, one value for all)",
)


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(edges, w, x, h, v, n):\n{body}"


def _near_miss(why: str, *lines: str) -> NearMiss:
    at = "torch.sparse_coo_tensor(edges, w, (n, n))"
    return NearMiss(_source(*lines), at=at, why=why, facts=_FACTS)


class SparseProduct(Codemod):
    """*What it does.*  Multiplies a sparse matrix, which is made for that, entry by entry:

    ```python
    adj = torch.sparse_coo_tensor(edges, w, (n, n))
    return torch.sparse.mm(adj, x)
    ```
    becomes ``x.new_zeros(n, x.shape[1]).index_add(0, row, w.unsqueeze(-1) * x[col])``, with
    ``row, col = edges``.

    *When it applies.*  Dynamo takes no sparse tensors.  The matrix has one name, which one product
    with a matrix of the same dtype uses, in the same block.

    *Fix safety.*  Safe: entries of one place are added up in both, and so are gradients; sums may
    be in another order.  An invalid index raises another error, or none where it is negative.

    *Refuses.*  Matrices with other uses, products with vectors, values of another dtype, and sizes
    that are not written as two numbers.
    """

    name = "sparse-product"
    codes = ("GB0007", "GB0015")
    examples = (
        Example(
            _source(_MADE, _USED),
            _source(
                "row, col = edges",
                "return x.new_zeros(n, x.shape[1]).index_add(0, row, w.unsqueeze(-1) * x[col]) + x",
            ),
            at="torch.sparse_coo_tensor(edges, w, (n, n))",
            facts=_FACTS,
            title="a matrix of edges",
        ),
        Example(
            _source(
                "row = w * 2",
                "adj = torch.sparse.FloatTensor(edges, row, torch.Size([n, 5]))",
                "x = adj @ x",
                "return x",
            ),
            _source(
                "row = w * 2",
                "row_1, col = edges",
                "x = x.new_zeros(n, x.shape[1]).index_add(0, row_1, row.unsqueeze(-1) * x[col])",
                "return x",
            ),
            at="torch.sparse.FloatTensor(edges, row, torch.Size([n, 5]))",
            facts={**_FACTS, "row": tensor(7)},
            title="an older way to make it",
        ),
    )
    near_misses = (
        _near_miss("it is a result, too", _MADE, "return adj, adj @ x"),
        _near_miss("another dtype", _MADE, "return torch.sparse.mm(adj, h)"),
        _near_miss("a vector", _MADE, "return torch.mv(adj, v)"),
        _near_miss("the right side of a product", _MADE, "return torch.mm(x, adj)"),
        _near_miss("its values change before", _MADE, "w.mul_(2)", "return adj @ x"),
        _near_miss("its values are others then", _MADE, "w = w * 2", "return adj @ x"),
        _near_miss("in a list that is made", _MADE, "return [adj @ x for x in (x, x)]"),
        _near_miss("under a condition", _MADE, "if n > 2:", "    return adj @ x", "return x"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        block = list(site.block_of(site.statement))
        for number, line in enumerate(block):
            made = _made(site, line)
            if made is None:
                continue
            found = _product(site, made, block[number + 1 :])
            near = site.statement in block[number : number + 1]
            if found is None or not (near or site.statement is found.line):
                continue
            taken = set(names_in(site.module))
            row = fresh("row", taken)
            col = fresh("col", taken | {row})
            right = code(found.right)
            edit = site.edit()
            split = cst.parse_statement(f"{row}, {col} = {made.places}")
            assert isinstance(line, cst.SimpleStatementLine)
            assert isinstance(split, cst.SimpleStatementLine)
            edit.replace(line, line.with_changes(body=split.body))
            text = (
                f"{right}.new_zeros({made.rows}, {right}.shape[1])"
                f".index_add(0, {row}, {made.values}.unsqueeze(-1) * {right}[{col}])"
            )
            longer = len(text) - len(site.text(found.node))
            assert isinstance(found.line, cst.SimpleStatementLine)
            width = max(map(len, site.module.code_for_node(found.line).splitlines()))
            if width + len(indent_of(site.module, found.line)) + longer > line_length(site.module):
                name = fresh("product", taken)
                edit.insert_before(found.line, cst.parse_statement(f"{name} = {text}"))
                text = name
            edit.replace(found.node, cst.parse_expression(text))
            casts = mentions(site, r"\bautocast\b")
            yield edit.rewrite(
                f"multiply `{made.name}` entry by entry",
                rank=14,
                notes=(*([_AUTOCAST] if casts else []), *_NOTES),
                safety=Safety.UNSAFE if casts else Safety.SAFE,
            )
            return


@dataclasses.dataclass(frozen=True)
class _Made:
    name: str
    places: str
    values: str
    rows: str
    dtype: str
    #: What the texts read.
    reads: frozenset[str]


@dataclasses.dataclass(frozen=True)
class _Product:
    line: cst.CSTNode
    node: cst.BaseExpression
    right: cst.BaseExpression


def _made(site: Site, line: cst.CSTNode) -> _Made | None:
    """``adj = torch.sparse_coo_tensor(places, values, (rows, columns))``."""
    match line:
        case cst.SimpleStatementLine(
            body=[
                cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(name))],
                    value=cst.Call(func=func, args=[first, second, third]) as call,
                )
            ]
        ) if resolve(site.module, func) in _MAKERS:
            pass
        case _:
            return None
    if comments_in(call) or any(arg.star for arg in call.args) or first.keyword or second.keyword:
        return None
    if third.keyword is not None and third.keyword.value != "size":
        return None
    places, values = site.fact(first.value), site.fact(second.value)
    sizes = _sizes(site, third.value)
    if places is None or values is None or len(sizes) != 2:
        return None
    if not _is_plain(first.value) or not _is_plain(second.value) or not _is_plain(sizes[0]):
        return None
    fits = places.is_tensor and len(places.shape or ()) == 2 and places.dtype == "torch.int64"
    if not fits or not values.is_tensor or len(values.shape or ()) != 1 or values.dtype is None:
        return None
    parts = (first.value, second.value, sizes[0])
    indices, entries, rows = (code(part) for part in parts)
    reads = frozenset().union(*(activity(part).reads for part in parts))
    return _Made(name, indices, entries, rows, values.dtype, reads)


def _is_plain(node: cst.BaseExpression) -> bool:
    """A name, an attribute, an item of one, or a number: it may be written where it is used."""
    match node:
        case cst.Name() | cst.Integer():
            return True
        case cst.Attribute(value=inner) | cst.Subscript(value=inner):
            return _is_plain(inner)
    return False


def _sizes(site: Site, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    match node:
        case cst.Call(func=func, args=[cst.Arg(value=inner, keyword=None, star="")]) if (
            resolve(site.module, func) == "torch.Size"
        ):
            return _sizes(site, inner)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return [it.value for it in elements if isinstance(it, cst.Element)]
    return []


def _product(site: Site, made: _Made, below: list[cst.CSTNode]) -> _Product | None:
    """The one use of the matrix: the left side of a product, before its parts change."""
    function = site.function
    if function is None:
        return None
    places = list(site.places_of(made.name, function))
    if len(places) != 2 or activity(function.body).captures & {made.name}:
        return None
    for line in below:
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        for node in walk(line):
            sides = _sides(site, node)
            if sides is None or sides[0] not in places:
                continue
            inside = (it for it in site.ancestors(node) if not isinstance(it, cst.BaseStatement))
            if any(isinstance(it, cst.BaseComp | cst.Lambda) for it in inside):
                return None  # what it is multiplied with has its name there only
            fact = site.fact(sides[1])
            fits = fact is not None and fact.is_tensor and len(fact.shape or ()) == 2
            if fits and fact is not None and fact.dtype == made.dtype and _is_plain(sides[1]):
                assert isinstance(node, cst.BaseExpression)
                return _Product(line, node, sides[1])
            return None
        does = activity(line)
        if (does.writes | does.mutates | does.deletes) & made.reads:
            return None
    return None


def _sides(site: Site, node: cst.CSTNode) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    match node:
        case cst.BinaryOperation(left=left, operator=cst.MatrixMultiply(), right=right):
            return left, right
        case cst.Call(
            func=func,
            args=[
                cst.Arg(value=left, keyword=None, star=""),
                cst.Arg(value=right, keyword=None, star=""),
            ],
        ) if resolve(site.module, func) in _PRODUCTS:
            return left, right
    return None


__all__ = ["SparseProduct"]

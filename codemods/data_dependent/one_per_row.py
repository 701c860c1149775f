"""The one place of each row that a mask hits, whose number no data decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.assertions import size_assertion
from gbfix.schema import Fact, Safety

from ..control_flow.values import Values

_FACTS = {
    "x": tensor(3, 5, 4),
    "ids": tensor(3, 5, dtype="torch.int64"),
    "ids == 7": tensor(3, 5, dtype="torch.bool"),
    "(ids == 7).nonzero()[:, 1]": tensor(3, dtype="torch.int64"),
    "hot": tensor(3, 5),
    "torch.nonzero(hot, as_tuple=True)[1]": tensor(3, dtype="torch.int64"),
    "torch.where(ids == 7)": Fact(
        "tuple", items=(tensor(3, dtype="torch.int64"), tensor(3, dtype="torch.int64"))
    ),
}


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(x, ids, hot):\n{body}"


class OnePerRow(Codemod):
    """*What it does.*  Asks each row for the place of its one hit with ``argmax``, not all rows for
    the places of all hits.

    ```python
    ends = (ids == 7).nonzero()[:, 1]
    ```
    becomes
    ```python
    hits = ids == 7
    torch._assert_async((hits.sum(1) == 1).all(), "...")
    ends = hits.int().argmax(1)
    ```

    *When it applies.*  To the second column of ``nonzero``, ``argwhere`` or ``where`` of what has
    two dimensions (a one-hot table, the places of a token), where the recorded run found as many
    places as there are rows.

    *Fix safety.*  Where each row has one hit, the places are the same, in the same order.  Else the
    assertion raises an error, and so does the original, where it goes on with one place for each
    row: the runs show whether it does.  Where all hits together are one, or as many as the rows,
    the original may go on; a second form of the patch sorts the hits to the front, and gives what
    it goes on with.  Where it goes on with another number of places (it returns them, or sums up
    what they pick), both forms fail.

    *Refuses.*  Masks that are computed with side effects, and expressions that are not always
    computed.
    """

    name = "one-per-row"
    codes = ("GB0036", "GB0033", "data-dependent-guard", "data-dependent-other")
    examples = (
        Example(
            title="the places of a token",
            before=_source("ends = (ids == 7).nonzero()[:, 1]", "return x[torch.arange(3), ends]"),
            after=_source(
                "hits = ids == 7",
                "torch._assert_async((hits.sum(1) == 1).all(), "
                '"sizes do not fit: not one place in each row of `ids == 7`")',
                "ends = hits.int().argmax(1)",
                "return x[torch.arange(3), ends]",
            ),
            at="(ids == 7).nonzero()",
            facts=_FACTS,
        ),
        Example(
            title="a one-hot table",
            before=_source("return x[:, 0] * torch.nonzero(hot, as_tuple=True)[1][:, None]"),
            after=_source(
                "hits = hot != 0",
                "torch._assert_async((hits.sum(1) == 1).all(), "
                '"sizes do not fit: not one place in each row of `hot`")',
                "return x[:, 0] * hits.int().argmax(1)[:, None]",
            ),
            at="torch.nonzero(hot, as_tuple=True)",
            facts=_FACTS,
        ),
        Example(
            title="rows and places",
            before=_source("rows, ends = torch.where(ids == 7)", "return x[rows, ends]"),
            after=_source(
                "hits = ids == 7",
                "torch._assert_async((hits.sum(1) == 1).all(), "
                '"sizes do not fit: not one place in each row of `ids == 7`")',
                "rows, ends = torch.arange(hits.shape[0], device=hits.device), "
                "hits.int().argmax(1)",
                "return x[rows, ends]",
            ),
            at="torch.where(ids == 7)",
            facts=_FACTS,
        ),
    )
    near_misses = (
        NearMiss(
            _source("return (ids == 7).nonzero()[:, 0]"),
            at="(ids == 7).nonzero()",
            why="the rows, and not the places",
            facts={**_FACTS, "(ids == 7).nonzero()[:, 0]": tensor(3, dtype="torch.int64")},
        ),
        NearMiss(
            _source("return x.sum() + (ids == 7).nonzero()[:, 1].sum()"),
            at="(ids == 7).nonzero()",
            why="the run found fewer places than rows",
            facts={**_FACTS, "(ids == 7).nonzero()[:, 1]": tensor(2, dtype="torch.int64")},
        ),
        NearMiss(
            _source("return x if hot is None else x[torch.arange(3), (ids == 7).nonzero()[:, 1]]"),
            at="(ids == 7).nonzero()",
            why="it is not always computed",
            facts=_FACTS,
        ),
        NearMiss(
            _source("return x[torch.arange(3), x.add_(1).sum(2).nonzero()[:, 1]]"),
            at="x.add_(1).sum(2).nonzero()",
            why="what the mask is made of changes",
            facts={
                **_FACTS,
                "x.add_(1).sum(2)": tensor(3, 5),
                "x.add_(1).sum(2).nonzero()[:, 1]": tensor(3, dtype="torch.int64"),
            },
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for node in (site.node, *site.ancestors(site.node)):
            if isinstance(node, cst.BaseStatement):
                return
            if not isinstance(node, cst.Call):
                continue
            mask = _mask_of(site, node)
            if mask is None:
                continue
            for exact in (False, True):
                made = _places(site, node, mask, exact=exact)
                if made is not None:
                    yield made
            return


@dataclasses.dataclass(frozen=True)
class _Mask:
    """What is asked for its hits; ``is_tuple``: the answer has a tensor for each dimension."""

    node: cst.BaseExpression
    fact: Fact
    is_tuple: bool


def _mask_of(site: Site, call: cst.Call) -> _Mask | None:
    """The mask of ``mask.nonzero()``, ``torch.where(mask)`` and the like, of two dimensions."""
    given = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    named = {arg.keyword.value: code(arg.value) for arg in call.args if arg.keyword is not None}
    home, _, name = (resolve(site.module, call.func) or "").rpartition(".")
    if home == "torch" and len(given) == 1:
        (node,) = given
    elif isinstance(call.func, cst.Attribute) and not given and home.partition(".")[0] != "torch":
        node, name = call.func.value, call.func.attr.value
    else:
        return None
    if name == "where" and home == "torch" and not named:
        is_tuple = True
    elif name == "nonzero" and named in ({}, {"as_tuple": "False"}, {"as_tuple": "True"}):
        is_tuple = named.get("as_tuple") == "True"
    elif name == "argwhere" and not named:
        is_tuple = False
    else:
        return None
    fact = Values(site).fact(node)
    if fact is None or not fact.is_tensor or len(fact.shape or ()) != 2:
        return None
    return _Mask(node, fact, is_tuple)


def _places(site: Site, call: cst.Call, mask: _Mask, *, exact: bool) -> Rewrite | None:
    """The rewrite, where no more than the places within the rows are asked for."""
    statement = site.statement_of(call)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    if _is_seldom(site, call, statement):
        return None
    effects = Values(site).effects(mask.node)
    if effects.rng or effects.io or effects.mutates:
        return None
    edit = site.edit()
    used = site.parent(call)
    hits = _Hits(site, mask, exact=exact)
    if isinstance(used, cst.Subscript) and _is_second(used, is_tuple=mask.is_tuple):
        if not _is_of_rows(site.fact(used), mask):
            return None
        edit.replace(used, cst.parse_expression(hits.places))
    elif isinstance(used, cst.Assign) and mask.is_tuple and _is_pair(used) and not exact:
        found = site.fact(call)
        items = found.items if found is not None else None
        if items is None or not all(_is_of_rows(item, mask) for item in items):
            return None
        edit.replace(call, cst.parse_expression(f"{hits.rows}, {hits.places}"))
    else:
        return None
    return hits.rewrite(edit, statement)


def _is_seldom(site: Site, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
    """Whether a node is part of what is not always computed, or computed several times."""
    for outer in site.ancestors(node):
        if outer is statement:
            return False
        if isinstance(
            outer, cst.IfExp | cst.BooleanOperation | cst.BaseComp | cst.Lambda | cst.NamedExpr
        ):
            return True
    return True


def _is_second(node: cst.Subscript, *, is_tuple: bool) -> bool:
    """``[:, 1]`` of a table, ``[1]`` of a tuple."""
    texts = [code(element.slice).replace(" ", "") for element in node.slice]
    return texts in ([["1"], ["-1"]] if is_tuple else [[":", "1"], [":", "-1"]])


def _is_pair(node: cst.Assign) -> bool:
    match node.targets:
        case [cst.AssignTarget(target=cst.Tuple(elements=[cst.Element(), cst.Element()]))]:
            return True
    return False


def _is_of_rows(fact: Fact | None, mask: _Mask) -> bool:
    """Whether the run found as many places as the mask has rows."""
    rows = (mask.fact.shape or (None,))[0]
    return fact is not None and fact.shape is not None and fact.shape == (rows,)


class _Hits:
    """The mask under a name, and what is computed of it."""

    def __init__(self, site: Site, mask: _Mask, *, exact: bool) -> None:
        self.site, self.mask, self.exact = site, mask, exact
        is_bool = mask.fact.dtype == "torch.bool"
        self.has_name = is_bool and isinstance(mask.node, cst.Name)
        bare = mask.node.with_changes(lpar=[], rpar=[])
        text = code(bare)
        self.text = text if "\n" not in text else f"({text})"
        function = site.function
        taken = names_in(function) if function is not None else set()
        self.name = self.text if self.has_name else fresh("hits", taken)
        self.made = self.text if is_bool else f"{_closed(self.mask.node, self.text)} != 0"
        self.places = f"{self.name}.int().argmax(1)"
        torch = Values(site).torch
        self.torch = torch
        self.count, self.order = fresh("count", taken), fresh("places", taken)
        if exact:
            self.places = f"{torch}.where({self.count} == 1, {self.order}[0], {self.order})"
        self.rows = f"{torch}.arange({self.name}.shape[0], device={self.name}.device)"

    def rewrite(self, edit: Edit, statement: cst.SimpleStatementLine) -> Rewrite:
        lines = [] if self.has_name else [f"{self.name} = {self.made}"]
        lines += self._sorted() if self.exact else [self._asserted()]
        edit.insert_before(statement, *map(cst.parse_statement, lines))
        if Values(self.site).torch_missing:
            edit.add_import("torch")
        note = (
            f"the patch asserts exactly one hit in each row of `{self.text}`; the original also"
            " accepts one hit in all, or as many as there are rows, wherever they are"
        )
        title = "ask each row for its one place"
        if self.exact:
            title = "ask for as many places as there are rows"
            note = (
                f"where `{self.text}` has neither one hit nor as many as rows, the assertion raises"
                " an error"
            )
        return edit.rewrite(
            title,
            rank=25 if self.exact else 24,
            safety=Safety.SAFE,
            notes=[note, "on a GPU, an assertion that fails ends the process' use of the device"],
        )

    def _asserted(self) -> str:
        return size_assertion(
            self.torch,
            f"({self.name}.sum(1) == 1).all()",
            f"not one place in each row of `{self.text}`",
        )

    def _sorted(self) -> list[str]:
        """All places, those of hits first and in their order; one hit is what broadcasts."""
        rows, columns = f"{self.name}.shape[0]", f"{self.name}.shape[1]"
        sort = "argsort(descending=True, stable=True)"
        return [
            f"{self.count} = {self.name}.sum()",
            size_assertion(
                self.torch,
                f"({self.count} == {rows}) | ({self.count} == 1)",
                f"not as many places as rows in `{self.text}`",
            ),
            f"{self.order} = {self.name}.flatten().int().{sort}[:{rows}] % {columns}",
        ]


def _closed(node: cst.BaseExpression, text: str) -> str:
    """The text of an expression as an operand."""
    plain = cst.Name | cst.Attribute | cst.Call | cst.Subscript
    return text if isinstance(node, plain) or text.startswith("(") else f"({text})"

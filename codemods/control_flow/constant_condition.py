"""A condition on a module-level tensor that nothing changes is read once, outside the region."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import called_function
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.purity import effects_of
from gbfix.analysis.scopes import import_map, module_bindings
from gbfix.analysis.torch_names import TENSOR_RESULTS
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact

from .refusal import Refusal
from .sites import if_at
from .uses import only_computes
from .values import SHARING


class ConstantCondition(Codemod):
    """Reads a condition on an unchanging module-level tensor once, right after the tensor is made.

    **What it does**

    ``if x.sum() > 0:`` becomes ``if x_sum_above_0:``, with ``x_sum_above_0 = bool(x.sum() > 0)``
    inserted after the module-level statement that binds ``x``.

    **When it applies**

    Everything that the test reads is a module-level tensor, bound once by a call of torch, and used
    in the whole file only in ways that can neither change it nor hand it to code that might:
    arithmetic, comparisons, calls of torch's pure functions and methods.

    **Fix safety**

    The value read at import is the value that every call would read.

    **Refuses**

    Local names, parameters, attributes (buffers and parameters are trained and moved); tensors that
    are rebound, changed in place, aliased, returned, stored, passed to other functions, or imported
    by another file of the project; tests with effects or random numbers.
    """

    name = "constant-condition"
    codes = ("GB0170", "data-dependent-guard")
    examples = (
        Example(
            """
            import torch

            x = torch.randn(3, 3)


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x

            print(fn(torch.ones(3, 3)))
            """,
            """
            import torch

            x = torch.randn(3, 3)
            x_sum_above_0 = bool(x.sum() > 0)


            @torch.compile
            def fn(y):
                if x_sum_above_0:
                    return y + x
                else:
                    return y - x

            print(fn(torch.ones(3, 3)))
            """,
            at="x.sum() > 0",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        Example(
            """
            import torch

            SCALE = torch.tensor([1.0, 2.0])  # per channel

            class M(torch.nn.Module):
                def forward(self, x):
                    if (SCALE > 1).any() and torch.isfinite(SCALE).all():
                        x = x * SCALE
                    return x
            """,
            """
            import torch

            SCALE = torch.tensor([1.0, 2.0])  # per channel
            scale_above_1_any_and_isfinite = bool((SCALE > 1).any() and torch.isfinite(SCALE).all())

            class M(torch.nn.Module):
                def forward(self, x):
                    if scale_above_1_any_and_isfinite:
                        x = x * SCALE
                    return x
            """,
            at="(SCALE > 1).any()",
            facts={},
        ),
    )
    near_misses = (
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)
            x += 1


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="changed in place at module level",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x

            def step():
                x.add_(1)
            """,
            at="x.sum() > 0",
            why="changed in place by another function",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x

            def step():
                x[0] = 1
            """,
            at="x.sum() > 0",
            why="written into by another function",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x

            def step():
                global x
                x = torch.ones(3)
            """,
            at="x.sum() > 0",
            why="rebound through global",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)
            x = x * 2


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="bound twice",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x

            update(x)
            """,
            at="x.sum() > 0",
            why="passed to code that may change it",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)
            alias = x


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="has another name",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)
            state = [x]


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="is stored",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)
            row = x[0]


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="a view of it exists",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)
            flat = x.view(-1)


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="a view of it exists, by a method",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)
            torch.relu(x, out=x)


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="is an output",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3, 3)
            __all__ = ["x"]


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="is exported",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.nn.Parameter(torch.randn(3, 3))


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="a parameter is trained",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.from_numpy(array)


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="shares memory with an array",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            for x in [torch.ones(3)]:
                pass


            @torch.compile
            def fn(y):
                if x.sum() > 0:
                    return y + x
                else:
                    return y - x
            """,
            at="x.sum() > 0",
            why="bound by a loop",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3)

            def fn(x):
                if x.sum() > 0:
                    return x + 1
                return x
            """,
            at="x.sum() > 0",
            why="the name is a parameter here",
            facts={"x.sum() > 0": tensor(dtype="torch.bool")},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3)

            def fn(y):
                if (x * y).sum() > 0:
                    return y + 1
                return y
            """,
            at="(x * y).sum() > 0",
            why="the test reads an argument, too",
            facts={},
        ),
        NearMiss(
            """
            import torch

            class M(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("x", torch.randn(3))

                def forward(self, y):
                    if self.x.sum() > 0:
                        return y + 1
                    return y
            """,
            at="self.x.sum() > 0",
            why="buffers are loaded, moved and trained",
            facts={},
        ),
        NearMiss(
            """
            import torch

            x = torch.randn(3)

            def fn(y):
                if torch.rand(1) > x.sum():
                    return y + 1
                return y
            """,
            at="torch.rand(1) > x.sum()",
            why="the test draws a random number",
            facts={},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = if_at(site)
        if node is None or site.function is None or comments_in(node.test):
            return
        try:
            yield _rewrite(site, node)
        except Refusal:
            return


#: Functions of torch that make a new tensor.
_MAKERS = (TENSOR_RESULTS - SHARING) | words("rand randn randint randperm normal tensor")


def _rewrite(site: Site, node: cst.If) -> Rewrite:
    found = activity(node.test)
    if found.writes:
        raise Refusal("")
    bindings = module_bindings(site.module)
    homes: list[cst.CSTNode] = []
    for name in sorted(found.reads):
        if _is_local(site, name, node):
            raise Refusal("")
        statements = bindings.get(name, ())
        if len(statements) == 1 and isinstance(statements[0], cst.Import | cst.ImportFrom):
            continue
        if len(statements) != 1:
            raise Refusal("")
        homes.append(_home(site, name, statements[0]))
        _check_uses(site, name, homes[-1])
    effects = effects_of(node.test, lambda inner: _known(site, inner, found.reads))
    if not homes or not effects.pure:
        raise Refusal("")
    last = max(homes, key=lambda home: site.span(home).line)
    if any(site.parent(home) is not site.parent(last) for home in homes):
        raise Refusal("")
    constant = fresh(telling_name(node.test), names_in(site.module))
    test = node.test.with_changes(lpar=(), rpar=()) if node.test.lpar else node.test
    line = cst.parse_statement(f"{constant} = bool({code(test)})")
    edit = site.edit()
    edit.insert_after(last, line)
    edit.replace(node.test, cst.Name(constant))
    return edit.rewrite(
        "read the constant condition once, at import",
        notes=["Nothing in the project changes the tensors that the condition reads."],
        rank=10,
        assumes=["state-is-constant"],
    )


def _known(
    site: Site, node: cst.BaseExpression, tensors: frozenset[str] = frozenset()
) -> Fact | None:
    """The recorded fact of an expression; names of ``tensors`` that nothing imports are tensors."""
    fact = site.fact(node)
    named = isinstance(node, cst.Name) and node.value in tensors - import_map(site.module).keys()
    return Fact("tensor", "torch.Tensor") if fact is None and named else fact


def _is_local(site: Site, name: str, node: cst.CSTNode) -> bool:
    """Whether a function (or lambda) around the node has the name for its own."""
    for outer in site.ancestors(node):
        if isinstance(outer, cst.FunctionDef | cst.Lambda):
            inside = activity(outer.body)
            if name in parameters_of(outer.params) or name in inside.bound | inside.declares:
                return True
    return False


def _home(site: Site, name: str, statement: cst.CSTNode) -> cst.CSTNode:
    """The line of the module's own block that binds the name to a new tensor, or `Refusal`."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        raise Refusal("")
    if not isinstance(statement.targets[0].target, cst.Name):
        raise Refusal("")
    function = None
    if isinstance(statement.value, cst.Call):
        function = called_function(statement.value, lambda inner: _known(site, inner))
    home, _, last = (function or "").rpartition(".")
    if home != "torch" or last not in _MAKERS:
        raise Refusal("")
    line = site.parent(statement)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise Refusal("")
    if site.parent(line) is not site.module:
        raise Refusal("")
    return line


def _check_uses(site: Site, name: str, home: cst.CSTNode) -> None:
    """Refuse where the file, or another one, may change the tensor or let others do so."""
    for other, text in site.sources.items():
        if other != site.path and _imports(text, site.path):
            raise Refusal("")
    if any(name in activity(part).global_writes for part in site.module.body):
        raise Refusal("")
    for node in walk(site.module):
        if isinstance(node, cst.Name) and node.value == name:
            holder = site.parent(node)
            if isinstance(holder, cst.Attribute) and holder.attr is node:
                continue
            if isinstance(holder, cst.Arg) and holder.keyword is node:
                continue
            if isinstance(holder, cst.Param) and holder.name is node:
                continue
            if _is_local(site, name, node):
                continue
            if isinstance(holder, cst.AssignTarget) and site.statement_of(node) is home:
                continue
            if not only_computes(site, node):
                raise Refusal("")
        elif isinstance(node, cst.SimpleString) and node.raw_value == name:
            raise Refusal("")  # `globals()["x"]`, `__all__`


def _imports(text: str, path: str) -> bool:
    stem = re.sub(r"(/__init__)?\.py$", "", path).rpartition("/")[2]
    return (
        re.search(rf"\bimport\b.*\b{re.escape(stem)}\b|\bfrom\b.*\b{re.escape(stem)}\b", text)
        is not None
    )

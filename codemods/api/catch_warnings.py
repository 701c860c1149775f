"""Warnings that are silenced inside a compiled function."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site

from .splice import Splice

#: Parameters of ``simplefilter``, in order; ``catch_warnings`` takes the same by keyword.
_SIMPLEFILTER = ("action", "category", "lineno", "append")
#: Those that ``filterwarnings`` has, too; it takes ``message`` second, so the rest by keyword only.
_FILTERWARNINGS = ("action",)

_ADVICE = (
    "Dynamo cannot trace a change of the warning filters. Set them once, outside of the compiled"
    " function, or use `with warnings.catch_warnings(action=...)`, which Dynamo knows."
)


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import warnings\n\n\ndef f(x, log):\n{body}    return x\n"


class CatchWarningsAction(Codemod):
    """*What it does.*  Gives ``warnings.catch_warnings`` the filter as an argument.

    ```python
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = f(x)
    ```
    becomes
    ```python
    with warnings.catch_warnings(action="ignore"):
        y = f(x)
    ```
    which Dynamo traces; ``simplefilter`` and ``filterwarnings`` it does not.

    *When it applies.*  The filter is set by the first statement of the block, and
    ``catch_warnings`` is the last manager of its ``with``.

    *Fix safety.*  Safe: Python documents both forms as the same, since 3.11.

    *Refuses.*  Filters by message or module, filters set elsewhere, and blocks that read what was
    set before the filter.
    """

    name = "catch-warnings-action"
    codes = ("GB0007",)

    examples = tuple(
        Example(_source(*before), _source(*after), at=at, title=title)
        for title, before, after, at in (
            (
                "a filter for all",
                (
                    "with warnings.catch_warnings():",
                    "    warnings.simplefilter('ignore')  # be quiet",
                    "    # work",
                    "    x = x + 1",
                ),
                (
                    "with warnings.catch_warnings(action='ignore'):",
                    "    # work",
                    "    x = x + 1",
                ),
                "warnings.simplefilter('ignore')",
            ),
            (
                "a category, and what was there",
                (
                    "with open(log), warnings.catch_warnings(record=True) as caught:",
                    "    warnings.filterwarnings('always', category=UserWarning)",
                    "    x = x + 1",
                ),
                (
                    "with open(log), warnings.catch_warnings("
                    "record=True, action='always', category=UserWarning) as caught:",
                    "    x = x + 1",
                ),
                "warnings.filterwarnings('always', category=UserWarning)",
            ),
            (
                "nothing else in the block",
                (
                    "with warnings.catch_warnings():",
                    "    warnings.simplefilter('error', UserWarning)",
                ),
                (
                    "with warnings.catch_warnings(action='error', category=UserWarning):",
                    "    pass",
                ),
                "warnings.simplefilter('error', UserWarning)",
            ),
            (
                "more on the line",
                (
                    "with warnings.catch_warnings():",
                    "    warnings.simplefilter(action='ignore'); x = x + 1",
                ),
                (
                    "with warnings.catch_warnings(action='ignore'):",
                    "    x = x + 1",
                ),
                "warnings.simplefilter(action='ignore')",
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(*source), at=at, why=why)
        for source, at, why in (
            (
                ("warnings.simplefilter('ignore')",),
                "warnings.simplefilter('ignore')",
                "the filter outlives the function",
            ),
            (
                (
                    "with warnings.catch_warnings():",
                    "    warnings.filterwarnings('ignore', 'old')",
                ),
                "warnings.filterwarnings('ignore', 'old')",
                "a filter by message",
            ),
            (
                (
                    "with warnings.catch_warnings():",
                    "    x = x + 1",
                    "    warnings.simplefilter('ignore')",
                ),
                "warnings.simplefilter('ignore')",
                "something runs before the filter is set",
            ),
            (
                (
                    "with warnings.catch_warnings(), open(log):",
                    "    warnings.simplefilter('ignore')",
                ),
                "warnings.simplefilter('ignore')",
                "a file is opened before the filter is set",
            ),
            (
                (
                    "with warnings.catch_warnings(action='error'):",
                    "    warnings.simplefilter('ignore')",
                ),
                "warnings.simplefilter('ignore')",
                "two filters",
            ),
            (
                ("with log:", "    warnings.simplefilter('ignore')"),
                "warnings.simplefilter('ignore')",
                "another context manager",
            ),
            (
                (
                    "with warnings.catch_warnings() as log:",
                    "    warnings.simplefilter('ignore', log)",
                ),
                "warnings.simplefilter('ignore', log)",
                "the filter reads what the manager gave",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        call = _filter_call(site)
        if call is None:
            return
        keywords = _as_keywords(site, call)
        manager = _manager(site, call) if keywords is not None else None
        if manager is None or keywords is None:
            yield Advice(_ADVICE)
            return
        splice = Splice(site)
        given = [splice.source_of(arg) for arg in manager.args]
        callee = splice.source_of(manager.func)
        splice.replace(manager, f"{callee}({', '.join([*given, *keywords])})")
        statement = site.parent(call)
        assert isinstance(statement, cst.Expr)
        splice.remove_first(statement)
        yield splice.rewrite(
            "give `catch_warnings` the filter as its `action`",
            notes=("`catch_warnings(action=...)` needs Python 3.11",),
            rank=10,
        )


def _filter_call(site: Site) -> cst.Call | None:
    calls = [
        node
        for node in walk(site.node)
        if isinstance(node, cst.Call)
        and resolve(site.module, node.func) in ("warnings.simplefilter", "warnings.filterwarnings")
    ]
    if isinstance(site.node, cst.BaseCompoundStatement) or len(calls) != 1:
        return None
    return calls[0] if isinstance(site.parent(calls[0]), cst.Expr) else None


def _as_keywords(site: Site, call: cst.Call) -> list[str] | None:
    """The arguments as keywords of ``catch_warnings``; None where one of them has no place."""
    simple = (resolve(site.module, call.func) or "").endswith("simplefilter")
    positional = _SIMPLEFILTER if simple else _FILTERWARNINGS
    keywords = []
    for position, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and position >= len(positional)):
            return None
        name = arg.keyword.value if arg.keyword is not None else positional[position]
        if name not in _SIMPLEFILTER:
            return None
        keywords.append(f"{name}={site.text(arg.value)}")
    return keywords


def _manager(site: Site, call: cst.Call) -> cst.Call | None:
    """The ``catch_warnings()`` in whose block the call is the first statement."""
    line = site.statement_of(call)
    block = site.parent(line)
    around = site.parent(block) if block is not None else None
    if not isinstance(around, cst.With) or not isinstance(block, cst.IndentedBlock):
        return None
    first = isinstance(line, cst.SimpleStatementLine) and line.body[0] is site.parent(call)
    if not first or block.body[0] is not line or around.asynchronous is not None:
        return None
    item = around.items[-1]
    manager = item.item
    if not isinstance(manager, cst.Call):
        return None
    if resolve(site.module, manager.func) != "warnings.catch_warnings":
        return None
    if any(arg.star or _keyword(arg) not in ("record", "module") for arg in manager.args):
        return None
    if item.asname is not None:
        bound = {node.value for node in walk(item.asname) if isinstance(node, cst.Name)}
        if any(isinstance(node, cst.Name) and node.value in bound for node in walk(call)):
            return None
    return manager


def _keyword(arg: cst.Arg) -> str:
    return arg.keyword.value if arg.keyword is not None else ""

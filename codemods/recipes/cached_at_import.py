"""What a function without arguments finds out once, and keeps (``functools.lru_cache``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.activity import activity, params_of
from gbfix.analysis.names import identifier, names_in
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar
from gbfix.rewriting.project import home_of, mentions

_CACHE = re.compile(r"(?:functools\.)?(?:cache|lru_cache(?:\([\w=]*\))?)")
_KINDS = ("bool", "int", "float", "str", "none")
#: What the answer may depend on when the function is first called, and not when it is imported.
_LATER = re.compile(
    r"environ\w*|getenv|getcwd|argv|parse_args|random|rand\w*|secrets|uuid\w*|time|datetime"
    r"|perf_counter|monotonic|distributed|dist|current_device|get_rank|is_initialized|input|print"
    r"|open|log(?:ger|ging)?|_?logger|get_default_\w+|get_num_\w+|is_\w*enabled|allow_tf32"
    r"|\w*deterministic\w*|benchmark|enabled|getlocale"
)
#: What puts another function in its place, or has it asked again.
_AGAIN = r"\bmock|[Mm]onkey_?[Pp]atch|\bpatch[.(]|setattr\(|cache_clear|__wrapped__"
_NOTE = "it is asked when the file is imported, not at the first call: what fails there fails then"
_SOURCE = """
import functools
import subprocess

import torch


{}
def arch():
    out = subprocess.run(["uname", "-m"], capture_output=True, text=True)
    return out.stdout.strip()


{}def f(x):
    {}
"""
_ASKS = "return x * 2 if arch() == 'x86_64' else x"
_READS = "return x * 2 if ARCH == 'x86_64' else x"
_AT = 'subprocess.run(["uname", "-m"], capture_output=True, text=True)'
_FACTS = {"arch()": scalar("x86_64"), "out.stdout.strip()": scalar("x86_64")}


def _near_miss(source: str, why: str, at: str = _AT) -> NearMiss:
    return NearMiss(source, at=at, why=why, facts=_FACTS)


class CachedAtImport(Codemod):
    """*What it does.*  Reads a constant where a function without arguments is called that finds
    out something once and keeps it: ``ARCH = arch()`` stands above the functions that ask.

    ```python
    @functools.lru_cache(maxsize=1)
    def arch():
        return subprocess.run(["uname", "-m"], ...).stdout.strip()
    ```
    Dynamo looks into the function in spite of its cache, and breaks at what it calls.

    *When it applies.*  The function stands in the file, takes nothing, keeps its result
    (``functools.cache``, ``functools.lru_cache``), and gave a number, a bool, a text or None.  All
    calls of it in functions of the file below it become the constant.

    *Fix safety.*  Safe: the cache gives the first answer for ever, and the first is now asked for
    when the file is imported.  Its text names nothing that is likely to change between the two.

    *Refuses.*  Functions that read the environment, arguments, clocks, files, ranks or devices in
    use, that draw, print or log, or that read global values; and what a test replaces.
    """

    name = "cached-at-import"
    codes = (
        "GB0003", "GB0007", "GB0008", "GB0059", "GB0088", "GB0109", "GB0142", "GB0147", "GB0156",
        "GB0177", "GB0208", "GB0342",
    )  # fmt: skip
    examples = (
        Example(
            _SOURCE.format("@functools.lru_cache(maxsize=1)", "", _ASKS),
            _SOURCE.format("@functools.lru_cache(maxsize=1)", "ARCH = arch()\n\n\n", _READS),
            at=_AT,
            facts=_FACTS,
            title="what the machine is",
        ),
    )
    near_misses = (
        _near_miss(_SOURCE.format("@functools.wraps(print)", "", _ASKS), "no cache"),
        _near_miss(
            _SOURCE.format("@functools.cache", "", _ASKS) + "\n\narch.cache_clear()\n",
            "it is asked again",
        ),
        _near_miss(
            _SOURCE.format("@functools.cache", "", _ASKS).replace("out.stdout", "os.getenv('A')"),
            "the environment",
        ),
        _near_miss(
            _SOURCE.format("@functools.cache", "", _ASKS).replace(
                "out.stdout.strip()", "str(torch.get_default_dtype())"
            ),
            "a default that a program sets",
        ),
        _near_miss(
            _SOURCE.format("@functools.cache", "", _ASKS).replace("def arch()", "def arch(a=1)"),
            "it takes something",
        ),
        _near_miss(
            _SOURCE.format("@functools.cache", "", _ASKS).replace('"uname"', "TOOL")
            + "\n\nTOOL = 'uname'\n",
            "it reads a global value",
            at=_AT.replace('"uname"', "TOOL"),
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        for view in (site, *site.callers()):
            function = view.function
            if function is None or not _keeps(view, function):
                continue
            calls = _calls(view, function.name.value)
            asked = [view.at(frame) for frame in site.graph_break.frames if frame.in_project]
            if not calls or not _gave_plain_value(function, [view, *filter(None, asked)]):
                return
            yield from _rewrite(view, function, calls)
            return


def _keeps(site: Site, function: cst.FunctionDef) -> bool:
    """Whether a function of the file finds out something once."""
    return (
        function in site.module.body
        and any(_CACHE.fullmatch(code(it.decorator)) for it in function.decorators)
        and len(function.decorators) == 1
        and not list(params_of(function.params))
        and not _may_change(function)
        and not mentions(site, _AGAIN)
    )


def _may_change(function: cst.FunctionDef) -> bool:
    """Whether it names what may be another thing at its first call than at the import."""
    return any(
        isinstance(part, cst.Global)
        or (isinstance(part, cst.Name) and _LATER.fullmatch(part.value) is not None)
        for part in walk(function.body)
    )


def _calls(site: Site, name: str) -> list[cst.Call]:
    """The calls in functions of the file, by its own name."""
    if len(module_bindings(site.module).get(name, ())) != 1:
        return []
    found = []
    for node in walk(site.module):
        if not isinstance(node, cst.Call) or code(node.func) != name or node.args:
            continue
        function = site.function_of(node)
        if function is None or function.name.value == name:
            continue
        if name in function_scope(function).locals:
            return []
        found.append(node)
    return found


def _gave_plain_value(function: cst.FunctionDef, views: Sequence[Site]) -> bool:
    """Whether a recorded call of it gave what nobody can change in place."""
    name = function.name.value
    facts = [
        view.fact(node)
        for view in views
        if view.function is not None
        for node in walk(view.function.body)
        if isinstance(node, cst.Call) and code(node.func) == name
    ]
    returned = [
        view.fact(node.value)
        for view in views
        if view.function is not None and view.function.name.value == name
        for node in walk(view.function.body)
        if isinstance(node, cst.Return) and node.value is not None
    ]
    seen = [fact for fact in (*facts, *returned) if fact is not None]
    return bool(seen) and all(fact.kind in _KINDS for fact in seen)


def _rewrite(site: Site, function: cst.FunctionDef, calls: Sequence[cst.Call]) -> Iterator[Rewrite]:
    body = site.module.body
    first = min((site.top_level_statement(call) for call in calls), key=body.index)
    here = body.index(first)
    if body.index(function) >= here or not _is_known_above(site, function, here):
        return
    taken = names_in(site.module) | set(module_bindings(site.module))
    base = identifier(function.name.value.strip("_").removeprefix("get_")).upper()
    name = next(it for it in (base, *(f"{base}_{n}" for n in range(1, 99))) if it not in taken)
    edit = site.edit()
    for call in calls:
        edit.replace(call, cst.Name(name))
    blank = cst.EmptyLine(indent=False)
    line = cst.ensure_type(
        cst.parse_statement(f"{name} = {function.name.value}()"), cst.SimpleStatementLine
    )
    edit.insert_before(first, line.with_changes(leading_lines=[blank, blank]))
    title = f"ask `{function.name.value}()` once, at import"
    yield edit.rewrite(title, rank=13, notes=(_NOTE,), assumes=("reads-once", "asks-at-import"))


def _is_known_above(site: Site, function: cst.FunctionDef, here: int, depth: int = 3) -> bool:
    """Whether all that a function reads are imports, classes and functions that stand above."""
    bindings = module_bindings(site.module)
    above = {id(part) for top in site.module.body[:here] for part in walk(top)}
    for name in activity(function.body).reads - function_scope(function).locals:
        for bound in bindings.get(name, ()):
            if id(bound) not in above:
                return False
            if isinstance(bound, cst.FunctionDef):
                if _may_change(bound) or not depth:
                    return False
                if bound is not function and not _is_known_above(site, bound, here, depth - 1):
                    return False
            elif not isinstance(bound, cst.Import | cst.ImportFrom | cst.ImportAlias):
                return False
            elif _is_of_project(site, name, site.module.body[here]):
                return False  # what is imported there may change: ``CONFIG``
    return True


def _is_of_project(site: Site, name: str, at: cst.CSTNode) -> bool:
    """Whether a name is imported from a file of the project."""
    full = resolve(site.module, cst.Name(name), at=at) or "."
    return full.startswith(".") or bool(home_of(site, f"{full}.")[0])

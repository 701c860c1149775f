"""An import that is tried in every call, tried once when the file is imported."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.names import fresh, identifier, names_in
from gbfix.analysis.scopes import module_bindings
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site
from gbfix.rewriting.project import mentions, writers

#: What could make a later attempt end in another way.
_CHANGES = (
    r"environ(?!\.get\()|(?:import|from)[^\n]*environ|putenv|setenv|load_dotenv"
    r"|sys\.(?:path|modules|meta_path)\b|invalidate_caches|addsitedir|importlib\.reload"
    r"|\bmock|[Mm]onkey_?[Pp]atch|(?<![.\w])patch[.(]"
)
_NOTE = "the import is tried when the file is imported, not in the first call"
_LOADER = """
import os

import torch


def _load_kernel():
    if os.environ.get("NO_KERNEL") == "1":
        return None
    try:
        from kernels_that_nobody_has import attend
    except ImportError:
        return None
    return attend
"""
_KEPT = """
import torch

_kernel = None


def _load_kernel():
    global _kernel
    if _kernel is not None:
        return _kernel
    try:
        from kernels_that_nobody_has import attend
    except ImportError:
        return None
    _kernel = attend
    return _kernel
"""
_USE = """

def f(x):
    attend = {0}
    return x if attend is None else attend(x)
"""

_METHOD = """
import torch


class Fused:
    @classmethod
    def load(cls):
{0}        return attend

    def forward(self, x):
        attend = self.load()
        return x if attend is None else attend(x)
"""
_TRIES = """        try:
            from kernels_that_nobody_has import attend
        except ImportError:
            return None
"""
_TRIED = """
try:
    from kernels_that_nobody_has import attend
    attend_found = True
except ImportError:
    attend_found = False
"""
_ASKS = """        if not attend_found:
            return None
"""
_WITHOUT = """
import warnings

import torch


def f(x):
    # The fast one.
    try:
        from kernels_that_nobody_has import attend
    except ImportError:
        warnings.warn("no kernel")
        y = x * 2
        return y
    return attend(x)
"""


def _source(text: str) -> str:
    return text.lstrip("\n")


class ImportOnce(Codemod):
    """*What it does.*  Tries an import once, when the file is imported, and not in each call of a
    compiled function: ``attend = _load_kernel()`` becomes ``attend = _KERNEL``, with
    ``_KERNEL = _load_kernel()`` at module level; a ``try`` around imports inside a function moves
    above it.  Where the ``except`` computes in another way, a flag of the module's decides.

    *When it applies.*  An import failed while Dynamo traced it, where the program goes on without
    the package.

    *Fix safety.*  Safe where the function only imports, reads environment variables and returns
    what it has (kept in a global that nobody else knows), and nothing in the project changes the
    environment, the search path or loaded modules, or patches names: a later attempt would end in
    the same way.

    *Refuses.*  Loaders with parameters or other statements; names of the ``try`` that something
    else binds; loaders that read what the file defines below them.
    """

    name = "import-once"
    codes = ("GB0069",)
    examples = (
        Example(
            _source(_LOADER + _USE.format("_load_kernel()")),
            _source(_LOADER + "\n\n_KERNEL = _load_kernel()\n" + _USE.format("_KERNEL")),
            at="from kernels_that_nobody_has import attend",
            title="a function that loads a kernel",
        ),
        Example(
            _source(_KEPT + _USE.format("_load_kernel()")),
            _source(
                _KEPT + "\n\n_LOADED_KERNEL = _load_kernel()\n" + _USE.format("_LOADED_KERNEL")
            ),
            at="from kernels_that_nobody_has import attend",
            title="a function that keeps what it has loaded",
        ),
        Example(
            _source(
                """
import torch


def f(x):
    try:
        from kernels_that_nobody_has import attend
        found = True
    except ImportError:
        found = False
    return attend(x) if found else x
"""
            ),
            _source(
                """
import torch


try:
    from kernels_that_nobody_has import attend
    found = True
except ImportError:
    found = False


def f(x):
    return attend(x) if found else x
"""
            ),
            at="from kernels_that_nobody_has import attend",
            title="an attempt inside the function",
        ),
        Example(
            _source(_WITHOUT),
            _source(
                """
import warnings

import torch


try:
    from kernels_that_nobody_has import attend
    attend_found = True
except ImportError:
    attend_found = False


def f(x):
    # The fast one.
    if not attend_found:
        warnings.warn("no kernel")
        y = x * 2
        return y
    return attend(x)
"""
            ),
            at="from kernels_that_nobody_has import attend",
            title="another way without the package",
        ),
        Example(
            _source(_METHOD.format(_TRIES)),
            _source(
                "\nimport torch\n\n"
                + _TRIED
                + _METHOD.format(_ASKS).removeprefix("\nimport torch\n")
            ),
            at="from kernels_that_nobody_has import attend",
            title="a method that loads",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(text), at="from kernels_that_nobody_has import attend", why=why)
        for why, text in (
            (
                "the environment changes",
                _LOADER + _USE.format("_load_kernel()") + '\n\nos.environ["NO_KERNEL"] = "1"\n',
            ),
            (
                "it prints",
                _LOADER.replace(
                    "return None\n    return", 'print("no")\n        return None\n    return'
                )
                + _USE.format("_load_kernel()"),
            ),
            (
                "somebody else reads what it keeps",
                _KEPT + _USE.format("_load_kernel()") + "\n\ndef known():\n    return _kernel\n",
            ),
            (
                "somebody else sets what it keeps",
                _KEPT
                + _USE.format("_load_kernel()")
                + "\n\ndef forget():\n    global _kernel\n    _kernel = None\n",
            ),
            (
                "what it keeps begins below",
                _KEPT.replace("_kernel = None\n\n\ndef", "def")
                + "\n\n_kernel = None\n"
                + _USE.format("_load_kernel()"),
            ),
            (
                "it takes an argument",
                _LOADER.replace("_load_kernel()", "_load_kernel(name)")
                + _USE.format("_load_kernel('a')"),
            ),
            (
                "the error is raised again",
                _WITHOUT.replace('warnings.warn("no kernel")', "if x is None:\n            raise"),
            ),
            (
                "the error is told",
                _WITHOUT.replace("ImportError:", "ImportError as error:"),
            ),
            (
                "other errors, too",
                _WITHOUT.replace("except ImportError:", "except Exception:"),
            ),
            (
                "the name has a value on the other way",
                _WITHOUT.replace("y = x * 2", "attend = None").replace("return y", "pass"),
            ),
            (
                "a name that has a default",
                """
import torch


def f(x):
    attend, found = None, False
    try:
        from kernels_that_nobody_has import attend
        found = True
    except ImportError:
        pass
    return attend(x) if found else x
""",
            ),
            (
                "a switch that may change",
                "switch = True\n\n\ndef set_switch(value):\n    global switch\n    switch = value\n"
                + _LOADER.replace('os.environ.get("NO_KERNEL") == "1"', "not switch")
                + _USE.format("_load_kernel()"),
            ),
            (
                "an attribute that may change",
                _LOADER.replace('os.environ.get("NO_KERNEL") == "1"', "torch.no_kernels")
                + _USE.format("_load_kernel()"),
            ),
            (
                "another loader is put in its place",
                _LOADER + _USE.format("_load_kernel()") + "\n\nself_._load_kernel = None\n",
            ),
            (
                "a name that something else binds",
                """
import torch

found = None


def f(x):
    try:
        from kernels_that_nobody_has import attend
        found = True
    except ImportError:
        found = False
    return attend(x) if found else x
""",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        if function is None or mentions(site, _CHANGES):
            return
        rewrite = _loader(site, function) or _attempt(site, function) or _other_way(site, function)
        if rewrite is not None:
            yield rewrite


def _loader(site: Site, function: cst.FunctionDef) -> Rewrite | None:
    """A constant for what a function of the module loads."""
    if function not in site.module.body or function.decorators or function.asynchronous:
        return None
    if parameters_of(function.params):
        return None
    if not all(_only_loads(statement) for statement in function.body.body):
        return None
    if not _reads_what_stays(site, function) or any(writers(site, function.name.value)):
        return None
    globals_ = {item.name.value for it in walk(function) if isinstance(it, cst.Global)
                for item in it.names}  # fmt: skip
    if not all(_is_its_own(site, function, name) for name in globals_):
        return None
    calls = [
        node
        for node in walk(site.module)
        if isinstance(node, cst.Call)
        and isinstance(node.func, cst.Name)
        and node.func.value == function.name.value
        and not node.args
        and site.function_of(node) is not None
    ]
    if not calls:
        return None
    name = function.name.value.lstrip("_")
    for verb in ("load_", "get_", "try_import_", "import_", "maybe_import_"):
        name = name.removeprefix(verb)
    taken = {item.lower() for item in names_in(site.module)}
    wish = identifier(name or "loaded")
    if f"_{wish}" in taken:
        wish = f"loaded_{wish}"
    constant = "_" + fresh(wish, taken).upper()
    if constant in names_in(site.module):
        return None
    edit = site.edit()
    for call in calls:
        edit.replace(call, cst.Name(constant))
    line = cst.ensure_type(
        cst.parse_statement(f"{constant} = {function.name.value}()"), cst.SimpleStatementLine
    )
    blank = [cst.EmptyLine(indent=False)] * 2
    edit.insert_after(function, line.with_changes(leading_lines=blank))
    return edit.rewrite(
        f"call `{function.name.value}` once, at import",
        rank=12,
        notes=(_NOTE,),
        assumes=("reads-once",),
    )


def _only_loads(node: cst.CSTNode) -> bool:
    """Whether a statement imports, asks the environment, binds names or returns, and no more."""
    match node:
        case cst.SimpleStatementLine(body=body):
            return all(_loads(small) for small in body)
        case cst.Try(body=body, handlers=handlers, orelse=orelse, finalbody=None):
            blocks = [body, *(handler.body for handler in handlers)]
            blocks += [orelse.body] if orelse is not None else []
            return all(_only_loads(line) for block in blocks for line in block.body)
        case cst.If(test=test, body=body, orelse=orelse):
            blocks = [body, *([orelse.body] if isinstance(orelse, cst.Else) else [])]
            if isinstance(orelse, cst.If) and not _only_loads(orelse):
                return False
            return _only_asks(test) and all(_only_loads(line) for it in blocks for line in it.body)
        case cst.BaseSmallStatement():
            return _loads(node)
    return False


def _loads(small: cst.BaseSmallStatement) -> bool:
    match small:
        case cst.Import() | cst.ImportFrom() | cst.Pass() | cst.Global():
            return True
        case cst.Expr(value=cst.SimpleString()):
            return True
        case cst.Return(value=value):
            return value is None or _only_asks(value)
        case cst.Assign(targets=targets, value=value):
            named = all(isinstance(target.target, cst.Name) for target in targets)
            return named and _only_asks(value)
    return False


def _only_asks(node: cst.BaseExpression) -> bool:
    """Whether an expression calls nothing but what reads environment variables."""
    for inner in walk(node):
        if isinstance(inner, cst.Call):
            known = code(inner.func) in ("os.environ.get", "os.getenv", "int", "bool", "hasattr")
            asked = isinstance(inner.func, cst.Attribute) and inner.func.attr.value in (
                "lower", "upper", "strip",
            )  # fmt: skip
            if not known and not asked:
                return False
        elif isinstance(inner, cst.NamedExpr | cst.Await | cst.Yield):
            return False
    return True


def _reads_what_stays(site: Site, function: cst.FunctionDef) -> bool:
    """Whether it reads modules, and constants that the module has bound above, by literals."""
    own = activity(function.body).binds
    bound = module_bindings(site.module)
    for name in activity(function.body).reads - own - {"int", "bool", "hasattr", "ImportError"}:
        made = bound.get(name, ())
        if not made and hasattr(builtins, name):
            continue
        if _is_its_own(site, function, name):
            continue
        if len(made) != 1 or any(f"global {name}" in text for text in _texts(site)):
            return False
        match made[0]:
            case cst.Import() | cst.ImportFrom():
                continue
            case cst.Assign(
                value=cst.BaseNumber() | cst.SimpleString() | cst.Name("True" | "False")
            ):
                pass
            case _:
                return False
        if any(writers(site, name)) or not _is_above(site, name, function):
            return False
    return all(
        code(node) in ("os.environ", "os.environ.get", "os.getenv")
        or node.attr.value in ("lower", "upper", "strip")
        or code(node).partition(".")[0] in own
        for node in walk(function.body)
        if isinstance(node, cst.Attribute)
        and not any(isinstance(it, cst.Import | cst.ImportFrom) for it in site.ancestors(node))
    )


def _is_its_own(site: Site, function: cst.FunctionDef, name: str) -> bool:
    """Whether a global holds what the function has loaded, and nobody else knows of it."""
    declared = any(
        isinstance(node, cst.Global) and name in {item.name.value for item in node.names}
        for node in walk(function)
    )
    made = module_bindings(site.module).get(name, ())
    starts = [node for node in made if isinstance(node, cst.Assign)]
    if not declared or len(starts) != 1 or code(starts[0].value) != "None":
        return False
    if not _is_above(site, name, function):
        return False
    here = [*walk(function), *walk(starts[0])]
    used = sum(isinstance(node, cst.Name) and node.value == name for node in here)
    word = re.compile(rf"\b{re.escape(name)}\b")
    others = [text for path, text in site.sources.items() if path != site.path]
    everywhere = sum(isinstance(n, cst.Name) and n.value == name for n in walk(site.module))
    return everywhere == used and not any(word.search(text) for text in others)


def _texts(site: Site) -> list[str]:
    return [site.source, *site.sources.values()]


def _is_above(site: Site, name: str, function: cst.FunctionDef) -> bool:
    """Whether the module binds the name before the function stands there."""
    body = list(site.module.body)
    return any(name in activity(line).bound for line in body[: body.index(function)])


def _attempt(site: Site, function: cst.FunctionDef) -> Rewrite | None:
    """A ``try`` around imports, moved out of the function."""
    around = (site.statement, *site.ancestors(site.statement))
    attempt = next((node for node in around if isinstance(node, cst.Try)), None)
    if attempt is None or site.function_of(attempt) is not function:
        return None
    if not _only_loads(attempt) or any(
        isinstance(node, cst.Return | cst.Global) for node in walk(attempt)
    ):
        return None
    bound = activity(attempt).bound
    others = set(module_bindings(site.module)) | set(parameters_of(function.params))
    without = function.body.deep_remove(attempt)
    assert isinstance(without, cst.CSTNode)
    rest = activity(without)
    others |= rest.binds | rest.bound | rest.writes | rest.deletes
    read_inside = activity(attempt).reads - bound
    if bound & others or read_inside & activity(function.body).binds:
        return None
    if any(f"global {name}" in text for name in bound for text in _texts(site)):
        return None
    if comments_in(attempt):
        return None
    for node in site.module.body:  # a name of another function's own stays its own
        if node is not site.top_level_statement(function) and bound & activity(node).reads:
            return None
    blank = [cst.EmptyLine(indent=False)] * 2
    edit = site.edit()
    edit.remove(attempt)
    top = site.top_level_statement(function)
    edit.insert_before(top, attempt.with_changes(leading_lines=blank))
    return edit.rewrite(
        "try the import once, at import", rank=12, notes=(_NOTE,), assumes=("reads-once",)
    )


def _other_way(site: Site, function: cst.FunctionDef) -> Rewrite | None:
    """``try: from a import b`` and a way without it: a flag of the module's decides."""
    rest_loads = (_only_loads(it) for it in function.body.body if not isinstance(it, cst.Try))
    if function in site.module.body and all(rest_loads):
        return None  # a loader
    attempt = site.parent(site.parent(site.statement) or site.statement)
    if not isinstance(attempt, cst.Try) or site.function_of(attempt) is not function:
        return None
    block, place = site.parent(attempt), attempt.body
    handlers = attempt.handlers
    if len(handlers) != 1 or attempt.finalbody is not None or handlers[0].name is not None:
        return None
    handler, error = handlers[0], code(handlers[0].type) if handlers[0].type is not None else ""
    if error not in ("ImportError", "ModuleNotFoundError"):
        return None
    lines = [small for line in place.body for small in getattr(line, "body", ())]
    if not lines or not all(isinstance(it, cst.Import | cst.ImportFrom) for it in lines):
        return None
    if not isinstance(block, cst.IndentedBlock) or comments_in(place):
        return None
    if not isinstance(place, cst.IndentedBlock) or not isinstance(handler.body, cst.IndentedBlock):
        return None
    names = activity(place).bound
    taken = names_in(site.module)
    others = set(module_bindings(site.module)) | set(parameters_of(function.params))
    without = function.body.deep_remove(attempt)
    assert isinstance(without, cst.CSTNode)
    rest, instead = activity(without), activity(handler.body)
    others |= rest.binds | rest.bound | rest.writes | rest.deletes
    others |= instead.binds | instead.reads
    if attempt.orelse is not None:
        others |= activity(attempt.orelse.body).binds
    if not names or names & others or any("*" in code(it) for it in lines):
        return None
    if any(isinstance(node, cst.Raise) and node.exc is None for node in walk(handler.body)):
        return None  # it raises what it has caught
    if any(f"global {name}" in text for name in names for text in _texts(site)):
        return None
    for node in site.module.body:
        if node is not site.top_level_statement(function) and names & activity(node).reads:
            return None
    flag = fresh(f"{min(names)}_found", taken)
    edit = site.edit()
    yes, no = (cst.parse_statement(f"{flag} = {value}") for value in (True, False))
    tried = cst.Try(
        body=cst.IndentedBlock([*place.body, yes]),
        handlers=[cst.ExceptHandler(cst.IndentedBlock([no]), cst.Name(error))],
        leading_lines=[cst.EmptyLine(indent=False)] * 2,
    )
    edit.insert_before(site.top_level_statement(function), tried)
    orelse = cst.Else(attempt.orelse.body) if attempt.orelse is not None else None
    test = cst.UnaryOperation(cst.Not(), cst.Name(flag))
    edit.replace(
        attempt,
        cst.If(test, handler.body, orelse, leading_lines=attempt.leading_lines),
    )
    return edit.rewrite(
        "try the import once, at import", rank=13, notes=(_NOTE,), assumes=("reads-once",)
    )

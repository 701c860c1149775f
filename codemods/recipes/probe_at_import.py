"""What a function asks of the machine in every call, asked once."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.names import fresh, identifier, names_in
from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar
from gbfix.rewriting.probes import answers_alike

_METHODS = words(
    """casefold count endswith find index lower lstrip partition removeprefix removesuffix replace
    rpartition rsplit rstrip split startswith strip title upper"""
)
_KINDS = ("bool", "int", "float", "str", "none")
_NOTE = "it is asked when the file is imported: what fails there fails then"
#: The machine's answer is the same in every call, and leads where it led.
_ASSUMES = ("reads-once", "same-questions")
_FACTS = {
    "platform.system() == 'Darwin'": scalar(False),
    "shutil.which('nvcc') is not None": scalar(False),
    "shutil.which(name) is not None": scalar(False),
    "socket.gethostname().startswith('tpu')": scalar(False),
    "torch.get_num_threads() == 1": scalar(False),
}


def _source(test: str, constant: str = "", imports: str = "import platform\nimport shutil") -> str:
    above = f"{constant}\n\n\n" if constant else ""
    return f"""{imports}

import torch


{above}def f(x, name):
    if {test}:
        x = x + 1
    return x * 2
"""


class ProbeAtImport(Codemod):
    """*What it does.*  Asks the machine, the platform or the installation once, when the file is
    imported, and not in every call: ``if shutil.which("nvcc") is not None`` becomes
    ``if HAS_NVCC``, a constant above the function.

    *When it applies.*  The break is in a function of the standard library (or of ``torch``) that is
    known to give the same answer in the whole life of a process, called with literals; what is
    moved is a number, a bool, a text or None. Other such calls of the function that ran go with it.

    *Fix safety.*  Safe: nothing in the project speaks of what could change the answer (the search
    path, the environment, the working directory; for threads, workers), or puts another function
    in the place of one (``mock.patch``, ``setattr``, an assignment to the function's name).

    *Refuses.*  Arguments that are not written out; probes of devices in use, clocks and files;
    names that are bound in the function.
    """

    name = "probe-at-import"
    codes = ("GB0007", "GB0008", "GB0059", "GB0088", "GB0156", "GB0208", "GB0342")
    examples = (
        Example(
            _source("shutil.which('nvcc') is not None"),
            _source(
                "HAS_NVCC",
                "HAS_NVCC = shutil.which('nvcc') is not None",
            ),
            at="shutil.which('nvcc')",
            facts=_FACTS,
            title="a program on the search path",
        ),
        Example(
            _source(
                "socket.gethostname().startswith('tpu')", imports="import platform\nimport socket"
            ),
            _source(
                "SOCKET_GETHOSTNAME",
                "SOCKET_GETHOSTNAME = socket.gethostname().startswith('tpu')",
                imports="import platform\nimport socket",
            ),
            at="socket.gethostname()",
            facts=_FACTS,
            title="the name of the machine",
        ),
    )
    near_misses = (
        NearMiss(
            _source("shutil.which(name) is not None"),
            at="shutil.which(name)",
            facts=_FACTS,
            why="an argument of the call",
        ),
        NearMiss(
            _source("shutil.which('nvcc') is not None") + "\n\nimport os\nos.environ['P'] = ''\n",
            at="shutil.which('nvcc')",
            facts=_FACTS,
            why="the search path changes",
        ),
        *(
            NearMiss(
                _source("shutil.which('nvcc') is not None") + f"\n\n{line}\n",
                at="shutil.which('nvcc')",
                facts=_FACTS,
                why=why,
            )
            for line, why in (
                ("from unittest import mock\nmock.patch('shutil.which')", "a test replaces it"),
                ("shutil.which = len", "it is replaced by hand"),
                ("monkeypatch.setenv('PATH', '')", "a test changes the search path"),
            )
        ),
        NearMiss(
            _source("platform.system() == 'Darwin'")
            + "\n\ndef as_if(patch):\n    patch.setattr('platform.system', lambda: 'Darwin')\n",
            at="platform.system()",
            facts=_FACTS,
            why="a test pretends another platform",
        ),
        NearMiss(
            _source("torch.get_num_threads() == 1") + "\n\ntorch.utils.data.DataLoader([1])\n",
            at="torch.get_num_threads()",
            facts=_FACTS,
            why="workers have one thread",
        ),
        NearMiss(
            _source("shutil.which('nvcc') is not None").replace("    if", "    shutil = x\n    if"),
            at="shutil.which('nvcc')",
            facts=_FACTS,
            why="another `shutil`",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        if site.function is None:
            return
        found = [node for node in _probes(site) if _is_plain(site, node)]
        around = {site.node, *site.ancestors(site.node)}
        if not any(node in around or _holds(node, site.node) for node in found):
            return
        top = site.top_level_statement(site.node)
        if _imported_below(site, top) or not all(_known_at(site, node, top) for node in found):
            return
        taken = names_in(site.module) | set(module_bindings(site.module))
        taken |= {name.lower() for name in taken if name.isupper()}
        names: dict[str, str] = {}
        edit = site.edit()
        lines: list[cst.BaseStatement] = []
        for node in found:
            text = code(node.with_changes(lpar=(), rpar=()))
            if text not in names:
                base = fresh(_called(site, node), taken)
                names[text] = base.upper()
                taken |= {base, base.upper()}
                line = cst.parse_statement(f"{names[text]} = {text}")
                lines.append(line)
            edit.replace(node, cst.Name(names[text]))
        blank = cst.EmptyLine(indent=False)
        first = cst.ensure_type(lines[0], cst.SimpleStatementLine)
        lines[0] = first.with_changes(leading_lines=[blank, blank])
        edit.insert_before(top, *lines)
        title = f"ask `{code(found[0])}` once, at import"
        yield edit.rewrite(title, rank=12, notes=(_NOTE,), assumes=_ASSUMES)


def _probes(site: Site) -> list[cst.BaseExpression]:
    """The largest expressions of the site's function that are made of probes and literals."""
    assert site.function is not None
    found: list[cst.BaseExpression] = []
    stack: list[cst.CSTNode] = [site.function.body]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            continue
        if isinstance(node, cst.BaseExpression) and _takes(site, node) and _asks(node):
            found.append(node)
            continue
        stack.extend(reversed(list(node.children)))
    return found


def _called(site: Site, node: cst.CSTNode) -> str:
    """``HAS_NVCC``, ``MPS_IS_AVAILABLE``, ``PLATFORM_SYSTEM_IS_DARWIN``."""
    call = next(part for part in walk(node) if isinstance(part, cst.Call))
    while isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call):
        call = call.func.value
    function = (resolve(site.module, call.func) or code(call.func)).split(".")[-2:]
    given = [code(arg.value).strip("'\"") for arg in call.args[:1]]
    match node:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(cst.IsNot())]) if given:
            return identifier(f"has_{given[0]}")
        case cst.Comparison(
            comparisons=[cst.ComparisonTarget(cst.Equal(), cst.SimpleString() as other)]
        ):
            given = ["is", code(other).strip("'\"")]
    return identifier("_".join([*function, *given]))


def _asks(node: cst.CSTNode) -> bool:
    return any(isinstance(part, cst.Call) for part in walk(node))


def _takes(site: Site, node: cst.CSTNode) -> bool:
    match node:
        case cst.BaseNumber() | cst.SimpleString() | cst.Name(value="True" | "False" | "None"):
            return True
        case cst.Call(func=func, args=args):
            if any(arg.star for arg in args) or not all(_takes(site, arg.value) for arg in args):
                return False
            if answers_alike(site, resolve(site.module, func) or ""):
                return True
            if not isinstance(func, cst.Attribute) or func.attr.value not in _METHODS:
                return False
            return _asks(func) and _takes(site, func.value)
        case cst.Comparison(left=left, comparisons=parts):
            return all(_takes(site, item) for item in (left, *(part.comparator for part in parts)))
        case cst.BooleanOperation(left=left, right=right):
            return _takes(site, left) and _takes(site, right)
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _takes(site, inner)
        case cst.Subscript(
            value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer()))]
        ):
            return _takes(site, value)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return all(
                isinstance(element, cst.Element) and _takes(site, element.value)
                for element in elements
            )
    return False


def _is_plain(site: Site, node: cst.BaseExpression) -> bool:
    """Whether it ran, and gave what nobody can change in place."""
    fact = site.fact(node)
    return fact is not None and fact.kind in _KINDS


def _holds(node: cst.CSTNode, part: cst.CSTNode) -> bool:
    return any(item is part for item in walk(node))


def _imported_below(site: Site, top: cst.CSTNode) -> bool:
    line = site.span(top).line
    return any(
        site.span(item).line > line
        for item in site.module.body
        if isinstance(item, cst.SimpleStatementLine)
        and isinstance(item.body[0], cst.Import | cst.ImportFrom)
    )


def _known_at(site: Site, node: cst.CSTNode, top: cst.CSTNode) -> bool:
    """Whether the functions that it calls have the same names at module level."""
    return all(
        resolve(site.module, part.func) == resolve(site.module, part.func, at=top)
        for part in walk(node)
        if isinstance(part, cst.Call)
    )

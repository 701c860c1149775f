"""Strategy 3: what cannot be compiled is not compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import libcst as cst

from gbfix.analysis.binding import target_names
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import (
    Advice,
    Codemod,
    Example,
    NearMiss,
    Rewrite,
    Site,
    tensor,
)
from gbfix.schema import Fact

from ..side_effects.effects import LOG_METHODS, logger_of
from .compiled import Compiled, compiled_place
from .halves import CannotSplit, Cut, cut, split, with_decorators

_X = tensor(3)
_RNG = {"rng": Fact("object", "random.Random")}


class SplitFunction(Codemod):
    """*What it does.*  Cuts a compiled function in two around a statement that must run in Python.

    The function itself is no longer compiled: it calls a first part, runs the statement, and calls
    a second part.  The parts are compiled with the original's own options.  What holds nothing to
    compile stays where it is.

    *When it applies.*  The function stands at module level or is a method, and ``@torch.compile``
    is its innermost decorator; or it has no decorators and one call ``torch.compile(f)``, which
    goes: its parts are compiled where they are defined.  Or it is the function with which something
    begins that others compile, as ``forward`` does for ``torch.compile(Net())``: then it keeps its
    place, ``torch.compiler.disable(recursive=False)`` has Dynamo pass over its own frame, and the
    parts that it calls are compiled with the options of that call.  A break inside a ``with``, a
    ``try``, a loop or a branch leaves that statement in Python, with compiled parts inside of it,
    before it and behind it; so does a break in entering a context or fetching from an iterator.
    Where Dynamo itself fails in what a function calls over which it passes (a framework's
    ``self.log``), that is called as ``torch.compiler.disable(self.log)``.
    Locks are taken and given back in Python, and so is a profiler entered whose object is read.

    *Fix safety.*  Safe: the same statements run in the same order with the same values, gradients
    pass through all parts, and every caller goes through the function's old name.  The region
    becomes several graphs with Python between them: this comes after every rewrite that keeps one.

    *Refuses.*  Inner functions that share variables, globals that a part would bind, ``del``,
    generators, names that may be unbound where they would be passed or given back, names that an
    ``except`` may see half way through a part, parts in loops that are handed another object each
    round, functions that are compiled in another way.
    """

    name = "split-function"
    codes = (
        "GB0002",
        "GB0005",
        "GB0006",
        "GB0007",
        "GB0008",
        "GB0009",
        "GB0013",
        "GB0014",
        "GB0015",
        "GB0016",
        "GB0019",
        "GB0022",
        "GB0030",
        "GB0033",
        "GB0042",
        "GB0043",
        "GB0045",
        "GB0046",
        "GB0055",
        "GB0056",
        "GB0058",
        "GB0059",
        "GB0064",
        "GB0066",
        "GB0067",
        "GB0069",
        "GB0072",
        "GB0084",
        "GB0087",
        "GB0090",
        "GB0092",
        "GB0098",
        "GB0099",
        "GB0100",
        "GB0101",
        "GB0103",
        "GB0104",
        "GB0105",
        "GB0107",
        "GB0108",
        "GB0109",
        "GB0110",
        "GB0116",
        "GB0117",
        "GB0119",
        "GB0124",
        "GB0125",
        "GB0128",
        "GB0131",
        "GB0135",
        "GB0140",
        "GB0142",
        "GB0144",
        "GB0145",
        "GB0147",
        "GB0148",
        "GB0150",
        "GB0152",
        "GB0155",
        "GB0156",
        "GB0157",
        "GB0158",
        "GB0163",
        "GB0165",
        "GB0166",
        "GB0171",
        "GB0175",
        "GB0177",
        "GB0178",
        "GB0180",
        "GB0185",
        "GB0186",
        "GB0189",
        "GB0190",
        "GB0198",
        "GB0203",
        "GB0204",
        "GB0206",
        "GB0207",
        "GB0212",
        "GB0220",
        "GB0221",
        "GB0222",
        "GB0225",
        "GB0226",
        "GB0227",
        "GB0228",
        "GB0229",
        "GB0231",
        "GB0235",
        "GB0236",
        "GB0238",
        "GB0239",
        "GB0240",
        "GB0241",
        "GB0242",
        "GB0243",
        "GB0245",
        "GB0246",
        "GB0247",
        "GB0250",
        "GB0251",
        "GB0253",
        "GB0254",
        "GB0256",
        "GB0257",
        "GB0262",
        "GB0263",
        "GB0273",
        "GB0277",
        "GB0289",
        "GB0291",
        "GB0292",
        "GB0293",
        "GB0294",
        "GB0296",
        "GB0297",
        "GB0298",
        "GB0306",
        "GB0330",
        "GB0332",
        "GB0333",
        "GB0334",
        "GB0346",
        "GB0367",
        "GB0373",
        "GB0374",
        "GB0467",
        "GB0569",
        "GB0682",
        "GB0808",
        "GB0871",
        "GB1042",
        "GB1220",
        "GB1297",
        "GB1584",
        "GB1724",
        "GB1750",
        "GB2404",
        "GB2520",
        "GB2533",
        "GB2549",
        "GB2696",
        "GB2852",
        "GB2861",
        "GB2977",
        "GB3241",
        "GB3383",
        "GB3697",
        "GB3934",
        "GB4271",
        "GB4411",
        "GB4501",
        "GB4608",
        "GB4695",
        "GB4880",
        "GB5458",
        "GB5849",
        "GB5904",
        "GB5976",
        "GB6012",
        "GB6053",
        "GB6215",
        "GB6622",
        "GB6663",
        "GB6890",
        "GB7324",
        "GB7444",
        "GB7502",
        "GB7637",
        "GB7650",
        "GB7685",
        "GB7786",
        "GB8335",
        "GB8985",
        "GB9137",
        "GB9158",
        "GB9277",
        "GB9300",
        "GB9316",
        "GB9458",
        "GB9561",
        "GB9567",
        "GB9625",
        "GB9648",
        "GB9840",
        "GB9860",
        "internal-error",
    )

    examples = (
        Example(
            title="a file is written",
            before="""
            import torch


            @torch.compile(fullgraph=True)
            def f(x):
                y = x ** 2 / 2
                torch.save(y, "foo.pt")
                z = y ** 3 / 6
                return z
            """,
            after="""
            import torch


            def f(x):
                y = f_before(x)
                torch.save(y, "foo.pt")
                return f_after(y)


            @torch.compile(fullgraph=True)
            def f_before(x):
                y = x ** 2 / 2
                return y


            @torch.compile(fullgraph=True)
            def f_after(y):
                z = y ** 3 / 6
                return z
            """,
            at='torch.save(y, "foo.pt")',
            facts={"y": _X},
        ),
        Example(
            title="at the very start, with other decorators, comments and a docstring",
            before='''
            import time
            import torch


            @torch.no_grad()
            # compiled
            @torch.compile
            def f(x, *rest, scale: float = 2.0) -> torch.Tensor:
                """Doubles."""
                start = time.time()  # now
                # the work
                y = x * scale
                if rest:
                    y = y + rest[0]
                return y, start
                # done
            ''',
            after='''
            import time
            import torch


            @torch.no_grad()
            def f(x, *rest, scale: float = 2.0) -> torch.Tensor:
                """Doubles."""
                start = time.time()  # now
                return f_after(x, rest, scale, start)
                # done


            @torch.compile
            def f_after(x, rest, scale, start):
                # the work
                y = x * scale
                if rest:
                    y = y + rest[0]
                return y, start
            ''',
            at="time.time()",
        ),
        Example(
            title="at the very end",
            before="""
            import torch


            @torch.compile
            def f(x, log):
                y = x.sin()
                x = y * 2

                log.write(y)
                return x, y
            """,
            after="""
            import torch


            def f(x, log):
                x, y = f_before(x)

                log.write(y)
                return x, y


            @torch.compile
            def f_before(x):
                y = x.sin()
                x = y * 2
                return x, y
            """,
            at="log.write(y)",
        ),
        Example(
            title="a half that gives nothing",
            before="""
            import torch


            @torch.compile
            def f(x):
                x.add_(1)
                torch.save(x, "x.pt")
                x.mul_(2)
            """,
            after="""
            import torch


            def f(x):
                f_before(x)
                torch.save(x, "x.pt")
                return f_after(x)


            @torch.compile
            def f_before(x):
                x.add_(1)


            @torch.compile
            def f_after(x):
                x.mul_(2)
            """,
            at='torch.save(x, "x.pt")',
        ),
        Example(
            title="inside of a with",
            before="""
            import torch


            @torch.compile
            def f(x):
                x = x + 1
                with torch.no_grad():
                    y = x * 2
                    # keep it
                    torch.save(y, "y.pt")
                    z = y.sum()
                return x * z
            """,
            after="""
            import torch


            def f(x):
                x = f_part_1(x)
                with torch.no_grad():
                    y = f_part_2(x)
                    # keep it
                    torch.save(y, "y.pt")
                    z = f_part_3(y)
                return f_part_4(x, z)


            @torch.compile
            def f_part_1(x):
                x = x + 1
                return x


            @torch.compile
            def f_part_2(x):
                y = x * 2
                return y


            @torch.compile
            def f_part_3(y):
                z = y.sum()
                return z


            @torch.compile
            def f_part_4(x, z):
                return x * z
            """,
            at='torch.save(y, "y.pt")',
        ),
        Example(
            title="a method with an early return",
            before="""
            import torch


            class Net(torch.nn.Module):
                @torch.compile
                def forward(self, x):
                    if x is None:
                        return None
                    h = self.fc(x)
                    torch.save(h, "h.pt")
                    return super().head(h)
            """,
            after="""
            import torch


            class Net(torch.nn.Module):
                def forward(self, x):
                    if x is None:
                        return None
                    h = self.forward_before(x)
                    torch.save(h, "h.pt")
                    return self.forward_after(h)

                @torch.compile
                def forward_before(self, x):
                    h = self.fc(x)
                    return h

                @torch.compile
                def forward_after(self, h):
                    return super().head(h)
            """,
            at='torch.save(h, "h.pt")',
        ),
        Example(
            title="compiled by a call",
            before="""
            import torch


            def f(x):
                torch.save(x, "x.pt")
                return x * 2


            g = torch.compile(f, backend="eager", fullgraph=True)
            """,
            after="""
            import torch


            def f(x):
                torch.save(x, "x.pt")
                return f_after(x)


            @torch.compile(backend="eager", fullgraph=True)
            def f_after(x):
                return x * 2


            g = f
            """,
            at='torch.save(x, "x.pt")',
        ),
        Example(
            title="the head of a with",
            before="""
            import torch
            from timing import timer


            @torch.compile
            def f(x):
                with timer("f"):
                    y = x * 2
                return y
            """,
            after="""
            import torch
            from timing import timer


            def f(x):
                with timer("f"):
                    y = f_inside(x)
                return y


            @torch.compile
            def f_inside(x):
                y = x * 2
                return y
            """,
            at='timer("f")',
        ),
    )
    near_misses = (
        NearMiss(
            "import torch\n\n\n@torch.compile\ndef f(x):\n    y = x.to_sparse()\n    return y\n",
            at="return y",
            why="all that it does would be in one part",
        ),
        *(
            NearMiss(
                f"import time\nimport torch\n\n\n{source}",
                at="time.time()",
                why=why,
                facts=_RNG if "rng" in source else {},
            )
            for source, why in (
                (
                    "@torch.compile\ndef f(x):\n    y = x + 1\n    del x\n"
                    "    t = time.time()\n    return y + t\n",
                    "a name ends",
                ),
                (
                    "@torch.compile\ndef f(x):\n    if x.dim():\n        y = x + 1\n"
                    "    t = time.time()\n    return y + t\n",
                    "y may be unbound",
                ),
                (
                    "@torch.compile\ndef f(x):\n    y = x + 1\n    g = lambda: y\n"
                    "    t = time.time()\n    y = y + t\n    return g()\n",
                    "a closure sees later values",
                ),
                (
                    "@torch.compile\ndef f(x):\n    global n\n    n = x + 1\n"
                    "    t = time.time()\n    return n + t\n",
                    "a global",
                ),
                (
                    "@torch.compile\ndef f(x):\n    try:\n        y = x + 1\n        y = y * 2\n"
                    "        t = time.time()\n    except ValueError:\n        return y\n"
                    "    return y + t\n",
                    "a handler may see what only a part has bound",
                ),
                (
                    "@torch.compile\ndef f(x):\n    y = None\n    while x.sum() < 9:\n"
                    "        x = x + 1\n        t = time.time()\n"
                    "        if t > 3 and y: x = x + y\n        else: z = x * 2\n"
                    "        x = x if y is None else x + z\n    return x\n",
                    "z may be unbound",
                ),
                (
                    "@torch.compile\ndef f(x):\n    yield x\n"
                    "    t = time.time()\n    yield x + t\n",
                    "a generator",
                ),
                (
                    "def f(x):\n    y = x + 1\n    t = time.time()\n    return y + t\n",
                    "not compiled",
                ),
                (
                    "def f(x):\n    y = x + 1\n    t = time.time()\n    return y + t\n\n\n"
                    "g = torch.compile(f)\nh = torch.compile(f, dynamic=True)\n",
                    "compiled twice",
                ),
                (
                    "def f(x):\n    y = x + 1\n    t = time.time()\n    return y + t\n\n\n"
                    "g = torch.compile(f) if time.time() else f\n",
                    "compiled sometimes only",
                ),
                (
                    "def f(x):\n    y = x + 1\n    t = time.time()\n    return y + t\n\n\n"
                    "options = {}\ng = torch.compile(f, options=options)\n",
                    "options that are not there yet",
                ),
                (
                    "def f(x):\n    y = x + 1\n    t = time.time()\n    return y + t\n\n\n"
                    "def main(f):\n    return torch.compile(f)\n",
                    "another function of that name",
                ),
                (
                    "@torch.compile\n@torch.no_grad()\ndef f(x):\n    y = x + 1\n"
                    "    t = time.time()\n    return y + t\n",
                    "compiles what another decorator made",
                ),
                (
                    "@torch.compile\ndef f(x):\n    t = time.time()\n    return t\n",
                    "nothing to compile is left",
                ),
                (
                    "class A:\n    @staticmethod\n    @torch.compile\n    def f(x):\n"
                    "        y = x + 1\n        t = time.time()\n        return y + t\n",
                    "a method without self",
                ),
                (
                    "class A:\n    @torch.compile\n    def f(self, x):\n        self = x + 1\n"
                    "        t = time.time()\n        return self + t\n",
                    "a method that binds self",
                ),
                (
                    "def g():\n    @torch.compile\n    def f(x):\n        y = x + 1\n"
                    "        t = time.time()\n        return y + t\n    return f\n",
                    "a function in another one",
                ),
                (
                    "@torch.compile\ndef f(x):\n    y = x + 1\n    t = time.time()\n"
                    "    return y + t, locals()\n",
                    "looks at its own frame",
                ),
                (
                    "@torch.compile\ndef f(x): y = x + 1; t = time.time(); return y + t\n",
                    "all on one line",
                ),
                (
                    "@torch.compile\ndef f(x, rng):\n    x = x + 1\n    t = time.time()\n"
                    "    return x * rng.random() + t\n",
                    "a part would draw other numbers",
                ),
                (
                    "rng = random.Random(3)\n\n\n@torch.compile\ndef f(x):\n    x = x + 1\n"
                    "    t = time.time()\n    return x * rng.random() + t\n",
                    "a part would draw other numbers from a global",
                ),
                (
                    "@torch.compile\ndef f(x):\n    class Own:\n        n = 2\n\n"
                    "    x = x + 1\n    t = time.time()\n    return x * Own.n + t\n",
                    "a part would be compiled for each call's own class",
                ),
            )
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        found = compiled_place(site)
        if found is None:
            return
        whole, node = found
        helper = _helper(site, node) if whole.decorator is None else None
        callees = [_crashing(site, node) if whole.decorator is None else ""]
        if helper is not None and not callees[0] and _is_function(site, helper):
            # In a frame of its own, the helper may be split as well; else it stays in Python.
            callees.append(code(helper))
        for number, callee in enumerate(callees):
            try:
                parts = _cut(site, whole, node, callee)
            except CannotSplit:
                return
            if _only_hands_on(parts):
                return
            yield _split(site, whole, parts, number)


def _split(site: Site, whole: Compiled, parts: Cut, number: int) -> Rewrite:
    """The rewrite that splits the function so."""
    function = whole.function
    edit = split(site, function, parts, whole.decorator)
    whole.release(site, edit)
    safety, notes = whole.ceiling(site)
    count = len(parts.parts)
    graphs = "two graphs" if count == 2 else f"{count} graphs"
    note = f"splits the region: {graphs} with Python around instead of one"
    if count == 1:
        note = "one graph, with Python around it"
    return with_decorators(
        site,
        function,
        edit.rewrite(
            f"split `{function.name.value}` around what cannot be compiled",
            safety=safety,
            notes=(note, *notes),
            # A setting that keeps one graph is better than parts that something else compiles.
            rank=(60 if whole.decorator is not None else 85) + number,
            assumes=("same-questions",),
        ),
    )


def _cut(site: Site, whole: Compiled, node: cst.CSTNode, callee: str) -> Cut:
    """The function cut around what broke.

    Dynamo goes on into what a frame calls over which it passes: where it fails itself there, or
    breaks again, the call of the ``callee`` is taken out of its reach.
    """
    helper = _helper(site, node)
    stays = staying(site, node, called_in(site, node), code(helper) if helper is not None else "")
    if not callee:
        return cut(site, whole.function, stays)
    parts = cut(site, whole.function, lambda part: stays(part) or _calls(part, callee))
    body = [statement.visit(_OutOfReach(callee)) for statement in parts.body]
    return dataclasses.replace(
        parts, body=tuple(item for item in body if isinstance(item, cst.BaseStatement))
    )


def _only_hands_on(parts: Cut) -> bool:
    """Whether all that the function did is in one part, which then breaks as the function did."""
    match parts.body:
        case [
            cst.SimpleStatementLine(body=[cst.Assign()]),
            cst.SimpleStatementLine(body=[cst.Return(value=value)]),
        ]:
            pass
        case _:
            return False
    elements = value.elements if isinstance(value, cst.Tuple) else (value,)
    names = [item.value if isinstance(item, cst.Element) else item for item in elements]
    return len(parts.parts) == 1 and all(isinstance(name, cst.Name) for name in names)


def _crashing(site: Site, node: cst.CSTNode) -> str:
    """The callee of the one call in what broke, where Dynamo failed itself; else empty."""
    if site.graph_break.code != "internal-error":
        return ""
    calls = [part for part in walk(node) if isinstance(part, cst.Call)]
    if len(calls) != 1 or not isinstance(calls[0].func, cst.Name | cst.Attribute):
        return ""
    return code(calls[0].func) if _is_function(site, calls[0].func) else ""


def _is_function(site: Site, func: cst.Name | cst.Attribute) -> bool:
    """Whether a function is called: `torch.compiler.disable` changes a class in place, and wraps a
    module anew for each call.
    """
    name = func.attr.value if isinstance(func, cst.Attribute) else func.value
    fact = site.fact(func)
    return fact.kind == "function" if fact is not None else not name[:1].isupper()


def _calls(part: cst.CSTNode, callee: str) -> bool:
    return isinstance(part, cst.Call) and code(part.func) == callee


class _OutOfReach(cst.CSTTransformer):
    """``g(x)`` as ``torch.compiler.disable(g)(x)``."""

    def __init__(self, callee: str) -> None:
        super().__init__()
        self._callee = callee

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        if not _calls(original_node, self._callee):
            return updated_node
        disable = cst.parse_expression("torch.compiler.disable")
        return updated_node.with_changes(func=cst.Call(disable, [cst.Arg(updated_node.func)]))


_CLOCKS = ("time.", "datetime.")
_PROFILERS = ("torch.profiler.", "torch.autograd.profiler.")


def called_in(site: Site, node: cst.CSTNode) -> frozenset[str]:
    """The functions (not builtins) that the expression calls, by their full names."""
    called = {resolve(site.module, part.func) for part in walk(node) if isinstance(part, cst.Call)}
    return frozenset(
        name for name in called if name is not None and not name.startswith("builtins.")
    )


def _helper(site: Site, node: cst.CSTNode) -> cst.Name | cst.Attribute | None:
    """What is called where the break lies in a helper of the project; else None."""
    own = node is not site.node and isinstance(node, cst.Call)
    func = node.func if own and isinstance(node, cst.Call) else None
    return func if isinstance(func, cst.Name | cst.Attribute) else None


def staying(
    site: Site, node: cst.CSTNode, names: frozenset[str], helper: str = ""
) -> Callable[[cst.CSTNode], bool]:
    """What must stay in Python: what broke, and other calls of the same functions (or clocks), or
    of the ``helper`` in which it broke.

    Locks are taken and given back in Python, whatever else broke: an error in a part that has one
    of the two (Dynamo traces neither) would keep it, and whoever comes next would wait for ever.
    So are profilers whose object somebody reads: as Dynamo traces them, they measure nothing.
    """
    clocks = any(name.startswith(_CLOCKS) for name in names)
    loggers = {logger_of(site, part) for part in walk(node)} - {""}
    profilers = _profilers(site, node)

    def logs(part: cst.CSTNode) -> bool:
        match part:
            case cst.Call(func=cst.Attribute(value=logger, attr=cst.Name(value=level))):
                return level in LOG_METHODS and code(logger) in loggers
        return False

    def stays(part: cst.CSTNode) -> bool:
        if part is node or part in profilers or _handles_lock(part) or logs(part):
            return True
        if not isinstance(part, cst.Call):
            return False
        if helper and code(part.func) == helper:
            return True
        name = resolve(site.module, part.func)
        return name is not None and (name in names or (clocks and name.startswith(_CLOCKS)))

    return stays


def _handles_lock(node: cst.CSTNode) -> bool:
    """``lock.acquire()`` or ``lock.release()``."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="acquire" | "release"))):
            return True
    return False


def _profilers(site: Site, node: cst.CSTNode) -> list[cst.WithItem]:
    """The items of ``with torch.profiler.profile() as p`` whose object is read where it broke."""
    read = {part.value for part in walk(node) if isinstance(part, cst.Name)}
    function = site.function_of(node)
    return [
        item
        for item in (walk(function) if function is not None else ())
        if isinstance(item, cst.WithItem)
        and item.asname is not None
        and target_names(item.asname.name) & read
        and isinstance(item.item, cst.Call)
        and (resolve(site.module, item.item.func) or "").startswith(_PROFILERS)
    ]

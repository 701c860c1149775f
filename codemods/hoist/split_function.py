"""Strategy 3: what cannot be compiled is not compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import (
    Advice,
    Codemod,
    Example,
    NearMiss,
    Rewrite,
    Site,
    SiteError,
    tensor,
)

from .halves import CannotSplit, compile_decorator, cut, split, with_decorators

_X = tensor(3)


class SplitFunction(Codemod):
    """*What it does.*  Cuts a compiled function in two around a statement that must run in Python.

    The function itself is no longer compiled: it calls a first part, runs the statement, and calls
    a second part.  The parts are compiled with the original's own options.  What holds nothing to
    compile stays where it is.

    *When it applies.*  The function stands at module level or is a method, and ``@torch.compile``
    is its innermost decorator.  A break inside a ``with``, a ``try``, a loop or a branch leaves
    that statement in Python, with compiled parts inside of it, before it and behind it; so does a
    break in entering a context or fetching from an iterator.

    *Fix safety.*  Safe: the same statements run in the same order with the same values, gradients
    pass through all parts, and every caller goes through the function's old name.  The region
    becomes several graphs with Python between them: this comes after every rewrite that keeps one.

    *Refuses.*  Inner functions that share variables, ``global`` and ``del``, generators, names that
    may be unbound where they would be passed or given back, names that an ``except`` may see half
    way through a part, parts in loops that are handed another object each round, functions that
    are compiled in another way.
    """

    name = "split-function"
    codes = (
        "GB0007",
        "GB0008",
        "GB0009",
        "GB0059",
        "GB0066",
        "GB0098",
        "GB0099",
        "GB0124",
        "GB0142",
        "GB0147",
        "GB0156",
        "GB0291",
        "GB0569",
        "GB3934",
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
    near_misses = tuple(
        NearMiss(
            f"import time\nimport torch\n\n\n{source}",
            at="time.time()",
            why=why,
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
                "        x = x + 1\n        t = time.time()\n        if t > 3 and y: x = x + y\n"
                "        else: z = x * 2\n        x = x if y is None else x + z\n    return x\n",
                "z may be unbound",
            ),
            (
                "@torch.compile\ndef f(x):\n    yield x\n    t = time.time()\n    yield x + t\n",
                "a generator",
            ),
            ("def f(x):\n    y = x + 1\n    t = time.time()\n    return y + t\n", "not compiled"),
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
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        found = compiled_place(site)
        if found is None:
            return
        function, decorator, node = found
        try:
            parts = cut(site, function, _stays(site, node))
        except CannotSplit:
            return
        edit = split(site, function, parts, decorator)
        count = len(parts.parts)
        graphs = "two graphs" if count == 2 else f"{count} graphs" if count > 2 else "one graph"
        yield with_decorators(
            site,
            function,
            edit.rewrite(
                f"split `{function.name.value}` around what cannot be compiled",
                notes=(f"splits the region: {graphs} with Python around instead of one",),
                rank=60,
            ),
        )


def compiled_place(site: Site) -> tuple[cst.FunctionDef, cst.Decorator, cst.CSTNode] | None:
    """The compiled function of this file on the break's stack, its decorator, and what breaks.

    For a break in a helper, that is the call which leads there.
    """
    frames = [site.frame, *reversed(site.graph_break.frames)]
    for frame in frames:
        if frame.path != site.path:
            continue
        try:
            found = dataclasses.replace(site.graph_break, site=frame)
            outer = Site(site.path, site.source, found, site.facts, region=site.region)
        except SiteError:
            continue
        if outer.function is None or not outer.function.decorators:
            continue
        try:
            return outer.function, compile_decorator(site, outer.function), outer.node
        except CannotSplit:
            continue
    return None


_CLOCKS = ("time.", "datetime.")


def _stays(site: Site, node: cst.CSTNode) -> Callable[[cst.CSTNode], bool]:
    """What must stay in Python: what broke, and other calls of the same function (or clock)."""
    broken = {resolve(site.module, part.func) for part in walk(node) if isinstance(part, cst.Call)}
    names = {name for name in broken if name is not None and not name.startswith("builtins.")}
    clocks = any(name.startswith(_CLOCKS) for name in names)

    def stays(part: cst.CSTNode) -> bool:
        if part is node:
            return True
        if not names or not isinstance(part, cst.Call):
            return False
        name = resolve(site.module, part.func)
        return name is not None and (name in names or (clocks and name.startswith(_CLOCKS)))

    return stays

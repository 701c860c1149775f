"""Strategy 3: what cannot be compiled is not compiled."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor

from ..api.splice import Splice
from .halves import CannotSplit, Halves, Writer, compile_decorator, halves_of

_X = tensor(3)


class SplitFunction(Codemod):
    """*What it does.*  Cuts a compiled function in two around a statement that must run in Python.

    The function itself is no longer compiled: it calls a first half, runs the statement, and calls
    a second half.  Both halves are compiled with the original's own options.  A half in which
    there is nothing to compile stays where it is.

    *When it applies.*  The function stands at module level, ``@torch.compile`` is its innermost
    decorator, and the breaking statement is a simple one in the function's own block.

    *Fix safety.*  Safe: the same statements run in the same order with the same values, gradients
    pass through both halves, and every caller goes through the function's old name.  The region
    becomes two graphs with Python between them, so this comes after every rewrite that keeps one.

    *Refuses.*  Early returns before the statement, inner functions that share variables, ``global``
    and ``del``, generators, names that may be unbound, functions compiled in another way.
    """

    name = "split-function"
    codes = (
        "GB0007",
        "GB0008",
        "GB0009",
        "GB0059",
        "GB0098",
        "GB0099",
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
    )
    near_misses = tuple(
        NearMiss(
            f"import time\nimport torch\n\n\n{source}",
            at="time.time()",
            why=why,
        )
        for source, why in (
            (
                "@torch.compile\ndef f(x):\n    if x is None:\n        return 1\n"
                "    t = time.time()\n    return x + t\n",
                "returns before it gets there",
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
                "@torch.compile\ndef f(x):\n    y = x + 1\n    for i in range(3):\n"
                "        y = y + time.time()\n    return y\n",
                "in a loop",
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
                "class A:\n    @torch.compile\n    def f(self, x):\n        y = x + 1\n"
                "        t = time.time()\n        return y + t\n",
                "a method",
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
        function, statement = site.function, site.statement
        if function is None or not isinstance(statement, cst.SimpleStatementLine):
            return
        try:
            decorator = compile_decorator(site, function)
            halves = halves_of(site, function, statement)
        except CannotSplit:
            return
        yield _rewrite(site, halves, decorator)


def _rewrite(site: Site, halves: Halves, decorator: cst.Decorator) -> Rewrite:
    function = halves.function
    writer = Writer(site, decorator)
    newline = site.module.default_newline
    gap = newline * 3
    parts: list[str] = []
    own = [writer.header(function, decorator), writer.lines_of(halves.docstring)]
    for half in (halves.before, None, halves.after):
        if half is None:
            own.append(writer.lines_of(halves.middle))
        elif half.trivial:
            own.append(writer.lines_of(half.statements))
        else:
            parts.append(writer.half(half))
            own.append(writer.call(half))
    last = writer.last_line(function)
    own.append(writer.lines(site.span(function).end_line + 1, last))
    parts.insert(0, "".join(own))
    first = site.span(function.decorators[0]).line
    splice = Splice(site)
    splice.replace_lines(first, last, gap.join(part.removesuffix(newline) for part in parts))
    return splice.rewrite(
        f"split `{function.name.value}` around the statement that cannot be compiled",
        notes=("splits the region: two graphs with Python between them instead of one",),
        rank=60,
    )

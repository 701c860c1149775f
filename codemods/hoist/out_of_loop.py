"""What must run in Python leaves a loop, so that the loop can be compiled as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import libcst as cst

from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .compiled import Compiled, compiled, compiled_place
from .edge_rounds import edge_round
from .halves import CannotSplit, cut, split, with_decorators
from .rounds import Moved, kept_numbers
from .shared_rounds import shared_value
from .split_function import called_in, staying

_X = tensor(3)
_FACTS = {"x": _X, "y": _X, "loss": tensor(), "x.mean()": tensor(), "scale": scalar(2.0)}


def _source(loop: str, before: str = "losses = []", after: str = "return x, losses") -> str:
    lines = [line for part in (before, loop, after) for line in part.splitlines()]
    body = "\n".join(f"    {line}" for line in lines)
    return f"import torch\n\n\n@torch.compile\ndef f(x, n, scale, layers):\n{body}\n"


_SINES = "for i in range(n):\n    x = x.sin()"
_APPEND = f"{_SINES}\n    losses.append(x.mean().item())"
_SAVE = "    if i == n - 1:\n        torch.save(x, 'last.pt')"


def _near_miss(loop: str, why: str, at: str = "x.mean().item()", **parts: str) -> NearMiss:
    return NearMiss(_source(loop, **parts), at=at, why=why, facts=_FACTS)


class OutOfLoop(Codemod):
    """*What it does.*  Takes out of a loop what must run in Python, and compiles the loop.

    ```python
    for i in range(n):
        x = layer(x)
        losses.append(x.mean().item())
    ```
    keeps the tensors of all iterations in a list, and turns them into numbers in a second loop,
    after the first one.  A number that is the same in all iterations is read before the loop.
    ``if i == n - 1: torch.save(x, path)`` at the end of a loop goes after it, under ``if n > 0``;
    ``if i == 0: ...`` at its beginning goes before it.  Then the function is cut there, as
    `split-function` does.

    *When it applies.*  A statement that breaks only appends numbers of tensors to a list, or adds
    them to a number, and nothing else in the loop reads that; or it stands in the first or last
    iteration, as the loop's own counter tells; or it binds a name, which nothing else binds or
    reads outside of the iteration, to a pure value of what the loop does not change.

    *Fix safety.*  Safe: the numbers come from copies made where they were read, in the same order;
    the statements of the first and last iteration run at the same place among all others.

    *Refuses.*  Lists that the loop reads or that have another name, loops that change something in
    place beside (an error in a number would come too late for it), loops in a ``try``; loops that
    may be left early, bounds that may change, statements that need what only the loop binds.
    """

    name = "out-of-loop"
    codes = (
        "GB0007",
        "GB0008",
        "GB0059",
        "GB0098",
        "GB0099",
        "GB0124",
        "GB0142",
        "GB0156",
        "GB0175",
        "GB4297",
    )
    examples = (
        Example(
            _source(
                "# rounds\nfor i in range(n):\n    x = x.sin()\n    losses.append(x.mean().item())"
            ),
            """
            import torch


            def f(x, n, scale, layers):
                x, x_mean_rounds = f_before(x, n)
                losses = []
                for x_mean_round in x_mean_rounds:
                    losses.append(x_mean_round.item())
                return x, losses


            @torch.compile
            def f_before(x, n):
                # rounds
                x_mean_rounds = []
                for i in range(n):
                    x = x.sin()
                    x_mean_rounds.append(x.mean().detach().clone())
                return x, x_mean_rounds
            """,
            at="x.mean().item()",
            facts=_FACTS,
            title="numbers that are collected",
        ),
        Example(
            _source(
                "for y in layers:\n    loss = (x * y).sum()\n    x = x * y\n"
                "    # keep both\n    losses.append(round(loss.item(), 3))\n"
                "    total += scale * loss.item() + x.mean().item()\n    x = x + 1",
                before="losses = []\ntotal = 0.0",
                after="return x, losses, total",
            ),
            """
            import torch


            def f(x, n, scale, layers):
                x, loss_rounds, x_mean_rounds = f_before(x, layers)
                losses = []
                total = 0.0
                for loss_round, x_mean_round in zip(loss_rounds, x_mean_rounds):
                    # keep both
                    losses.append(round(loss_round.item(), 3))
                    total += scale * loss_round.item() + x_mean_round.item()
                return x, losses, total


            @torch.compile
            def f_before(x, layers):
                loss_rounds = []
                x_mean_rounds = []
                for y in layers:
                    loss = (x * y).sum()
                    x = x * y
                    loss_rounds.append(loss.detach().clone())
                    x_mean_rounds.append(x.mean().detach().clone())
                    x = x + 1
                return x, loss_rounds, x_mean_rounds
            """,
            at="loss.item()",
            facts=_FACTS,
            title="a list and a sum",
        ),
        Example(
            _source(
                f"for i in range(n):\n    x = x.sin()\n{_SAVE}", before="", after="return x * 2"
            ),
            """
            import torch


            def f(x, n, scale, layers):
                x = f_before(x, n)
                if n > 0:
                    torch.save(x, 'last.pt')
                return f_after(x)


            @torch.compile
            def f_before(x, n):
                for i in range(n):
                    x = x.sin()
                return x


            @torch.compile
            def f_after(x):
                return x * 2
            """,
            at="torch.save(x, 'last.pt')",
            facts={"n": scalar(3)},
            title="the last round",
        ),
        Example(
            _source(
                "for i in range(n):\n    if i == 0:\n"
                "        # once\n        torch.save(x, f'{i}.pt')\n    x = layers[i](x)",
                before="",
                after="return x * 2",
            ),
            """
            import torch


            def f(x, n, scale, layers):
                if n > 0:
                    # once
                    torch.save(x, f'{0}.pt')
                return f_after(x, n, layers)


            @torch.compile
            def f_after(x, n, layers):
                for i in range(n):
                    x = layers[i](x)
                return x * 2
            """,
            at="torch.save(x, f'{i}.pt')",
            facts={"n": scalar(3)},
            title="the first round",
        ),
        Example(
            _source(
                "for i in range(n):\n    # the same in all rounds\n    k = y.item()\n    x = x * k",
                before="",
                after="return x",
            ),
            """
            import torch


            def f(x, n, scale, layers):
                # the same in all rounds
                k = y.item() if n > 0 else None
                return f_after(x, n, k)


            @torch.compile
            def f_after(x, n, k):
                for i in range(n):
                    x = x * k
                return x
            """,
            at="y.item()",
            facts={"x": _X, "y": tensor(), "n": scalar(3), "k": scalar(2.0)},
            title="what all rounds share",
        ),
    )
    near_misses = (
        _near_miss(f"{_APPEND}\n    x = x + losses[-1]", "the loop reads the list"),
        _near_miss(_APPEND, "the list has another name", before="losses = []\nother = losses"),
        _near_miss(_APPEND, "the list is a parameter", before="losses = layers"),
        _near_miss(
            "for i in range(n):\n    x.sin_()\n    losses.append(x.mean().item())",
            "an error in the first number would come after the second change",
        ),
        _near_miss(
            "for i in range(n):\n    x = x.sin()\n    losses.append(i * x.mean().item())",
            "another number for each round",
        ),
        _near_miss(
            "for i in range(n):\n    x = x.sin()\n    losses.append(scale(x.mean().item()))",
            "a call of anything",
        ),
        _near_miss(
            "for i in range(n):\n    x = x.sin()\n    losses.append(x.mean().item())\n"
            "    if i > scale: return x, losses",
            "returns the list half way",
        ),
        _near_miss(
            "try:\n    for i in range(n):\n        x = x.sin()\n"
            "        losses.append(x.mean().item())\nexcept ValueError:\n    pass",
            "somebody may look at the list after an error",
        ),
        _near_miss(
            "for i in range(n):\n    x = x.sin()\n    losses.append(y.item())",
            "more than one number",
            at="y.item()",
        ),
        *(
            NearMiss(
                _source(f"for i in range(n):\n    {line}\n{_SAVE}", before="", after=after),
                at="torch.save(x, 'last.pt')",
                why=why,
                facts={"n": scalar(3)},
            )
            for line, after, why in (
                ("x = x.sin()\n    if scale: break", "return x * 2", "may be left early"),
                ("x = x.sin()\n    n = n - 1", "return x * 2", "the bound changes"),
                ("x = x.sin()\n    i = 3", "return x * 2", "the counter changes"),
                ("x = x.sin()", "else:\n    x = x + 1\nreturn x * 2", "something comes between"),
            )
        ),
        NearMiss(
            _source(
                "for i in range(n):\n    if i == 0:\n        torch.save(y, 'y.pt')\n    y = x * i",
                before="y = x",
                after="return y",
            ).replace("if i == 0", "if i == 1"),
            at="torch.save(y, 'y.pt')",
            why="neither the first round nor the last",
            facts={"n": scalar(3)},
        ),
        NearMiss(
            _source(
                "for i, layer in enumerate(layers):\n    if i == 0:\n"
                "        torch.save(layer, 'y.pt')\n    x = layer(x)",
                before="",
                after="return x * 2",
            ),
            at="torch.save(layer, 'y.pt')",
            why="needs what the loop binds",
            facts={"layers": Fact("list", "list")},
        ),
        NearMiss(
            _source(
                "for i, layer in enumerate(layers):\n    if i == 0:\n"
                "        torch.save(x, 'x.pt')\n    x = layer(x)",
                before="",
                after="return x * 2",
            ),
            at="torch.save(x, 'x.pt')",
            why="another time it may be a generator, which has no length",
            facts={"layers": Fact("list", "list")},
        ),
        *(
            NearMiss(
                _source(
                    f"for i in range({bound}):\n    {line}\n    if i == {bound} - 1:\n"
                    "        torch.save(x, 'last.pt')",
                    before="",
                    after="return x * 2",
                ),
                at="torch.save(x, 'last.pt')",
                why=why,
                facts={"scale": Fact("list", "list"), "layers": Fact("object", "Node")},
            )
            for bound, line, why in (
                ("len(scale)", "layers.pop()", "the list may have two names"),
                ("layers.n", "layers = layers.after", "another object's number of rounds"),
            )
        ),
    )

    near_misses += tuple(
        NearMiss(
            _source(loop, before=before, after=after),
            at="y.item()",
            why=why,
            facts={"x": _X, "y": tensor(), "n": scalar(3), "k": scalar(2.0), **facts},
        )
        for loop, before, after, why, facts in (
            (
                "for i in range(n):\n    k = y.item()\n    y = x.sum() * k",
                "",
                "return y",
                "another number in each round",
                {},
            ),
            (
                "for i in range(n):\n    k = y.item()\n    x = x * k\n    y.add_(1)",
                "",
                "return x",
                "the loop changes what is read",
                {},
            ),
            (
                "for i in range(n):\n    k = y.item()\n    x = report(x, k)",
                "",
                "return x",
                "what is called may change it",
                {},
            ),
            (
                "for i in range(n):\n    k = y.item()\n    x = x * k",
                "k = 2",
                "return x * k",
                "the name is read after a loop that may have no round",
                {},
            ),
            (
                "for i in range(n):\n    x = x * k\n    k = y.item()",
                "k = 2",
                "return x",
                "the first round reads an earlier value",
                {},
            ),
            (
                "for i in range(n):\n    if scale: break\n    k = y.item()\n    x = x * k",
                "",
                "return x",
                "the loop may be left before it is read",
                {},
            ),
            (
                "for z in layers:\n    k = y.item()\n    x = x * k",
                "",
                "return x",
                "a generator has no length",
                {"layers": Fact("list", "list")},
            ),
            (
                "for i in range(n):\n    k = y.item()\n    x = x * k",
                "last = lambda: k",
                "return x, last",
                "an inner function reads it",
                {},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        found = compiled_place(site)
        if found is None:
            return
        whole, node = found
        for way in (kept_numbers, edge_round, shared_value):
            try:
                moved = way(site, whole.function, node)
                yield _cut(site, whole, moved, _stays(moved))
            except CannotSplit:
                continue


def _stays(moved: Moved) -> Callable[[cst.CSTNode], bool]:
    if moved.node is None:
        return lambda part: part in moved.eager
    names = called_in(moved.site, moved.node)
    return staying(moved.site, moved.node, names)


def _cut(
    site: Site, whole: Compiled, moved: Moved, stays: Callable[[cst.CSTNode], bool]
) -> Rewrite:
    new = moved.site
    again = dataclasses.replace(whole, function=moved.function)
    if whole.decorator is not None:
        again = compiled(new, moved.function)
    parts = cut(new, moved.function, stays)
    edit = split(new, moved.function, parts, again.decorator)
    again.release(new, edit)
    safety, notes = whole.ceiling(site)
    rewrite = edit.rewrite(
        moved.title,
        safety=safety,
        notes=("splits the region: the loop is one graph, with Python beside it", *notes),
        rank=58 if whole.decorator is not None else 83,
    )
    touched = {site.path: (site.span(whole.function), *whole.spans(site))}
    rewrite = dataclasses.replace(rewrite, touched=touched)
    return with_decorators(site, whole.function, rewrite)

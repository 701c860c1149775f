"""Strategy 3 within one statement: the expression that cannot be compiled gets one of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .compiled import compiled, compiled_place
from .halves import CannotSplit, cut, split, with_decorators
from .lifting import Lifted, lift
from .split_function import called_in, staying

_X = dataclasses.replace(tensor(3), strides=(1,))
_MOST_OTHERS = 5


class SplitStatement(Codemod):
    """*What it does.*  Cuts a compiled function in two around an expression inside a statement.

    ``return report(x.sin()) + 1`` becomes a first compiled part with ``x.sin()``, the call of
    ``report`` in Python, and a second compiled part with ``+ 1``.

    *When it applies.*  As `split-function`, where the statement around what broke has work before
    or behind it.  The values that pass between the parts are plain tensors, numbers, strings, or
    short tuples and lists of them.

    *Fix safety.*  Safe: everything is evaluated once, in the same order.  The region becomes
    several graphs with Python between them.

    *Refuses.*  Expressions that run sometimes only (behind ``and``, in a lambda, in a
    comprehension that gives no plain value), values that cannot be handed to a compiled function,
    and everything that `split-function` refuses.
    """

    name = "split-statement"
    codes = (
        "GB0002",
        "GB0005",
        "GB0006",
        "GB0008",
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
        "GB0064",
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
    )

    examples = (
        Example(
            title="the call of a function that is not compiled",
            before="""
            import torch


            @torch.compile
            def f(x):
                # the work
                return report(x.sin()) + 1
            """,
            after="""
            import torch


            def f(x):
                x_sin = f_before(x)
                report_x_sin = report(x_sin)
                return f_after(report_x_sin)


            @torch.compile
            def f_before(x):
                # the work
                x_sin = x.sin()
                return x_sin


            @torch.compile
            def f_after(report_x_sin):
                return report_x_sin + 1
            """,
            at="report(x.sin())",
            facts={"x.sin()": _X, "report(x.sin())": _X, "report(x.sin()) + 1": _X},
        ),
        Example(
            title="a value that only Python uses",
            before="""
            import torch


            @torch.compile
            def f(x):
                return x * 2, x.numpy().tobytes()
            """,
            after="""
            import torch


            def f(x):
                x_2 = f_before(x)
                x_tobytes = x.numpy().tobytes()
                return x_2, x_tobytes


            @torch.compile
            def f_before(x):
                x_2 = x * 2
                return x_2
            """,
            at="x.numpy().tobytes()",
            facts={"x * 2": _X, "x.numpy().tobytes()": Fact("bytes", "bytes")},
        ),
        Example(
            title="a condition, and the same function again",
            before="""
            import torch
            import names


            @torch.compile
            def f(x):
                y = x * 2 if names.known("a") else x
                return y + names.known("b")
            """,
            after="""
            import torch
            import names


            def f(x):
                names_known = names.known("a")
                y = f_before(x, names_known)
                names_known_1 = names.known("b")
                return f_after(y, names_known_1)


            @torch.compile
            def f_before(x, names_known):
                y = x * 2 if names_known else x
                return y


            @torch.compile
            def f_after(y, names_known_1):
                return y + names_known_1
            """,
            at='names.known("a")',
            facts={
                'names.known("a")': scalar(True),
                'names.known("b")': scalar(1),
                'x * 2 if names.known("a") else x': _X,
                'y + names.known("b")': _X,
            },
        ),
    )
    near_misses = tuple(
        NearMiss(
            f"import torch\n\n\n@torch.compile\ndef f(x, n):\n    y = x + 1\n    {line}\n",
            at="report(y)",
            why=why,
            facts={"report(y)": scalar(2), "y * report(y)": _X, "report(y) * y": _X, **facts},
        )
        for line, why, facts in (
            ("return n and report(y) + 1", "runs sometimes only", {}),
            ("return 1 < n < report(y) * y", "runs sometimes only", {}),
            ("return y if n else y * report(y)", "runs sometimes only", {}),
            ("return lambda: y * report(y)", "runs later", {}),
            ("return [report(y) * t for t in y]", "runs several times", {}),
            ("return (m := n) * y * report(y)", "binds a name", {}),
            ("return n() * report(y)", "what comes first cannot be handed on", {}),
            ("return n.layers[report(y)](y)", "what comes first may be bound anew", {}),
            ("return h(*n, report(y) * y)", "what comes first is not plain to see", {}),
            ("n[report(y)] = y * 2", "the value comes first", {}),
            ("n.total += report(y) * y", "reads the target first", {}),
            ("return y * report(y).loss", "an object", {"report(y)": Fact("object", "Out")}),
            (
                "return y * report(y)",
                "a sparse tensor",
                {"report(y)": tensor(3), "y * report(y)": tensor(3)},
            ),
            ("return y * report(y); del n", "a name ends", {}),
            ("n = n + report(y)", "numbers alone", {"n + report(y)": scalar(2)}),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        found = compiled_place(site)
        if found is None:
            return
        whole, node = found
        function = whole.function
        try:
            names = called_in(site, node)
            lifted = _lift_others(lift(site, function, node), names)
            new = lifted.site
            again = dataclasses.replace(whole, function=lifted.function)
            if whole.decorator is not None:
                again = compiled(new, lifted.function)
            parts = cut(new, lifted.function, staying(new, lifted.node, names))
            if any(name in part.takes for part in parts.parts for name in lifted.kept):
                raise CannotSplit("a part would take what cannot be handed on")
        except CannotSplit:
            return
        edit = split(new, lifted.function, parts, again.decorator)
        again.release(new, edit)
        safety, notes = whole.ceiling(site)
        # What is left beside the read of a number is seldom worth a graph of its own.
        late = 2 if site.graph_break.code == "GB0124" else 0
        rewrite = edit.rewrite(
            f"split `{function.name.value}` around what cannot be compiled",
            safety=safety,
            notes=("splits the region: several graphs with Python around instead of one", *notes),
            rank=(59 if whole.decorator is not None else 84) + late,
            assumes=("same-questions",),
        )
        touched = {site.path: (site.span(function), *whole.spans(site))}
        yield with_decorators(site, function, dataclasses.replace(rewrite, touched=touched))


def _lift_others(lifted: Lifted, names: frozenset[str]) -> Lifted:
    """The other calls of what cannot be compiled, taken out of their statements, too."""
    for _ in range(_MOST_OTHERS):
        for node in walk(lifted.function.body):
            if (
                not isinstance(node, cst.Call)
                or resolve(lifted.site.module, node.func) not in names
            ):
                continue
            try:
                more = lift(lifted.site, lifted.function, node)
            except CannotSplit:
                continue
            lifted = dataclasses.replace(more, kept=more.kept | lifted.kept)
            break
        else:
            break
    return lifted

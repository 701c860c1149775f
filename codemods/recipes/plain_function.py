"""An ``autograd.Function`` with rules that Dynamo does not trace, without them in the region."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor

_FACTS = {"x": tensor(3)}


def _source(
    *methods: str, base: str = "torch.autograd.Function", call: str = "Double.apply(x)"
) -> str:
    inside = "\n\n".join(
        f"    @staticmethod\n    def {name}(ctx, x):\n        return x * 2" for name in methods
    )
    return (
        f"import torch\n\n\nclass Double({base}):\n{inside}\n\n\n"
        f"@torch.compile\ndef f(x):\n    return {call} + 1\n"
    )


def _with(methods: tuple[str, ...], lines: str) -> str:
    old = _source(*methods)
    new = old.replace("Double.apply", "DoubleInGraph.apply")
    at = new.index("\n\n\n@torch.compile")
    return f"{new[:at]}\n\n\nclass DoubleInGraph(torch.autograd.Function):\n{lines}{new[at:]}"


class PlainFunction(Codemod):
    """*What it does.*  Gives the region a class of its own for an ``autograd.Function`` that has a
    rule which Dynamo does not trace (``jvp``, or ``vjp`` for ``backward``): the same ``forward``
    and the same rule for gradients, and nothing else.

    *When it applies.*  The class stands in the file at module level, derives from
    ``torch.autograd.Function`` alone, and holds nothing but static methods.

    *Fix safety.*  Safe: values and gradients come from the same functions. Under forward-mode
    differentiation the call raises an error, where the original had a rule; the rewrite says so.

    *Refuses.*  Other attributes, class methods, other bases, a separate ``setup_context``.
    """

    name = "plain-function"
    codes = ("GB0144", "GB0145")
    examples = (
        Example(
            _source("forward", "backward", "jvp"),
            _with(
                ("forward", "backward", "jvp"),
                "    forward = staticmethod(Double.forward)\n"
                "    backward = staticmethod(Double.backward)\n",
            ).replace(")\n\n\n\n@", ")\n\n\n@"),
            at="Double.apply(x)",
            facts=_FACTS,
            title="a rule for forward mode",
        ),
        Example(
            _source("forward", "vjp"),
            _with(
                ("forward", "vjp"),
                "    forward = staticmethod(Double.forward)\n"
                "    backward = staticmethod(Double.vjp)\n",
            ).replace(")\n\n\n\n@", ")\n\n\n@"),
            at="Double.apply(x)",
            facts=_FACTS,
            title="another name for the gradients",
        ),
    )
    near_misses = (
        NearMiss(
            _source("forward", "backward", "jvp", base="Base"),
            at="Double.apply(x)",
            why="what it inherits is not seen",
            facts=_FACTS,
        ),
        NearMiss(
            _source("forward", "setup_context", "backward", "jvp"),
            at="Double.apply(x)",
            why="its context is set up apart",
            facts=_FACTS,
        ),
        NearMiss(
            _source("forward", "backward", "vjp"),
            at="Double.apply(x)",
            why="two rules for gradients",
            facts=_FACTS,
        ),
        NearMiss(
            _source("forward", "backward", "jvp", call="Other.apply(x)"),
            at="Other.apply(x)",
            why="a class of another file",
            facts=_FACTS,
        ),
        NearMiss(
            _source("forward", "backward", "jvp").replace(
                ":\n    @static", ":\n    rate = 2\n\n    @static", 1
            ),
            at="Double.apply(x)",
            why="an attribute that a rule may read",
            facts=_FACTS,
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        calls = [call for call in _calls(site) if not comments_in(call.func)]
        if not calls:
            return
        name = calls[0].func.value.value  # type: ignore[attr-defined]
        owner = _class(site, name)
        methods = _methods(site, owner) if owner is not None else None
        if owner is None or methods is None:
            return
        gradient = "backward" if "backward" in methods else "vjp"
        if not {"forward", gradient} <= methods or methods - {"forward", gradient, "jvp"}:
            return
        new = f"{name}InGraph"
        if new in names_in(site.module):
            return
        edit = site.edit()
        for call in calls:
            edit.replace(call.func.value, cst.Name(new))  # type: ignore[attr-defined]
        rules = {"forward": "forward", "backward": gradient}
        lines = [
            cst.parse_statement(f"{to} = staticmethod({name}.{at})") for to, at in rules.items()
        ]
        plain = cst.ClassDef(
            name=cst.Name(new),
            bases=[cst.Arg(owner.bases[0].value)],
            body=cst.IndentedBlock(lines),
            leading_lines=[cst.EmptyLine(indent=False)] * 2,
        )
        body = site.module.body
        behind = body[body.index(owner) + 1 :]
        if behind:
            edit.insert_before(behind[0], plain)
        else:
            edit.insert_after(owner, plain)
        yield edit.rewrite(
            f"give the region a `{name}` without what Dynamo does not trace",
            rank=10,
            notes=(f"under forward-mode differentiation, `{new}` raises an error",),
        )


def _calls(site: Site) -> Iterator[cst.Call]:
    """The calls of `apply` of the class that is called where it broke."""
    near = [
        call for node in (site.node, *site.ancestors(site.node), *walk(site.node))
        if (call := _apply(node)) is not None
    ]  # fmt: skip
    if not near:
        return
    name = near[0].func.value.value  # type: ignore[attr-defined]
    for node in walk(site.function or site.statement):
        call = _apply(node)
        if call is not None and call.func.value.value == name:  # type: ignore[attr-defined]
            yield call


def _apply(node: cst.CSTNode) -> cst.Call | None:
    match node:
        case cst.Call(func=cst.Attribute(value=cst.Name(), attr=cst.Name("apply"))):
            return node
    return None


def _class(site: Site, name: str) -> cst.ClassDef | None:
    found = [
        node for node in walk(site.module)
        if isinstance(node, cst.ClassDef) and node.name.value == name
    ]  # fmt: skip
    if len(found) != 1 or found[0] not in site.module.body or found[0].decorators:
        return None
    bases = found[0].bases
    if len(bases) != 1 or found[0].keywords:
        return None
    return found[0] if resolve(site.module, bases[0].value) == "torch.autograd.Function" else None


def _methods(site: Site, owner: cst.ClassDef) -> set[str] | None:
    """The static methods of a class that has nothing else but a docstring."""
    found = set()
    documented = owner.get_docstring(clean=False) is not None
    for node in owner.body.body[1:] if documented else owner.body.body:
        match node:
            case cst.FunctionDef(
                name=cst.Name(name), decorators=[cst.Decorator(decorator=cst.Name("staticmethod"))]
            ):
                found.add(name)
            case _:
                return None
    return found

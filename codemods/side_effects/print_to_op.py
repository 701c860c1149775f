"""`print` as an effectful custom operator."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import resolve
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from ..wrap.capture import is_global_object
from .effect_operator import Effect, effect_operator, with_anchor
from .effects import effect_statement


def _source(call: str) -> str:
    return f"""
import torch


def f(x, n, self=None):
    {call}
    return x + 1
"""


def _expected(call: str, signature: str, names: str, body: str) -> str:
    call, anchored, body = with_anchor(call, signature, body)
    if anchored != signature:
        signature, names = anchored, f" anchor,{names}" if names else " anchor"
    body = "\n    ".join(body.split("\n"))
    return f"""
import torch


@torch.library.custom_op("example::print_f", mutates_args=())
def print_f({signature}) -> None:
    {body}


print_f.register_fake(lambda{names}: None)
print_f.register_effect(torch.library.EffectType.ORDERED)


def f(x, n, self=None):
    {call}
    return x + 1
"""


_COUNTS = tensor(3, dtype="torch.int64")
_X = tensor(3, 4)
_GRAD = tensor(3, 4, requires_grad=True)


class PrintToOp(Codemod):
    """*What it does.*  Moves a ``print`` into a ``torch.library.custom_op`` with ordered effects.

    ```python
    print(f"loss {loss.item():.4f}", file=sys.stderr)
    ```
    becomes
    ```python
    @torch.library.custom_op("train::print_step", mutates_args=())
    def print_step(loss: torch.Tensor) -> None:
        print(f"loss {loss.item():.4f}", file=sys.stderr)


    print_step.register_fake(lambda loss: None)
    print_step.register_effect(torch.library.EffectType.ORDERED)
    ```
    and a call ``print_step(loss)``.

    *When it applies.*  The print is a statement of its own, and everything it reads can be passed
    to an operator (tensors, numbers, strings, flat lists of them) or is a global name.  ``sep``,
    ``end``, ``flush`` and ``file`` stay as they are.

    *Fix safety.*  Safe.  The very same call runs on the same values, as often and in the same
    order as in eager, under every backend.  In plain eager the operator costs some microseconds.

    *Refuses.*  Tensors whose text shows a ``grad_fn`` (compiled code has none), values that cannot
    be passed, calls inside the arguments that are not known to be pure, and everything that
    autocast could compute in another precision.
    """

    name = "print-to-op"
    codes = (
        "GB0059",
        "GB0088",
        "GB0109",
        "GB0124",
        "GB0208",
        "GB0569",
        "GB3934",
    )

    examples = tuple(
        Example(
            _source(before),
            _expected(after, signature, names, before if body is None else body),
            at=before,
            facts=facts,
            title=title,
        )
        for title, before, after, signature, names, body, facts in (
            ("a constant", 'print("step", end="")', "print_f()", "", "", None, {}),
            ("a tensor", "print(x)", "print_f(x)", "x: torch.Tensor", " x", None, {"x": _COUNTS}),
            (
                "formatted numbers, to another stream",
                'print(f"{x.sum().item():>8.3f}|{n:d}", file=None, flush=True)',
                "print_f(x, n)",
                "x: torch.Tensor, n: torch.types.Number",
                " x, n",
                None,
                {"x": _GRAD, "n": scalar(3), "x.sum().item()": scalar(1.0)},
            ),
            (
                "percent formatting of shape and type",
                'print("%s %s" % (x.shape, x.dtype))',
                "print_f(x)",
                "x: torch.Tensor",
                " x",
                None,
                {"x": _GRAD},
            ),
            (
                "attributes are passed by value",
                "print(self.step, self.loss.item())",
                "print_f(self.step, self.loss)",
                "step: torch.types.Number, loss: torch.Tensor",
                " step, loss",
                "print(step, loss.item())",
                {"self.step": scalar(3), "self.loss": tensor(requires_grad=True)},
            ),
            (
                "two attributes of one name",
                "print(self.a.n, self.b.n, n)",
                "print_f(self.a.n, self.b.n, n)",
                "n_1: torch.types.Number, n_2: torch.types.Number, n: torch.types.Number",
                " n_1, n_2, n",
                "print(n_1, n_2, n)",
                {"self.a.n": scalar(3), "self.b.n": scalar(4), "n": scalar(5)},
            ),
            (
                "a list of tensors",
                "print([t.item() for t in x])",
                "print_f(x)",
                "x: list[torch.Tensor]",
                " x",
                None,
                {
                    "x": Fact("list", "list", items=(tensor(), tensor())),
                    "[t.item() for t in x]": Fact("list", "list", items=(scalar(1.0),)),
                },
            ),
            (
                "a tuple comes back as one",
                "print(x)",
                "print_f(x)",
                "x: list[int]",
                " x",
                "print(tuple(x))",
                {"x": Fact("tuple", "tuple", items=(scalar(1), scalar(2)))},
            ),
            (
                "a scalar loss in an f-string shows no grad_fn",
                'print(f"{x:.3f}")',
                "print_f(x)",
                "x: torch.Tensor",
                " x",
                None,
                {"x": tensor(requires_grad=True)},
            ),
            (
                "a call that must stay outside is passed by value",
                "print(self.norm(x))",
                "print_f(self.norm(x))",
                "norm: torch.types.Number",
                " norm",
                "print(norm)",
                {"self.norm(x)": scalar(2.0), "x": _X},
            ),
        )
    )
    near_misses = tuple(
        NearMiss(_source(source), at=at or source, why=why, facts=facts)
        for source, at, why, facts in (
            ("print(x)", "", "the text shows a grad_fn", {"x": _GRAD}),
            ("print(x * 2)", "", "so does that of a result", {"x": _GRAD, "x * 2": _GRAD}),
            ("print(str(x))", "", "so does str()", {"x": _GRAD, "str(x)": scalar("t")}),
            ("print(n.format(x))", "", "and format()", {"x": _GRAD, "n.format(x)": scalar("t")}),
            ('print(f"{x!r}")', "", "a converted tensor", {"x": tensor(requires_grad=True)}),
            ('print(f"{x=}")', "", "a converted tensor", {"x": tensor(requires_grad=True)}),
            ("print(x)", "", "a parameter prints its class", {"x": Fact("tensor", "Parameter")}),
            ("print(x)", "", "unknown type", {}),
            ("print(self)", "", "an object", {"self": Fact("module", "Net")}),
            ("print(x.grad_fn)", "", "no autograd there", {"x": _X, "x.grad_fn": scalar(None)}),
            ("print(x.requires_grad)", "", "no autograd there", {"x": _GRAD}),
            ("print(x.data_ptr())", "", "another address", {"x": _X}),
            ("print(id(x))", "", "another object", {"x": _X}),
            ("print(type(x))", "", "another class for a Parameter", {"x": _X}),
            ("print(x.add_(1))", "", "changes its argument", {"x": _X}),
            ("print(torch.rand(2))", "", "draws random numbers", {}),
            ("print(x.std())", "", "autocast", {"x": tensor(3, dtype="torch.float16")}),
            ("print(y := x)", "", "binds a name", {"x": _X}),
            ("y = print(x)", "print(x)", "its result is used", {"x": _X}),
            ("[print(t) for t in x]", "print(t)", "no statement of its own", {"x": _X}),
            ("g = lambda: print(1)", "print(1)", "no statement of its own", {}),
            ("print(self.a.b if n else 0)", "", "may not exist", {"self.a.b": scalar(1)}),
            ("print(*x, **n)", "", "unknown arguments", {"x": _X}),
            ("self.print(x)", "", "not the builtin", {"x": _X}),
            ("print(1, file=self.log)", "", "an object", {}),
            (
                "b = (x > 0).any().item(); print(b)",
                "print(b)",
                "a bool made of a tensor passes nowhere in inductor",
                {"x": _X, "b": scalar(True)},
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        call = effect_statement(site)
        if call is None or site.function is None:
            return
        effect = print_effect(site, call)
        if effect is not None:
            yield effect_operator(site, call, effect)


def print_effect(site: Site, call: cst.Call) -> Effect | None:
    """The effect of a call of the builtin ``print``; None for any other call."""
    if resolve(site.module, call.func) != "builtins.print":
        return None
    kept: dict[cst.CSTNode, cst.CSTNode] = {call.func: call.func}
    texts = []
    for argument in call.args:
        if argument.star == "**":
            return None
        keyword = argument.keyword.value if argument.keyword is not None else ""
        if keyword == "file" and is_global_object(site, argument.value):
            kept[argument.value] = argument.value
        elif not keyword:
            texts.append((argument.value, False))
    return Effect("print", [call], kept, texts)

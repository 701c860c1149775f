"""A data-dependent ``if`` statement becomes ``torch.cond``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact, Safety

from .branches import holds_comment
from .layout import first_of_block
from .lowering import Lowering, check_later_changes
from .predicates import Refusal
from .scalars import read_inside, reads_inside, scalars
from .sites import depth_of, if_at, rest_of
from .values import Values


class IfToCond(Codemod):
    """Turns a data-dependent ``if`` into ``torch.cond``.

    **What it does**

    Both branches become functions (lambdas where each is a single expression) that return what the
    rest of the function needs: the returned value, or the names that the branches bind and that
    are used afterwards.  ``elif`` chains and nested data-dependent ``if`` statements become nested
    conds.  Python parts of a condition stay a Python ``if``.

    **When it applies**

    The test is a tensor of one element (or built from such by ``not``, ``and``, ``or``,
    comparison, ``.item()`` or ``bool()``); both branches end in the same way: by returning, by
    falling through, or one by returning where what follows the ``if`` returns too.

    **Fix safety**

    A branch that would return a tensor that lives outside it returns a copy, because the branches
    of ``torch.cond`` must not share memory with their inputs.  Parameters and inputs used only in
    the branch not taken get gradients of zero instead of ``None``.

    **Refuses**

    Branches that draw random numbers where gradients are needed (the backward of ``torch.cond``
    runs the branch again and draws others); branches that change anything in place, raise, print,
    suspend, or jump out of a loop; names
    used afterwards and bound on one path only; values that are no tensors; tests of unknown size.
    """

    name = "if-to-cond"
    codes = (
        "GB0170",
        "GB0033",
        "GB0124",
        "data-dependent-guard",
        "data-dependent-specialization",
    )
    examples = (
        Example(
            """
            import torch

            def f(x):
                if x.sum() > 0:
                    return x + 1
                return x - 1
            """,
            """
            import torch

            def f(x):
                return torch.cond(x.sum() > 0, lambda: x + 1, lambda: x - 1)
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x):
                y = x * 2

                # Positive inputs take the short way.
                if x.sum() > 0:  # often
                    return y
                z = y + 1  # the long way
                for _ in range(3):
                    z = z * y

                return z
            """,
            """
            import torch

            def f(x):
                y = x * 2

                # Positive inputs take the short way.
                def if_x_sum_above_0():  # often
                    return y.clone()

                def otherwise():
                    z = y + 1  # the long way
                    for _ in range(3):
                        z = z * y

                    return z

                return torch.cond(x.sum() > 0, if_x_sum_above_0, otherwise)
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        Example(
            """
            import torch as T

            def f(x):
                if T.isnan(x).any():
                    x = T.nan_to_num(x)
                return x
            """,
            """
            import torch as T

            def f(x):
                x = T.cond(T.isnan(x).any(), lambda: T.nan_to_num(x), lambda: x.clone())
                return x
            """,
            at="T.isnan(x).any()",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x, y):
                scale = 2.0
                if x.sum() > 0:
                    t = x * scale
                    y = y + t
                    z = t - y
                # negative
                else:
                    z = x
                return y * z
            """,
            """
            import torch

            def f(x, y):
                scale = 2.0

                def if_x_sum_above_0(y):
                    t = x * scale
                    y = y + t
                    z = t - y
                    return y, z

                # negative
                def otherwise(y):
                    z = x
                    return y.clone(), z.clone()

                y, z = torch.cond(x.sum() > 0, if_x_sum_above_0, otherwise, (y,))
                return y * z
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3), "y": tensor(3), "scale": scalar(2.0)},
        ),
        Example(
            """
            import torch

            def f(x, y):
                if x.sum() > 0:
                    r = x
                elif y.sum() > 0:
                    r = x - y
                else:
                    r = x * y
                return r
            """,
            """
            import torch

            def f(x, y):
                r = torch.cond(
                    x.sum() > 0,
                    lambda: x.clone(),
                    lambda: torch.cond(y.sum() > 0, lambda: x - y, lambda: x * y),
                )
                return r
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        Example(
            """
            import torch

            class M(torch.nn.Module):
                def forward(self, x, mask):
                    if self.training and mask.any():
                        x = x * mask
                    return x
            """,
            """
            import torch

            class M(torch.nn.Module):
                def forward(self, x, mask):
                    if self.training:
                        x = torch.cond(mask.any(), lambda: x * mask, lambda: x.clone())
                    return x
            """,
            at="mask.any()",
            facts={"x": tensor(3), "mask": tensor(3, dtype="torch.bool")},
        ),
        Example(
            """
            import torch

            def f(x, flag):
                if flag or not x.any():
                    y = x * 2
                    y = y + 1
                else:
                    y = x - 1
                return y
            """,
            """
            import torch

            def f(x, flag):
                def if_not_x_any():
                    y = x * 2
                    return y + 1

                def otherwise():
                    return x - 1

                if flag:
                    y = if_not_x_any()
                else:
                    y = torch.cond(torch.logical_not(x.any()), if_not_x_any, otherwise)
                return y
            """,
            at="x.any()",
            facts={"x": tensor(3), "flag": scalar(False)},
        ),
        Example(
            """
            import torch

            def f(x):
                total = x.abs().sum()
                if x.max().item() > 0.1 and 0.5 < total < 8:
                    return x / total
                return x
            """,
            """
            import torch

            def f(x):
                total = x.abs().sum()
                return torch.cond(
                    (x.max().double() > 0.1) & ((0.5 < total) & (total < 8)),
                    lambda: x / total,
                    lambda: x.clone(),
                )
            """,
            at="x.max().item() > 0.1",
            facts={"x": tensor(3), "total": tensor(), "x.max()": tensor()},
        ),
        Example(
            """
            import torch

            def f(batch_of_hidden_states, attention_mask, position_bias):
                if attention_mask.sum() > position_bias.sum():
                    return batch_of_hidden_states * attention_mask
                return batch_of_hidden_states + position_bias
            """,
            """
            import torch

            def f(batch_of_hidden_states, attention_mask, position_bias):
                return torch.cond(
                    attention_mask.sum() > position_bias.sum(),
                    lambda: batch_of_hidden_states * attention_mask,
                    lambda: batch_of_hidden_states + position_bias,
                )
            """,
            at="attention_mask.sum() > position_bias.sum()",
            facts={
                "batch_of_hidden_states": tensor(3),
                "attention_mask": tensor(3),
                "position_bias": tensor(3),
            },
        ),
        Example(
            """
            import torch

            def f(x):
                n = x.abs().max().item()  # the largest
                if n > 0:
                    x = x / n
                return x
            """,
            """
            import torch

            def f(x):
                n_tensor = x.abs().max()  # the largest
                x = torch.cond(n_tensor > 0, lambda: x / n_tensor.detach(), lambda: x.clone())
                return x
            """,
            at="n > 0",
            facts={"x": tensor(3), "n": scalar(2.0, constant=False), "x.abs().max()": tensor()},
        ),
        Example(
            """
            import torch

            def f(x):
                y = x.sum()
                if y > 0:
                    return x + y.item()
                return x - y.item()
            """,
            """
            import torch

            def f(x):
                y = x.sum()
                return torch.cond(y > 0, lambda: x + y.detach(), lambda: x - y.detach())
            """,
            at="y > 0",
            facts={"x": tensor(3), "y": tensor()},
        ),
        Example(
            """
            import torch

            def f(x):
                out = torch.zeros_like(x)
                if x.sum() > 0:
                    out[0] = x[1]
                    out += 1
                return out
            """,
            """
            import torch

            def f(x):
                out = torch.zeros_like(x)

                def if_x_sum_above_0(out):
                    out = out.clone()
                    out[0] = x[1]
                    out += 1
                    return out

                def otherwise(out):
                    return out.clone()

                out = torch.cond(x.sum() > 0, if_x_sum_above_0, otherwise, (out,))
                return out
            """,
            at="x.sum() > 0",
            facts={"x": tensor(3)},
        ),
        Example(
            """
            import torch

            def f(x):
                done = (x > 3).all().item()

                if not done:
                    x = x * 2
                return x
            """,
            """
            import torch

            def f(x):
                done = (x > 3).all()

                x = torch.cond(torch.logical_not(done), lambda: x * 2, lambda: x.clone())
                return x
            """,
            at="not done",
            facts={"x": tensor(3), "done": scalar(False, constant=False)},
        ),
        Example(
            """
            def f(x):
                while True:
                    if x.sum() > 8: x = x / 2
                    else: x = x.mul(3)
                    if len(x) > 2:
                        break
                return x
            """,
            """
            import torch

            def f(x):
                while True:
                    x = torch.cond(x.sum() > 8, lambda: x / 2, lambda: x.mul(3))
                    if len(x) > 2:
                        break
                return x
            """,
            at="x.sum() > 8",
            facts={"x": tensor(3)},
        ),
    )
    near_misses = (
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    y = x + 1
                return y
            """,
            at="x.sum() > 0",
            why="`y` is bound on one path only: the other raises UnboundLocalError",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    x += 1
                return x
            """,
            at="x.sum() > 0",
            why="`+=` changes the caller's tensor",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            import torch

            def f(x):
                out = torch.zeros_like(x)
                row = out[0]
                if x.sum() > 0:
                    out += 1
                return out + row
            """,
            at="x.sum() > 0",
            why="a view of the tensor that is changed exists",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    if x.max() > 3:
                        x = x * 2
                    x.mul_(2)
                return x
            """,
            at="x.sum() > 0",
            why="behind a nested if the caller's tensor is changed",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, cache):
                if x.sum() > 0:
                    cache[0] = x
                return x
            """,
            at="x.sum() > 0",
            why="a branch writes into an object from outside",
            facts={"x": tensor(3), "cache": Fact("list", "list")},
        ),
        NearMiss(
            """
            def f(self, x):
                if x.sum() > 0:
                    self.seen = x
                    x = x + 1
                return x
            """,
            at="x.sum() > 0",
            why="a branch sets an attribute",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, out):
                if x.sum() > 0:
                    out.append(x)
                    x = x + 1
                return x
            """,
            at="x.sum() > 0",
            why="a branch appends to a list from outside",
            facts={"x": tensor(3), "out": Fact("list", "list")},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    print("positive")
                    x = x + 1
                return x
            """,
            at="x.sum() > 0",
            why="a branch prints",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    raise ValueError("positive")
                return x
            """,
            at="x.sum() > 0",
            why="a branch raises",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                for i in range(3):
                    if x.sum() > 9:
                        break
                    x = x * 2
                return x
            """,
            at="x.sum() > 9",
            why="a branch leaves the loop",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                for i in range(3):
                    if x.sum() > 9:
                        return x
                    x = x * 2
                return x * 3
            """,
            at="x.sum() > 9",
            why="a return out of a loop: what follows is not the rest of a block",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    if x.max() > 3:
                        return x
                    x = x + 1
                return x * 2
            """,
            at="x.sum() > 0",
            why="a branch returns on some of its paths only",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    return x
            """,
            at="x.sum() > 0",
            why="the other way out returns None",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    scale = 2.0
                else:
                    scale = 0.5
                return x * scale
            """,
            at="x.sum() > 0",
            why="the branches give Python floats",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                n = 0
                if x.sum() > 0:
                    n = n + 1
                return x, n
            """,
            at="x.sum() > 0",
            why="the branches give Python ints",
            facts={"x": tensor(3), "n": scalar(0)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x > y:
                    return x
                return y
            """,
            at="x > y",
            why="the test has many elements: the original raises, or had one by chance",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, n):
                if n > 3:
                    n = x.max().item()
                if n > 0:
                    return x + 1
                return x - 1
            """,
            at="n > 0",
            why="the number comes from a tensor on one path only",
            facts={"x": tensor(3), "n": scalar(3), "x.max()": tensor()},
        ),
        NearMiss(
            """
            def f(x):
                for i in range(3):
                    n = x.max().item()
                    n = n + 1
                    if n > 0:
                        x = x / 2
                return x
            """,
            at="n > 0",
            why="the number is computed from what was read",
            facts={"x": tensor(3), "n": scalar(3.0), "x.max()": tensor()},
        ),
        NearMiss(
            """
            def f(x, n):
                if n > 0:
                    return x + 1
                return x - 1
            """,
            at="n > 0",
            why="the test is a Python value",
            facts={"x": tensor(3), "n": scalar(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    y = x
                x.add_(1)
                return y
            """,
            at="x.sum() > 0",
            why="the result shares memory with a tensor that is changed afterwards",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    y = x
                y += 1
                return x
            """,
            at="x.sum() > 0",
            why="the result, changed afterwards, is the caller's tensor",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, idx):
                if x.sum() > 0 and x[idx].sum() > 0:
                    return x + 1
                return x - 1
            """,
            at="x.sum() > 0",
            why="the second condition may fail where Python skips it",
            facts={"x": tensor(3), "idx": tensor(2, dtype="torch.int64")},
        ),
        NearMiss(
            """
            def f(x, flags):
                if x.sum() > 0 and flags.pop():
                    return x + 1
                return x - 1
            """,
            at="x.sum() > 0",
            why="the second condition has an effect",
            facts={"x": tensor(3), "flags": Fact("list", "list"), "flags.pop()": scalar(True)},
        ),
        NearMiss(
            """
            def f(x):
                def g():
                    return y
                y = x
                if x.sum() > 0:
                    y = x * 2
                    z = g()
                else:
                    z = x
                return z + y
            """,
            at="x.sum() > 0",
            why="a nested function reads a name that the branch binds",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                y = x * 2
                if x.sum() > 0:
                    del y
                    x = x + 1
                return x
            """,
            at="x.sum() > 0",
            why="a branch unbinds a name",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    x = x + len(locals())
                return x
            """,
            at="x.sum() > 0",
            why="a branch looks into its frame",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    yield x
                    x = x + 1
                yield x
            """,
            at="x.sum() > 0",
            why="a branch suspends",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            counter = 0

            def f(x):
                global counter
                if x.sum() > 0:
                    counter = counter + 1
                    x = x + 1
                return x
            """,
            at="x.sum() > 0",
            why="a branch binds a global name",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            import torch

            def f(x):
                if x.sum() > 0:
                    x = torch.dropout(x, 0.5, True)
                return x
            """,
            at="x.sum() > 0",
            why="cond's backward would draw other random numbers",
            facts={"x": tensor(3, requires_grad=True)},
        ),
        NearMiss(
            """
            import torch

            def f(x):
                if x.sum() > 0:
                    x = torch.relu(x, out=x)
                return x
            """,
            at="x.sum() > 0",
            why="out= changes the caller's tensor",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x is y:
                    return x
                return y
            """,
            at="x is y",
            why="identity is no question of data",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() in (1, 2):
                    return x
                return y
            """,
            at="x.sum() in (1, 2)",
            why="membership is no comparison",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, y):
                if x.sum() > 0:
                    return x, y
                return x
            """,
            at="x.sum() > 0",
            why="the branches return different structures",
            facts={"x": tensor(3), "y": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if x.sum() > 0:
                    pass
                return x
            """,
            at="x.sum() > 0",
            why="nothing to select",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            async def f(x, load):
                if x.sum() > 0:
                    x = await load(x)
                return x
            """,
            at="x.sum() > 0",
            why="a branch awaits",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x):
                if int(x.sum()) > 3:
                    return x
                return -x
            """,
            at="int(x.sum()) > 3",
            why="int() truncates: `x.sum() > 3` is another question",
            facts={"x": tensor(3)},
        ),
        NearMiss(
            """
            def f(x, t):
                if x.sum().item() > t:
                    return x
                return -x
            """,
            at="x.sum().item() > t",
            why="compared in double precision with a float that is no literal",
            facts={"x": tensor(3), "t": scalar(0.3), "x.sum()": tensor()},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = if_at(site)
        if node is None:
            return
        try:
            first, unknown = _rewrite(site, node, clone_unknown=False)
        except Refusal as refusal:
            if str(refusal):
                yield Advice(
                    f"torch.cond does not fit the `if` on line {site.span(node).line}: {refusal}."
                )
            return
        yield first
        if unknown:
            # A call whose body is not seen may hand back its input, which cond does not take.
            second, _ = _rewrite(site, node, clone_unknown=True)
            yield second


def _rewrite(site: Site, node: cst.If, *, clone_unknown: bool) -> tuple[Rewrite, bool]:
    values = Values(site)
    if holds_comment(node.test):
        raise Refusal("the condition holds a comment")
    texts: dict[str, str] = {}
    reads = scalars(site, node, values, texts)
    lowering = Lowering(site, values, clone_unknown=clone_unknown)
    block = list(site.block_of(node))
    lowered = lowering.if_(node, rest_of(site, node), depth_of(site, node), top=True)
    notes = ["Outside a compiled region torch.cond costs about 0.5 ms a call."]
    if lowering.copied:
        check_later_changes(site, node, values, lowering.copied | lowering.results)
    if lowering.kept:
        names = ", ".join(f"`{name}`" for name in sorted(lowering.kept))
        notes.append(f"Where a branch hands on {names} itself, the result is now a copy.")
    safety = Safety.SAFE
    if lowering.random:
        # Measured on torch 2.13: the backward of cond runs the branch again, with new numbers.
        if values.needs_gradients():
            raise Refusal("a branch draws random numbers, which makes gradients of cond wrong")
        safety = Safety.UNSAFE
        notes.append("A branch draws random numbers: with gradients, its backward would be wrong.")
    elif lowering.opaque:
        calls = ", ".join(f"`{text}`" for text in sorted(lowering.opaque))
        notes.append(
            f"Parameters used only by the branch not taken ({calls}) get gradients of zero instead"
            " of None; dropout in there would get wrong gradients."
        )
    statements = lowered.statements
    reads_inside(
        site, [node.body, *(s for s in (node.orelse, *lowered.swallowed) if s)], values, texts
    )
    if texts:
        statements = [read_inside(statement, texts) for statement in statements]
    if block.index(node) == 0:
        statements = first_of_block(statements)
    edit = site.edit()
    edit.replace(node, *statements)
    for read in reads:
        read.apply(edit)
    for statement in lowered.swallowed:
        edit.remove(statement)
    if values.torch_missing:
        edit.add_import("torch")
    title = "turn the data-dependent if into torch.cond"
    return edit.rewrite(title, notes=notes, rank=20, safety=safety), lowering.unknown

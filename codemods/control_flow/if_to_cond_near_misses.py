"""What looks like a case of `IfToCond` and is not."""

from __future__ import annotations

import dataclasses

from gbfix.codemod import NearMiss, scalar, tensor
from gbfix.schema import Fact

NEAR_MISSES = (
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
                x = x * 2
            return x
        """,
        at="x.sum() > 0",
        why="the caller's tensor is changed, and its name goes on to another",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        def f(x):
            if x.sum() > 0:
                x += 1
                return x
            return x * 2
        """,
        at="x.sum() > 0",
        why="a branch changes the caller's tensor, and returns",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, y):
            if x.sum() > 0:
                x.mul_(2)
                y = y + x
            return x, y
        """,
        at="x.sum() > 0",
        why="`y` shares memory with what is changed",
        facts={
            "x": dataclasses.replace(tensor(3), storage=1),
            "y": dataclasses.replace(tensor(3), storage=1),
        },
    ),
    NearMiss(
        """
        def f(self, x, g):
            if x.sum() > 0:
                self.scale = x.mean()
                x = g(x)
            else:
                self.scale = x.max()
            return x
        """,
        at="x.sum() > 0",
        why="unknown code may look at what is set",
        facts={"x": tensor(3), "self": Fact("module", "M"), "self.scale": tensor()},
    ),
    NearMiss(
        """
        def f(self, x):
            if x.sum() > 0:
                self.scale = x.mean()
            return x
        """,
        at="x.sum() > 0",
        why="the attribute may not exist where nothing sets it",
        facts={"x": tensor(3), "self": Fact("module", "M")},
    ),
    NearMiss(
        """
        def f(out, x):
            if x.sum() > 0:
                out["h"] = x + len(out)
            else:
                out["h"] = x
            return out
        """,
        at="x.sum() > 0",
        why="the dict is used as a whole, too",
        facts={"x": tensor(3), "out": Fact("dict", "dict")},
    ),
    NearMiss(
        """
        def f(x, xs):
            for y in xs:
                if y.sum() > 0:
                    if y.max() > 3:
                        continue
                    x = x + y
                x = x * 2
            return x
        """,
        at="y.sum() > 0",
        why="`continue` deeper than the loop's own block",
        facts={"x": tensor(3), "y": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, xs):
            for y in xs:
                if y.sum() > 0:
                    continue
                if x.sum() > 9:
                    break
                x = x + y
            return x
        """,
        at="y.sum() > 0",
        why="what follows leaves the loop",
        facts={"x": tensor(3), "y": tensor(3)},
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
        def f(n, t):
            if n.sum().item() > t:
                return n
            return -n
        """,
        at="n.sum().item() > t",
        why="a whole number against a float: neither dtype holds both",
        facts={
            "n": tensor(3, dtype="torch.int64"),
            "t": scalar(0.3),
            "n.sum()": tensor(dtype="torch.int64"),
        },
    ),
    NearMiss(
        """
        def f(x, outs):
            if x.sum() > 0:
                outs.append(x + 1)
            return outs
        """,
        at="x.sum() > 0",
        why="a list that grows by data",
        facts={"x": tensor(3), "outs": Fact("list", "list")},
    ),
    NearMiss(
        """
        def f(x, outs):
            if x.sum() > 0:
                outs.append(outs[-1] + x)
            else:
                outs.append(x * 2)
            return outs
        """,
        at="x.sum() > 0",
        why="the list is read where it grows",
        facts={"x": tensor(3), "outs": Fact("list", "list")},
    ),
    NearMiss(
        """
        def f(x, outs):
            if x.sum() > 0:
                outs.append(x + 1)
            else:
                outs.append(x * 2)
            return outs
        """,
        at="x.sum() > 0",
        why="a deque, or whatever has a method of that name",
        facts={"x": tensor(3), "outs": Fact("object", "collections.deque")},
    ),
    NearMiss(
        """
        def f(x, outs, on):
            if on and x.sum() > 0:
                outs.append(x + 1)
            else:
                outs.append(x * 2)
            return outs
        """,
        at="x.sum() > 0",
        why="where Python decides, the item has to be appended, too",
        facts={"x": tensor(3), "outs": Fact("list", "list"), "on": scalar(True)},
    ),
    NearMiss(
        """
        def f(x, ts, g):
            if any(g(t) for t in ts):
                x = x + 1
            return x
        """,
        at="any(g(t) for t in ts)",
        why="unknown code answers",
        facts={"x": tensor(3), "ts": Fact("list", "list"), "t": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, ts, g):
            if any(t.max() > 0 for t in ts):
                x = x + 1
            return x
        """,
        at="any(t.max() > 0 for t in ts)",
        why="max of nothing fails, where any() may not come to it",
        facts={"x": tensor(3), "ts": Fact("list", "list"), "t": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, ts, g):
            if any(t > 0 for t in ts):
                x = x + 1
            return x
        """,
        at="any(t > 0 for t in ts)",
        why="each has many elements",
        facts={"x": tensor(3), "ts": Fact("list", "list"), "t": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, ts, g):
            if any(t.any() for t in ts if t is not None):
                x = x + 1
            return x
        """,
        at="any(t.any() for t in ts if t is not None)",
        why="some are left out",
        facts={"x": tensor(3), "ts": Fact("list", "list"), "t": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, ts, g):
            if any(t.any() for t in g(ts)):
                x = x + 1
            return x
        """,
        at="any(t.any() for t in g(ts))",
        why="it is not known what the loop iterates over",
        facts={"x": tensor(3), "ts": Fact("list", "list"), "t": tensor(3)},
    ),
    *(
        NearMiss(
            f"""
            def f(x, t, n):
                if t in {items}:
                    x = x.exp()
                return x
            """,
            at=f"t in {items}",
            why=why,
            facts={"x": tensor(3), "n": scalar(1), "t": fact},
        )
        for items, why, fact in (
            ("(1, 2)", "many elements have no one truth", tensor(3, dtype="torch.int64")),
            ("(1, 2)", "a float may be near a number", tensor()),
            ("(1, n)", "it is not known what else is compared", tensor(dtype="torch.int64")),
            ("(1, 300)", "300 is no number of eight bits", tensor(dtype="torch.uint8")),
            ("()", "nothing is compared", tensor(dtype="torch.int64")),
        )
    ),
    *(
        NearMiss(
            f"""
            import torch

            def f(x, y, xs):
                make = Output
                if x.sum() > 0:
                    {one}
                else:
                    {other}
                return out.loss
            """,
            at="x.sum() > 0",
            why=why,
            facts={
                "x": tensor(3),
                "y": tensor(3),
                "xs": Fact("list", "list", items=(tensor(3), tensor(3))),
                **{
                    text: Fact("tuple", "mine.Output")
                    for line in (one, other)
                    for text in [line.rpartition("out = ")[2]]
                },
            },
        )
        for one, other, why in (
            ("out = Output(x, y)", "out = Other(y, x)", "other classes"),
            ("out = Output(x)", "out = Output(y, x)", "more arguments"),
            ("out = Output(a=x, b=y)", "out = Output(b=x, a=y)", "arguments in another order"),
            ("out = Output(a=x, b=1)", "out = Output(a=y, b=2)", "a number that differs"),
            ("out = Output(*xs)", "out = Output(x, y)", "arguments out of a list"),
            ("make = Other; out = make(x, y)", "out = make(y, x)", "another callee by then"),
            ("out = Output(x, y)", "out = Output(x, y)", "both the same"),
        )
    ),
)

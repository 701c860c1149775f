"""Examples and near misses of ``while-to-loop``."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor

_OUT = 12 * " "
_IN = 16 * " "

EXAMPLES = (
    Example(
        """
        import torch

        def f(x, limit):
            steps = torch.zeros(())
            # Halve until it fits.
            while x.abs().max() > limit:
                half = x * 0.5  # exact
                x = half - 0.0
                steps = steps + 1
            return x, steps
        """,
        """
        import torch

        def f(x, limit):
            steps = torch.zeros(())

            # Halve until it fits.
            def step(x, steps):
                half = x * 0.5  # exact
                x = half - 0.0
                steps = steps + 1
                return x, steps

            runs = x.abs().max() > limit
            first_x = x
            first_steps = steps
            x, steps = torch.while_loop(
                lambda x, steps: x.abs().max() > limit,
                step,
                (x, steps),
            )
            x = torch.where(runs, x, first_x)
            steps = torch.where(runs, steps, first_steps)
            return x, steps
        """,
        at="x.abs().max() > limit",
        facts={"x": tensor(3), "steps": tensor(), "limit": scalar(1.0)},
    ),
    Example(
        """
        import torch

        def f(x):
            while (x > 1).any():
                x = x - 1
            return x
        """,
        """
        import torch

        def f(x):

            def step(x):
                x = x - 1
                return (x,)

            runs = (x > 1).any()
            first_x = x
            (x,) = torch.while_loop(lambda x: (x > 1).any(), step, (x,))
            x = torch.where(runs, x, first_x)
            return x
        """,
        at="(x > 1).any()",
        facts={"x": tensor(3)},
    ),
    Example(
        """
        import torch

        def f(x):
            y = x
            while True:
                new = y.clamp(max=4) * 0.5
                # Close enough.
                if (new - y).abs().max() < 1e-3:
                    break
                y = new
            return y
        """,
        """
        import torch

        def f(x):
            y = x

            def step(y, done):
                new = y.clamp(max=4) * 0.5
                # Close enough.
                done = (new - y).abs().max() < 1e-3
                y = torch.where(done, y, new)
                return y, done

            y, _ = torch.while_loop(
                lambda y, done: torch.logical_not(done),
                step,
                (y, torch.tensor(False, device=y.device)),
            )
            return y
        """,
        at="(new - y).abs().max() < 1e-3",
        facts={"x": tensor(3), "y": tensor(3), "new": tensor(3)},
    ),
    Example(
        """
        import torch

        @torch.no_grad()
        def f(a, v):
            v = v / v.norm()
            change = v.sum() + 1
            while change > 0.001:
                new = a @ v
                change = (new - v).norm()
                v = new / new.norm()
            return v
        """,
        """
        import torch

        @torch.no_grad()
        def f(a, v):
            v = v / v.norm()
            change = v.sum() + 1

            def step(change, v):
                new = a @ v
                change = (new - v).norm()
                v = new / new.norm()
                return change, v

            _, v = torch.while_loop(lambda change, v: change > 0.001, step, (change, v))
            return v
        """,
        at="change > 0.001",
        facts={"a": tensor(3, 3), "v": tensor(3), "change": tensor(), "new": tensor(3)},
    ),
    Example(
        """
        import torch

        def f(ids, n):
            i = 0
            while i < 10 and ids.sum() < n:
                ids = ids + i
                i += 2
            else:
                # All there.
                ids = -ids
            return ids
        """,
        """
        import torch

        def f(ids, n):
            i = 0

            def step(ids, i):
                ids = ids + i
                i = i + 2
                return ids, i

            runs = (i < 10) & (ids.sum() < n)
            first_ids = ids
            ids, _ = torch.while_loop(
                lambda ids, i: (i < 10) & (ids.sum() < n),
                step,
                (ids, torch.tensor(i, device=ids.device)),
            )
            ids = torch.where(runs, ids, first_ids)
            # All there.
            ids = -ids
            return ids
        """,
        at="ids.sum() < n",
        facts={"ids": tensor(3), "i": scalar(0, constant=False), "n": tensor()},
    ),
    Example(
        """
        import torch

        def f(ids, k):
            n = 0
            while (ids > 1).any():
                n += 1
                ids = ids // 2
                # Not yet.
                if ids.sum() > 9:
                    continue  # later
                ids = ids - 1
            return k / n
        """,
        """
        import torch

        def f(ids, k):
            n = 0

            def step(n, ids):
                n = n + 1
                ids = ids // 2
                # Not yet.
                # later
                skips = ids.sum() > 9
                ids = torch.where(skips, ids, ids - 1)
                return n, ids

            n, _ = torch.while_loop(
                lambda n, ids: (ids > 1).any(),
                step,
                (torch.tensor(n, device=ids.device), ids),
            )
            return k / n
        """,
        at="(ids > 1).any()",
        facts={
            "ids": tensor(3, dtype="torch.int64"),
            "ids // 2": tensor(3, dtype="torch.int64"),
            "k": tensor(3),
            "n": scalar(0, constant=False),
        },
    ),
    Example(
        """
        import torch

        def f(ids, k):
            while (ids > 1).any():
                ids = ids - 1
                # Both at once.
                if ids.sum() > k:
                    ids = ids - 2
                    k = k - 1
            return k
        """,
        """
        import torch

        def f(ids, k):

            def step(ids, k):
                ids = ids - 1
                # Both at once.
                ids_sum_above_k = ids.sum() > k
                ids = torch.where(ids_sum_above_k, ids - 2, ids)
                k = torch.where(ids_sum_above_k, k - 1, k)
                return ids, k

            _, k = torch.while_loop(lambda ids, k: (ids > 1).any(), step, (ids, k))
            return k
        """,
        at="(ids > 1).any()",
        facts={
            "ids": tensor(3, dtype="torch.int64"),
            "ids - 2": tensor(3, dtype="torch.int64"),
            "k": tensor(dtype="torch.int64"),
        },
    ),
    Example(
        """
        import torch

        def f(x, g):
            rate = 1.0
            while (x - rate * g).sum() < 0 and rate > 0.001:
                rate *= 0.5
            return x - rate * g
        """,
        """
        import torch

        def f(x, g):
            rate = 1.0

            def step(rate):
                rate = rate * 0.5
                return (rate,)

            (rate,) = torch.while_loop(
                lambda rate: ((x - rate * g).sum() < 0) & (rate > 0.001),
                step,
                (torch.tensor(rate, device=g.device),),
            )
            return x - rate * g
        """,
        at="(x - rate * g).sum() < 0",
        facts={"x": tensor(3), "g": tensor(3), "rate": scalar(1.0, constant=False)},
    ),
)
NEAR_MISSES = tuple(
    NearMiss(
        f"""
        import torch

        def f(x, n, r, g):
            while x.sum() > 1:
                {body}
            {rest}
        """,
        at="x.sum() > 1",
        why=why,
        facts={
            "x": tensor(3),
            "n": scalar(0, constant=False),
            "r": scalar(0.5, constant=False),
            "w": tensor(2, 3),
        },
    )
    for body, rest, why in (
        ("x = x - 1; n = n + 1", "return x, n", "the counter itself is a result"),
        ("x = x[n:]; n = n + 1", "return x", "the counter is an index"),
        ("x = x ** n; n = n + 1", "return x", "a power of a number is not one of a tensor"),
        ("x = x - 1; n = n / 2", "return x", "a float is carried"),
        ("x = x - n; n = len(x)", "return x", "more than counting"),
        ("x = x * (1 / (n + 1)); n += 1", "return x", "Python divides in double precision"),
        ("x = x - 1; n += 1", "return x[n]", "the counter is an index afterwards"),
        ("x = x - 1; n += 1", "return x * 2**n", "a power of the counter afterwards"),
        ("x = x - r; r = r / 3 ** n", "return x", "a float that Python computes"),
        ("x = x - r * x.sum(); r *= 0.9", "return x", "without dimensions, float64 counts"),
        ("x = x - 1 / r; r *= 0.5", "return x", "Python fails to divide by zero"),
        ("x = x - r; r *= 0.5", "return x, r", "the float itself is a result"),
        ("x = x - r; r = min(r, 0.5)", "return x", "a function of the float"),
        ("x.sub_(1)", "return x", "the caller's tensor is changed"),
        ("x -= 1", "return x", "the caller's tensor is changed by an operator"),
        ("x = x - 1; print(x)", "return x", "the body prints"),
        ("x = g(x)", "return x", "it is not known what the body does"),
        ("x = x - torch.rand(3)", "return x", "the body draws random numbers"),
        ("x = x - 1; y = x", "return y", "a name is bound only where the loop runs"),
        ("x = x - 1; break", "return x", "the body leaves the loop"),
        (
            "x = x - 1\n" + _IN + "if x.max() > 1: continue\n" + _IN + "x = x[:2]",
            "return x",
            "what follows an early next round has another shape",
        ),
        (
            "if x.max() > 1: continue\n" + _IN + "x = torch.linalg.inv(x)",
            "return x",
            "what follows an early next round may fail where it is skipped",
        ),
        (
            "if n: continue\n" + _IN + "x = x - 1",
            "return x",
            "Python decides about the next round",
        ),
        (
            "if x.max() > 1: y = x * 2\n" + _IN + "x = x - y",
            "return x",
            "bound behind a test, and read after it",
        ),
        (
            "if x.max() > 1:\n" + _IN + "    if n: break\n" + _IN + "x = x - 1",
            "return x",
            "deep",
        ),
        ("if (x > 1).any(): break\n" + _IN + "x = w", "return x", "where would broadcast"),
        ("if (x > 1).any(): break\n" + _IN + "x, n = -x, n", "return x", "a tuple is bound"),
        ("if x.max() > 1: break\n" + _IN + "print(x); x = -x", "return x", "a print"),
        (
            "if x.max() > 1: break\n" + _IN + "x = x - 1\n" + _OUT + "else: x = x + 1",
            "return x",
            "else",
        ),
        ("with torch.no_grad(): x = x.log_()", "return x", "in place, inside a with"),
        ("return x", "return x", "the body leaves the function"),
        ("x = x - 1", "x.add_(1); return 0", "the tensor is changed afterwards"),
        ("x = x - 1", "return lambda: x", "a closure reads the name later"),
    )
)

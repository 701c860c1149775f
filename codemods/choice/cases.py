"""Examples and near misses of `lower_choice`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

EXAMPLES = (
    Example(
        """
        import torch

        def matched(x, best, every: bool):
            _, places = x.max(1)
            for i in range(3):
                if x[i].amax() > 0:
                    if every:
                        mask = best == i
                        best[mask] = 7
                    else:
                        best[places[i]] = 7
            return best
        """,
        """
        import torch

        def matched(x, best, every: bool):
            _, places = x.max(1)
            for i in range(3):
                x_item_amax_above_0 = x[i].amax() > 0
                if every:
                    mask_then = best == i
                    best[mask_then & x_item_amax_above_0] = 7
                else:
                    best[places[i]] = torch.where(x_item_amax_above_0, 7, best[places[i]])
            return best
        """,
        at="x[i].amax() > 0",
        title="a name of a block of Python's, a mask, and a place that a maximum has",
        facts={
            "x": tensor(3, 4),
            "x[i].amax()": tensor(),
            "best": tensor(4, dtype="torch.int64"),
            "best == i": tensor(4, dtype="torch.bool"),
            "mask": tensor(4, dtype="torch.bool"),
            "places": tensor(3, dtype="torch.int64"),
            "places[i]": tensor(dtype="torch.int64"),
            "every": scalar(True, constant=False),
        },
    ),
    Example(
        """
        import torch

        def total(x, mask, w):
            x = x * 2 if w != 0 and (mask is None or mask.sum() > 0) else x
            if mask is not None and (w or mask.any()):
                x = x + 1
            return x
        """,
        """
        import torch

        def total(x, mask, w):
            x = (x * 2 if mask is None else torch.where(mask.sum() > 0, x * 2, x)) if w != 0 else x
            if mask is not None:
                if w:
                    x = x + 1
                else:
                    x = torch.where(mask.any(), x + 1, x)
            return x
        """,
        at="mask.sum() > 0",
        title="Python asks, and asks again beside a tensor",
        facts={
            "x": tensor(3),
            "mask": tensor(3, dtype="torch.bool"),
            "w": scalar(1, constant=False),
        },
    ),
    Example(
        """
        import torch

        def next_step(h, error):
            if error > 1:
                factor = 0.2
            elif error == 0:
                factor = 5.0
            elif (factor := 0.9 * error.rsqrt()) > 5.0:
                factor = 4.0
            return h * factor
        """,
        """
        import torch

        def next_step(h, error):
            error_above_1 = error > 1
            error_equals_0 = error == 0
            factor_else = 0.9 * torch.where(~error_above_1 & ~error_equals_0, error, 1).rsqrt()
            factor = torch.where(
                error_above_1,
                0.2,
                torch.where(
                    error_equals_0,
                    5.0,
                    torch.where(factor_else > 5.0, 4.0, factor_else),
                ),
            )
            return h * factor
        """,
        at="error == 0",
        title="a name that the test of a branch within a branch binds",
        facts={"h": tensor(), "error": tensor(), "factor": tensor()},
    ),
    Example(
        """
        import torch

        class Mean(torch.nn.Module):
            def update(self, x):
                if self.until is not None and self.count >= self.until:
                    return
                size = x.shape[0]
                batch = x.mean(0)
                count = self.count + size
                delta = batch - self.mean
                step = delta * size
                step = step / count
                kept = self.mean * 2
                kept = kept - self.mean
                self.mean = kept + step
                self.count = count
        """,
        """
        import torch

        class Mean(torch.nn.Module):
            def update(self, x):
                count_at_least_until = (self.count >= self.until if self.until is not None else torch.zeros((), dtype=torch.bool, device=self.count.device))
                size = x.shape[0]
                batch = x.mean(0)
                count = self.count + size
                delta = batch - self.mean
                step = delta * size
                step = step / count
                kept = self.mean * 2
                kept = kept - self.mean
                self.mean = torch.where(count_at_least_until, self.mean, kept + step)
                self.count = torch.where(count_at_least_until, self.count, count)
        """,  # noqa: E501
        at="self.count >= self.until",
        facts={
            "x": tensor(4, 3),
            "self.count": tensor(dtype="torch.int64"),
            "self.until": scalar(3),
            "x.mean(0)": tensor(3),
            "self.mean": tensor(3),
            "x.shape[0]": scalar(4),
            "self.count + size": tensor(dtype="torch.int64"),
            "kept + step": tensor(3),
            "count": tensor(dtype="torch.int64"),
            "step": tensor(3),
            "delta": tensor(3),
            "batch": tensor(3),
            "kept": tensor(3),
            "delta * size": tensor(3),
            "self.count >= self.until": tensor(dtype="torch.bool"),
        },
        title="a limit that may be there, and what follows is long",
    ),
    Example(
        """
        import torch

        class Block:
            def squashed(self, h):
                return h.tanh() * self.scale

            def forward(self, x):
                if x.abs().max() > 1:
                    x = self.squashed(x)
                return x
        """,
        """
        import torch

        class Block:
            def squashed(self, h):
                return h.tanh() * self.scale

            def forward(self, x):
                x_abs_max_above_1 = x.abs().max() > 1
                x = torch.where(
                    x_abs_max_above_1,
                    self.squashed(torch.where(x_abs_max_above_1, x, 1)),
                    x,
                )
                return x
        """,
        at="x.abs().max() > 1",
        facts={"x": tensor(3)},
        title="a method that only computes",
    ),
    Example(
        """
        import torch

        class Book(torch.nn.Module):
            def start(self, x):
                if self.started:
                    return
                self.started.fill_(True)
                self.codes.copy_(x).view_as(x)
        """,
        """
        import torch

        class Book(torch.nn.Module):
            def start(self, x):
                was_started = self.started.clone()
                self.started.masked_fill_(~was_started, True)
                self.codes.copy_(torch.where(was_started, self.codes, x))
        """,
        at="self.started",
        facts={
            "x": tensor(3),
            "self": Fact("module", "Book"),
            "self.started": tensor(dtype="torch.bool"),
            "self.codes": tensor(3),
        },
        title="what is done once, behind a return",
    ),
    Example(
        """
        import torch

        def f(x, y, early):
            if x.sum() > 0:
                x = x + y
                if early:
                    return x
                x = x * 2
            return x - y
        """,
        """
        import torch

        def f(x, y, early):
            if early:
                x_then = x + y
                return torch.where(x.sum() > 0, x_then, x - y)
            x_then = x + y
            x_then_1 = x_then * 2
            return torch.where(x.sum() > 0, x_then_1 - y, x - y)
        """,
        at="x.sum() > 0",
        facts={"x": tensor(3), "y": tensor(3), "early": scalar(False, constant=False)},
        title="Python says whether a branch returns",
    ),
    Example(
        """
        import torch

        def f(x, y):
            if any((sorted((x.sum(), y.sum()))[0] > 0, max(x.max(), 2) > 3)):
                x = x - y
            return x
        """,
        """
        import torch

        def f(x, y):
            x = torch.where(
                (torch.where(y.sum() < x.sum(), y.sum(), x.sum()) > 0) | (x.max().clamp(min=2) > 3),
                x - y,
                x,
            )
            return x
        """,
        at="sorted((x.sum(), y.sum()))",
        facts={"x": tensor(3), "y": tensor(3)},
        title="what Python picks of several numbers",
    ),
    Example(
        """
        import torch

        class Block(torch.nn.Module):
            def forward(self, x):
                y = torch.tanh(x)
                if self.use_skip and y.mean() > self.threshold:
                    out = x + y
                elif self.use_skip:
                    out = x + 0.1 * y
                else:
                    out = y
                return out * 2
        """,
        """
        import torch

        class Block(torch.nn.Module):
            def forward(self, x):
                y = torch.tanh(x)
                if self.use_skip:
                    out = torch.where(y.mean() > self.threshold, x + y, x + 0.1 * y)
                else:
                    out = y
                return out * 2
        """,
        at="y.mean() > self.threshold",
        facts={
            "x": tensor(3, 4),
            "y": tensor(3, 4),
            "y.mean() > self.threshold": tensor(dtype="torch.bool"),
            "self.use_skip": scalar(True, constant=False),
            "self.threshold": scalar(0.5),
            "self": Fact("module", "Block"),
        },
        title="an `elif` that asks again what Python knows",
    ),
    Example(
        """
        import torch

        def f(wave, threshold: float = 0.9):
            peak = wave.abs().max()
            if peak > threshold:
                return wave * (threshold / peak)
            return torch.tanh(wave)
        """,
        """
        import torch

        def f(wave, threshold: float = 0.9):
            peak = wave.abs().max()
            peak_above_threshold = peak > threshold
            return torch.where(
                peak_above_threshold,
                wave * (threshold / torch.where(peak_above_threshold, peak, 1)),
                torch.tanh(wave),
            )
        """,
        at="peak > threshold",
        facts={"wave": tensor(2, 400), "peak": tensor(), "threshold": scalar(0.9)},
    ),
    Example(
        """
        import torch
        from torch import nn

        class Plateau(nn.Module):
            def __init__(self, patience=2):
                super().__init__()
                self.patience = patience
                self.register_buffer("best", torch.tensor(float("inf")))
                self.register_buffer("bad", torch.tensor(0))

            @torch.no_grad()
            def forward(self, loss):
                if loss < self.best:
                    self.best = loss.clone()
                    self.bad.zero_()
                else:
                    # one more without progress
                    self.bad += 1
                return self.bad > self.patience
        """,
        """
        import torch
        from torch import nn

        class Plateau(nn.Module):
            def __init__(self, patience=2):
                super().__init__()
                self.patience = patience
                self.register_buffer("best", torch.tensor(float("inf")))
                self.register_buffer("bad", torch.tensor(0))

            @torch.no_grad()
            def forward(self, loss):
                loss_below_best = loss < self.best
                self.best = torch.where(loss_below_best, loss.clone(), self.best)
                self.bad.masked_fill_(loss_below_best, 0)
                # one more without progress
                self.bad += torch.where(loss_below_best, 0, 1)
                return self.bad > self.patience
        """,
        at="loss < self.best",
        facts={"loss": tensor()},
    ),
    Example(
        """
        import torch

        def f(x):
            m = x.mean()
            if m > 1:
                y = x * 0.5
            elif m > 0:
                y = x
            else:
                y = -x
            return y
        """,
        """
        import torch

        def f(x):
            m = x.mean()
            y = torch.where(m > 1, x * 0.5, torch.where(m > 0, x, -x))
            return y
        """,
        at="m > 1",
        facts={"x": tensor(3), "m": tensor()},
    ),
    Example(
        """
        import torch

        def f(x, limit: float = 1.0, flag=True):
            norm = x.norm()
            if flag and norm > limit:
                x = x / norm
            return x
        """,
        """
        import torch

        def f(x, limit: float = 1.0, flag=True):
            norm = x.norm()
            if flag:
                norm_above_limit = norm > limit
                x = torch.where(norm_above_limit, x / torch.where(norm_above_limit, norm, 1), x)
            return x
        """,
        at="norm > limit",
        facts={"x": tensor(3), "norm": tensor(), "flag": scalar(True), "limit": scalar(1.0)},
    ),
    Example(
        """
        import torch

        def f(avg, value, fast: float = 0.5, sa: float = 0.99):
            drift = (value - avg).abs().mean()
            beta = fast if drift > 1.0 else slow
            return beta * avg + (1 - beta) * value
        """,
        """
        import torch

        def f(avg, value, fast: float = 0.5, sa: float = 0.99):
            drift = (value - avg).abs().mean()
            beta = torch.where(drift > 1.0, torch.full((), fast, dtype=torch.float64), slow)
            return beta * avg + (1 - beta) * value
        """,
        at="drift > 1.0",
        facts={
            "avg": tensor(3),
            "value": tensor(3),
            "drift": tensor(),
            "fast": scalar(0.5),
            "slow": scalar(0.99),
        },
    ),
    Example(
        """
        import torch

        def f(x, layers):
            for layer in layers:
                h = x * layer
                if h.abs().mean() < 0.1:
                    continue
                x = x + h
            return x
        """,
        """
        import torch

        def f(x, layers):
            for layer in layers:
                h = x * layer
                x = torch.where(h.abs().mean() < 0.1, x, x + h)
            return x
        """,
        at="h.abs().mean() < 0.1",
        facts={"x": tensor(3), "h": tensor(3), "layer": tensor(3)},
    ),
    Example(
        """
        import torch

        def f(img):
            peak = img.max().item()
            if peak > 1000:
                return img.float() / 4095
            return img.float() / 255
        """,
        """
        import torch

        def f(img):
            peak = img.max()
            return torch.where(peak.double() > 1000, img.float() / 4095, img.float() / 255)
        """,
        at="peak > 1000",
        facts={"img": tensor(3, dtype="torch.int64"), "img.max()": tensor(dtype="torch.int64")},
    ),
    Example(
        """
        from typing import NamedTuple

        import torch

        class Stats(NamedTuple):
            centre: torch.Tensor
            spread: torch.Tensor

        def f(x):
            if x.abs().max() > 10:
                return Stats(x.median(), x.abs().mean())
            return Stats(x.mean(), x.std())
        """,
        """
        from typing import NamedTuple

        import torch

        class Stats(NamedTuple):
            centre: torch.Tensor
            spread: torch.Tensor

        def f(x):
            x_abs_max_above_10 = x.abs().max() > 10
            return Stats(
                torch.where(x_abs_max_above_10, x.median(), x.mean()),
                torch.where(x_abs_max_above_10, x.abs().mean(), x.std()),
            )
        """,
        at="x.abs().max() > 10",
        facts={"x": tensor(3)},
    ),
    Example(
        """
        import torch

        def f(img, k):
            steps = [lambda t: t * k.mean() if (k != 1).any() else t]
            for step in steps:
                img = step(img)
            return img
        """,
        """
        import torch

        def f(img, k):
            steps = [lambda t: torch.where((k != 1).any(), t * k.mean(), t)]
            for step in steps:
                img = step(img)
            return img
        """,
        at="(k != 1).any()",
        facts={"k": tensor(2), "t": tensor(2, 3)},
    ),
    Example(
        """
        import torch

        def f(grads, limit: float = 1.0):
            if any(g.isnan().any() for g in grads):
                grads = [torch.zeros_like(g) for g in grads]
            return grads
        """,
        """
        import torch

        def f(grads, limit: float = 1.0):
            stack_any = torch.stack([g.isnan().any() for g in grads]).any()
            grads = [torch.where(stack_any, torch.zeros_like(g), g) for g in grads]
            return grads
        """,
        at="any(g.isnan().any() for g in grads)",
        facts={"g": tensor(2), "grads": Fact("list", "list")},
    ),
    Example(
        """
        import torch

        def bias(x, mask):
            if mask.any():
                return mask.float() * -1e9
            return None
        """,
        """
        import torch

        def bias(x, mask):
            return mask.float() * -1e9
        """,
        at="mask.any()",
        facts={"mask": tensor(2, dtype="torch.bool")},
    ),
    Example(
        """
        import torch

        def f(x, kind):
            match kind:
                case "relu" if x.sum() > 0:
                    x = x.relu()
                # Whatever its sum is.
                case "relu" | "leaky":
                    x = x * 0.1
            return x
        """,
        """
        import torch

        def f(x, kind):
            if kind == "relu":
                x_sum_above_0 = x.sum() > 0
                x_else = x
                # Whatever its sum is.
                if kind == "relu" or kind == "leaky":
                    x_else = x_else * 0.1
                x = torch.where(x_sum_above_0, x.relu(), x_else)
            else:
                # Whatever its sum is.
                if kind == "relu" or kind == "leaky":
                    x = x * 0.1
            return x
        """,
        at="x.sum() > 0",
        facts={"x": tensor(3), "kind": scalar("relu", constant=False)},
        title="a guard of a `case`",
    ),
    Example(
        """
        import torch

        def f(x, y):
            count = (x > 0).sum()
            match count:
                case 0:
                    x = y
                case _:
                    x = x * 2
            return x
        """,
        """
        import torch

        def f(x, y):
            count = (x > 0).sum()
            x = torch.where(count == 0, y, x * 2)
            return x
        """,
        at="match count:",
        facts={"x": tensor(3), "y": tensor(3), "count": tensor(dtype="torch.int64")},
        title="a `match` of a number in a tensor",
    ),
    Example(
        """
        import torch

        def f(x, y, w):
            if y.sum() > 0:
                if x.sum() > 0:
                    w = y - 1
                    x = w * 2
            else:
                x = w + 3
            return x
        """,
        """
        import torch

        def f(x, y, w):
            w_then = y - 1
            x = torch.where(y.sum() > 0, torch.where(x.sum() > 0, w_then * 2, x), w + 3)
            return x
        """,
        at="y.sum() > 0",
        facts={"x": tensor(3), "y": tensor(3), "w": tensor(3)},
        title="a name of one branch that another reads as it was",
    ),
)

_NEAR_MISSES = (
    NearMiss(
        """
        import torch

        class Mean(torch.nn.Module):
            def update(self, x):
                if self.fitted and self.mean.abs().max() > 3:
                    return
                size = x.shape[0]
                batch = x.mean(0)
                count = self.count + size
                delta = batch - self.total
                step = delta * size
                step = step / count
                kept = self.total * 2
                kept = kept - self.total
                self.total = kept + step
                self.count = count
        """,
        at="self.mean.abs().max() > 3",
        facts={
            "x": tensor(4, 3),
            "self.count": tensor(dtype="torch.int64"),
            "self.mean": tensor(3),
            "self.mean.abs().max()": tensor(),
            "x.mean(0)": tensor(3),
            "self.total": tensor(3),
            "self.mean.abs().max() > 3": tensor(dtype="torch.bool"),
            "x.shape[0]": scalar(4),
            "self.count + size": tensor(dtype="torch.int64"),
            "kept + step": tensor(3),
            "count": tensor(dtype="torch.int64"),
            "step": tensor(3),
            "delta": tensor(3),
        },
        why="without `fitted`, there may be no tensor to ask for its device",
    ),
    NearMiss(
        """
        def weigh(weights, inside, rows, decay: bool):
            if rows.sum() > 0:
                if decay:
                    weights[inside] = rows
            return weights
        """,
        at="rows.sum() > 0",
        why="what is written has as many elements as the mask picks out",
        facts={
            "inside": tensor(3, dtype="torch.bool"),
            "rows": tensor(2),
            "weights": tensor(3),
        },
    ),
    *(
        NearMiss(
            f"""
        import torch

        def f(x, table, small, ids):
            y = table[ids]
            {told}
            if {test}:
                return x + {taken}
            return y
        """,
            at=test,
            why=why,
            facts={
                "x": tensor(3),
                "table": tensor(9),
                "small": tensor(4),
                "y": tensor(3),
                "most": tensor(dtype="torch.int64"),
                "ids": tensor(3, dtype="torch.int64"),
                test: tensor(dtype="torch.bool"),
            },
        )
        for why, told, test, taken in (
            ("a smaller table", "most = ids.max()", "most < 4", "small[ids]"),
            ("asked for by name", "most = None", "(ids < 4).all()", "table[ids]"),
            (
                "no negative index there",
                "most = ids.min()",
                "most >= 0",
                "table.gather(0, ids)",
            ),
        )
    ),
    NearMiss(
        """
        import torch

        def f(x, table, ids):
            known = ids < table.shape[0]
            if known.all():
                return x + table[ids]
            return x
        """,
        at="known.all()",
        why="the test keeps indices that are out of range away",
        facts={
            "x": tensor(3),
            "table": tensor(9),
            "ids": tensor(3, dtype="torch.int64"),
            "known": tensor(3, dtype="torch.bool"),
            "table[ids]": tensor(3),
        },
    ),
    NearMiss(
        """
        import torch
        import torch.nn.functional as F

        def f(x, ids):
            if ids.max() < 4:
                return x + F.one_hot(ids, 4)
            return x
        """,
        at="ids.max() < 4",
        why="the test keeps unknown classes away",
        facts={"x": tensor(3, 4), "ids": tensor(3, dtype="torch.int64")},
    ),
    NearMiss(
        """
        import torch

        def f(x, total, count):
            if count > 0:
                return x + total // count
            return x
        """,
        at="count > 0",
        why="the test keeps an integer division by zero away",
        facts={
            "x": tensor(3),
            "total": tensor(dtype="torch.int64"),
            "count": tensor(dtype="torch.int64"),
            "total // count": tensor(dtype="torch.int64"),
        },
    ),
    NearMiss(
        """
        import torch

        def f(x):
            if x.sum() > 0:
                x = torch.nn.functional.dropout(x)
            return x
        """,
        at="x.sum() > 0",
        why="random numbers would be drawn in vain",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        import torch

        def f(x):
            if x.sum() > 0:
                return x.to(torch.int8)
            return x.to(torch.float16)
        """,
        at="x.sum() > 0",
        why="the dtype depends on data",
        facts={
            "x": tensor(3),
            "x.to(torch.int8)": tensor(3, dtype="torch.int8"),
            "x.to(torch.float16)": tensor(3, dtype="torch.float16"),
        },
    ),
    NearMiss(
        """
        import torch

        def f(x, y):
            if x.sum() > 0:
                y = x
            y += 1
            return x
        """,
        at="x.sum() > 0",
        why="the tensor that was handed on is changed afterwards",
        facts={"x": tensor(3), "y": tensor(3)},
    ),
    NearMiss(
        """
        class Book:
            def note(self, x):
                if x.sum() > 0:
                    if x.max() > 1:
                        return
                    self.count.add_(1)
                else:
                    self.last.copy_(x)
                    return x * 2
        """,
        at="x.sum() > 0",
        why="only one branch gives a value",
        facts={"x": tensor(3), "self.count": tensor(), "self.last": tensor(3)},
    ),
    NearMiss(
        """
        class Block(Base):
            def forward(self, x):
                if x.abs().max() > 1:
                    x = self.transform(x)
                return x
        """,
        at="x.abs().max() > 1",
        why="what the method does is not known",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        class Block:
            def transform(self, h):
                self.calls += 1
                return h.tanh()

            def forward(self, x):
                if x.abs().max() > 1:
                    x = self.transform(x)
                return x
        """,
        at="x.abs().max() > 1",
        why="the method keeps count of its calls",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        class Scaler:
            def forward(self, loss, grads):
                if grads.isfinite().all():
                    self.good += 1
                return loss
        """,
        at="grads.isfinite().all()",
        why="a Python counter would become a tensor",
        facts={"grads": tensor(3), "self.good": scalar(0), "loss": tensor()},
    ),
    NearMiss(
        """
        import torch

        def f(x):
            if x.min() > 0:
                x = torch.linalg.cholesky(x)
            return x
        """,
        at="x.min() > 0",
        why="it may fail where it is not taken",
        facts={"x": tensor(3, 3)},
    ),
    NearMiss(
        """
        def f(x, out):
            if x.sum() > 0:
                out.append(x)
            return x
        """,
        at="x.sum() > 0",
        why="how long the list is depends on data",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, pair):
            match pair:
                case (first, second) if x.sum() > 0:
                    x = x + first
                case _:
                    x = x * 2
            return x
        """,
        at="x.sum() > 0",
        why="a pattern binds names",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, kind):
            match kind():
                case "relu" if x.sum() > 0:
                    x = x.relu()
                case _:
                    x = x * 2
            return x
        """,
        at="x.sum() > 0",
        why="what is matched would be called several times",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, y, outs):
            if x.sum() > 0:
                outs.append(x)
                y = outs[-1] * 2
            else:
                outs.append(y)
            return y
        """,
        at="x.sum() > 0",
        why="a branch reads the list to which it has appended",
        facts={"x": tensor(3), "y": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, names):
            return "high" if x.sum() > 0 else "low"
        """,
        at="x.sum() > 0",
        why="the branches give strings",
        facts={"x": tensor(3)},
    ),
    NearMiss(
        """
        def f(x, y, table):
            at = y.argmax()
            if at < x.sum():
                y = table[at]
            return y
        """,
        at="at < x.sum()",
        why="the test may keep a place out of range of another tensor",
        facts={
            "x": tensor(3),
            "y": tensor(3),
            "at": tensor(dtype="torch.int64"),
            "table": tensor(2, 3),
            "at < x.sum()": tensor(dtype="torch.bool"),
        },
    ),
    NearMiss(
        """
        def f(x, y):
            m = y
            if x.sum() > 0:
                y = x
            elif x.sum() < -3 and (m := x.max()) > 3:
                y = m
            return y - m
        """,
        at="x.sum() > 0",
        why="a name is bound where the first part of a test holds",
        facts={"x": tensor(3), "y": tensor(3), "m": tensor(3)},
    ),
)


def _exit(test: str, why: str) -> NearMiss:
    return NearMiss(
        f"""
        import torch

        def f(self, x, y, n: int, rows):
            if rows:
                late = n
            if x.sum() > 0:
                x = x + y
                if {test}:
                    return x
                x = x * 2
            return x - y
        """,
        at="x.sum() > 0",
        why=why,
        facts={"x": tensor(3), "y": tensor(3), "n": scalar(3, constant=False)},
    )


_EXITS = (
    _exit("5 / n > 1", "a division fails where the branch is not taken"),
    _exit("rows[0] > n", "there may be no row where the branch is not taken"),
    _exit("rows.flag", "what has no such attribute fails where the branch is not taken"),
    _exit("n in rows", "what has no items fails where the branch is not taken"),
    _exit("self.ready()", "what is asked may do more than answer"),
    _exit("late", "what is asked may not be bound where the branch is not taken"),
    _exit("rows > 1", "what is no number has no order"),
)
NEAR_MISSES: tuple[NearMiss, ...] = (*_NEAR_MISSES, *_EXITS)

"""Examples of `IfToCond`."""

from __future__ import annotations

from gbfix.codemod import Example, scalar, tensor
from gbfix.schema import Fact

EXAMPLES = (
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
        import torch

        def f(x):
            flat = x.view(-1)
            if x.sum() > 0:
                x += 1
            return x, flat
        """,
        """
        import torch

        def f(x):
            flat = x.view(-1)

            def if_x_sum_above_0(x):
                x = x.clone()
                x += 1
                return x

            def otherwise(x):
                return x.clone()

            x.copy_(torch.cond(x.sum() > 0, if_x_sum_above_0, otherwise, (x.clone(),)))
            return x, flat
        """,
        at="x.sum() > 0",
        facts={"x": tensor(3), "flat": tensor(3)},
    ),
    Example(
        """
        import torch

        class M(torch.nn.Module):
            @torch.no_grad()
            def track(self, x):
                if self.seen == 0:
                    self.mean = x.mean(0)
                else:
                    self.mean = self.mean * 0.9 + x.mean(0) * 0.1
                # First data.
                if not self.ready:
                    self.low.copy_(x.amin(0))
                    self.ready.fill_(True)
        """,
        """
        import torch

        class M(torch.nn.Module):
            @torch.no_grad()
            def track(self, x):
                if self.seen == 0:
                    self.mean = x.mean(0)
                else:
                    self.mean = self.mean * 0.9 + x.mean(0) * 0.1

                # First data.
                def if_not_ready(low, ready):
                    low = low.clone()
                    ready = ready.clone()
                    low.copy_(x.amin(0))
                    ready.fill_(True)
                    return low, ready

                def otherwise(low, ready):
                    return low.clone(), ready.clone()

                low, ready = torch.cond(
                    torch.logical_not(self.ready),
                    if_not_ready,
                    otherwise,
                    (self.low.clone(), self.ready.clone()),
                )
                self.low.copy_(low)
                self.ready.copy_(ready)
        """,
        at="not self.ready",
        facts={
            "x": tensor(2, 3),
            "self": Fact("module", "M"),
            "self.low": tensor(3),
            "self.ready": tensor(dtype="torch.bool"),
        },
    ),
    Example(
        """
        import torch

        class M(torch.nn.Module):
            @torch.no_grad()
            def track(self, x):
                if self.seen == 0:
                    self.mean = x.mean(0)
                else:
                    self.mean = self.mean * 0.9 + x.mean(0) * 0.1
        """,
        """
        import torch

        class M(torch.nn.Module):
            @torch.no_grad()
            def track(self, x):
                self.mean = torch.cond(
                    self.seen == 0,
                    lambda: x.mean(0),
                    lambda: self.mean * 0.9 + x.mean(0) * 0.1,
                )
        """,
        at="self.seen == 0",
        facts={
            "x": tensor(2, 3),
            "self": Fact("module", "M"),
            "self.mean": tensor(3),
            "self.seen": tensor(),
        },
    ),
    Example(
        """
        import torch

        def f(hidden, layers, drop, training):
            for layer in layers:
                if training and torch.rand([]) < drop:
                    continue  # skipped
                hidden = hidden + layer
            return hidden
        """,
        """
        import torch

        def f(hidden, layers, drop, training):
            for layer in layers:
                # skipped
                def if_rand_below_drop():
                    return hidden.clone()

                def otherwise():
                    return hidden + layer

                if training:
                    hidden = torch.cond(torch.rand([]) < drop, if_rand_below_drop, otherwise)
                else:
                    hidden = otherwise()
            return hidden
        """,
        at="torch.rand([]) < drop",
        facts={
            "hidden": tensor(3),
            "layer": tensor(3),
            "drop": scalar(0.1),
            "training": scalar(True),
            "torch.rand([]) < drop": tensor(dtype="torch.bool"),
        },
    ),
    Example(
        """
        import torch

        def f(x, mask, y):
            if mask is not None and 0.0 in mask:
                x = x * mask
            if x.max().item() > y:
                x = x - y
            return x
        """,
        """
        import torch

        def f(x, mask, y):
            if mask is not None:
                x = torch.cond((mask == 0.0).any(), lambda: x * mask, lambda: x.clone())
            if x.max().item() > y:
                x = x - y
            return x
        """,
        at="0.0 in mask",
        facts={"x": tensor(3), "mask": tensor(3), "y": scalar(0.5), "x.max()": tensor()},
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
    Example(
        """
        import torch

        def f(x, limit):
            if limit < x.norm().item():
                x = x / x.norm()
            return x
        """,
        """
        import torch

        def f(x, limit):
            x = torch.cond(limit < x.norm().double(), lambda: x / x.norm(), lambda: x.clone())
            return x
        """,
        at="limit < x.norm().item()",
        facts={"x": tensor(3), "limit": scalar(0.1, constant=False), "x.norm()": tensor()},
        title="a float and a number from a tensor compare in double precision",
    ),
    Example(
        """
        import torch

        def f(rows):
            outs = []
            for row in rows:
                if row.sum() > 0:
                    outs.append(row * 2)
                else:
                    outs.append(row.exp())
            return torch.stack(outs)
        """,
        """
        import torch

        def f(rows):
            outs = []
            for row in rows:
                outs.append(torch.cond(row.sum() > 0, lambda: row * 2, lambda: row.exp()))
            return torch.stack(outs)
        """,
        at="row.sum() > 0",
        facts={"rows": tensor(2, 3), "row": tensor(3), "outs": Fact("list", "list")},
    ),
    Example(
        """
        import torch

        def f(x, grads):
            if any(g.isnan().any() for g in grads):
                return x.exp()
            return x
        """,
        """
        import torch

        def f(x, grads):
            if len(grads) > 0:
                return torch.cond(
                    torch.stack([g.isnan().any() for g in grads]).any(),
                    lambda: x.exp(),
                    lambda: x.clone(),
                )
            return x
        """,
        at="any(g.isnan().any() for g in grads)",
        facts={"x": tensor(3), "grads": Fact("list", "list"), "g": tensor(3)},
    ),
    Example(
        """
        import torch

        def f(x):
            if not any([row.sum() > 0 for row in x]):
                x = x.exp()
            return x
        """,
        """
        import torch

        def f(x):
            if len(x) == 0:
                x = x.exp()
            else:
                x = torch.cond(
                    torch.logical_not(torch.stack([row.sum() > 0 for row in x]).any()),
                    lambda: x.exp(),
                    lambda: x.clone(),
                )
            return x
        """,
        at="any([row.sum() > 0 for row in x])",
        facts={"x": tensor(2, 3), "row": tensor(3)},
    ),
    Example(
        """
        import torch

        def f(token, x):
            if token not in (0, 2):
                x = x.exp()
            return x
        """,
        """
        import torch

        def f(token, x):
            x = torch.cond((token != 0) & (token != 2), lambda: x.exp(), lambda: x.clone())
            return x
        """,
        at="token not in (0, 2)",
        facts={"x": tensor(3), "token": tensor(dtype="torch.int64")},
    ),
    Example(
        """
        import torch

        def f(x):
            if x.sum() > 0:
                y = x.exp()
                return Output(hidden=y, loss=y.mean(), name="f")
            # Nothing there.
            return Output(hidden=x - 1, loss=x.sum(), name="f")
        """,
        """
        import torch

        def f(x):
            def if_x_sum_above_0():
                y = x.exp()
                return y, y.mean()

            def otherwise():
                # Nothing there.
                return x - 1, x.sum()

            hidden, loss = torch.cond(x.sum() > 0, if_x_sum_above_0, otherwise)
            return Output(hidden=hidden, loss=loss, name="f")
        """,
        at="x.sum() > 0",
        facts={
            "x": tensor(3),
            'Output(hidden=y, loss=y.mean(), name="f")': Fact("object", "Output"),
        },
    ),
)

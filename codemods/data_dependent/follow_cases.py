"""Examples and near misses of `follow_number`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import math\n\nimport torch\n\n\ndef f(x, t, n, i):\n{body}"


_FACTS: dict[str, Fact] = {
    "x": tensor(3, 4),
    "t": tensor(),
    "n": tensor(dtype="torch.int64"),
    "i": tensor(dtype="torch.int64"),
    "x.max()": tensor(),
    "x.min()": tensor(),
    "y": tensor(3, 4),
    "y == low": tensor(3, 4, dtype="torch.bool"),
}

EXAMPLES = tuple(
    Example(_source(*before), _source(*after), at=at, facts={**_FACTS, **facts}, title=title)
    for title, before, after, at, facts in (
        (
            "through arithmetic, a fill and a mask",
            (
                "low = x.min().item() - 1",
                "y = torch.full_like(x, low)",
                "y[y == low] = 0",
                "return y",
            ),
            (
                "low = x.min().detach().double() - 1",
                "y = torch.empty_like(x).fill_(low)",
                "y[y == low] = 0",
                "return y",
            ),
            "x.min().item()",
            {},
        ),
        (
            "a step count",
            ("bias = 1 - 0.9 ** n.item()", "return x / bias"),
            ("bias = 1 - 0.9 ** n.long().double()", "return x / bias"),
            "n.item()",
            {},
        ),
        (
            "a tensor that bounds what is copied from another one",
            ("y = x.clone()", "y[:, n:] = x.tanh()[:, n:]", "return y"),
            (
                "y = x.clone()",
                "y.copy_(torch.where(torch.arange(y.shape[1], device=y.device) >= "
                "torch.where(n < 0, n + y.shape[1], n), x.tanh(), y))",
                "return y",
            ),
            "x.tanh()[:, n:]",
            {},
        ),
        (
            "a factor",
            ("return x.add(y, alpha=1 - t.item())",),
            ("return x.addcmul(y, 1 - t.detach().double())",),
            "t.item()",
            {},
        ),
        (
            "bounds",
            ("return y.clamp(x.min().item(), x.max().item())",),
            ("return y.clamp(x.min().detach(), x.max().detach())",),
            "x.min().item()",
            {},
        ),
        (
            "a number that may be none",
            (
                "s = t.item()",
                "if math.isnan(s) or not math.isfinite(s):",
                "    return x",
                "return x * s",
            ),
            (
                "s = t.detach().double()",
                "if torch.isnan(s) or not torch.isfinite(s):",
                "    return x",
                "return x * s",
            ),
            "t.item()",
            {},
        ),
        (
            "a ratio, where neither norm is zero",
            (
                "w = x.norm().item()",
                "g = y.norm().item()",
                "ratio = w / g if w > 0 and g > 0 else 1",
                "return x.add_(y, alpha=-0.1 * ratio)",
            ),
            (
                "w = x.norm().detach().double()",
                "g = y.norm().detach().double()",
                "ratio = torch.where(torch.logical_and(w > 0, g > 0), w / g, 1.0)",
                "return x.addcmul_(y, -0.1 * ratio)",
            ),
            "x.norm().item()",
            {"x.norm()": tensor(), "y.norm()": tensor()},
        ),
        (
            "neither of two",
            (
                "s = t.item()",
                "return x * (s if not (s < 0 or s > 1) else 0.5)",
            ),
            (
                "s = t.detach().double()",
                "return x * torch.where(torch.logical_not(torch.logical_or(s < 0, s > 1)), s, 0.5)",
            ),
            "t.item()",
            {},
        ),
        (
            "an index",
            ("best = x.argmax().item()", "return y[best]"),
            ("best = x.argmax()", "return y[best[None]].squeeze(0)"),
            "x.argmax().item()",
            {"x.argmax()": tensor(dtype="torch.int64")},
        ),
        (
            "entries of a matrix",
            ("c = t.item()", "return torch.tensor([[c, 0.0], [0.0, -c]], dtype=x.dtype)"),
            ("c = t.detach()", "return torch.tensor([[c, 0.0], [0.0, -c]], dtype=x.dtype)"),
            "t.item()",
            {},
        ),
        (
            "how far it is rolled",
            ("s = x.argmax().item()", "return torch.roll(y, -s, dims=1) + y.roll(s + 1, 0)"),
            (
                "s = x.argmax()",
                "return y.index_select(1, (torch.arange(y.shape[1], device=y.device) + s)"
                " % y.shape[1]) + y.index_select(0, (torch.arange(y.shape[0], device=y.device)"
                " - (s + 1)) % y.shape[0])",
            ),
            "x.argmax().item()",
            {"x.argmax()": tensor(dtype="torch.int64")},
        ),
        (
            "an index among the places of the largest",
            ("best = x.topk(2)[1]", "return y[:, best[0]] + y[best[1]]"),
            (
                "best = x.topk(2)[1]",
                "return y[:, best[0][None]].squeeze(1) + y[best[1][None]].squeeze(0)",
            ),
            "y[:, best[0]]",
            {
                "best": tensor(2, dtype="torch.int64"),
                "best[0]": tensor(dtype="torch.int64"),
                "best[1]": tensor(dtype="torch.int64"),
            },
        ),
        (
            "a window of a size that is known",
            (
                "s = x.argmax().item()",
                "end = s + 2",
                "return y[..., s:end] * x[:, s : 3 + s].sum()",
            ),
            (
                "s = x.argmax()",
                "end = s + 2",
                "return y.index_select(-1, s + torch.arange(2, device=y.device)) "
                "* x.index_select(1, s + torch.arange(3, device=x.device)).sum()",
            ),
            "x.argmax().item()",
            {"x.argmax()": tensor(dtype="torch.int64")},
        ),
        (
            "a window that is written, and a place that moves on",
            (
                "s = n.item()",
                "y[:, s : s + 2] = x[:, :2]",
                "n.fill_((s + 2) % 4)",
                "return y",
            ),
            (
                "s = n.clone().long()",
                'torch._assert_async(s >= 0, "`s` is below zero")',
                "y[:, s + torch.arange(2, device=y.device)] = x[:, :2].to(y.dtype)",
                "n.fill_((s + 2) % 4)",
                "return y",
            ),
            "n.item()",
            {"x[:, :2]": tensor(3, 2)},
        ),
        (
            "what is written behind a position",
            ("end = x.argmax().item()", "y = x.clone()", "y[end:] = 0", "return y"),
            (
                "end = x.argmax()",
                "y = x.clone()",
                "y.masked_fill_(torch.arange(y.shape[0], device=y.device)[:, None] >= end, 0)",
                "return y",
            ),
            "x.argmax().item()",
            {"x.argmax()": tensor(dtype="torch.int64")},
        ),
        (
            "a tensor that torch reads itself",
            ("return torch.full_like(x, t)",),
            ("return torch.empty_like(x).fill_(t)",),
            "torch.full_like(x, t)",
            {},
        ),
        (
            "a list of numbers",
            ("a, b = n.tolist()", "return x * a + b"),
            ("a, b = n.long().unbind()", "return x * a + b"),
            "n.tolist()",
            {"n": tensor(2, dtype="torch.int64"), "x * a": tensor(3, 4)},
        ),
        (
            "counting up does not change the tensor",
            ("k = n.item()", "k += 1", "return x * k"),
            ("k = n.clone().long()", "k = k + 1", "return x * k"),
            "n.item()",
            {},
        ),
        (
            "a sum that starts as a number",
            (
                "total = 0.0",
                "for y in (x, x):",
                "    total += y.square().sum().item()",
                "return x / (total**0.5 + 1e-6)",
            ),
            (
                "total = torch.tensor(0.0, dtype=torch.float64)",
                "for y in (x, x):",
                "    total = total + y.square().sum().detach().double()",
                "return x / (total**0.5 + 1e-6)",
            ),
            "y.square().sum().item()",
            {"y.square().sum()": tensor()},
        ),
        (
            "integers and a float",
            ("s = t.item()", "return i * s"),
            ("s = t.detach()", "return i * s.to(torch.get_default_dtype())"),
            "t.item()",
            {"i": tensor(3, dtype="torch.int64")},
        ),
        (
            "a count that may be zero",
            ("c = (x > 0).sum().item()", "if c == 0:", "    c = 1.0", "return x / c"),
            ("c = (x > 0).sum()", "c = torch.where(c == 0, 1, c)", "return x / c"),
            "(x > 0).sum().item()",
            {},
        ),
        (
            "a float that may be zero",
            ("s = x.max().item()", "if not s: s = 1", "return x / s"),
            (
                "s = x.max().detach().double()",
                "s = torch.where(s == 0, 1, s)",
                "return x / s",
            ),
            "x.max().item()",
            {},
        ),
        (
            "how many elements a mask selects",
            ("c = len(torch.nonzero(x > 0))", "if c < 2:", "    c = 2", "return x / c"),
            ("c = torch.count_nonzero(x > 0)", "c = torch.where(c < 2, 2, c)", "return x / c"),
            "c < 2",
            {},
        ),
        (
            "a selection that is asked for its size",
            ("y = x[m]", "return x / max(y.shape[0], 1)"),
            ("y = x[m]", "return x / torch.count_nonzero(m).clamp(min=1)"),
            "y.shape[0]",
            {"m": tensor(3, 4, dtype="torch.bool")},
        ),
    )
)

NEAR_MISSES = tuple(
    NearMiss(_source(*source), at=at, why=why, facts={**_FACTS, **facts})
    for source, at, why, facts in (
        (("return x, t.item()",), "t.item()", "the number is returned", {}),
        (("t = t.item()", "return x.t() @ y, t"), "t.item()", "an argument of that name", {}),
        (("return f'{t.item()} {x}'",), "t.item()", "the number is printed", {}),
        (("return torch.zeros(n.item())",), "n.item()", "a size", {}),
        (("return x[: n.item()]",), "n.item()", "a bound of what is read: a size", {}),
        (("s = t.item()", "g = lambda: x * s", "return g()"), "t.item()", "in a closure", {}),
        (
            ("s = t.item()", "if x is None:", "    s = 'none'", "return x * s"),
            "t.item()",
            "bound to something else as well",
            {},
        ),
        (("s = t.item()", "return x * s, [s]"), "t.item()", "kept in a list", {}),
        (
            ("s = t.item()", "return x * s, math.isnan(s)"),
            "t.item()",
            "a bool that is given back",
            {},
        ),
        (
            ("s = t.item()", "return x * s + len(str(s))"),
            "t.item()",
            "handed to a function of Python",
            {},
        ),
        (("self = x", "self.scale = t.item()", "return x"), "t.item()", "kept in an attribute", {}),
        (("return {0: x}[n.item()]",), "n.item()", "a key", {}),
        (("y[n:] = x[n + 1 :]", "return y"), "x[n + 1 :]", "other rows of another tensor", {}),
        (
            ("y[b:] = 0", "return y"),
            "y[b:]",
            "a bound that is true or false",
            {"b": tensor(dtype="torch.bool")},
        ),
        (
            ("return x * t.item()",),
            "t.item()",
            "another device",
            {"t": tensor(device="cuda:0")},
        ),
        (
            ("return i * t.item()",),
            "t.item()",
            "complex",
            {"i": tensor(3, dtype="torch.complex64")},
        ),
        (("return x[t.item() is None]",), "t.item()", "compared by identity", {}),
        *(
            (
                ("s = x.argmax().item()", *lines),
                "x.argmax().item()",
                why,
                {"x.argmax()": tensor(dtype="torch.int64")},
            )
            for why, lines in (
                ("rolled in two dimensions", ("return y.roll((s, 1), (0, 1))",)),
                ("rolled as one row", ("return y.roll(s)",)),
                ("rolled where the dimension is given", ("return y.roll(s, n)",)),
                ("rolled without a name", ("return (y + 1).roll(s, 0)",)),
                ("a window whose end is the data's", ("return y[2:s].sum()",)),
                ("a window beside an index", ("return y[0, s : s + 2].sum()",)),
                ("a window with a step", ("return y[s : s + 4 : 2].sum()",)),
                ("a window as large as data says", ("return y[s : s + s].sum()",)),
                ("a written window as large as data says", ("y[s : s + s] = x", "return y")),
                ("a window of itself", ("y[s : s + 2] = y[:2]", "return y")),
                ("a written window beside an index", ("y[0, s : s + 2] = x[0]", "return y")),
                (
                    "a window whose end is bound twice",
                    ("e = s + 2", "if x is None:", "    e = s", "return y[s:e].sum()"),
                ),
                (
                    "a window that is kept, and written through",
                    ("w = y[s : s + 2]", "w += 1", "return y"),
                ),
                (
                    "a window whose end came before its start",
                    ("e = s + 2", "s = s + 1", "return y[s:e].sum()"),
                ),
            )
        ),
        (
            ("y = x.argmax().item()", "return x[y, :2, y]"),
            "x.argmax().item()",
            "around a slice",
            {"x.argmax()": tensor(dtype="torch.int64")},
        ),
        (("return (-8) ** t.item() * x",), "t.item()", "a power that may be complex", {}),
        (("return x * t.item() ** 0.5",), "t.item()", "a root that may be complex", {}),
        (
            ("s = t.item()", "y[:2] = x[: int(s)]", "return y"),
            "t.item()",
            "as many as the data says",
            {},
        ),
        (
            ("c = (x > 0).sum().item()", "if c == 0:", "    c = 1.0", "return i * c"),
            "(x > 0).sum().item()",
            "whole numbers times an int or a float",
            {"i": tensor(3, dtype="torch.int64")},
        ),
        (
            ("c = (x > 0).sum().item()", "if c == 0:", "    c = 1.0", "d = c * 2", "return i * d"),
            "(x > 0).sum().item()",
            "the same, one name further",
            {"i": tensor(3, dtype="torch.int64")},
        ),
        (
            ("c = (x > 0).sum().item()", "if c == 0:", "    c = 0.5", "return x / c"),
            "(x > 0).sum().item()",
            "no int is one half",
            {},
        ),
        (
            ("c = (x > 0).sum().item()", "if c == 0:", "    c = 1.0", "return x[c]"),
            "(x > 0).sum().item()",
            "a float is no index",
            {},
        ),
        (
            ("c = len(torch.nonzero(x, as_tuple=True))", "return x / c"),
            "len(torch.nonzero(x, as_tuple=True))",
            "the number of dimensions",
            {},
        ),
        (
            ("c = len(x[i])", "return x / c"),
            "len(x[i])",
            "picked by number, not by a mask",
            {"i": tensor(2, dtype="torch.int64")},
        ),
        (
            ("y = x[m]", "m[0] = False", "return x / y.shape[0]"),
            "y.shape[0]",
            "the mask has changed since",
            {"m": tensor(3, 4, dtype="torch.bool")},
        ),
        (
            ("y = x[m]", "y = y + 1", "return x / y.shape[0]"),
            "y.shape[0]",
            "a name of several things",
            {"m": tensor(3, 4, dtype="torch.bool")},
        ),
        (("return x * n",), "x * n", "nothing is read", {"n": scalar(2)}),
    )
)

"""Examples and near misses of `masked-chain`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

from .selections import MEAN_OF_KEPT, STD_OF_KEPT


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return (
        "import torch\nimport torch.nn.functional as F\n\n\n"
        f"{_mean(body)}def f(x, y, labels, logits, one, eps, head):\n{body}"
    )


#: How much boxes overlap, each with one of the others.
_IOU = """def overlap(one, other, kind="iou", eps=1e-7):
    lt = torch.maximum(one[:, :2], other[:, :2])
    rb = torch.minimum(one[:, 2:], other[:, 2:])
    shared = (rb - lt).clamp_(min=0).prod(dim=1)
    w, h = (one[..., 2:] - one[..., :2]).unbind(-1)
    both = w * h + (other[..., 2:] - other[..., :2]).prod(-1)
    if kind == "giou":
        raise NotImplementedError
    return shared / (both - shared + eps)
"""


def _with_helper(helper: str, *lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\n{helper}\n\ndef f(x, y, m):\n{body}"


def _mean(text: str) -> str:
    """What stands above code that calls it."""
    return f"{MEAN_OF_KEPT}\n\n" if "mean_of_kept(" in text else ""


_FACTS: dict[str, Fact] = {
    "x": tensor(4, 3),
    "y": tensor(4, 3),
    "m": tensor(4, 3, dtype="torch.bool"),
    "rows": tensor(4, dtype="torch.bool"),
    "labels": tensor(4, 3, dtype="torch.int64"),
    "logits": tensor(4, 3, 5),
    "one": tensor(),
    "eps": scalar(0.1, constant=False),
    "head": Fact("module", "torch.nn.modules.linear.Linear"),
    "score": Fact("module", "torch.nn.modules.linear.Linear"),
    "score(r)": tensor(2, 1),
    "score(r).flatten()": tensor(2),
    "pair": Fact("module", "torch.nn.modules.linear.Linear"),
    "pair(r)": tensor(2, 2),
    "pair(r).flatten()": tensor(4),
    "a": tensor(7),
    "b": tensor(7),
    "(a - b) ** 2": tensor(7),
    "(a - b).abs()": tensor(7),
    "a * b": tensor(7),
    "(x - y).abs()": tensor(7),
    "c * b": tensor(7),
    "a - a.mean()": tensor(7),
    "a.mean()": tensor(),
    "a / one": tensor(7),
    "a + eps": tensor(7),
    "c": tensor(7, 5),
    "c.argmax(-1)": tensor(7, dtype="torch.int64"),
    "k": tensor(7, dtype="torch.int64"),
    "(c.argmax(-1) == k).float()": tensor(7),
    "r": tensor(2, 3),
    "s": tensor(2, 3),
    "r * s": tensor(2, 3),
    "r.exp()": tensor(2, 3),
    "head(r)": tensor(2, 5),
    "z": tensor(2, 5),
    "z.sqrt()": tensor(2, 5),
    "a.log()": tensor(7),
    "w": tensor(4, 3, dtype="torch.bool"),
    "head(r) / one": tensor(2, 5),
    "labels == i": tensor(4, 3, dtype="torch.bool"),
    "i": scalar(1, constant=False),
    "out": tensor(4, 5),
    "wide": tensor(4, 3),
    "scale": tensor(4),
    "scale[rows, None]": tensor(2, 1),
    "r.tanh() * scale[rows, None]": tensor(2, 3),
    "r.tanh()": tensor(2, 3),
    "r.mean(-1)": tensor(2),
}


def _example(title: str, before: tuple[str, ...], after: tuple[str, ...]) -> Example:
    mask = ("rows = y[:, 0] > 0",) if "rows" in "".join(before) else ("m = y > 0",)
    return Example(
        _source(*mask, *before), _source(*mask, *after), at=_at(before), facts=_FACTS, title=title
    )


def _at(lines: tuple[str, ...]) -> str:
    lines = tuple(line for line in lines if "= x[" in line or "= y[" in line) or lines
    return lines[0].partition("= ")[2].partition(", ")[0]


def _module(made: str, last: str, more: str = "") -> str:
    """A module with a loss of its own; ``more`` stands below it."""
    return (
        f"import torch\nimport torch.nn as nn\n\n\n{_mean(last)}class Head(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        self.loss = {made}\n\n"
        f"    def forward(self, x, y):\n        m = y > 0\n        return {last}\n{more}"
    )


_L1, _LOSS = "nn.L1Loss()", "self.loss(x[m], y[m])"
_WITH_LOSS = {**_FACTS, "self.loss": Fact("module", "torch.nn.modules.loss.L1Loss")}


_BOXES = {
    "x": tensor(2, 5, 4),
    "y": tensor(2, 5, 4),
    "m": tensor(2, 5, dtype="torch.bool"),
    "iou": tensor(3),
    "1 - iou": tensor(3),
}


_SELF = Fact("object", "A")
_METHOD = """class A:
    def g(self, a):
        return a.sum(-1)

    def f(self, x, m):
        iou = self.g(x[m])
        return (1 - iou).sum()
"""


EXAMPLES = (
    _example(
        "what is left of a mean, and its norm",
        ("a = x[m]", "b = y[m]", "c = a - a.mean()", "return (c * b).sum() / (c.norm() + 1e-8)"),
        (
            "a = torch.where(m, x, 0)",
            "b = torch.where(m, y, 0)",
            "c = a - mean_of_kept(a, m.sum())",
            "return torch.where(m, c * b, 0).sum() / (torch.where(m, c, 0).norm() + 1e-8)",
        ),
    ),
    Example(
        "import torch\n\n\ndef f(x, m):\n    a = x[m]\n    return a.std()\n",
        f"import torch\n\n\n{STD_OF_KEPT}\n\ndef f(x, m):\n    a = torch.where(m, x, 0)\n"
        "    return std_of_kept(a, m, (0, 1), 1)\n",
        at="x[m]",
        facts=_FACTS,
        title="a standard deviation",
    ),
    _example(
        "names that are bound again",
        (
            "x = x[m]",
            "y = y[m]",
            "x = (x - y).abs()",
            "loss = x.mean()",
            "x = loss * 2",
            "return x",
        ),
        (
            "x = torch.where(m, x, 0)",
            "y = torch.where(m, y, 0)",
            "x = (x - y).abs()",
            "loss = mean_of_kept(torch.where(m, x, 0), m.sum())",
            "x = loss * 2",
            "return x",
        ),
    ),
    _example(
        "written where it was selected, if there is any",
        (
            "out = torch.zeros(4, 5)",
            "if rows.any():",
            "    r = x[rows]",
            "    out[rows] = head(r)",
            "return out",
        ),
        (
            "out = torch.zeros(4, 5)",
            "r = torch.where(rows[..., None], x, 0)",
            "out = torch.where(rows[..., None], head(r), out)",
            "return out",
        ),
    ),
    _example(
        "added to a parameter's rows, each by its own scale",
        ("r = x[rows]", "wide[rows] += r.tanh() * scale[rows, None]", "return wide"),
        (
            "r = torch.where(rows[..., None], x, 0)",
            "wide.copy_(torch.where(rows[..., None], wide + (r.tanh() * "
            "torch.where(rows[..., None], scale[:, None], 0)), wide))",
            "return wide",
        ),
    ),
    _example(
        "a mean of differences",
        ("a = x[m]", "b = y[m]", "return ((a - b) ** 2).mean()"),
        (
            "a = torch.where(m, x, 0)",
            "b = torch.where(m, y, 0)",
            "return mean_of_kept(torch.where(m, (a - b) ** 2, 0), m.sum())",
        ),
    ),
    _example(
        "a loss",
        ("a = x[m]", "b = y[m]  # what is known", "return F.smooth_l1_loss(a, b, beta=0.5)"),
        (
            "a = torch.where(m, x, 0)",
            "b = torch.where(m, y, 0)  # what is known",
            "return mean_of_kept(torch.where(m, F.smooth_l1_loss(a, b, beta=0.5"
            ', reduction="none"), 0), m.sum())',
        ),
    ),
    _example(
        "labels",
        (
            "c, k = logits[m], labels[m]",
            "right = (c.argmax(-1) == k).float().mean()",
            "return F.cross_entropy(c, k), right",
        ),
        (
            "c, k = torch.where(m[..., None], logits, 0), torch.where(m, labels, 0)",
            "right = mean_of_kept(torch.where(m, (c.argmax(-1) == k).float(), 0), m.sum())",
            "return F.cross_entropy(c.flatten(0, 1), torch.where(m, k, -100).flatten()), right",
        ),
    ),
    _example(
        "rows, and how many there are",
        (
            "r = x[rows]",
            "s = y[rows]",
            "return (r * s).sum(0) / max(len(r), 1), r.sum(dim=0), (r * s).mean()",
        ),
        (
            "r = torch.where(rows[..., None], x, 0)",
            "s = torch.where(rows[..., None], y, 0)",
            "return torch.where(rows[..., None], r * s, 0).sum(0) / rows.sum().clamp(min=1), "
            "r.sum(0), mean_of_kept(torch.where(rows[..., None], r * s, 0).mean(-1), rows.sum())",
        ),
    ),
    _example(
        "a layer",
        ("r = x[rows]", "return head(r).sum()"),
        (
            "r = torch.where(rows[..., None], x, 0)",
            "return torch.where(rows[..., None], head(r), 0).sum()",
        ),
    ),
    _example(
        "a layer that gives one number for each row",
        ("r = x[rows]", "return score(r).flatten().sum()"),
        (
            "r = torch.where(rows[..., None], x, 0)",
            "return torch.where(rows, score(r).flatten(), 0).sum()",
        ),
    ),
    Example(
        _source(
            "total = 0",
            "for i in range(3):",
            "    # the members of a class",
            "    a = torch.masked_select(x, labels == i)",
            "    if len(a) > 0:",
            "        total = total + a.mean()",
            "return total",
        ),
        _source(
            "total = 0",
            "for i in range(3):",
            "    # the members of a class",
            "    labels_equals_i = labels == i",
            "    a = torch.where(labels_equals_i, x, 0)",
            "    if labels_equals_i.sum() > 0:",
            "        total = total + mean_of_kept(a, labels_equals_i.sum())",
            "return total",
        ),
        at="torch.masked_select(x, labels == i)",
        facts=_FACTS,
        title="a mask without a name, in a loop",
    ),
    Example(
        _with_helper(_IOU, "iou = overlap(x[m], y[m])", "return (1 - iou).sum()"),
        _with_helper(
            _IOU,
            "iou = overlap(torch.where(m[..., None], x, 0).flatten(0, 1), "
            "torch.where(m[..., None], y, 0).flatten(0, 1))",
            "return torch.where(m.flatten(), 1 - iou, 0).sum()",
        ),
        at="x[m]",
        facts=_BOXES,
        title="boxes, of which a function of the file takes each by itself",
    ),
    Example(
        "import torch\n\n\n" + _METHOD,
        "import torch\n\n\n"
        + _METHOD.replace("x[m]", "torch.where(m[..., None], x, 0).flatten(0, 1)").replace(
            "(1 - iou)", "torch.where(m.flatten(), 1 - iou, 0)"
        ),
        at="x[m]",
        facts={**_BOXES, "self": _SELF},
        title="a method that takes each row by itself",
    ),
    Example(
        _module(_L1, _LOSS),
        _module(
            _L1,
            "mean_of_kept(torch.where(m, torch.nn.functional.l1_loss(torch.where(m, x, 0), "
            'torch.where(m, y, 0), reduction="none"), 0), m.sum())',
        ),
        at=_LOSS,
        facts=_WITH_LOSS,
        title="a loss that is a module",
    ),
)


def _near_miss(why: str, *lines: str, first: str = "") -> NearMiss:
    mask = "rows = y[:, 0] > 0" if "rows" in lines[0] else "m = y > 0"
    body = [mask, *([first] if first else []), *lines]
    return NearMiss(_source(*body), at=_at(lines), why=why, facts=_FACTS)


_A, _B = "a = x[m]", "b = y[m]"
NEAR_MISSES = (
    _near_miss("written by another mask", "r = x[rows]", "wide[~rows] = r.tanh()", "return wide"),
    _near_miss("written to columns", "r = x[rows]", "wide[:, rows] = r.tanh()", "return wide"),
    _near_miss("fewer dimensions than it goes to", "r = x[rows]", "wide[rows] = r.mean(-1)",
               "return wide"),
    _near_miss("written and given back", "r = x[rows]", "wide[rows] = r.tanh()", "return wide, r"),
    _near_miss("written with what all rows have", "r = x[rows]", "wide[rows] = r - r.mean(0)",
               "return wide"),
    _near_miss("what is selected is a result", _A, "return a.sum(), a"),
    _near_miss("compared among its rows", _A, "return (a - a.max()).sum()"),
    _near_miss("a softmax of what is selected", _A, "return (a.softmax(0) * a).sum()"),
    _near_miss("the last dimension is the mask's", _A, "return (a.softmax(-1) * a).sum()"),
    _near_miss("changed in place", _A, "a += 1", "return a.sum()"),
    _near_miss("changed in place by a method", _A, "a.clamp_(0)", "return a.sum()"),
    _near_miss("bound again on one way", _A, "if eps > 0:", "    a = a * 2", "return a.sum()"),
    _near_miss("selected on one way", "if eps > 0:", "    x = x[m]", "return x.sum()"),
    _near_miss("bound again to other rows", _A, "a = a.sort()", "return a.sum()"),
    _near_miss("read by a function, as it is later", "late = lambda: x.sum()", "x = x[m]",
               "return x.sum(), late()"),
    _near_miss("bound again in each round", "for i in range(2):", "    x = x[m]",
               "    x = x.sum()", "return x"),
    _near_miss("the mask is bound again", _A, "m = ~m", _B, "return (a * b).sum()"),
    _near_miss("the mask is changed", _A, "m[0] = False", _B, "return (a * b).sum()"),
    _near_miss("other masks", _A, "b = y[~m]", "return (a * b).sum()"),
    _near_miss("a closure", _A, "later = lambda: a", "return a.sum(), later()"),
    _near_miss("random numbers", _A, "return (a * torch.rand_like(a)).sum()"),
    _near_miss("a divisor that learns", _A, "return (a / one).sum()"),
    _near_miss("products of matrices", "r = x[rows]", "return (r @ r.T).sum()"),
    _near_miss("columns", "r = x[rows]", "s = labels[rows]", "return (r * s[:, None]).sum()"),
    _near_miss("the number of rows", _A, "return torch.zeros(len(a)), a.sum()"),
    _near_miss("the least of an empty batch", _A, "return a.min()"),
    _near_miss("a variance of what all are, not of a sample", _A, "return a.var(correction=0)"),
    _near_miss("a loss by hand over rows", "r = x[rows]", "return F.kl_div(r, r)"),
    _near_miss("others see the name", _A, "return a.sum()", first="global a"),
    _near_miss("a class less than none", "k = labels[m]", "c = F.one_hot(k - 1, 5)",
               "return c.sum(0)"),
    _near_miss("whether there are any is a result", _A, "return a.sum(), len(a) > 0"),
    _near_miss("changed in place by a flag", _A, "b = F.hardtanh(a, 1.0, 2.0, True)",
               "return a.sum() + b.sum()"),
    _near_miss("a loop", _A, "for i in range(2):", "    b = y[m]", "return (a * b).sum()"),
    _near_miss("a layer by name, and its square root", "r = x[rows]", "z = head(r)",
               "return z.sqrt().sum()"),
    _near_miss("two numbers for each row, in one line", "r = x[rows]",
               "return pair(r).flatten().sum()"),
    _near_miss("a logarithm by name, and what learns", _A, "c = a.log()", "return (c * one).sum()"),
    _near_miss("the mask is handed on", _A, "cap(m)", "return a.mean()"),
    _near_miss("the mask by another name", _A, "w[0] = False", "return a.mean()", first="w = m"),
    _near_miss("a name of the mask is bound again", "a = x[labels == i]", "i = i + 1",
               "b = y[labels == i]", "return (a * b).sum()"),
    _near_miss("a name of the mask is a comprehension's",
               "a = sum([x[labels == i].mean() for i in range(3)])", "return a"),
    _near_miss("the same mask in another block", "a = x[labels == i]", "if i > 1:",
               "    a = x[labels == i]", "return a.sum()"),
    _near_miss("the mask's tensor changes under another name", "a = x[labels == i]",
               "labels.view(-1).clamp_(max=3)", "b = y[labels == i]", "return (a * b).sum()"),
    _near_miss("something else may change the mask's tensor", "a = x[labels == i]",
               "head(labels)", "b = y[labels == i]", "return (a * b).sum()"),
    _near_miss("an elif has no line above it", "if i > 1:", "    y = y + 1",
               "elif ((x[labels == i] - 1) ** 2).sum().shape:", "    y = x[labels == 3]",
               "return y.sum()"),
    _near_miss("a mask that is called for", "a = x[head(y) > 0]", "return a.sum()"),
    _near_miss("the members of the last round", "for i in range(3):", "    a = x[labels == i]",
               "return a.sum()"),
    _near_miss("what the layer makes of zeros is divided", "r = x[rows]",
               "return (head(r) / one).sum()"),
    *(
        NearMiss(
            _with_helper(
                "\n".join(["def g(a, b, dim=0):", *(f"    {line}" for line in lines)]) + "\n",
                "iou = g(x[m], y[m])",
                "return (1 - iou).sum()",
            ),
            at="x[m]",
            why=f"the helper {why}",
            facts=_BOXES,
        )
        for why, *lines in (
            ("compares rows", "return (a - b.amax(0)).sum(-1)"),
            ("works along a dimension that it is given", "return (a - b).sum(dim)"),
            ("asks how many rows there are", "return (a - b).sum(-1) / len(a)"),
            ("asks for the first size", "return (a - b).sum(-1) / a.shape[0]"),
            ("asks for all sizes", "return (a - b).sum(-1) * a.size()[0]"),
            ("returns where there is none", "if a.numel() == 0:", "    return a.sum(-1)",
             "return (a - b).sum(-1)"),
            ("changes what it is given", "a += b", "return a.sum(-1)"),
            ("changes a view of it", "c = a[:, 0]", "c.mul_(2)", "return c + b[:, 0]"),
            ("mixes rows", "return (a @ b.t()).sum(-1)"),
            ("pairs each row with each", "return (a[:, None] - b).sum((1, 2))"),
            ("takes some rows", "return (a - b)[1:].sum(-1)"),
            ("turns rows around", "return (a - b).flip(0).sum(-1)"),
            ("draws numbers", "return (a - torch.rand_like(b)).sum(-1)"),
            ("keeps what it has seen", "seen.append(a)", "return (a - b).sum(-1)"),
            ("reads a value", "if b.max() > 1:", "    return a.sum(-1)", "return b.sum(-1)"),
            ("gives one number", "return (a - b).mean()"),
            ("has no derivative beside what learns", "return weight * (a / b).sum(-1)"),
            ("divides whole numbers", "return (a // b).sum(-1)"),
            ("gives columns or rows", "if KIND:", "    return (a - b)[:, 0]", "return a - b"),
            ("adds rows of other sizes", "return a.sum(-1) + a[:, :1]"),
            ("turns columns and rows around", "return (a - b).flip(1, 0).sum(-1)"),
            ("takes other dimensions, too", "if a.dim() == 1:", "    return a - b",
             "return (a - b).sum(-1)"),
            ("names the order of a norm", "return torch.linalg.vector_norm(a - b, 1)"),
            ("has a tensor as a default", "def h(c, d=weight):", "    return c * d",
             "return h(a).sum(-1)"),
        )
    ),
    *(
        NearMiss(
            "import torch\n\n\n" + text, at="x[m]", why=why, facts={**_BOXES, "self": _SELF}
        )
        for why, text in (
            (
                "the helper is what a caller gives",
                "def g(a):\n    return a.sum(-1)\n\n\n"
                "def f(x, m, g=g):\n    iou = g(x[m])\n    return (1 - iou).sum()\n",
            ),
            (
                "the helper is what an object holds",
                "def g(a):\n    return a.sum(-1)\n\n\n"
                "def f(self, x, m):\n    g = self.g\n    iou = g(x[m])\n"
                "    return (1 - iou).sum()\n",
            ),
            ("another method, by a mixin", _METHOD + "\n\nclass Mixin:\n    def g(self, a):\n"
             "        return a - a.mean(0)\n\n\nclass B(Mixin, A):\n    pass\n"),
            ("another method, by an attribute", _METHOD.replace(
                "    def g(", "    def __init__(self, g):\n        self.g = g\n\n    def g(")),
            ("a method that is called like a function of torch", _METHOD.replace(
                "a.sum(-1)", "self.clamp(a).sum(-1)")),
        )
    ),
    *(
        NearMiss(_module(made, _LOSS, more), at=_LOSS, why=why, facts=_WITH_LOSS)
        for why, made, more in (
            ("a loss that is put in from outside", _L1, "\n\nh = Head()\nh.loss = nn.MSELoss()\n"),
            (
                "a subclass with another loss",
                _L1,
                "\n\nclass B(Head):\n    def g(self):\n        self.loss = nn.MSELoss()\n",
            ),
            ("a hook that sees the call", _L1, "\n\nHead().loss.register_forward_hook(print)\n"),
            ("a reduction that is chosen", "nn.L1Loss(reduction=KIND)", ""),
            ("options by place", 'nn.L1Loss(None, None, "sum")', ""),
            ("one of two losses", "nn.L1Loss() if KIND else nn.MSELoss()", ""),
        )
    ),
)  # fmt: skip

"""Examples and near misses of `masked-chain`: losses of classes, of rows that are not ignored."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor

from .selections import MEAN_OF_KEPT

_FACTS = {
    "x": tensor(8, 5, requires_grad=True),
    "y": tensor(8, dtype="torch.int64"),
    "keep": tensor(8, dtype="torch.bool"),
    "log_p": tensor(6, 5),
    "F.log_softmax(x, dim=-1)": tensor(6, 5),
    "of": tensor(6, 1),
    "log_p.gather(1, y[:, None])": tensor(6, 1),
    "log_p.gather(1, y[:, None]).squeeze(1)": tensor(6),
    "log_p[rows, y]": tensor(6),
    'F.nll_loss(log_p, y, reduction="none")': tensor(6),
    'F.mse_loss(log_p, log_p, reduction="none")': tensor(6, 5),
    "y[:, None]": tensor(6, 1, dtype="torch.int64"),
    "y.view(-1, 1)": tensor(6, 1, dtype="torch.int64"),
    "y - 1": tensor(6, dtype="torch.int64"),
    "rows": tensor(6, dtype="torch.int64"),
    "loss": tensor(6),
    "-of": tensor(6),
    "loss.mean()": tensor(),
    "loss.sum()": tensor(),
    "how": scalar("mean", constant=False),
}
_HEAD = ("keep = y != -1", "y = y[keep]", "x = x[keep]", "log_p = F.log_softmax(x, dim=-1)")
_DENSE = (
    "keep = y != -1",
    "y = torch.where(keep, y, 0)",
    "x = torch.where(keep[..., None], x, 0)",
    "log_p = F.log_softmax(x, dim=-1)",
)
_MEAN = "mean_of_kept(torch.where(keep, loss, 0), keep.sum())"
_LEAVE = ("if len(y) == 0:", "    return torch.tensor(0.0)")


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    mean = f"{MEAN_OF_KEPT}\n\n" if "mean_of_kept(" in body else ""
    return (
        f"import torch\nimport torch.nn.functional as F\n\n\n{mean}def f(x, y, how, seen):\n{body}"
    )


def _example(title: str, before: tuple[str, ...], after: tuple[str, ...]) -> Example:
    return Example(_source(*before), _source(*after), at="x[keep]", facts=_FACTS, title=title)


_BY_WAY = (
    'if how == "mean":',
    "    loss = loss.mean()",
    'elif how == "sum":',
    "    loss = loss.sum()",
)
_BY_WAY_AFTER = (
    'if how == "mean":',
    f"    loss = {_MEAN}",
    'elif how == "sum":',
    "    loss = torch.where(keep, loss, 0).sum()",
    "else:",
    "    loss = loss[keep]",
)
_NLL = 'loss = F.nll_loss(log_p, y, reduction="none")'
_OR = "torch.where(keep.any(), "
EXAMPLES = (
    _example(
        "a loss for each row",
        (*_HEAD, _NLL, "return loss.mean()"),
        (*_DENSE, _NLL, f"return {_MEAN}"),
    ),
    _example(
        "the number of each row's class",
        (*_HEAD, "of = log_p.gather(1, y[:, None]).squeeze(1)", "loss = -of", "return loss.mean()"),
        (*_DENSE, "of = log_p.gather(1, y[:, None]).squeeze(1)", "loss = -of", f"return {_MEAN}"),
    ),
    _example(
        "all rows, each with its class",
        (*_HEAD, "rows = torch.arange(len(x))", "loss = log_p[rows, y]", "return loss.mean()"),
        (*_DENSE, "rows = torch.arange(len(x))", "loss = log_p[rows, y]", f"return {_MEAN}"),
    ),
    _example(
        "reduced as an option says",
        (*_HEAD, _NLL, *_BY_WAY, "return loss"),
        (*_DENSE, _NLL, *_BY_WAY_AFTER, "return loss"),
    ),
    _example(
        "nothing to compute",
        (*_HEAD[:2], *_LEAVE, *_HEAD[2:], _NLL, "return loss.mean()"),
        (*_DENSE, _NLL, f"return {_OR}{_MEAN}, 0.0)"),
    ),
    _example(
        "nothing to compute, and an option",
        (*_HEAD[:2], *_LEAVE, *_HEAD[2:], _NLL, *_BY_WAY, "return loss"),
        (
            *_DENSE,
            _NLL,
            'if how == "mean":',
            f"    loss = {_OR}{_MEAN}, 0.0)",
            'elif how == "sum":',
            f"    loss = {_OR}torch.where(keep, loss, 0).sum(), 0.0)",
            "else:",
            "    if not keep.any():",
            "        return torch.tensor(0.0)",
            "    loss = loss[keep]",
            "return loss",
        ),
    ),
)


def _near_miss(why: str, *lines: str) -> NearMiss:
    return NearMiss(_source(*lines), at="x[keep]", why=why, facts=_FACTS)


NEAR_MISSES = (
    _near_miss(
        "a class less than zero, where zeros stand for what was not selected",
        *_HEAD,
        'loss = F.nll_loss(log_p, y - 1, reduction="none")',
        "return loss.mean()",
    ),
    _near_miss(
        "the rows are counted for something else",
        *_HEAD,
        "rows = torch.arange(len(x))",
        "loss = log_p[rows, y]",
        "return loss.mean(), rows",
    ),
    _near_miss(
        "a column of another row",
        *_HEAD,
        "loss = log_p.gather(0, y[:, None]).squeeze(1)",
        "return loss.mean()",
    ),
    _near_miss(
        "a branch does more than to reduce",
        *_HEAD,
        _NLL,
        'if how == "mean":',
        "    loss = loss.mean()",
        "    seen.append(loss)",
        "return loss",
    ),
    _near_miss(
        "a tensor decides whether it is reduced",
        *_HEAD,
        _NLL,
        "if loss.sum() > 0:",
        "    loss = loss.mean()",
        "return loss",
    ),
)

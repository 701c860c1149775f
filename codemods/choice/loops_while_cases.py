"""Examples and near misses of `loop-to-bound` for ``while``."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor

_FACTS = {
    "x": tensor(3),
    "new": tensor(3),
    "x[:, None]": tensor(3, 1),
    "err": tensor(),
    "count": tensor(dtype="torch.int64"),
    "n": scalar(0, constant=False),
    "k": scalar(0, constant=False),
    "limit": scalar(9),
    "low": scalar(0),
    "tol": scalar(0.1),
    "scale": scalar(0.5, constant=False),
}


def _function(head: str, body: str, end: str, first: str = "") -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return (
        "import torch\n\n\ndef f(x, err, count, n, k, limit, low, tol, scale):\n"
        f"{first}    while {head}:\n{lines}\n    return {end}\n"
    )


_STEP = "err = x.sum()\nx = x * 0.5\n"
_FLAG = "    done = torch.tensor(False, device=x.device)\n"


def _met(limit: str, body: str, first: str = "") -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return (
        f"import torch\n\n\ndef f(x, tol, {limit}):\n    n = 0\n{first}    while True:\n{lines}\n"
        "    return x\n"
    )


WHILE_EXAMPLES = (
    Example(
        _met("limit=9", "x = x * 0.5\nn += 1\nif x.sum() < tol or n == limit:\n    break"),
        _met(
            "limit=9",
            "x = torch.where(done, x, x * 0.5)\nn += 1\nif n == limit:\n    break\n"
            "done = done | (x.sum() < tol)",
            _FLAG,
        ),
        at="x.sum() < tol or n == limit",
        facts=_FACTS,
        title="a count that meets its limit",
    ),
    Example(
        _function(
            "err > tol and n < limit",
            "# One step.\nnew = x - 1 / x  # damped\nerr = (new - x).abs().max()\nx = new\nn += 1",
            "x",
        ),
        _function(
            "n < limit",
            "done = done | torch.logical_not(err > tol)\n# One step.\n"
            "new = x - 1 / torch.where(done, 1, x)  # damped\n"
            "err = (new - x).abs().max()\nx = torch.where(done, x, new)\nn += 1",
            "x",
            _FLAG,
        ),
        at="err > tol",
        facts=_FACTS,
        title="data and a count",
    ),
    Example(
        _function("err > tol and n < limit", _STEP + "n += 1", "x, n"),
        "import torch\n\ntorch._dynamo.config.capture_scalar_outputs = True\n"
        + _function(
            "n < limit",
            "done = done | torch.logical_not(err > tol)\nerr = x.sum()\n"
            "x = torch.where(done, x, x * 0.5)\nn += 1\nlast_n = torch.where(done, last_n, n)",
            "x, n",
            "    last_n = torch.tensor(n, device=x.device)\n" + _FLAG,
        )
        .removeprefix("import torch\n")
        .replace("    return", "    n = last_n.item()\n    return"),
        at="err > tol",
        facts=_FACTS,
        title="the count is a result",
    ),
    Example(
        _function("limit > n", "x = x * 0.5\nn = n + 2\nif x.sum() < tol: break", "x"),
        _function(
            "limit > n",
            "x = torch.where(done, x, x * 0.5)\nn = n + 2\ndone = done | (x.sum() < tol)",
            "x",
            _FLAG,
        ),
        at="x.sum() < tol",
        facts=_FACTS,
        title="a count, and data inside",
    ),
    Example(
        _function("not (x < 1).all()", "if n <= low: break\nx = x * 0.5\nn -= 1", "x"),
        _function(
            "True",
            "done = done | (x < 1).all()\nif n <= low: break\n"
            "x = torch.where(done, x, x * 0.5)\nn -= 1",
            "x",
            _FLAG,
        ),
        at="(x < 1).all()",
        facts=_FACTS,
        title="a count that goes down and leaves inside",
    ),
)


def _near_miss(
    why: str, head: str = "err > tol and n < limit", body: str = "", end: str = "x"
) -> NearMiss:
    at = "err > tol"
    last = body or "err = x.sum()\nx = x * 0.5\nn += 1"
    return NearMiss(_function(head, last, end), at=at, why=why, facts=_FACTS)


WHILE_NEAR_MISSES = (
    NearMiss(
        _met("limit", "x = x * 0.5\nn += 1\nif x.sum() < tol or n == limit:\n    break"),
        at="x.sum() < tol or n == limit",
        why="the limit may be one that is never met",
        facts=_FACTS,
    ),
    _near_miss("nothing else bounds it", "err > tol"),
    _near_miss("either goes on", "err > tol or n < limit"),
    _near_miss(
        "the count is a result, and changes in a block",
        body=_STEP + "n += 1\nif k > 1:\n    n += 1",
        end="x, n",
    ),
    _near_miss("a count that data may pass over", body=_STEP + "if err > 1: continue\nn += 1"),
    _near_miss("a count that a test passes over", body=_STEP + "if k > 1: n += 1"),
    _near_miss("a count away from its limit", body=_STEP + "n -= 1"),
    _near_miss("a count that may stand still", body=_STEP + "n += k"),
    _near_miss("a limit that moves", body=_STEP + "n += 1\nlimit += 1"),
    _near_miss("a limit that is a float", "err > tol and n < scale"),
    _near_miss("a count that may jump over it", "err > tol and n != limit"),
    _near_miss("a count of a tensor", "err > tol and count < limit", _STEP + "count += 1"),
    _near_miss("two steps, one of which goes back", body=_STEP + "n += 1\nn = n - 1"),
    _near_miss("random numbers", body="err = x.sum()\nx = x + torch.rand(3)\nn += 1"),
    _near_miss("another shape", body="err = x.sum()\nx = x[:, None]\nn += 1"),
    _near_miss("a number is a result", body=_STEP + "scale *= 2\nn += 1", end="x, scale"),
    NearMiss(
        _function("err > tol and n < limit", _STEP + "n += 1", "x").replace(
            "    return", "    else:\n        x = x + 1\n    return"
        ),
        at="err > tol",
        why="its else",
        facts=_FACTS,
    ),
)

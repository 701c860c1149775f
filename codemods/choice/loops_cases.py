"""Examples and near misses of `loop-to-bound`."""

from __future__ import annotations

from dataclasses import replace

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_FACTS = {
    "x": tensor(3),
    "y": tensor(3),
    "out": tensor(4, 3),
    "err": tensor(),
    "best": tensor(dtype="torch.int64"),
    "place": tensor(dtype="torch.int64"),
    "i": scalar(0, constant=False),
    "n": scalar(4),
    "k": scalar(False, constant=False),
    "m": scalar(0, constant=False),
    "scale": scalar(0.5, constant=False),
    "names": Fact("list", "list", items=()),
    "xs": Fact("iterator", "generator"),
}


_LISTS = {
    **_FACTS,
    "kept": Fact("list", "list", items=()),
    "out[i].sum()": tensor(),
    "out[i].sum() / y.sum()": tensor(),
    "torch.log(out[i].sum())": tensor(),
    "short": tensor(dtype="torch.int16"),
}


def _function(body: str, end: str = "x", before: str = "") -> str:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    first = "".join(f"    {line}\n" for line in before.splitlines())
    return (
        "import torch\n\n\ndef f(x, y, out, n, scale, names, xs):\n"
        f"{first}    for i in range(n):\n{lines}\n    return {end}\n"
    )


def _over(rounds: str, body: str, first: str = "", end: str = "x") -> str:
    return _function(body, end, first).replace("range(n)", rounds)


def _example(title: str, before: str, after: str, at: str, end: str = "x") -> Example:
    return Example(_function(before, end), after, at=at, facts=_FACTS, title=title)


def _whole(first: str, body: str, end: str, last: str = "") -> str:
    above, behind = _function(body, end, first).rsplit("    return", 1)
    return f"{above}    {last}\n    return{behind}" if last else f"{above}    return{behind}"


#: Uses of a function of the file, whose derivative may not be finite.
_HELPED = """import torch


def part(x, y):
    return (x * y).sum() / y.sum().clamp(min=1)


def f(x, y):
    for i in range(4):
        {line}
        if err < 0.1:
            break
    return x
"""
_GIVEN = Fact("function", "function", qualname="__main__.part", in_project=True)
_HELPER_FACTS: dict[str, Fact] = {
    **_FACTS,
    "part": _GIVEN,
    "part(x, y)": tensor(),
    "err < 0.1": tensor(dtype="torch.bool"),
}
_SETTING = "import torch\n\ntorch._dynamo.config.capture_scalar_outputs = True\n"
_FLAG = "done = torch.tensor(False, device={}.device)"
EXAMPLES = (
    Example(
        _HELPED.format(line="err = part(x, y)\n        x = x - err"),
        """import torch


def part(x, y):
    return (x * y).sum() / y.sum().clamp(min=1)


def f(x, y):
    done = torch.tensor(False, device=x.device)
    for i in range(4):
        err = part(torch.where(done, 1, x), torch.where(done, 1, y))
        x = torch.where(done, x, x - err)
        done = done | (err < 0.1)
    return x
""",
        at="err < 0.1",
        facts=_HELPER_FACTS,
        title="a function of the file",
    ),
    _example(
        "what would not be finite",
        "# Halve the error.\nerr = (x * x).sum()\nif err < 1e-3: break\nx = x - y / err",
        _whole(
            _FLAG.format("x"),
            "# Halve the error.\nerr = (x * x).sum()\ndone = done | (err < 1e-3)\n"
            "x = torch.where(done, x, x - y / torch.where(done, 1, err))",
            "x",
        ),
        "err < 1e-3",
    ),
    _example(
        "a name that only rounds bind",
        "best = x.argmax()\nx = x * 0.5\nif x.sum() < 1:\n    break  # small",
        _whole(
            "best = None\n" + _FLAG.format("x"),
            "new_best = x.argmax()\n"
            "best = new_best if best is None else torch.where(done, best, new_best)\n"
            "x = torch.where(done, x, x * 0.5)\ndone = done | (x.sum() < 1)  # small",
            "x, best",
        ),
        "x.sum() < 1",
        "x, best",
    ),
    _example(
        "Python decides first",
        "x = x * 0.5\nif i > 1 and x.sum() < 1: break",
        _whole(
            _FLAG.format("x"),
            "x = torch.where(done, x, x * 0.5)\nif i > 1:\n    done = done | (x.sum() < 1)",
            "x",
        ),
        "x.sum() < 1",
    ),
    _example(
        "rows that are written, and an index that data made",
        "if out[i].sum() < 0:\n    continue\nout[i] = x[best]\nx *= out[i]",
        _function(
            "skips = out[i].sum() < 0\n"
            "out[i] = torch.where(skips, out[i], x[torch.where(skips, 0, best)])\n"
            "x *= torch.where(skips, 1, out[i])",
            "out",
        ),
        "out[i].sum() < 0",
        "out",
    ),
    _example(
        "the first row that fits is returned",
        "if out[i].sum() < 0:\n    return out[i] * 2",
        _whole(
            "found = y\n" + _FLAG.format("found"),
            "stops = torch.logical_not(done) & (out[i].sum() < 0)\n"
            "found = torch.where(stops, out[i] * 2, found)\ndone = done | stops",
            "found",
        ),
        "out[i].sum() < 0",
        "y",
    ),
    _example(
        "a round that converges is returned",
        "step = y - x\nif step.sum() < 1:\n    return step\nx = x + step * 0.5",
        _whole(
            _FLAG.format("x"),
            "step = y - x\nstops = torch.logical_not(done) & (step.sum() < 1)\n"
            "x = torch.where(stops, step, x)\ndone = done | stops\n"
            "x = torch.where(done, x, x + step * 0.5)",
            "x",
        ),
        "step.sum() < 1",
    ),
    _example(
        "what is returned behind it comes of its rounds",
        "if x.sum() < 1:\n    return y, scale\nx = x * 0.5",
        _whole(
            "found_x = None\n" + _FLAG.format("x"),
            "stops = torch.logical_not(done) & (x.sum() < 1)\n"
            "found_x = y if found_x is None else torch.where(stops, y, found_x)\n"
            "done = done | stops\nx = torch.where(done, x, x * 0.5)",
            "torch.where(done, found_x, x), scale",
            "if found_x is None:\n        return x, scale",
        ),
        "x.sum() < 1",
        "x, scale",
    ),
    Example(
        _whole("", "x = x * 0.5\nif x.sum() < 1:\n    return x", "x * 2", "x = torch.sqrt(x - 1)"),
        _whole(
            "found = None\n" + _FLAG.format("x"),
            "x = torch.where(done, x, x * 0.5)\nstops = torch.logical_not(done) & (x.sum() < 1)\n"
            "found = x if found is None else torch.where(stops, x, found)\ndone = done | stops",
            "torch.where(done, found, x * 2)",
            "x = torch.sqrt(torch.where(done, 1, x - 1))\n"
            "    if found is None:\n        return x * 2",
        ),
        at="x.sum() < 1",
        facts=_FACTS,
        title="what is computed behind it counts where no round returned",
    ),
    _example(
        "Python leaves a round that data may have ended",
        "if x.sum() < 1: break\nif i == 2:\n    y = y + 1\n    continue\nx = x * y",
        _whole(
            _FLAG.format("y"),
            "done = done | (x.sum() < 1)\nif i == 2:\n    y = torch.where(done, y, y + 1)\n"
            "    continue\nx = torch.where(done, x, x * y)",
            "x",
        ),
        "x.sum() < 1",
    ),
    Example(
        _function(
            "m = i + 1\nx = x * 0.5\nif x.sum() < 1:\n    k = True\n    break",
            "x, i, m, k",
            "k = False\nm = 0",
        ),
        _SETTING
        + _function(
            "last_i = torch.tensor(i, device=x.device) if last_i is None else"
            " torch.where(done, last_i, i)\n"
            "m = torch.where(done, m, i + 1)\nx = torch.where(done, x, x * 0.5)\n"
            "stops = torch.logical_not(done) & (x.sum() < 1)\n"
            "k = torch.where(stops, True, k)\ndone = done | stops",
            "x, i, m, k",
            "k = False\nm = 0\nlast_i = None\nm = torch.tensor(m, device=x.device)\n"
            "k = torch.tensor(k, device=x.device)\n" + _FLAG.format("x"),
        )
        .removeprefix("import torch\n")
        .replace(
            "    return", "    i = last_i.item()\n    m = m.item()\n    k = k.item()\n    return"
        ),
        at="x.sum() < 1",
        facts=_FACTS,
        title="where it stopped, and whether it did",
    ),
    Example(
        _function(
            "if out[i].sum() == 0: continue\nkept.append(torch.log(out[i].sum()))",
            "torch.stack(kept).mean()",
            "kept = []",
        )
        .replace("    return", "    if not kept: return y\n    return")
        .replace("range(n)", "range(4)"),
        _function(
            "skips = out[i].sum() == 0\n"
            "kept.append(torch.log(torch.where(skips, 1, out[i]).sum()))\n"
            "kept_kept.append(torch.logical_not(skips))",
            "(torch.where(kept_kept, torch.stack(kept), 0).sum() / kept_kept.sum().clamp(min=1))",
            "kept = []\nkept_kept = []",
        )
        .replace(
            "    return",
            "    kept_kept = torch.stack(kept_kept)\n"
            "    if not kept_kept.any(): return y\n    return",
        )
        .replace("range(n)", "range(4)"),
        at="out[i].sum() == 0",
        facts={
            **_FACTS,
            "torch.log(out[i].sum())": tensor(),
            "kept": Fact("list", "list", items=()),
        },
        title="the mean of what rounds add to a list",
    ),
    Example(
        _function(
            "if out[i].sum() > 0:\n    kept.append(out[i].sum() / y.sum())",
            "sum(kept) / len(kept)",
            "kept = []",
        ),
        _function(
            "counts = out[i].sum() > 0\n"
            "kept.append(torch.where(counts, out[i], 1).sum() / torch.where(counts, y.sum(), 1))\n"
            "kept_kept.append(counts)",
            "torch.where(torch.stack(kept_kept), torch.stack(kept), 0).sum() / "
            "torch.stack(kept_kept).sum().clamp(min=1)",
            "kept = []\nkept_kept = []",
        ).replace(
            "    return",
            "    if not kept or not torch.stack(kept_kept).any():\n"
            '        raise ZeroDivisionError("division by zero")\n    return',
        ),
        at="out[i].sum() > 0",
        facts={
            **_FACTS,
            "out[i].sum() / y.sum()": tensor(),
            "kept": Fact("list", "list", items=()),
        },
        title="rounds that add to a list, and what nothing in it raises",
    ),
    Example(
        _over("range(int(y.clamp(0, 4).nan_to_num().max()))", "x = x * 0.5 - i  # one step"),
        _over(
            "range(4)",
            "done = i >= rounds\nx = torch.where(done, x, x * 0.5 - i)  # one step",
            "rounds = y.clamp(0, 4).nan_to_num().max().long()",
        ),
        at="int(y.clamp(0, 4).nan_to_num().max())",
        facts=_FACTS,
        title="as many rounds as data say, up to a bound that stands in the text",
    ),
)


def _near_miss(why: str, body: str, end: str = "x", at: str = "x.sum() < 1") -> NearMiss:
    return NearMiss(_function(body, end), at=at, why=why, facts=_FACTS)


_ENDS = "\nif x.sum() < 1: break"
_ROW = {**_FACTS, "row": replace(tensor(3), storage=5)}
_NEAR_MISSES = (
    NearMiss(
        _function(
            "if x.sum() < 1: continue\nrow = out[i]\nfor k in names: row[k] = 0\nx = x + row"
        ),
        at="x.sum() < 1",
        why="rows of what somebody holds are written",
        facts=_ROW,
    ),
    _near_miss("a Python number is a result", "x = x * 2\nscale = scale * 2" + _ENDS, "x, scale"),
    _near_miss("where it stopped, of a list", "i = xs[i]\nx = x * 2" + _ENDS, "x, i"),
    _near_miss("a count that a block changes", "if i > 1: n = n - 1\nx = x * 2" + _ENDS, "x, n"),
    _near_miss("a count of tensors", "n = n + int(x.sum())\nx = x * 2" + _ENDS, "x, n"),
    _near_miss("a count that is read below the test",
               "x = x * n\nif x.sum() < 1:\n    n = 0\n    break", "x, n"),
    _near_miss("a list grows", "x = x * 2\nnames.append(x)" + _ENDS, "names"),
    *(
        NearMiss(
            _function(f"if out[i].sum() > 0: kept.append({value})", end, f"kept = {first}"),
            at="out[i].sum() > 0",
            why=why,
            facts=_LISTS,
        )
        for value, end, first, why in (
            ("out[i].sum()", "kept", "[]", "the list is a result"),
            ("out[i].sum()", "torch.stack(kept).max()", "[]", "another reduction"),
            ("out[i].sum()", "len(kept)", "[]", "the count is a result"),
            ("out[i].sum()", "sum(kept) / len(kept)", "[err]", "the list holds something before"),
            ("out[i]", "torch.stack(kept).mean()", "[]", "rows"),
            ("i", "sum(kept) / len(kept)", "[]", "numbers"),
            ("kept[-1]", "sum(kept) / len(kept)", "[]", "it is read in a round"),
            ("best", "torch.stack(kept).mean()", "[]", "whole numbers have no mean"),
            ("short", "sum(kept) / len(kept)", "[]", "torch adds up short numbers as long ones"),
        )
    ),
    *(
        NearMiss(
            _HELPED.format(line="err = part(x, y)\n        x = x - err").replace(*change),
            at="err < 0.1",
            why=why,
            facts={**_HELPER_FACTS, **facts},
        )
        for why, change, facts in (
            ("the function counts", ("    return (x", "    y.count += 1\n    return (x"), {}),
            ("it calls unknown code", ("x * y", "ask(x) * y"), {}),
            ("it draws", ("x * y", "torch.rand(3) * y"), {}),
            ("it may fail", ("x * y", "torch.linalg.inv(x) * y"), {}),
            (
                "it is of a file that nobody knows",
                ("x * y", "y * x"),
                {
                    "part": Fact(
                        "function", "function", qualname="other.part", in_project=True
                    )
                },
            ),
        )
    ),
    _near_miss("random numbers", "x = x + torch.rand(3)" + _ENDS),
    _near_miss("output", "print(i)\nx = x * 2" + _ENDS),
    _near_miss("unknown code", "x = xs(x)" + _ENDS),
    _near_miss("in place", "x.mul_(2)" + _ENDS),
    _near_miss("in place, in a block", "if i > 1:\n    x += y" + _ENDS),
    _near_miss("may fail", "x = torch.linalg.inv(x)" + _ENDS),
    _near_miss("another dtype", "x = x.double()" + _ENDS),
    _near_miss("an attribute", "y.grad = x\nx = x * 2" + _ENDS),
    _near_miss("nothing may be selected", "if x.sum() < 1: continue\nx = x[x > 0].max() * x"),
    _near_miss("a round returns a number", "x = x * 2\nif x.sum() < 1: return scale"),
    _near_miss("a round returns where it stands", "if x.sum() < 1: return i", "y"),
    _near_miss("another dtype is returned", "x = x * 2\nif x.sum() < 1: return best"),
    _near_miss("Python may return, too",
               "x = x * 2\nif i == 2: return y\nif x.sum() < 1: return x"),
    _near_miss("nothing is returned", "x = x * 2\nif x.sum() < 1: return"),
    _near_miss("as many are not returned", "x = x * 2\nif x.sum() < 1: return y, x", "x"),
    _near_miss("several are returned, one of them a number",
               "x = x * 2\nif x.sum() < 1: return y, i", "x, 0"),
    NearMiss(_whole("", "x = x * 0.5\nif x.sum() < 1: return x", "x", "x += y"),
             at="x.sum() < 1", why="behind it a tensor is changed in place", facts=_FACTS),
    _near_miss("Python ends it in a round that data has ended",
               "if x.sum() < 1: continue\nif i == 2:\n    y = y + 1\n    break\nx = x * y"),
    _near_miss("a number that skipped rounds do not count",
               "if x.sum() < 1: continue\nscale = scale * 2\nx = x * scale"),
)  # fmt: skip
_COUNTED = tuple(
    NearMiss(_over(f"range({number})", body, end=end), at=number, why=why, facts=_FACTS)
    for number, body, end, why in (
        ("int(y.abs().max())", "x = x * 2", "x", "nothing bounds the number"),
        ("int(y.clamp(min=0).max())", "x = x * 2", "x", "it is bounded from below alone"),
        ("int(y.clamp(0, 900).max())", "x = x * 2", "x", "too many rounds to write out"),
        ("int(y.clamp(0, 3).sum())", "x = x * 2", "x", "a sum of what is bounded is not"),
        (
            "int(-y.clamp(0, 3).max())",
            "x = x * 2",
            "x",
            "a bound from above is one from below",
        ),
        ("int(err.clamp(0, 3).max(out))", "x = x * 2", "x", "the larger of two tensors"),
        ("int(torch.clamp(y, 1, 3).max())", "x = x * 2", "x", "a function, with other arguments"),
        ("int(y.clamp(0, 3).nan_to_num(9.0).max())", "x = x * 2", "x", "NaN is more"),
        ("int(y.clamp(0, 3).max())", "x = x * 2", "x, i", "the counter is used afterwards"),
        ("int(y.clamp(0, 3).max())", "names.append(x)", "names", "a list grows"),
    )
)
NEAR_MISSES: tuple[NearMiss, ...] = (*_NEAR_MISSES, *_COUNTED)

"""Examples and near misses of wrap-piece."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_HEAD = """
import zlib

import torch


"""


def _helper(body: str, before: str = "") -> str:
    return f"""{_HEAD}{before}def buckets(ids, count):
    {body}


@torch.compile
def f(x, ids):
    return x + buckets(ids, 7)
"""


_LOOP = """found = []
    for i in ids.tolist():
        found.append(zlib.crc32(str(i).encode()) % count)
    return torch.tensor(found)"""
_OPERATOR = """@torch.library.custom_op("example::buckets_op", mutates_args=())
def buckets_op(ids: torch.Tensor, count: int) -> torch.Tensor:
    found = []
    for i in ids.tolist():
        found.append(zlib.crc32(str(i).encode()) % count)
    return torch.tensor(found)


@buckets_op.register_fake
def _(ids, count):
    return torch.empty(ids.shape, dtype=torch.int64 if ids.shape[0] else torch.get_default_dtype())


"""
_AT = "zlib.crc32(str(i).encode())"
_FACTS = {
    "ids": tensor(5, dtype="torch.int64"),
    "count": scalar(7),
    "ids.tolist()": Fact("list", "list", items=(scalar(1),)),
    "found": Fact("list", "list", items=()),
    "torch.tensor(found)": tensor(5, dtype="torch.int64"),
    "i": scalar(1),
    "zlib.crc32": Fact("function", "function", qualname="zlib.crc32"),
}


def _near_miss(body: str, why: str, facts: dict[str, Fact] | None = None) -> NearMiss:
    return NearMiss(_helper(body), at=_AT, why=why, facts=_FACTS | (facts or {}))


_ROWS = """rows = ids.tolist()
    return torch.tensor([[zlib.crc32(f"{i} {j}".encode()) % count for j in rows] for i in rows])"""
_ROWS_OPERATOR = f"""@torch.library.custom_op("example::buckets_op", mutates_args=())
def buckets_op(ids: torch.Tensor, count: int) -> torch.Tensor:
    {_ROWS}


@buckets_op.register_fake
def _(ids, count):
    return torch.empty(
        (ids.shape[0], ids.shape[0]) if ids.shape[0] else (0,),
        dtype=torch.int64 if ids.shape[0] else torch.get_default_dtype(),
    )


"""
_SUMS = "torch.tensor([zlib.crc32(str(i).encode()) for i in ids.tolist()], dtype=torch.int64)"
_NO_GRAD = f"""{_HEAD}@torch.compile
def f(x, ids):
    with torch.no_grad():
        sums = {_SUMS}
    return x + sums
"""
_NO_GRAD_OPERATOR = f"""{_HEAD}@torch.library.custom_op("example::f_op", mutates_args=())
def f_op(ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        sums = {_SUMS}
    return sums


f_op.register_fake(lambda ids: torch.empty(ids.shape, dtype=torch.int64))


@torch.compile
def f(x, ids):
    sums = f_op(ids)
    return x + sums
"""
_BESIDE = f"""{_HEAD}@torch.compile
def f(x, ids):
    with torch.no_grad():
        sums = {_SUMS}
        y = x * 2
    return y + sums
"""
_BESIDE_OPERATOR = f"""{_HEAD}@torch.library.custom_op("example::f_op", mutates_args=())
def f_op(ids: torch.Tensor) -> torch.Tensor:
    return {_SUMS}


f_op.register_fake(lambda ids: torch.empty(ids.shape, dtype=torch.int64))


@torch.compile
def f(x, ids):
    with torch.no_grad():
        sums = f_op(ids)
        y = x * 2
    return y + sums
"""
_ROOT = f"""{_HEAD}{{0}}def near(a, eps):
    x = torch.ones_like(a)
    while (x * x - a).abs().max().item() > eps:
        x = (x + a / x) / 2
    return x


@torch.compile
def f(x, y):
    return near(x * 2, 0.001) + y
"""
_ROOT_FACTS = {
    "x": tensor(3, requires_grad=True),
    "a": tensor(3, requires_grad=True),
    "eps": scalar(0.001),
    "(x * x - a).abs().max().item()": scalar(1.0),
    "(x + a / x) / 2": tensor(3, requires_grad=True),
}
_ROUNDS = """    while (x * x - a).abs().max().item() > eps:
        x = (x + a / x) / 2
"""
_ROOT_AT = "(x * x - a).abs().max().item()"


_ROOT_OPERATORS = """\
def near_op_plain(x: torch.Tensor, a: torch.Tensor, eps: torch.types.Number) -> torch.Tensor:
    while (x * x - a).abs().max().item() > eps:
        x = (x + a / x) / 2
    return x.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("example::near_op", mutates_args=())
def near_op(x: torch.Tensor, a: torch.Tensor, eps: torch.types.Number) -> torch.Tensor:
    return near_op_plain(x, a, eps)


near_op.register_fake(lambda x, a, eps: x.new_empty(x.shape))


# The backward runs `near_op_plain` once more, and follows it.
@torch.library.custom_op("example::near_op_backward", mutates_args=())
def near_op_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    a: torch.Tensor,
    eps: torch.types.Number,
) -> tuple[torch.Tensor, torch.Tensor]:
    _, pull = torch.func.vjp(lambda x, a: near_op_plain(x, a, eps), x, a)
    return tuple(part.clone(memory_format=torch.contiguous_format) for part in pull(grad))


@near_op_backward.register_fake
def _(grad, x, a, eps):
    return (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        torch.empty_like(a, memory_format=torch.contiguous_format),
    )


def near_op_keep(ctx, inputs, output):
    x, a, eps = inputs
    ctx.save_for_backward(x, a)
    ctx.eps = eps


def near_op_pull(ctx, grad):
    x, a = ctx.saved_tensors
    of_x, of_a = near_op_backward(grad, x, a, ctx.eps)
    return of_x, of_a, None


near_op.register_autograd(near_op_pull, setup_context=near_op_keep)


"""


def _root_miss(why: str, old: str, new: str, before: str = "") -> NearMiss:
    text = _ROOT.format(before).replace(old, new)
    return NearMiss(text, at=_ROOT_AT, why=why, facts=_ROOT_FACTS)


_TABLE = f"""{_HEAD}@OPtorch._dynamo.config.capture_scalar_outputs = True


def marks(ids):
    found = {{i: zlib.crc32(str(i).encode()) / 7 for i in ids.tolist()}}
    found["mean"] = sum(found.values()) / len(ids)
    return found


@torch.compile
def f(x, ids):
    scores = marks(ids)
    return x, scores["mean"]
"""
_TABLE_OPERATOR = """@torch.library.custom_op("example::marks_op", mutates_args=())
def marks_op(ids: torch.Tensor) -> torch.Tensor:
    scores = marks(ids)
    return torch.tensor(scores["mean"], dtype=torch.float64)


marks_op.register_fake(lambda ids: torch.empty((), dtype=torch.float64))


@torch.compile
"""
_TABLE_FACTS = {
    "ids": tensor(5, dtype="torch.int64"),
    "x": tensor(3),
    "marks": Fact("function", "function", qualname="marks", in_project=True),
    "marks(ids)": Fact("dict", "dict"),
    "scores": Fact("dict", "dict"),
    'scores["mean"]': Fact("float", "float", value=0.5),
}


def _table(*, done: bool) -> str:
    text = _TABLE
    if not done:
        return text.replace("@OPtorch._dynamo.config.capture_scalar_outputs = True\n\n\n", "")
    text = text.replace("\n\n\n@OP", "\n\n").replace("@torch.compile\n", _TABLE_OPERATOR)
    return text.replace("scores = marks(ids)\n    return x, scores[\"mean\"]",
                        "scores = marks_op(ids).item()\n    return x, scores")  # fmt: skip


EXAMPLES = (
    Example(
        _table(done=False),
        _table(done=True),
        at="scores = marks(ids)",
        facts=_TABLE_FACTS,
        title="the one number that is read out of a table",
    ),
    Example(
        _ROOT.format(""),
        _ROOT.format("")
        .replace(_ROUNDS, "    x = near_op(x, a, eps)\n")
        .replace("def near(", _ROOT_OPERATORS + "def near("),
        at=_ROOT_AT,
        facts=_ROOT_FACTS,
        title="rounds through which a gradient goes",
    ),
    Example(
        _helper(_ROWS),
        _helper("return buckets_op(ids, count)", _ROWS_OPERATOR),
        at='zlib.crc32(f"{i} {j}".encode())',
        facts=_FACTS
        | {
            "rows": _FACTS["ids.tolist()"],
            "j": scalar(1),
            _ROWS.partition("return ")[2]: tensor(5, 5, dtype="torch.int64"),
        },
        title="a table that has one dimension where it has no rows",
    ),
    Example(
        _NO_GRAD,
        _NO_GRAD_OPERATOR,
        at="zlib.crc32(str(i).encode())",
        facts=_FACTS | {_SUMS: tensor(5, dtype="torch.int64"), "x": tensor(5)},
        title="all that there is without gradients",
    ),
    Example(
        _BESIDE,
        _BESIDE_OPERATOR,
        at="zlib.crc32(str(i).encode())",
        facts=_FACTS | {_SUMS: tensor(5, dtype="torch.int64"), "x": tensor(5)},
        title="other code without gradients stays in the graph",
    ),
    Example(
        _helper(_LOOP),
        _helper("return buckets_op(ids, count)", _OPERATOR),
        at=_AT,
        facts=_FACTS,
        title="a hash of every id",
    ),
)
_NUMBERS = f"""{_HEAD}import random
import time


def marks(count):
    return torch.tensor([zlib.crc32(bytes(i)) + 0 for i in range(count)])


@torch.compile
def f(x):
    return x + marks(7)
"""
_NUMBERS_AT = "zlib.crc32(bytes(i))"
_NUMBERS_FACTS = {
    "x": tensor(7),
    "count": scalar(7),
    "i": scalar(1),
    "torch.tensor([zlib.crc32(bytes(i)) + 0 for i in range(count)])": tensor(
        7, dtype="torch.int64"
    ),
}


def _of_numbers(more: str, why: str) -> NearMiss:
    """A helper that is given no tensor, and depends on more than its numbers."""
    text = "torch.tensor([zlib.crc32(bytes(i)) + 0 for i in range(count)])"
    facts = {**_NUMBERS_FACTS, text.replace("+ 0", f"+ {more}"): tensor(7, dtype="torch.int64")}
    return NearMiss(_NUMBERS.replace("+ 0", f"+ {more}"), at=_NUMBERS_AT, why=why, facts=facts)


_LAYERS = f"""{_HEAD}NET = torch.nn.Linear(3, 3)


@torch.compile
def f(x, ids):
    for i in ids.tolist():
        x = NET(x) + zlib.crc32(str(i).encode())
    return x
"""
NEAR_MISSES = (
    NearMiss(
        _LAYERS,
        at=_AT,
        why="the layers run in it: nothing would be compiled",
        facts=_FACTS
        | {"x": tensor(3), "NET(x)": tensor(3), "NET": Fact("module", "torch.nn.Linear")},
    ),
    NearMiss(
        _table(done=False),
        at="scores = marks(ids)",
        why="a whole number there may be a fraction in another call",
        facts=_TABLE_FACTS | {'scores["mean"]': scalar(1)},
    ),
    NearMiss(
        _table(done=False).replace('scores["mean"]', 'scores["mean"], scores'),
        at="scores = marks(ids)",
        why="the table itself leaves",
        facts=_TABLE_FACTS,
    ),
    _of_numbers("random.randint(0, 9) + time.time_ns()", "the clock, without a tensor beside it"),
    _of_numbers("time.time_ns()", "the clock, without a tensor to keep its order"),
    _of_numbers("int(torch.randint(9, ()))", "torch's own draws, in whose order others stand"),
    _root_miss(
        "its second run would draw others",
        "/ 2",
        "/ 2 + 1e-9 * random.random()",
        "import random\n\n\n",
    ),
    _root_miss("an effect", "        x = (x", "        print(1)\n        x = (x"),
    _root_miss("it looks at autograd", "/ 2", "/ (2 if x.requires_grad else 3)"),
    _root_miss(
        "a tensor of its own may have a gradient",
        "a / x",
        "W * a / x",
        "W = torch.nn.Parameter(V)\n\n\n",
    ),
    _root_miss("a layer's parameters", "a / x", "L(a) / x", "L = torch.nn.Linear(3, 3)\n\n\n"),
    _root_miss("it changes what it is given", "/ 2", "/ 2; a.mul_(1)"),
    _near_miss(
        _LOOP,
        "a gradient goes through it",
        {"torch.tensor(found)": tensor(5, requires_grad=True)},
    ),
    _near_miss(
        _LOOP.replace("return torch.tensor(found)", "return found"),
        "gives a list",
    ),
    _near_miss(
        _LOOP.replace("found = []", "global SEEN; found = []; SEEN = ids"), "binds a global name"
    ),
    NearMiss(
        _helper(
            "STATE[0] = count\n    " + _LOOP.replace("% count", "% STATE[0]"), "STATE = [7]\n\n\n"
        ),
        at="zlib.crc32(str(i).encode())",
        why="it reads what the compiled function changes: the graph runs before that is done",
        facts=_FACTS,
    ),
    NearMiss(
        """
        import torch

        class Scale:
            def fit(self, x):
                if x.amax() > self.most:
                    self.most = x.amax()
                    print("up")

        SCALE = Scale()

        def f(x):
            SCALE.fit(x)
            return x / SCALE.most
        """,
        at="SCALE.fit(x)",
        why="it changes what the compiled function reads besides: the graph has that from before",
        facts={
            "x": tensor(3),
            "SCALE": Fact("object", "Scale", in_project=True),
            "SCALE.fit(x)": Fact("none"),
        },
    ),
    _near_miss(_LOOP, "an object goes in", {"count": Fact("object", "Config", in_project=True)}),
)

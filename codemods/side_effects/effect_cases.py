"""Examples and near misses of `effect-to-op`."""

from __future__ import annotations

import re

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

from ..wrap.own_state import qualified

_SOURCE = """
import json

import torch

SEEN = []


class Bar:
    def __init__(self):
        self.n = 0

    def update(self, loss):
        self.n += 1
        print(self.n, loss)


class Seen:
    once = False


BAR = Bar()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.losses = []
        self.path = "log.txt"

    def forward(self, x, n, own, asked=None):
        loss = x.mean()
        {}
        return loss
"""
_FACTS = {
    "x": tensor(3, requires_grad=True),
    "loss": tensor(requires_grad=True),
    "loss.item()": scalar(1.0),
    "x.min().item()": scalar(1.0),
    "n": scalar(3),
    "own": Fact("list", "list"),
    "self": Fact("module", "example.Net"),
    "self.losses": Fact("list", "list"),
    "self.path": scalar("log.txt"),
    "SEEN": Fact("list", "list"),
    "BAR": Fact("object", "example.Bar"),
    "asked": Fact("object", "example.Asked"),
    "len(asked)": scalar(3),
}
_REPORT = """
import torch


def report(x, name):
    {}
    return x + 1
"""
_SHOWN = {"x": tensor(3), "name": scalar("x")}
_TEXTS = _SHOWN | {"x.mean()": tensor(), "x.max()": tensor(), "text": Fact("str", "str")}
_TABLE = "#: Objects by their identity, which is what an operator can take of them.\n"


def _operator(name: str, signature: str, body: str) -> str:
    names = ", ".join(part.partition(":")[0] for part in signature.split(", "))
    keeps = re.search("SEEN|BAR|OWNERS|Seen", body) is not None
    return f"""
@torch.library.custom_op({qualified(name, keeps_state=keeps)}, mutates_args=())
def {name}({signature}) -> None:
    {body}


{name}.register_fake(lambda {names}: None)
{name}.register_effect(torch.library.EffectType.ORDERED)
"""


def _example(
    title: str, before: str, after: str, name: str, signature: str, body: str, at: str
) -> Example:
    new = _SOURCE.format(after)
    operator = _operator(name, signature, body)
    return Example(
        _SOURCE.format(before),
        new.replace("\n\nclass Net", f"\n{operator}\n\nclass Net"),
        at=at,
        facts=_FACTS,
        title=title,
    )


def _own() -> Example:
    before = _SOURCE.format("self.losses.append(loss.item())")
    body = "owner = OWNERS[owner_id]\n    owner.losses.append(loss.item())"
    operator = _operator("keep_forward", "loss: torch.Tensor, owner_id: int", body)
    new = """    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def forward("""
    after = _SOURCE.format("keep_forward(loss, id(self))").replace("    def forward(", new)
    after = after.replace("import torch\n", "import torch\nimport weakref\n", 1)
    table = f"\n\n{_TABLE}OWNERS = weakref.WeakValueDictionary()\n"
    after = after.replace("\n\nclass Net", f"{table}\n{operator}\n\nclass Net")
    return Example(before, after, at="loss.item()", facts=_FACTS, title="a list of the object")


_WRAPPER = """
import torch


def counted(fn):
    def wrapper(x):
        {}
        return fn(x)

    return wrapper
"""
_WRAPPED = {"x": tensor(3), "fn": Fact("function", "function"), "fn.__qualname__": scalar("f")}


def _wrapper() -> Example:
    before = _WRAPPER.format("print(fn.__qualname__)")
    call = "print_wrapper(torch.empty(0), qualname)"
    new = _WRAPPER.format(call).replace("    def w", "    qualname = fn.__qualname__\n    def w")
    body = """# inductor may misplace an operator that takes no tensor: hence the anchor.
    print(qualname)"""
    operator = _operator("print_wrapper", "anchor: torch.Tensor, qualname: str", body)
    after = new.replace("\n\ndef counted", f"\n{operator}\n\ndef counted")
    return Example(
        before,
        after,
        at="print(fn.__qualname__)",
        facts=_WRAPPED,
        title="what the wrapped function is called",
    )


EXAMPLES = (
    _wrapper(),
    _example(
        "a line in a file",
        """row = {"loss": loss.item()}
        with open(self.path, "a") as fh:
            fh.write(json.dumps(row))""",
        "write_forward(loss, self.path)",
        "write_forward",
        "loss: torch.Tensor, path: str",
        """row = {"loss": loss.item()}
    with open(path, "a") as fh:
        fh.write(json.dumps(row))""",
        'open(self.path, "a")',
    ),
    _example(
        "a meter of the module, and a list",
        "BAR.update(loss.item())\n        SEEN.append(loss.item())  # python numbers",
        "update_forward(loss)".replace("update_", "keep_"),
        "keep_forward",
        "loss: torch.Tensor",
        "BAR.update(loss.item())\n    SEEN.append(loss.item())  # python numbers",
        "loss.item()",
    ),
    _own(),
    _example(
        "a flag of a class",
        "if not Seen.once and loss > n:\n            print(n)\n            Seen.once = True",
        "print_forward(loss, n)",
        "print_forward",
        "loss: torch.Tensor, n: torch.types.Number",
        "if not Seen.once and loss > n:\n        print(n)\n        Seen.once = True",
        "loss > n",
    ),
    _example(
        "the extremes of an array, which are numbers",
        """a = x.detach().numpy()
        SEEN.append((a.min(), a.max()))""",
        "keep_forward(x)",
        "keep_forward",
        "x: torch.Tensor",
        """a = x.detach().numpy()
    SEEN.append((a.min(), a.max()))""",
        "x.detach()",
    ),
    Example(
        _REPORT.format("print(name, x)"),
        _REPORT.format(
            """if type(x) is not torch.Tensor or x.requires_grad:
        print(name, x)
    else:
        print_report(str(name), x)"""
        ).replace(
            "\n\ndef report",
            "\n"
            + _operator("print_report", "name: str, x: torch.Tensor", "print(name, x)")
            + "\n\ndef report",
        ),
        at="print(name, x)",
        facts=_SHOWN,
        title="a tensor as text, which would show how autograd came to it",
    ),
    Example(
        _REPORT.format(
            'text = f"mean {x.mean():.3f}"\n    text += f", largest {x.max():.3f}"\n    print(text)'
        ),
        _REPORT.format("print_report(x)").replace(
            "\n\ndef report",
            "\n"
            + _operator(
                "print_report",
                "x: torch.Tensor",
                'text = f"mean {x.mean():.3f}"\n    text += f", largest {x.max():.3f}"\n'
                "    print(text)",
            )
            + "\n\ndef report",
        ),
        at="print(text)",
        facts=_TEXTS,
        title="a text that is made of tensors",
    ),
)


def _of_text(lines: str, why: str) -> NearMiss:
    return NearMiss(_REPORT.format(lines), at="print(text)", why=why, facts=_TEXTS)


def _near_miss(statement: str, why: str, at: str) -> NearMiss:
    return NearMiss(_SOURCE.format(statement), at=at, why=why, facts=_FACTS)


NEAR_MISSES = (
    _near_miss(
        "if not Seen.once and loss > n:\n            Seen.once = True\n        n = Seen.once",
        "a flag of a class that compiled code reads, too",
        "loss > n",
    ),
    _near_miss("SEEN.append(loss)", "keeps a tensor", "SEEN.append(loss)"),
    _near_miss(
        "SEEN.append(loss.item())\n        loss = loss * len(SEEN)", "is read", "loss.item()"
    ),
    _near_miss(
        "self.losses = self.losses + [loss.item()]\n        loss = loss * len(self.losses)",
        "what it sets is read",
        "loss.item()",
    ),
    _near_miss(
        "self.losses = self.losses + [loss.item()]\n        loss = loss * len(getattr(self, n))",
        "what it sets may be read by a name that is computed",
        "loss.item()",
    ),
    _near_miss("n = BAR.update(loss.item())\n        x = x * n", "its result", "loss.item()"),
    _near_miss("own.append(loss.item())", "a list that the caller holds", "loss.item()"),
    _near_miss("own.sort(key=print(1))", "its order changes", "print(1)"),
    _near_miss("print(x.add_(1))", "changes a tensor", "print(x.add_(1))"),
    _near_miss("print(x)", "shows its grad_fn", "print(x)"),
    _near_miss("print(torch.rand(2))", "draws", "print(torch.rand(2))"),
    _near_miss("print(loss.grad_fn)", "asks autograd", "print(loss.grad_fn)"),
    _near_miss("print(x @ x)", "a product that autocast changes", "print(x @ x)"),
    _near_miss(
        "if loss > n:\n            print(len(asked))", "a length asked in some runs", "loss > n"
    ),
    _near_miss("if loss > 0: return print(n)", "leaves the function", "loss > 0"),
    _near_miss(
        "low = x.min().item()\n        loss = self.act(x).mean()\n        print(low)",
        "a layer between may work in place",
        "x.min().item()",
    ),
    _near_miss("loss.item()", "no effect", "loss.item()"),
    _near_miss("SEEN.append(x.detach().numpy())", "an array is the tensor's memory", "x.detach()"),
    _near_miss("SEEN.append(x.detach().numpy().max(0))", "may be an array", "x.detach()"),
    _near_miss("SEEN.append(x.detach().max())", "a tensor of its own", "x.detach()"),
    _near_miss(
        "a = x.detach().numpy()\n        a = x.detach()\n        SEEN.append(a.min())",
        "a tensor by then",
        "x.detach().numpy()",
    ),
    _near_miss("own(loss.item())", "a function that is passed in", "own(loss.item())"),
    _of_text(
        'text = f"{x.mean():.3f}"\n    x.add_(1)\n    print(text)', "the tensor changes before"
    ),
    _of_text(
        'text = f"{x.mean():.3f}"\n    x = x + 1\n    print(text)', "the name is bound anew before"
    ),
    _of_text(
        'text = f"{x.mean():.3f}"\n    text += name\n    print(text)\n    name = text',
        "the text is kept, too",
    ),
)

"""Layers that a test leaves out: what may be evaluated in vain, and what may not."""

from __future__ import annotations

import dataclasses

from gbfix.codemod import Example, NearMiss, scalar, tensor
from gbfix.schema import Fact

_SOURCE = """
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, n, act=None):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(n), nn.Linear(n, n)
        self.drop = nn.Dropout(0.1)
        self.act = act
        self.calls = 0

    def forward(self, x, scale=None):
        {body}


class Stack(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.blocks = nn.ModuleList({blocks})

    def forward(self, x):
        for block in self.blocks:
            if self.training and torch.rand([]) < 0.2:
                continue
            x = block(x)
        return x
"""
_BLOCKS = "[Block(n) for _ in range(2)]"
_AT = "torch.rand([]) < 0.2"
_FACTS = {
    "x": tensor(2, 3),
    "block": Fact("module", "main.Block"),
    "self.training": scalar(True),
    "torch.rand([])": tensor(),
    "torch.rand([]) < 0.2": tensor(dtype="torch.bool"),
    "block(x)": tensor(2, 3),
}


def _text(body: str, blocks: str) -> str:
    return _SOURCE.format(body="\n        ".join(body.split("\n")), blocks=blocks)


def _example(title: str, body: str, *new: str) -> Example:
    before = _text(body, _BLOCKS)
    start = before.index("            if self.training and")
    end = before.index("        return x", start)
    after = before[:start] + "".join(f"            {line}\n" for line in new) + before[end:]
    return Example(before, after, at=_AT, facts=_FACTS, title=title)


def _near_miss(why: str, body: str, blocks: str = _BLOCKS) -> NearMiss:
    return NearMiss(_text(body, blocks), at=_AT, why=why, facts=_FACTS)


def _of_base(example: Example, base: str, more: str = "") -> Example:
    """The same with a block that gets its ``forward``, or what that calls, from a class below."""

    def extended(text: str) -> str:
        text = text.replace("class Block(nn.Module)", f"class Block({base})")
        return text.replace(
            "super().__init__()\n        self.norm", f"super().__init__({more})\n        self.norm"
        )

    return dataclasses.replace(
        example, before=extended(example.before), after=extended(example.after)
    )


_LEFT_OUT = (
    "if self.training:",
    "    x = torch.where(torch.rand([]) < 0.2, x, block(x))",
    "else:",
    "    x = block(x)",
)
EXAMPLES = (
    _of_base(
        _example("a layer of torch's, extended", "return super().forward(x * 2)", *_LEFT_OUT),
        "nn.Linear",
        "n, n",
    ),
    _example(
        "a layer that is left out",
        "y = F.relu(self.fc(self.norm(x)))\nif scale is not None:\n    y = y * scale\nreturn x + y",
        *_LEFT_OUT,
    ),
    _example(
        "a layer with a derivative that may be infinite",
        "return x + self.fc(x).abs().sqrt()",
        "if self.training:",
        "    rand_below_0_2 = torch.rand([]) < 0.2",
        "    x = torch.where(",
        "        rand_below_0_2,",
        "        x,",
        "        block(torch.where(rand_below_0_2, 1, x)),",
        "    )",
        "else:",
        "    x = block(x)",
    ),
)
NEAR_MISSES = (
    _near_miss("the layer draws random numbers", "return x + self.drop(self.fc(x))"),
    _near_miss(
        "the layer draws random numbers",
        "return x + F.dropout(self.fc(x), p=0.1, training=self.training)",
    ),
    *(
        NearMiss(
            _text("return super().forward(x * 2)", _BLOCKS).replace(
                "class Block(nn.Module)", f"class Block(nn.{base})"
            ),
            at=_AT,
            why=f"a layer of torch's, extended, {why}",
            facts=_FACTS,
        )
        for base, why in (("ReLU", "may write to its input"), ("Dropout", "draws random numbers"))
    ),
    _near_miss("the layer counts its calls", "self.calls += 1\nreturn self.fc(x)"),
    _near_miss("the layer changes its input", "x += self.fc(x)\nreturn x"),
    _near_miss("the layer changes its input", "y = x.view(-1)\ny[0] = 1\nreturn self.fc(x)"),
    _near_miss("the layer changes its input", "return self.fc(x).add(x.clamp_(0))"),
    _near_miss("the layer changes its input", "if scale:\n    x += 1\nreturn self.fc(x)"),
    _near_miss("another name of its input", "y: torch.Tensor = x\ny += 1\nreturn self.fc(x)"),
    _near_miss("another name of its input", "y = z = x\ny += 1\nreturn self.fc(z)"),
    _near_miss("a list that holds its input", "y = [x]\ny[0] += 1\nreturn self.fc(x)"),
    _near_miss("in place by position", "return self.fc(F.relu(x, True))"),
    *(
        NearMiss(
            _text("return x + self.fc(self.norm(x))", _BLOCKS) + f"\n\n{text}\n",
            at=_AT,
            why=why,
            facts=_FACTS,
        )
        for why, text in (
            (
                "another module by name",
                "def adapt(block):\n    setattr(block, 'fc', Lora(block.fc))",
            ),
            (
                "another module in the list",
                "def watch(stack):\n    stack.blocks[0] = Watched(stack.blocks[0])",
            ),
            (
                "buffers that change in every call",
                "def bound(block):\n    nn.utils.parametrizations.spectral_norm(block.fc)",
            ),
        )
    ),
    _near_miss("what the layer holds is not known", "return self.act(self.fc(x))"),
    _near_miss("the layer prints", "print(x.shape)\nreturn self.fc(x)"),
    _near_miss("another layer of the list is not known", "return x", "[Other(n), Block(n)]"),
    NearMiss(
        _text("return x + self.fc(self.norm(x))", _BLOCKS).replace("nn.LayerNorm", "LayerNorm")
        + "\n\nclass LayerNorm(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return F.dropout(x, training=self.training)\n",
        at=_AT,
        why="a class of the project's own has the name of one of torch's",
        facts=_FACTS,
    ),
)

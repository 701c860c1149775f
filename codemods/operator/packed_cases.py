"""Examples and near misses of `packed_rnn`."""

from __future__ import annotations

from gbfix.codemod import Example, NearMiss, tensor
from gbfix.schema import Fact

from .packed_text import EFFECT, TEXT

_HEAD = """import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
"""
_LONG = "torch.int64"
_FACTS = {
    "x": tensor(3, 5, 6),
    "lengths": tensor(3, dtype=_LONG),
    "hidden": tensor(1, 3, 8),
    "self.rnn": Fact("module", "torch.nn.modules.rnn.GRU"),
    "self.other": Fact("module", "project.Layer"),
}


def _source(body: str, functions: str = "", options: str = "", head: str = _HEAD) -> str:
    lines = "".join(f"        {line}\n" if line else "\n" for line in body.splitlines())
    return f"""{head}

{functions}class Encoder(nn.Module):
    {options}@torch.compile
    def forward(self, x, lengths, hidden, pad):
{lines}"""


_FUNCTIONS = (
    TEXT.replace(EFFECT, "").strip("\n").replace("TORCH", "torch").replace("SPACE", "example")
    + "\n\n\n"
).replace("NAME", "packed_rnn")
_ALLOW = "@torch._dynamo.config.patch(allow_rnn=True)\n    "
_BOTH = f"{_ALLOW}@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)\n    "
_PACK = "packed = pack_padded_sequence(x, lengths, batch_first=True)"

EXAMPLES = (
    Example(
        title="three statements",
        before=_source(
            "packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)\n"
            "out, hidden = self.rnn(packed, hidden)\n"
            "out, sizes = pad_packed_sequence(out)\n"
            "return out.sum(0), hidden, sizes"
        ),
        after=_source(
            "out, hidden = packed_rnn(self.rnn, x, lengths.cpu(), hidden, enforce_sorted=False)\n"
            "out, sizes = out\n"
            "return out.sum(0), hidden, sizes",
            _FUNCTIONS,
            _BOTH,
        ),
        at="packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)",
        facts=_FACTS,
    ),
    Example(
        title="a known length, and layers that are called among others",
        before=_source(
            "# the longest first\n"
            "x = pack_padded_sequence(x, lengths.tolist(), True)\n"
            "self.rnn.flatten_parameters()\n"
            "x = self.rnn(x)[0]\n"
            "x = pad_packed_sequence(x, True, padding_value=-1, total_length=pad.size(1))[0]\n"
            "return x"
        ),
        after=_source(
            "# the longest first\n"
            "self.rnn.flatten_parameters()\n"
            "x = packed_rnn(\n"
            "    self.rnn,\n"
            "    x,\n"
            "    lengths.cpu(),\n"
            "    batch_first=True,\n"
            "    padding_value=-1,\n"
            "    total_length=pad.size(1),\n"
            ")[0]\n"
            "x = x[0]\n"
            "return x",
            _FUNCTIONS,
            _ALLOW,
        ),
        at="x = self.rnn(x)[0]",
        code="GB0014",
        facts=_FACTS,
    ),
    Example(
        title="only the last state is read",
        before=_source(
            "_, hidden = self.rnn(pack_padded_sequence(x, lengths, batch_first=True))\n"
            "return hidden[-1]"
        ),
        after=_source(
            "_, hidden = packed_rnn(self.rnn, x, lengths, batch_first=True)\nreturn hidden[-1]",
            _FUNCTIONS,
            _BOTH,
        ),
        at="pack_padded_sequence(x, lengths, batch_first=True)",
        facts=_FACTS,
    ),
)


def _miss(body: str, why: str, at: str = "", head: str = _HEAD) -> NearMiss:
    return NearMiss(
        _source(body, head=head), at=at or body.partition("\n")[0], why=why, facts=_FACTS
    )


_TAKEN = "out, hidden = self.rnn(packed)\n"
NEAR_MISSES = (
    _miss(f"{_PACK}\n{_TAKEN}return out.data", "the packed rows are read"),
    _miss(
        f"{_PACK}\n{_TAKEN}out, n = pad_packed_sequence(out)\nreturn out",
        "packing and padding do not agree on where the batch is",
    ),
    _miss(
        f"{_PACK}\nx = x + 1\n{_TAKEN}out, n = pad_packed_sequence(out, True)\nreturn out, x",
        "what was packed changes before the layer is called",
    ),
    _miss(
        f"{_PACK}\nx.add_(1)\n{_TAKEN}out, n = pad_packed_sequence(out, True)\nreturn out, x",
        "what was packed changes in place",
    ),
    _miss(
        f"view = x[0]\n{_PACK}\nview.zero_()\n{_TAKEN}return hidden",
        "what was packed changes in place under another name",
        at=_PACK,
    ),
    _miss(
        "packed = pack_padded_sequence(torch.dropout(x, 0.1, True), lengths, batch_first=True)\n"
        "hidden = torch.randn(1, 3, 8)\nout, hidden = self.rnn(packed, hidden)\nreturn hidden",
        "two draws would change places",
    ),
    _miss(
        f"{_PACK}\nself.rows, n = hidden, 1\n{_TAKEN}return hidden",
        "an attribute is set among others",
    ),
    _miss(
        f"{_PACK}\nout, hidden = self.rnn(packed, self.first(x))\nreturn hidden",
        "what gives the first state may change what was packed",
    ),
    _miss(
        f"try:\n    {_PACK}\n    out, hidden = self.rnn(packed)\nexcept RuntimeError:\n"
        "    hidden = None\nreturn hidden",
        "an error of packing is caught",
        at=_PACK,
    ),
    _miss(
        f"{_PACK}\n{_TAKEN}out, n = pad_packed_sequence(out, True)\nreturn out, packed.data",
        "the rows are read twice",
    ),
    _miss(
        f"{_PACK}\n{_TAKEN}rows = pad_packed_sequence(out, True)\nreturn rows, out",
        "what the layer gives is read twice",
    ),
    _miss(
        f"{_PACK}\nout, hidden = self.other(packed)\nreturn hidden",
        "nothing shows that this is a recurrent layer of torch's",
    ),
    _miss(
        f"{_PACK}\n{_TAKEN}out, n = pad_packed_sequence(out, True, total_length=hidden.size(0))\n"
        "return out",
        "how it is padded depends on what the layer gives",
    ),
    _miss(
        f"{_PACK}\nif pad is None:\n    out, hidden = self.rnn(packed)\nreturn hidden",
        "the layer is called in another block",
    ),
    _miss(
        f"if pad is not None:\n    {_PACK}\n    out, hidden = self.rnn(packed)\nreturn hidden, out",
        "what stands after the block reads the rows",
        at=_PACK,
    ),
    _miss(
        f"for part in pad:\n    {_PACK}\n    out, hidden = self.rnn(packed)\nreturn hidden",
        "it stands in a loop, where the rows may be read in the next round",
        at=_PACK,
    ),
    _miss(
        f"{_PACK}\nresult = self.rnn(packed)\nreturn result[1]",
        "the two parts of the result are not told apart",
    ),
    _miss(
        f"options = {{}}\n{_PACK[:-1]}, **options)\n{_TAKEN}return hidden",
        "the arguments are not written out",
        at=f"{_PACK[:-1]}, **options)",
    ),
)

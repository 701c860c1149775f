"""The ladder tries what callers may bring: other sizes, lists, texts and numbers, and it sees state
that has no attributes."""

from __future__ import annotations

import pytest
from planted import Gbfix, Wrong, assert_caught, run_planted

BREAK = "    torch._dynamo.graph_break()\n"


def _f(body: str, call: str = "f(torch.ones(3))", before: str = "", signature: str = "x") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{before}\n\n@torch.compile\ndef f({signature}):\n{BREAK}{lines}\n\n{call}\n"


def _line(name: str, old: str, new: str, call: str, signature: str = "x", before: str = "",
          says: str = "", caveat: bool = False) -> Wrong:  # fmt: skip
    """A planted change of the one line of ``f``."""
    source = _f(old, call, before, signature)
    return Wrong(name, source, f"{BREAK}    {old}", f"    {new}", "outputs", says, caveat)


def _state(
    name: str, made: str, statement: str, before: str = "", says: str = "global.KEPT"
) -> Wrong:
    """A planted change that leaves out what ``f`` does to a global."""
    source = _f(f"{statement}\nreturn x * 2", before=f"{before}KEPT = {made}\n")
    return Wrong(name, source, f"{BREAK}    {statement}\n", "    KEPT\n", "outputs", says)


CASES = [
    _line("a size between batch and columns", "return x.sum(1)", "return x[:, 0] + x[:, 1]",
          "f(torch.randn(3, 2, 4))", says="(inputs: taller)"),
    _line("a size of a square", "return x.diagonal().clone()",
          "return x.flatten()[:: x.shape[-1] + 1][:3].clone()",
          "f(torch.randn(3, 3))", says="(inputs: square)"),
    _line("one column that becomes two", "return x.sum(-1)", "return x[..., 0] * 1",
          "f(torch.randn(3, 1))", says="several columns", caveat=True),
    _line("one column beside others", "return (x * y).mean()",
          "return (x * y).sum() / y.numel()", "f(torch.randn(3, 1), torch.randn(3, 1))",
          "x, y", says="one input has several columns", caveat=True),
    Wrong("a state of a wider dtype than the inputs", """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("gain", torch.ones(3))

            def forward(self, x):
                torch._dynamo.graph_break()
                return x * self.gain

        torch.compile(Net())(torch.ones(3))
        """,
          "        torch._dynamo.graph_break()\n        return x * self.gain",
          "        return (x * self.gain).to(x.dtype)",
          "outputs", "beside a state of another dtype", caveat=True),
    _line("a list with one more", "return sum(xs)", "return 0 + xs[0] + xs[1]",
          "f([torch.ones(3), torch.ones(3)])", "xs", says="a list with one more", caveat=True),
    _line("a text that a table knows", "return OPS[how](x)", "return torch.sin(x)",
          "f(torch.ones(3), 'sin')", "x, how: str",
          "OPS = {'sin': torch.sin, 'cos': torch.cos}\n", "(inputs: words)"),
    _line("a text that is not known", "return x.sin() if how == 'sin' else x", "return x.sin()",
          "f(torch.ones(3), 'sin')", "x, how: str", says="does not know", caveat=True),
    _line("a negative number", "return x[:n] + 1", "return x[: abs(n)] + 1",
          "f(torch.ones(5), 3)", "x, n", says="negative", caveat=True),
    _line("a number that is 0", "return x * (n or 7)", "return x * n",
          "f(torch.ones(6), 3)", "x, n", says="are 0", caveat=True),
    _state("a frozen set", "frozenset()", "global KEPT; KEPT |= {x.dim()}"),
    _state("a byte array", "bytearray()", "KEPT.extend(b'x')"),
    _state("an array of Python's", "array.array('i')", "KEPT.append(1)", "import array\n\n"),
    _state("an iterator", "iter(range(1000))", "next(KEPT)"),
    _state("a generator", "(i for i in range(1000))", "next(KEPT)"),
    _state("a large array of numpy's", "np.zeros((1000, 64))", "KEPT[x.shape[0]] = x.dim()",
           "import numpy as np\n\n"),
    _state("objects in an array", "np.zeros(9, dtype=object)", "KEPT[x.shape[0]] = x.dim()",
           "import numpy as np\n\n"),
    Wrong("what is written far below the working folder",
          _f('with open("runs/first/log.txt", "w") as file:\n    file.write(str(x.dim()))\n'
             "return x * 2",
             before='import os\n\nos.makedirs("runs/first", exist_ok=True)\n'),
          f'{BREAK}    with open("runs/first/log.txt", "w") as file:\n'
          "        file.write(str(x.dim()))\n",
          '    with open("runs/first/log.txt", "w") as file:\n        file.write("2")\n',
          "effects", "files differ"),
    Wrong("what a file that stays open is told",
          _f('FILE.write(str(x.dim()))\nFILE.flush()\nreturn x * 2',
             before='import os\n\nos.makedirs("runs/first", exist_ok=True)\n'
                    'FILE = open("runs/first/log.txt", "w")\n'),
          f"{BREAK}    FILE.write(str(x.dim()))\n    FILE.flush()\n", "    FILE\n",
          "effects", "files differ"),
    Wrong("what a command is given",
          _f('subprocess.run(["true", str(x.dim())])\nreturn x * 2', before="import subprocess\n"),
          f'{BREAK}    subprocess.run(["true", str(x.dim())])\n',
          '    subprocess.run(["true", "2"])\n', "effects", "events differ"),
    Wrong("a note on a tensor", _f("y = x * 2\ny.scale = 3\nreturn y"),
          f"{BREAK}    y = x * 2\n    y.scale = 3", "    y = x * 2", "outputs", "scale"),
    Wrong("how many threads compute", _f("torch.set_num_threads(3)\nreturn x * 2"),
          f"{BREAK}    torch.set_num_threads(3)\n", "", "outputs", "threads afterwards differs"),
    Wrong("an arm that no call ran",
          _f("if n > 10:\n    return x * 3\nreturn x * 2", "f(torch.ones(6), 3)", signature="x, n"),
          f"{BREAK}    if n > 10:\n        return x * 3", "    if n > 10:\n        return x * 4",
          "unrun", "no call has shown `n > 10` True", caveat=True),
    Wrong("a name that an arm reads which no call ran", """
        class Net(torch.nn.Module):
            debug = False

            def forward(self, x):
                torch._dynamo.graph_break()
                n = len(x)
                if self.debug:
                    print(n)
                return x * n

        torch.compile(Net())(torch.ones(3))
        """,
          "        torch._dynamo.graph_break()\n        n = len(x)\n",
          "        n = x.new_ones(len(x)).sum()\n",
          "unrun", "no call has shown `self.debug` True", caveat=True),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_patch_is_never_called_safe(
    case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))

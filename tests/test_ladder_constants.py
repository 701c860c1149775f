"""A rewrite that reads once what the program may change between calls is never called safe."""

from __future__ import annotations

import textwrap

import pytest
from planted import Gbfix, Wrong, assert_caught, run_planted

from gbfix.analysis.lost_reads import lost_reads

BREAK = "    torch._dynamo.graph_break()\n"
CALL = "\n\nf(torch.ones(3))\n"
FUNCTION = "@torch.compile\ndef f(x):\n" + BREAK
MODULE = """
class Net(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.config = Config(scale)

    def forward(self, x):
        torch._dynamo.graph_break()
        return {value}


class Config:
    def __init__(self, scale):
        self.scale = scale


net = Net(2.0)
torch.compile(net)(torch.ones(3))
"""
REST = "        self.config = Config(scale)\n\n    def forward(self, x):\n"


def _stale(name: str, source: str, old: str, new: str, says: str) -> Wrong:
    return Wrong(name, source, old, new, "constants", f"`{says}` may change", caveat=True)


CASES = [
    _stale(
        "a global, written out as a number",
        "SCALE = 2.0\n\n\n" + FUNCTION + "    return x * SCALE" + CALL,
        BREAK + "    return x * SCALE",
        "    return x * 2.0",
        "SCALE",
    ),
    _stale(
        "a global, read at import",
        "SCALE = 2.0\n\n\n" + FUNCTION + "    return x * (SCALE + 1)" + CALL,
        FUNCTION + "    return x * (SCALE + 1)",
        "_ONCE = SCALE + 1\n\n\n@torch.compile\ndef f(x):\n    return x * _ONCE",
        "SCALE",
    ),
    _stale(
        "an entry of a dictionary, as a default value",
        'CONFIG = {"scale": {"x": 2.0}}\n\n\n'
        + FUNCTION
        + '    return x * CONFIG["scale"]["x"]'
        + CALL,
        "f(x):\n" + BREAK + '    return x * CONFIG["scale"]["x"]',
        'f(x, scale=CONFIG["scale"]["x"]):\n    return x * scale',
        "CONFIG",
    ),
    _stale(
        "the length of a list",
        "HISTORY = []\n\n\n" + FUNCTION + "    return x * len(HISTORY)" + CALL,
        FUNCTION + "    return x * len(HISTORY)",
        "LENGTH = len(HISTORY)\n\n\n@torch.compile\ndef f(x):\n    return x * LENGTH",
        "HISTORY",
    ),
    _stale(
        "one of two reads",
        "SCALE = 2.0\n\n\n" + FUNCTION + "    return x * SCALE + SCALE" + CALL,
        BREAK + "    return x * SCALE + SCALE",
        "    return x * SCALE + 2.0",
        "SCALE",
    ),
    _stale(
        "what a helper reads",
        "SCALE = 2.0\n\n\ndef scale():\n    return SCALE\n\n\n"
        + FUNCTION
        + "    return x * scale()"
        + CALL,
        FUNCTION + "    return x * scale()",
        "_ONCE = scale()\n\n\n@torch.compile\ndef f(x):\n    return x * _ONCE",
        "SCALE",
    ),
    _stale(
        "an attribute of a class",
        "class C:\n    scale = 2.0\n\n\n" + FUNCTION + "    return x * C.scale" + CALL,
        BREAK + "    return x * C.scale",
        "    return x * 2.0",
        "scale",
    ),
    _stale(
        "a variable that the function closes over",
        "def make():\n    scale = 2.0\n\n    @torch.compile\n    def f(x):\n    "
        + BREAK
        + "        return x * scale\n\n    return f\n\n\nmake()(torch.ones(3))\n",
        "    " + BREAK + "        return x * scale",
        "        return x * 2.0",
        "scale",
    ),
    _stale(
        "a tensor, computed with at import",
        "weight = torch.ones(3)\n\n\n" + FUNCTION + "    return x * weight.sum()" + CALL,
        FUNCTION + "    return x * weight.sum()",
        "_ONCE = weight.sum()\n\n\n@torch.compile\ndef f(x):\n    return x * _ONCE",
        "weight",
    ),
    _stale(
        "an object that another may take the place of",
        "import configparser\n\nCONFIG = configparser.ConfigParser()\n"
        'CONFIG.read_string("[a]\\nscale = 2")\n\n\n'
        + FUNCTION
        + '    return x * CONFIG.getfloat("a", "scale")'
        + CALL,
        FUNCTION + '    return x * CONFIG.getfloat("a", "scale")',
        '_ONCE = CONFIG.getfloat("a", "scale")\n\n\n'
        "@torch.compile\ndef f(x):\n    return x * _ONCE",
        "CONFIG",
    ),
    _stale(
        "a global that a helper reads while the graph is made",
        "SCALE = 2.0\n\n\ndef tune():\n    global SCALE\n    SCALE = 3.0\n\n\n"
        "def helper(x):\n    return x * SCALE\n\n\n" + FUNCTION + "    return helper(x)" + CALL,
        "def helper(x):\n    return x * SCALE\n\n\n" + FUNCTION + "    return helper(x)",
        "@torch._dynamo.nonstrict_trace\ndef helper(x):\n    return x * SCALE\n\n\n"
        "@torch.compile\ndef f(x):\n    return helper(x)",
        "SCALE",
    ),
    _stale(
        "an attribute, read in `__init__`",
        MODULE.format(value="x * (self.scale + 1)"),
        REST + "        torch._dynamo.graph_break()\n        return x * (self.scale + 1)\n",
        "        self._once = scale + 1\n" + REST + "        return x * self._once\n",
        "scale",
    ),
    _stale(
        "an attribute of an attribute, written out",
        MODULE.format(value="x * self.config.scale"),
        "        torch._dynamo.graph_break()\n        return x * self.config.scale\n",
        "        return x * 2.0\n",
        "scale",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_read_once_is_never_called_safe(
    case: Wrong, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(case, run_planted(case, gbfix_run, monkeypatch))


READS_AGAIN = {
    "another name for it": (
        "SCALE = 2.0\n\n\n" + FUNCTION + "    return x * SCALE" + CALL,
        BREAK + "    return x * SCALE",
        "    scale = SCALE\n    return x * scale",
    ),
    "once instead of twice in a call": (
        "SCALE = 2.0\n\n\n" + FUNCTION + "    return x * SCALE + SCALE" + CALL,
        BREAK + "    return x * SCALE + SCALE",
        "    scale = SCALE\n    return x * scale + scale",
    ),
    "in another function": (
        "SCALE = 2.0\n\n\n" + FUNCTION + "    return x * SCALE" + CALL,
        FUNCTION + "    return x * SCALE",
        "def scale():\n    return SCALE\n\n\n@torch.compile\ndef f(x):\n    return x * scale()",
    ),
}


@pytest.mark.parametrize("name", READS_AGAIN)
def test_what_is_read_in_each_call_is_safe(
    name: str, gbfix_run: Gbfix, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, old, new = READS_AGAIN[name]
    report = run_planted(Wrong(name, source, old, new, ""), gbfix_run, monkeypatch)
    assert report.patches and not report.unsafe_patches


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("def f(x):\n    return x * A", "def f(x):\n    return x * 2", ["A"]),
        ("def f(x):\n    A = x\n    return A", "def f(x):\n    return x", []),
        ("def f(x):\n    return x + A", "B = A\ndef f(x):\n    return x + B", ["A"]),
        ("def f(x):\n    return x + A", "f = lambda x: x + A", []),
        ("def f(x):\n    return x + A", "def f(x, a=A):\n    return x + a", ["A"]),
        ("def f(x):\n    return x + C.a", "def f(x, C):\n    return x + C", ["a"]),
        ('def f(c):\n    return getattr(c, "a")', "def f(c):\n    return 2", ["a"]),
        ("def f(x):\n    return x + g()", "B = g()\ndef f(x):\n    return x + B", ["A"]),
        ("def f(x):\n    return x.sum().item()", "def f(x):\n    return x.sum()", []),
        ("def f():\n    global A\n    A += 1", "def f():\n    global A\n    A = 3", ["A"]),
    ],
)
def test_lost_reads(old: str, new: str, lost: list[str]) -> None:
    head = textwrap.dedent("""
        A = B = 1

        class C:
            a = 1

        def g():
            return A

        """)
    before, after = {"m.py": head + old}, {"m.py": head + new}
    assert set(lost_reads(before, after, before)) == set(lost)

"""What a function reads that runs only while a graph is made: it may change afterwards."""

from __future__ import annotations

import pytest

from gbfix.analysis.lost_reads import frozen_reads, lost_reads, reads_environment

_HELPER = "def helper(x):\n    return x * {}\n"
_TRACED = "@torch._dynamo.nonstrict_trace\n" + _HELPER


def _lost(value: str, rest: str, **others: str) -> set[str]:
    before, after = (f"{rest}\n{text.format(value)}" for text in (_HELPER, _TRACED))
    sources = {"a.py": before} | {f"{name}.py": text for name, text in others.items()}
    return set(lost_reads({"a.py": before}, {"a.py": after}, sources))


@pytest.mark.parametrize(
    ("value", "rest", "lost"),
    [
        ("GAIN", "GAIN = 2", set()),
        ("GAIN", "GAIN = 2\ndef tune():\n    global GAIN\n    GAIN = 3", {"GAIN"}),
        ("GAIN", "GAIN = 2\nGAIN = 3", {"GAIN"}),
        ("CFG.gain", "CFG = Namespace(gain=2)", set()),
        ("CFG.gain", "CFG = Namespace(gain=2)\ndef tune():\n    CFG.gain = 3", {"gain"}),
        ("C.gain", "class C:\n    gain = 2\n\n\nC.gain = 3", {"gain"}),
        ("CFG.gain", "class C:\n    def __init__(self):\n        self.gain = 2\nCFG = C()", set()),
        ("T['a']['b']", "T = {'a': {'b': 1}}\ndef tune():\n    T['a']['b'] = 3", {"T"}),
        ("len(SEEN)", "SEEN = []\ndef see(x):\n    SEEN.append(x)", {"SEEN"}),
        ("CFG.gain", "CFG = Namespace(gain=2)\nsetattr(CFG, 'gain', 3)", {"gain"}),
        ("CFG.gain", "CFG = Namespace(gain=2)\nsetattr(CFG, name, 3)", {"CFG", "gain"}),
        ("gain()", "G = [1]\ndef gain():\n    return G[0]\ndef tune():\n    G[0] = 3", {"G"}),
    ],
)
def test_only_what_the_project_changes_is_lost(value: str, rest: str, lost: set[str]) -> None:
    assert _lost(value, rest) == lost


def test_another_file_may_read_and_change_it() -> None:
    conf = "STATE = {}\ndef gain():\n    return STATE['g']\ndef tune(g):\n    STATE['g'] = g\n"
    assert _lost("conf.gain()", "import conf", conf=conf) == {"STATE"}


def test_what_was_traced_so_before_is_no_news() -> None:
    text = _TRACED.format("GAIN")
    assert frozen_reads({"a.py": text}, {"a.py": text + "\n"}) == ()


def test_environment_variables() -> None:
    rest = "import os\ndef mode():\n    return os.environ['MODE']\n"
    before, after = (rest + text.format("mode()") for text in (_HELPER, _TRACED))
    assert reads_environment({"a.py": before}, {"a.py": after}, {"a.py": before})
    assert not reads_environment({"a.py": before}, {"a.py": before}, {"a.py": before})

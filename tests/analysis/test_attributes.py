"""Who binds an attribute."""

import pytest

from gbfix.analysis.attributes import binds, bound_once

_INIT = "class Net:\n    def __init__(self):\n        self.log = 1\n"


@pytest.mark.parametrize(
    "more",
    [
        "",
        "log = 2\n",  # a global, not an attribute
        "def f(log):\n    log = 2\n    return log\n",
        "setattr(net, 'other', 1)\n",
        "class Other:\n    def f(self):\n        log = self.log\n        return log\n",
        "print(net.log)\n",
    ],
)
def test_one_place(more):
    assert bound_once([_INIT, more], "log")


@pytest.mark.parametrize(
    "more",
    [
        "net.log = 2\n",
        "net.log += 2\n",
        "del net.log\n",
        "(net.log, x) = 1, 2\n",
        "for net.log in range(3): pass\n",
        "setattr(net, 'log', 1)\n",
        "setattr(net, name, 1)\n",
        "vars(net).update(a=1)\n",
        "net.__dict__['log'] = 1\n",
        "object.__setattr__(net, name, 1)\n",
        "globals()['Net'].log\n",
        "class Other:\n    log = 2\n",
        "class Other:\n    log: int = 2\n",
        "class Other:\n    if DEBUG:\n        log = 2\n",
        "class Other:\n    for log in 'ab': pass\n",
        "class Other:\n    from logging import log\n",
        "class Other:\n    def log(self): pass\n",
        "class Other:\n    async def log(self): pass\n",
        "class Other:\n    class log: pass\n",
        "class Other:\n    if (log := DEBUG): pass\n",
        "def broken(:\n",
    ],
)
def test_another_place(more):
    assert not bound_once([_INIT, more], "log")


def test_the_same_file_twice_is_one_place():
    assert bound_once([_INIT, _INIT], "log")


def test_not_at_all():
    assert not bound_once(["x = 1\n"], "log")


def test_stores():
    assert binds("a.key = 1\n", "key")
    assert binds("setattr(a, b, 1)\n", "key")
    assert binds("not python(\n", "key")
    assert not binds("key = 1\nprint(a.key)\n", "key")

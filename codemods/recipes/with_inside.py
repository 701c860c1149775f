"""A context manager used as a decorator."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site

_GENERATORS = frozenset({"contextlib.contextmanager"})
_DECORATORS = frozenset({"contextlib.ContextDecorator"})


def _source(decorator: str, body: str, more: str = "") -> str:
    return f"""import contextlib


class Timer(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


@contextlib.contextmanager
def section(name):
    yield name


{decorator}def head(x):
{body}

def f(x):
    return head(x) + 1
{more}"""


_LINES = "    # sine\n    return x.sin()\n"
_INSIDE = "    with {}:\n        # sine\n        return x.sin()\n"


class WithInside(Codemod):
    """*What it does.*  Enters a context manager inside of the function that it decorates:

    ```python
    @Timer()
    def head(x):
        return x.sin()
    ```
    becomes ``def head(x):`` with ``with Timer():`` around its body.

    *When it applies.*  Dynamo cannot enter a context manager that was made outside of the region.
    The decorator is a call, with literals, of a function under ``contextlib.contextmanager`` or of
    a ``contextlib.ContextDecorator`` of this file without a state of its own.

    *Fix safety.*  Safe: as a decorator, it is entered anew in every call, too.

    *Refuses.*  Classes with ``__init__`` or ``_recreate_cm`` (one object would be entered again and
    again), other decorators above or below, generators and coroutines.
    """

    name = "with-inside"
    codes = ("GB0142", "GB0007", "GB0093")
    examples = (
        Example(
            _source("@Timer()\n", _LINES),
            _source("", _INSIDE.format("Timer()")),
            at="head(x) + 1",
            code="GB0142",
            title="an object",
        ),
        Example(
            _source('@section("loss")\n', _LINES),
            _source("", _INSIDE.format('section("loss")')),
            at="head(x) + 1",
            code="GB0142",
            title="a generator",
        ),
        Example(
            _source("@Timer()\n", f'    """Its text."""\n{_LINES}'),
            _source("", '    """Its text."""\n' + _INSIDE.format("Timer()")),
            at="head(x) + 1",
            code="GB0142",
            title="a docstring",
        ),
    )
    near_misses = (
        NearMiss(
            _source("@Timer()\n", _LINES).replace(
                "    def __enter__",
                "    def __init__(self):\n        self.n = 0\n\n    def __enter__",
            ),
            at="head(x) + 1",
            why="one object with a state for all calls",
        ),
        NearMiss(_source("@Timer()\n", "    yield x\n"), at="head(x) + 1", why="a generator"),
        NearMiss(
            _source("@Timer()\n@Timer()\n", _LINES), at="head(x) + 1", why="several decorators"
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        names = {part.value for part in walk(site.statement) if isinstance(part, cst.Name)}
        edit = site.edit()
        done = []
        for node in walk(site.module):
            if not isinstance(node, cst.FunctionDef) or node.name.value not in names:
                continue
            call = _manager(site, node)
            if call is None:
                continue
            done.append(node.name.value)
            assert isinstance(node.body, cst.IndentedBlock)
            lines = list(node.body.body)
            text = [lines.pop(0)] if node.get_docstring() is not None and lines[1:] else []
            inner = cst.With([cst.WithItem(call)], node.body.with_changes(body=lines))
            body = cst.IndentedBlock([*text, inner])
            edit.replace(node, node.with_changes(decorators=(), body=body))
        if done:
            yield edit.rewrite(f"enter the context inside of `{done[0]}`", rank=11)


def _manager(site: Site, function: cst.FunctionDef) -> cst.Call | None:
    """The call of the context manager that alone decorates the function."""
    match function.decorators:
        case [cst.Decorator(decorator=cst.Call(func=cst.Name(name), args=args) as call)]:
            pass
        case _:
            return None
    if not isinstance(function.body, cst.IndentedBlock) or function.asynchronous is not None:
        return None
    if any(isinstance(node, cst.Yield | cst.Await) for node in walk(function.body)):
        return None
    if not all(isinstance(arg.value, cst.BaseNumber | cst.SimpleString) for arg in args):
        return None
    bound = module_bindings(site.module).get(name, ())
    if len(bound) != 1:
        return None
    match bound[0]:
        case cst.FunctionDef(decorators=[cst.Decorator(decorator=by)]):
            return call if resolve(site.module, by) in _GENERATORS else None
        case cst.ClassDef(bases=bases, body=body):
            homes = {resolve(site.module, base.value) for base in bases}
            defined = {item.name.value for item in body.body if isinstance(item, cst.FunctionDef)}
            state = {"__init__", "__new__", "_recreate_cm", "__call__"} & defined
            return call if homes == _DECORATORS and not state and not args else None
    return None

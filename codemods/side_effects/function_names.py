"""``fn.__qualname__`` of a wrapped function: no constant for Dynamo, so it is read outside."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Edit, Site

from ..wrap.capture import Parameter

_NAME = "__qualname__"


def read_outside(site: Site, edit: Edit, parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters with what wrapped functions are called read above the wrapper.

    Dynamo (torch 2.13) takes ``fn.__qualname__`` for a descriptor, which no operator takes, and
    ``str`` of it for the descriptor's text; ``fn.__name__`` is a constant.
    """
    return [_outside(site, edit, item) for item in parameters]


def _outside(site: Site, edit: Edit, item: Parameter) -> Parameter:
    wrapper = site.function
    match item.argument:
        case cst.Attribute(value=cst.Name(value=name), attr=cst.Name(value="__qualname__")):
            pass
        case _:
            return item
    if wrapper is None or not _is_function(site, wrapper, name):
        return item
    around = next((p for p in site.ancestors(wrapper) if isinstance(p, cst.FunctionDef)), None)
    if around is None or not _is_given(around, wrapper, name) or _is_set_somewhere(site):
        return item
    new = fresh("qualname", names_in(site.module))
    line = cst.parse_statement(f"{new} = {code(item.argument)}")
    edit.insert_before(wrapper, line)
    return dataclasses.replace(item, argument=cst.Name(new))


def _is_function(site: Site, wrapper: cst.FunctionDef, name: str) -> bool:
    """Whether a name has held functions of Python only: these have their name from the start."""
    facts = [
        site.fact(node)
        for node in walk(wrapper.body)
        if isinstance(node, cst.Name) and node.value == name
    ]
    seen = [(fact.kind, fact.type) for fact in facts if fact is not None]
    return bool(seen) and set(seen) == {("function", "function")}


def _is_given(around: cst.FunctionDef, wrapper: cst.FunctionDef, name: str) -> bool:
    """Whether a name of the wrapper is a parameter around it that nothing binds anew."""
    inside = activity(wrapper.body)
    bound = {*parameters_of(wrapper.params), *inside.writes, *inside.nonlocals}
    return (
        name in parameters_of(around.params)
        and name not in bound
        and name not in activity(around.body).writes
        and name not in activity(around.body).closure_writes
        and any(line is wrapper for line in around.body.body)
    )


def _is_set_somewhere(site: Site) -> bool:
    """Whether a file of the project gives functions other names."""
    texts = {site.source, *site.sources.values()}
    return any(re.search(rf"{_NAME}\s*=[^=]|setattr\([^,]+, *[\"']{_NAME}", text) for text in texts)

"""Calls that give a number back, and make Dynamo compile for its very value."""

from __future__ import annotations

from gbfix.schema import Fact

#: By the kind of a fact: the module of the call, and the call. Dynamo has to know the arguments of
#: ``operator.index`` and of ``math.ldexp`` (measured with torch 2.13).
_FORMS = {"int": ("operator", "operator.index({})"), "float": ("math", "math.ldexp({}, 0)")}


def specialised(fact: Fact | None) -> tuple[str, str] | None:
    """The module that the call needs, and its text with ``{}`` for the number; None for what is no
    plain int or float.
    """
    return None if fact is None else _FORMS.get(fact.kind)

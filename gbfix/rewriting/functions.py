"""Functions that a patch brings along, and that later patches of the file use again."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import module_bindings
from gbfix.analysis.tree import code
from gbfix.codemod import Site


def function_of_file(site: Site, base: str, text: str, torch: str) -> tuple[str, str]:
    """The name of a function with this text, and the text where the file has none that is alike.

    ``text`` has ``{name}`` and ``{torch}`` for the function's name and for the module's.
    """
    for name, bound in module_bindings(site.module).items():
        match bound:
            case [cst.FunctionDef() as function] if name.startswith(base):
                if code(function).strip() == text.format(name=name, torch=torch).strip():
                    return name, ""
    name = fresh(base, names_in(site.module))
    return name, text.format(name=name, torch=torch)

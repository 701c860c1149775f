"""Where a function binds its names."""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import activity, parameters_of
from gbfix.codemod import Site


def bindings(site: Site, name: str) -> list[cst.CSTNode]:
    """The statements of the site's function that bind the name; a parameter is none."""
    assert site.function is not None
    lines = [site.statement_of(place) for place in site.places_of(name, site.function.body)]
    return list({id(line): line for line in lines if name in activity(line).bound}.values())


def only_line(site: Site, name: str) -> cst.SimpleStatementLine | None:
    """The one line that binds the name, where nothing else does, and no caller gives it."""
    assert site.function is not None
    found = bindings(site, name)
    if len(found) != 1 or name in parameters_of(site.function.params):
        return None
    return found[0] if isinstance(found[0], cst.SimpleStatementLine) else None

"""Imports that a rewrite leaves without a use."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from gbfix.analysis.build import comments_in
from gbfix.analysis.names import names_in
from gbfix.analysis.tree import walk
from gbfix.codemod import Edit, Site


def forget_imports(
    site: Site, edit: Edit, names: Collection[str], gone: Collection[cst.CSTNode]
) -> None:
    """Remove the imports at the top that bind names whose uses all go with the rewrite.

    ``gone`` are the nodes that go, with all that is in them.  An import with comments stays.
    """
    if "__all__" in names_in(site.module):
        return
    going = {id(part) for node in gone for part in walk(node)}
    used: set[str] = set()
    for line in site.module.body:
        if _import_of(line) is None:
            used |= {
                part.value
                for part in walk(line)
                if isinstance(part, cst.Name)
                and id(part) not in going
                and not _is_attribute(site, part)
            }
    for number, line in enumerate(site.module.body):
        found = _import_of(line)
        if found is None or comments_in(line):
            continue
        assert isinstance(line, cst.SimpleStatementLine) and not isinstance(
            found.names, cst.ImportStar
        )
        kept = [it for it in found.names if _bound(it) not in set(names) - used]
        if not kept:
            _remove(site, edit, number)
        elif len(kept) < len(found.names):
            kept[-1] = kept[-1].with_changes(comma=found.names[-1].comma)
            edit.replace(line, line.with_changes(body=[found.with_changes(names=kept)]))


def _remove(site: Site, edit: Edit, number: int) -> None:
    """Remove a line of the file; the blank line below its first one goes, too."""
    edit.remove(site.module.body[number])
    below = site.module.body[1:2]
    if number == 0 and below and isinstance(below[0], cst.SimpleStatementLine):
        above = [it for it in below[0].leading_lines if it.comment]
        edit.replace(below[0], below[0].with_changes(leading_lines=above))


def _import_of(line: cst.CSTNode) -> cst.Import | cst.ImportFrom | None:
    match line:
        case cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom() as found]):
            return None if isinstance(found.names, cst.ImportStar) else found
    return None


def _bound(alias: cst.ImportAlias) -> str:
    name = alias.asname.name if alias.asname is not None else alias.name
    return name.value if isinstance(name, cst.Name) else ""


def _is_attribute(site: Site, name: cst.Name) -> bool:
    holder = site.parent(name)
    return isinstance(holder, cst.Attribute) and holder.attr is name


__all__ = ["forget_imports"]

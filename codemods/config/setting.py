"""Puts a setting of Dynamo into the script that the user started, after its imports."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from gbfix.codemod import Edit, Rewrite, Site


def entry_of(site: Site) -> Site | None:
    """The script that was started: where settings of the whole program belong."""
    if site.entry == site.path:
        return site
    return site.other(site.entry) if site.entry else None


def set_options(site: Site, edit: Edit, options: Sequence[str]) -> list[Rewrite] | None:
    """Set options of Dynamo, in the edit where it changes the script, else in the rewrites given.

    None where no script is known that could be told.
    """
    entry = entry_of(site)
    if entry is None and options:
        return None
    missing = [option for option in options if entry is not None and option not in entry.source]
    if entry is None or not missing:
        return []
    own = entry is site or entry.path == site.path
    target = edit if own else entry.edit()
    for option in missing:
        add_setting(entry, target, f"torch._dynamo.config.{option} = True")
    return [] if own else [target.rewrite("a setting")]


def add_setting(entry: Site, edit: Edit, text: str, modules: Collection[str] = ()) -> bool:
    """Add a line after the script's imports, ``torch`` in it being the script's name for torch.

    False where there is no place for it: torch, or one of ``modules``, is not imported at the top.
    """
    last: cst.SimpleStatementLine | None = None
    torch = ""
    missing = set(modules)
    for line in entry.module.body:
        if not isinstance(line, cst.SimpleStatementLine):
            break
        imports = [item for item in line.body if isinstance(item, cst.Import | cst.ImportFrom)]
        if not imports:
            if last is None:
                continue  # the docstring
            break
        last = line
        for item in imports:
            for alias in item.names if isinstance(item, cst.Import) else ():
                if alias.evaluated_name == "torch":
                    torch = alias.evaluated_alias or "torch"
                if alias.asname is None:
                    missing.discard(alias.evaluated_name)
    if last is None or not torch or missing:
        return False
    new = cst.parse_statement(text.replace("torch.", f"{torch}."))
    blank = cst.EmptyLine(indent=False)
    new = cst.ensure_type(new, cst.SimpleStatementLine).with_changes(leading_lines=[blank])
    edit.insert_after(last, new)
    return True

"""Puts a setting of Dynamo into the script that the user started, after its imports."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import libcst as cst

from gbfix.codemod import Edit, Rewrite, Site

#: Why there is no patch where `set_options` gives None.
NO_SCRIPT = (
    "the patch must set a Dynamo option in the script that was started, and gbfix does not know"
    " which script that is"
)


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


def with_setting(site: Site, rewrite: Rewrite, option: str) -> Rewrite | None:
    """A rewrite that sets an option of Dynamo as well; None where that is said, or has no place."""
    entry = entry_of(site)
    if entry is None:
        return None
    text = rewrite.edits.get(entry.path, entry.source)
    module = cst.parse_module(text)
    last, torch, _ = _imports(module, ())
    edit = entry.edit()
    line = f"torch._dynamo.config.{option} = True"
    if option in text or last is None or not torch or not add_setting(entry, edit, line):
        return None
    at = module.body.index(last) + 1
    new = cst.ensure_type(_line(line, torch), cst.SimpleStatementLine)
    if at < len(module.body) and module.code_for_node(module.body[at]).lstrip().startswith(
        f"{torch}._dynamo.config."
    ):
        at, new = at + 1, new.with_changes(leading_lines=())
    body = [*module.body[:at], new, *module.body[at:]]
    touched = edit.rewrite("").touched.get(entry.path, ())
    return dataclasses.replace(
        rewrite,
        edits={**rewrite.edits, entry.path: module.with_changes(body=body).code},
        touched={
            **rewrite.touched,
            entry.path: (*rewrite.touched.get(entry.path, ()), *touched),
        },
    )


def add_setting(entry: Site, edit: Edit, text: str, modules: Collection[str] = ()) -> bool:
    """Add a line after the script's imports, ``torch`` in it being the script's name for torch.

    False where there is no place for it: torch, or one of ``modules``, is not imported at the top.
    """
    last, torch, missing = _imports(entry.module, modules)
    if last is None or not torch or missing:
        return False
    edit.insert_after(last, _line(text, torch))
    return True


def _line(text: str, torch: str) -> cst.SimpleStatementLine:
    new = cst.parse_statement(text.replace("torch.", f"{torch}."))
    blank = cst.EmptyLine(indent=False)
    return cst.ensure_type(new, cst.SimpleStatementLine).with_changes(leading_lines=[blank])


def _imports(
    module: cst.Module, modules: Collection[str]
) -> tuple[cst.SimpleStatementLine | None, str, set[str]]:
    """The last of the imports at the top, torch's name, and which modules are not among them."""
    last: cst.SimpleStatementLine | None = None
    torch = ""
    missing = set(modules)
    for line in module.body:
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
    return last, torch, missing

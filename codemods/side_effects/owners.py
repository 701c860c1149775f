"""How an operator finds an object that it cannot take: by its identity.

Dynamo knows ``id(self)`` and compiles anew for another object, so that an operator can be handed
the number.  The class notes each of its objects in ``__new__``, which every way to make one goes
through: calls, ``copy``, ``deepcopy``, unpickling.
"""

from __future__ import annotations

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, is_docstring, walk, words
from gbfix.codemod import Edit, Site
from gbfix.rewriting.project import mentions

from ..wrap.operator_text import define

_NEW = """def __new__(cls, *args, **kwargs):
    self = super().__new__(cls)
    {table}[id(self)] = self
    return self
"""
_WHY = "#: Objects by their identity, which is what an operator can take of them."
#: Asks a class what it takes, of which its `__new__` would tell another thing than `__init__` does.
_ASKS_SIGNATURES = (
    r"\b(?:signature|getfullargspec|getargspec)\(|\b(?:jsonargparse|LightningCLI|hydra|fire)\b"
)
_REFUSED = words("__new__ __slots__ __class__ __getattribute__ __eq__ __hash__")


def attribute_of_self(site: Site, node: cst.BaseExpression) -> str:
    """The attribute that ``self.x`` reads in a method that leaves ``self`` alone; else ""."""
    match node:
        case cst.Attribute(value=cst.Name("self"), attr=cst.Name(name)):
            pass
        case _:
            return ""
    function = site.function
    if function is None or site.class_of(function) is None:
        return ""
    first = next(iter(params_of(function.params)), None)
    rebound = any(
        isinstance(site.parent(place), cst.AssignTarget | cst.AugAssign | cst.For)
        for place in site.places_of("self", function.body)
    )
    return name if first is not None and first.name.value == "self" and not rebound else ""


def find_owners(site: Site, edit: Edit, kind: str) -> str:
    """The name of the table in which the objects of a class of this file note themselves; the
    class is changed to do that.  "" where it cannot be.
    """
    holder = _class(site, kind.rpartition(".")[2])
    if holder is None:
        return ""
    root = _root(site, holder)
    if root is None or mentions(site, _ASKS_SIGNATURES):
        return ""
    # The objects of all subclasses of the class around come here, and not this one's alone.
    around = site.class_of(site.node)
    if around is not None and around in line_of(site, holder):
        root = _root(site, around)
        if root is None:
            return ""
    table = noted_in(root)
    if table:
        return table
    table = _table(site) or _free_name(site)
    if not _table(site):
        edit.add_import("weakref")
        text = f"{table} = weakref.WeakValueDictionary()\n"
        first, *rest = define(site, text)
        top = site.top_level_statement(root)
        blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
        lines = [*blank, cst.EmptyLine(indent=False, comment=cst.Comment(_WHY))]
        edit.insert_before(top, first.with_changes(leading_lines=lines), *rest)
    new = define(site, _NEW.format(table=table))
    body = root.body
    if not isinstance(body, cst.IndentedBlock):
        return ""
    first = body.body[0]
    spaced = new[0].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    if is_docstring(first):
        edit.insert_after(first, spaced)
    else:
        # Behind the first method: its own first line has no blank one above it.
        method = next((item for item in body.body if isinstance(item, cst.FunctionDef)), None)
        if method is None:
            return ""
        edit.insert_after(method, spaced)
    return table


def noted_in(holder: cst.ClassDef) -> str:
    """The table in which a class notes its objects already."""
    for item in holder.body.body:
        if isinstance(item, cst.FunctionDef) and item.name.value == "__new__":
            lines = code(item.body).strip().splitlines()
            if len(lines) == 3 and lines[1].strip().endswith("[id(self)] = self"):
                return lines[1].strip().partition("[")[0]
    return ""


def _table(site: Site) -> str:
    for item in site.module.body:
        match item:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=value)]
            ) if code(value) == "weakref.WeakValueDictionary()":
                return name
    return ""


def _free_name(site: Site) -> str:
    taken = names_in(site.module)
    return next(name for name in ("OWNERS", "OBJECTS", "_OWNERS", "_OBJECTS") if name not in taken)


def _class(site: Site, name: str) -> cst.ClassDef | None:
    found = [
        item
        for item in walk(site.module)
        if isinstance(item, cst.ClassDef) and item.name.value == name
    ]
    if len(found) == 1 and site.top_level_statement(found[0]) is found[0]:
        return found[0]
    inner = site.class_of(site.node)  # a subclass of elsewhere, of the class around the break
    if inner is not None and not found and site.top_level_statement(inner) is inner:
        return inner
    return None


def _root(site: Site, holder: cst.ClassDef) -> cst.ClassDef | None:
    """The class of the file, of ``holder`` or its bases, that can note all of them; None where
    what makes its objects is not known.
    """
    if holder.keywords or any(not _is_plain(item.decorator) for item in holder.decorators):
        return None
    if noted_in(holder):
        return holder
    for item in walk(holder.body):
        if isinstance(item, cst.FunctionDef) and item.name.value in _REFUSED:
            return None
        if isinstance(item, cst.AssignTarget) and code(item.target) in _REFUSED:
            return None
    if len(holder.bases) > 1:
        return None
    for base in holder.bases:
        name = resolve(site.module, base.value) or code(base.value)
        if name == "object" or name.startswith(("torch.nn.", "builtins.object")):
            continue
        found = [
            item
            for item in site.module.body
            if isinstance(item, cst.ClassDef) and item.name.value == name.rpartition(".")[2]
        ]
        if len(found) != 1 or _root(site, found[0]) is None:
            return None
        if noted_in(found[0]):
            return found[0]
    return holder


def line_of(site: Site, holder: cst.ClassDef) -> list[cst.ClassDef]:
    """A class, and those of the file that it descends from."""
    found = [holder]
    for known in found:
        names = {
            (resolve(site.module, base.value) or code(base.value)).rpartition(".")[2]
            for base in known.bases
        }
        found += [
            item
            for item in site.module.body
            if isinstance(item, cst.ClassDef) and item.name.value in names and item not in found
        ]
    return found


def _is_plain(node: cst.BaseExpression) -> bool:
    """Whether a decorator is that of a dataclass to whose objects weak references are possible."""
    if "slots" in code(node):
        return False
    return code(node).partition("(")[0].rpartition(".")[2] == "dataclass"

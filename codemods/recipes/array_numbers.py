"""Arrays of whole numbers that an object keeps, and compiled code goes through."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.names import fresh
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Edit, Example, NearMiss, Rewrite, Site
from gbfix.rewriting import project
from gbfix.schema import Fact, Safety

#: What goes through its arguments, and gives their items.
_GOES_THROUGH = words("enumerate zip reversed list tuple")
#: Methods of arrays that change them.
_CHANGES = words("sort fill put resize partition itemset setfield byteswap setflags")
#: Methods of arrays that give another form of the same memory.
_FORMS = words("view reshape ravel squeeze transpose swapaxes T flat")
#: Arithmetic in which numpy's whole numbers differ from Python's: they wrap around, and what is
#: divided by zero is infinite.
_DIFFERS = cst.Divide | cst.FloorDivide | cst.Modulo | cst.Power | cst.LeftShift
_STEPS = Fact("ndarray", "numpy.ndarray", shape=(4,), dtype="int64")
_NOTE = "`{}` is an array that others may change; the list beside it would stay as it is"
_DIVIDES = "numbers of Python's are divided where numpy's were: by zero, that is an error"


def _source(body: str, more: str = "", keeps: str = "np.linspace(9, 0, 4).astype(int)") -> str:
    return f"""import numpy as np
import torch


class Sampler(torch.nn.Module):
    def __init__(self, shifts):
        super().__init__()
        self.steps = {keeps}
{more}        self.shifts = shifts

    def forward(self, x):
{body}        return x
"""


_BESIDE = "        self.steps_list = self.steps.tolist()\n"


class ArrayNumbers(Codemod):
    """*What it does.*  Keeps the numbers of an array beside it, as a list, and goes through that.

    Dynamo takes an array of numpy's for a tensor: its items are data, and cannot choose an entry, a
    size or a branch.  Where ``__init__`` makes ``self.steps = np.linspace(9, 0, 4).astype(int)``,
    the patch adds ``self.steps_list = self.steps.tolist()``, and ``for t in self.steps`` becomes
    ``for t in self.steps_list``.

    *When it applies.*  The array has one dimension and holds whole numbers, methods of the class
    that are not compiled set it, and the function that breaks goes through it or asks for items.

    *Fix safety.*  Safe where the class makes the array itself, and nothing in the project changes
    it in place.  Unsafe where the caller hands it in, or where numbers are divided by its items.

    *Refuses.*  Arrays that are changed in place, or set from outside; methods of numpy's numbers.
    """

    name = "array-numbers"
    codes = (
        "GB0170",
        "GB0033",
        "GB0124",
        "GB0036",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
    )
    examples = (
        Example(
            _source(
                "        for i, t in enumerate(self.steps):\n"
                "            x = x + self.shifts[t] * i\n"
            ),
            _source(
                "        for i, t in enumerate(self.steps_list):\n"
                "            x = x + self.shifts[t] * i\n",
                _BESIDE,
            ),
            at="self.shifts[t]",
            facts={"self.steps": _STEPS},
            title="steps of a sampler",
        ),
        Example(
            _source(
                "        steps = np.flip(self.steps)\n"
                "        for t in steps:\n"
                "            if t > 3:\n"
                "                x = x * 2\n"
            ),
            _source(
                "        steps = self.steps_list[::-1]\n"
                "        for t in steps:\n"
                "            if t > 3:\n"
                "                x = x * 2\n",
                _BESIDE,
            ),
            at="t > 3",
            facts={"self.steps": _STEPS},
            title="turned round first",
        ),
        Example(
            _source("        x = x[:, : int(self.steps[1])]\n"),
            _source("        x = x[:, : int(self.steps_list[1])]\n", _BESIDE),
            at="int(self.steps[1])",
            facts={"self.steps": _STEPS},
            title="one number",
        ),
    )
    near_misses = (
        NearMiss(
            _source("        x = x[:, : int(self.steps[1])]\n", "        self.steps[0] = 2\n"),
            at="int(self.steps[1])",
            facts={"self.steps": _STEPS},
            why="it is changed in place",
        ),
        NearMiss(
            _source("        x = x[:, : int(self.steps[1])]\n") + "\n\nSampler([1]).steps = None\n",
            at="int(self.steps[1])",
            facts={"self.steps": _STEPS},
            why="it is set from outside",
        ),
        NearMiss(
            _source("        x = x[:, : int(self.steps[1])]\n"),
            at="int(self.steps[1])",
            facts={"self.steps": dataclasses.replace(_STEPS, shape=(2, 2))},
            why="a table",
        ),
        NearMiss(
            _source(
                "        for t in self.steps:\n            x = x + self.shifts[t.astype(int)]\n"
            ),
            at="self.shifts[t.astype(int)]",
            facts={"self.steps": _STEPS},
            why="a method of numpy's numbers",
        ),
        NearMiss(
            _source("        for t in self.steps:\n            x = x + self.shifts[t]\n"),
            at="self.shifts[t]",
            facts={"self.steps": Fact("list", "list")},
            why="a list already",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        function = site.function
        owner = site.class_of(function) if function is not None else None
        if function is None or owner is None or "numpy" not in import_map(site.module).values():
            return
        kept = sorted(
            {
                code(node)
                for node in walk(function.body)
                if isinstance(node, cst.Attribute) and _holds_numbers(site, node)
            }
        )
        edit, changed, notes = site.edit(), [], []
        for text in kept:
            name = text.removeprefix("self.")
            reads = _reads(site, function, text)
            sets = _sets(site, owner, function, text)
            if not reads or not sets or _is_changed(site, name, sets):
                continue
            items = {item for read in reads for item in _items(site, function, read)}
            if not all(_are_plain(function, item) for item in items):
                continue
            taken = {it.value for it in walk(owner) if isinstance(it, cst.Name)}
            beside = fresh(f"{name}_list", taken)
            for read in reads:
                _read_list(site, edit, read, f"self.{beside}")
            for statement in sets:
                edit.insert_after(statement, _set_list(site, statement, name, beside))
            changed.append(text)
            shared = any(_is_handed_in(site, it) for it in sets) or _is_handed_on(site, name, reads)
            notes += [_NOTE.format(text)] if shared else []
            divides = any(_divides(site, function, item) for item in items)
            notes += [_DIVIDES] if divides else []
        if changed:
            yield edit.rewrite(
                f"keep the numbers of `{changed[0]}` in a list",
                safety=Safety.UNSAFE if notes else Safety.SAFE,
                notes=notes,
                rank=14,
                # The project's texts show that nobody changes the array in place, or sets another.
                assumes=[] if notes else ["reads-once"],
            )


def _holds_numbers(site: Site, node: cst.Attribute) -> bool:
    """Whether it is an attribute of the object that was an array of whole numbers in a row."""
    if not isinstance(node.value, cst.Name) or node.value.value != "self":
        return False
    fact = site.fact(node)
    return (
        fact is not None
        and fact.kind == "ndarray"
        and fact.shape is not None
        and len(fact.shape) == 1
        and (fact.dtype or "").startswith(("int", "uint"))
    )


def _reads(site: Site, function: cst.FunctionDef, text: str) -> list[cst.Attribute]:
    """The places where the function goes through the array, or asks for an item by a number."""
    found = []
    for node in walk(function.body):
        if isinstance(node, cst.Attribute) and code(node) == text:
            around = _whole(site, node)
            item = isinstance(around, cst.Subscript) and _is_item(site, around)
            if item or _is_gone_through(site, function, around):
                found.append(node)
    return found


def _whole(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """The array with what slices it, turns it round or goes through it, as in ``enumerate(a)``."""
    while True:
        parent = site.parent(node)
        match parent:
            case cst.Arg(keyword=None, star=""):
                outer = site.parent(parent)
                if isinstance(outer, cst.Call) and _passes_on(site, outer):
                    node = outer
                    continue
            case cst.Subscript(value=value) if value is node:
                if not _is_slice(parent):
                    return parent
                node = parent
                continue
        return node


def _passes_on(site: Site, call: cst.Call) -> bool:
    home, _, name = (resolve(site.module, call.func) or "").rpartition(".")
    if home == "numpy" and name == "flip":
        return len(call.args) == 1
    return home == "builtins" and name in _GOES_THROUGH


def _is_slice(node: cst.Subscript) -> bool:
    return len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice)


def _is_item(site: Site, node: cst.Subscript) -> bool:
    """Whether a number chooses one entry, which is only read."""
    if _is_slice(node) or len(node.slice) != 1 or isinstance(site.parent(node), cst.AssignTarget):
        return False
    index = node.slice[0].slice
    if not isinstance(index, cst.Index):
        return False
    if (fact := site.fact(index.value)) is not None:
        return fact.kind == "int"
    names = [it for it in walk(index.value) if isinstance(it, cst.Name)]
    return all((known := site.fact(it)) is not None and known.kind == "int" for it in names)


def _is_gone_through(site: Site, function: cst.FunctionDef, node: cst.BaseExpression) -> bool:
    """Whether a loop goes through it, at once or under a name that is for loops alone."""
    parent = site.parent(node)
    match parent:
        case cst.For(iter=whole) | cst.CompFor(iter=whole) if whole is node:
            return True
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))]):
            places = list(site.places_of(name, function.body))
            uses = [it for it in places if not isinstance(site.parent(it), cst.AssignTarget)]
            stored = len(places) - len(uses)
            return (
                stored == 1
                and bool(uses)
                and all(
                    isinstance(site.parent(whole := _whole(site, use)), cst.For | cst.CompFor)
                    or _is_length(site, use)
                    or (isinstance(whole, cst.Subscript) and _is_item(site, whole))
                    for use in uses
                )
            )
    return False


def _is_length(site: Site, node: cst.Name) -> bool:
    arg = site.parent(node)
    call = site.parent(arg) if isinstance(arg, cst.Arg) else None
    return isinstance(call, cst.Call) and resolve(site.module, call.func) == "builtins.len"


def _items(site: Site, function: cst.FunctionDef, read: cst.Attribute) -> Iterator[str]:
    """The names that get items of the array."""
    whole = _whole(site, read)
    parent = site.parent(whole)
    loops = [parent]
    if isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Name):
        name = parent.targets[0].target.value
        if isinstance(whole, cst.Subscript) and not _is_slice(whole):
            yield name
        loops = [site.parent(_whole(site, it)) for it in site.places_of(name, function.body)]
    for loop in loops:
        if isinstance(loop, cst.For | cst.CompFor):
            yield from (it.value for it in walk(loop.target) if isinstance(it, cst.Name))


def _are_plain(function: cst.FunctionDef, item: str) -> bool:
    """Whether nobody asks an item for what only numpy's numbers have."""
    asked = [it.value for it in walk(function.body) if isinstance(it, cst.Attribute)]
    return not any(isinstance(it, cst.Name) and it.value == item for it in asked)


def _divides(site: Site, function: cst.FunctionDef, item: str) -> bool:
    """Whether numbers, not tensors, meet an item in arithmetic that numpy does differently."""
    for node in walk(function.body):
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _DIFFERS):
            sides = (site.fact(node.left), site.fact(node.right))
            if any(fact is not None and fact.is_tensor for fact in sides):
                continue
            if any(isinstance(it, cst.Name) and it.value == item for it in walk(node)):
                return True
    return False


def _sets(
    site: Site, owner: cst.ClassDef, function: cst.FunctionDef, text: str
) -> list[cst.SimpleStatementLine]:
    """The statements of the class that make the array; none where others set it as well."""
    name = text.removeprefix("self.")
    found = [
        line
        for line in walk(owner)
        if isinstance(line, cst.SimpleStatementLine)
        and len(line.body) == 1
        and isinstance(line.body[0], cst.Assign)
        and [code(it.target) for it in line.body[0].targets] == [text]
    ]
    inside = {site.function_of(line) for line in found}
    if function in inside or None in inside:
        return []
    return found if len(found) == sum(1 for _ in project.writers(site, name)) else []


def _is_changed(site: Site, name: str, sets: list[cst.SimpleStatementLine]) -> bool:
    """Whether the project changes an array of that name in place, or one that it is made of."""
    word = re.escape(name)
    ways = (
        rf"\.{word}\s*\[[^\]]*\]\s*[-+*/%&|^@<>]*=[^=]",
        rf"\.{word}\.(?:{'|'.join(sorted(_CHANGES))})\(",
        rf"['\"]{word}['\"]",
    )
    if any(project.mentions(site, way) for way in ways):
        return True
    return any(
        isinstance(value := _value(line), cst.Name) and _fills(site, line, value.value)
        for line in sets
    )


def _value(line: cst.SimpleStatementLine) -> cst.BaseExpression:
    assign = line.body[0]
    assert isinstance(assign, cst.Assign)
    return assign.value


def _fills(site: Site, line: cst.SimpleStatementLine, name: str) -> bool:
    """Whether the function around changes in place what a name holds."""
    function = site.function_of(line)
    return function is not None and any(
        isinstance(node, cst.AssignTarget | cst.AugAssign)
        and isinstance(node.target, cst.Subscript | cst.Name)
        and (isinstance(node, cst.AugAssign) or isinstance(node.target, cst.Subscript))
        and code(node.target).partition("[")[0] == name
        for node in walk(function.body)
    )


def _is_handed_in(site: Site, line: cst.SimpleStatementLine) -> bool:
    """Whether somebody else may hold the array that the class keeps."""
    value, function = _value(line), site.function_of(line)
    match value:
        case cst.Name(name):
            return function is None or name in {it.name.value for it in params_of(function.params)}
        case cst.Attribute():
            return True
    return False


def _is_handed_on(site: Site, name: str, reads: list[cst.Attribute]) -> bool:
    """Whether the file hands an array of that name to others, who may change it."""
    for node in walk(site.module):
        if not isinstance(node, cst.Attribute) or node.attr.value != name or node in reads:
            continue
        whole: cst.CSTNode = node
        parent: cst.CSTNode | None
        while True:  # a slice or another form of it has the same memory
            parent = site.parent(whole)
            forms = isinstance(parent, cst.Subscript | cst.Attribute) and parent.value is whole
            if parent is None or not (
                forms or (isinstance(parent, cst.Call) and parent.func is whole)
            ):
                break
            whole = parent
        match whole:
            case cst.Call(func=cst.Attribute(attr=cst.Name(last))) if last not in _FORMS:
                continue  # `self.steps.tolist()`, `self.steps.copy()`
        if isinstance(parent, cst.Assign | cst.Return | cst.Element | cst.DictElement):
            return True
        if isinstance(parent, cst.Arg):
            call = site.parent(parent)
            func = call.func if isinstance(call, cst.Call) else parent
            home, _, last = (resolve(site.module, func) or "").rpartition(".")
            writes = last in ("put", "copyto", "place", "asarray", "from_numpy", "as_tensor")
            if home not in ("numpy", "builtins", "torch") or writes or parent.keyword is not None:
                return True
    return False


def _read_list(site: Site, edit: Edit, read: cst.Attribute, beside: str) -> None:
    """Read the list; ``np.flip(a)`` becomes ``a_list[::-1]``."""
    arg = site.parent(read)
    outer = site.parent(arg) if isinstance(arg, cst.Arg) else None
    if isinstance(outer, cst.Call) and resolve(site.module, outer.func) == "numpy.flip":
        edit.replace(outer, cst.parse_expression(f"{beside}[::-1]"))
    else:
        edit.replace(read, cst.parse_expression(beside))


def _set_list(
    site: Site, line: cst.SimpleStatementLine, name: str, beside: str
) -> cst.BaseStatement:
    value = _value(line)
    numpy = next(word for word, home in import_map(site.module).items() if home == "numpy")
    array = f"self.{name}" if _is_of_numpy(site, value) else f"{numpy}.asarray(self.{name})"
    none = isinstance(value, cst.Name) and value.value == "None"
    text = f"self.{beside} = {'None' if none else f'{array}.tolist()'}"
    return cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)


def _is_of_numpy(site: Site, value: cst.BaseExpression) -> bool:
    """``np.linspace(...).round().astype(int)``: what methods of an array give is one."""
    while isinstance(value, cst.Call):
        if (resolve(site.module, value.func) or "").startswith("numpy."):
            return True
        if not isinstance(value.func, cst.Attribute):
            return False
        value = value.func.value
    return False

"""Numbers of numpy's that an object keeps, and whether anybody can tell when they are Python's.

Torch's operators take a number of numpy's, on either side of a tensor, for the Python number that
its ``item()`` gives (measured with torch 2.13 and numpy 2.4, for float64, float32 and int64, with
tensors of floats, ints and half precision).  So does every test of its truth.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import libcst as cst

from gbfix.analysis.build import call as call_of
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, dotted, walk, words
from gbfix.codemod import Edit, Site
from gbfix.rewriting import project

from .number_proof import only_truth_counts

TO_PYTHON = {"numpy.float64": "float", "numpy.float32": "float", "numpy.float16": "float"} | {
    f"numpy.{sign}int{bits}": "int" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
TO_PYTHON |= {"numpy.bool": "bool", "numpy.bool_": "bool"}
#: Whose products with tensors are those of Python's numbers.
_MEASURED = frozenset({"numpy.float64", "numpy.float32", "numpy.int64"})
_ARITHMETIC = cst.Add | cst.Subtract | cst.Multiply | cst.Divide
#: Functions of numpy's that give floats, whatever the numbers are: an int of numpy's wraps around.
FLOATS = words("sqrt exp log log2 log10 sin cos tan arctan float64 floor ceil")
_HIDDEN = r"\b(?:__dict__|vars|getattr|setattr|asdict)\b"


def make_numbers(site: Site, edit: Edit, statement: cst.CSTNode) -> dict[str, bool]:
    """Make numpy scalars that ``__init__`` keeps Python numbers.

    Gives the attributes' texts, and for each whether nobody can tell.
    """
    around = site.class_of(site.node)
    if around is None:
        return {}
    if isinstance(statement, cst.If | cst.While):
        statement = statement.test
    elif isinstance(statement, cst.BaseCompoundStatement):
        return {}
    changed: dict[str, bool] = {}
    for node in walk(statement):
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
            continue
        fact = site.fact(node)
        convert = TO_PYTHON.get(fact.type) if fact is not None else None
        value = _only_assignment(site, around, node) if convert is not None else None
        if fact is None or value is None or convert is None:
            continue
        if (text := site.text(node)) in changed:
            continue
        if isinstance(value, cst.Name) and fact.type == "numpy.float64":
            continue  # `numpy-constant` follows floats to wherever they are handed on
        new = _converted(site, value, convert)
        if new is not None:
            edit.replace(value, new)
            changed[text] = _stays_itself(site, value, convert) and _nobody_tells(
                site, around, node, fact.type
            )
    return changed


def _stays_itself(site: Site, value: cst.BaseExpression, convert: str) -> bool:
    """Whether the conversion changes nothing but numpy's numbers, whatever the object is made with.

    ``float`` would make a float of an int, ``int`` would cut a float, and the truth of what another
    object still changes is not known in ``__init__``.
    """
    match value:
        case cst.Name():
            return True  # it asks for numpy's numbers
        case cst.Comparison() if convert == "bool":
            return True
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            sides = (left, right)
            return isinstance(operator, _ARITHMETIC) and any(
                convert == "float" and _stays_itself(site, side, convert)
                for side in sides
                if not isinstance(side, cst.Name)
            )
        case cst.Call():
            home, _, name = (resolve(site.module, value.func) or "").rpartition(".")
            known = name in FLOATS if convert == "float" else convert == "bool"
            return home == "numpy" and known
    return False


def _converted(site: Site, value: cst.BaseExpression, convert: str) -> cst.BaseExpression | None:
    """The value as a Python number; what is none of numpy's stays where a name may hold either."""
    if not isinstance(value, cst.Name):
        if resolve(site.module, cst.Name(convert), at=value) != f"builtins.{convert}":
            return None
        return call_of(convert, value.with_changes(lpar=(), rpar=()))
    numpy = next((own for own, what in import_map(site.module).items() if what == "numpy"), "")
    builtin = resolve(site.module, cst.Name("isinstance"), at=value) == "builtins.isinstance"
    if not numpy or not builtin:
        return None
    name = value.value
    return cst.parse_expression(
        f"{name}.item() if isinstance({name}, {numpy}.generic) else {name}",
        site.module.config_for_parsing,
    )


def _only_assignment(
    site: Site, around: cst.ClassDef, attribute: cst.Attribute
) -> cst.BaseExpression | None:
    """What ``__init__`` assigns to the attribute, where nothing else in the class does."""
    text = site.text(attribute)
    found: list[cst.Assign] = []
    others = 0
    for node in walk(around):
        if isinstance(node, cst.Assign):
            if any(site.text(target.target) == text for target in node.targets):
                found.append(node)
        elif isinstance(node, cst.AnnAssign | cst.AugAssign):
            others += site.text(node.target) == text
    if len(found) != 1 or others or len(found[0].targets) != 1:
        return None
    function = site.function_of(found[0])
    if function is None or function.name.value != "__init__":
        return None
    value = found[0].value
    converted = isinstance(value, cst.Call) and dotted(value.func) in TO_PYTHON.values()
    return None if converted or isinstance(value, cst.IfExp) else value


# -- who can tell ----------------------------------------------------------------------------


def _nobody_tells(site: Site, around: cst.ClassDef, attribute: cst.Attribute, kind: str) -> bool:
    """Whether each reader of the attribute takes either number alike."""
    name = attribute.attr.value
    if code(attribute.value) != "self":
        return False
    uses = list(_uses(site, around, name))
    if any(use is None for use in uses) or _read_elsewhere(site, around, name):
        return False
    return all(use is not None and _takes_either(site, use, kind) for use in uses)


def _uses(site: Site, around: cst.ClassDef, name: str) -> Iterator[cst.Attribute | None]:
    """The reads in this file of the attribute; None for one that may be of any object."""
    family = _family(site, around)
    for node in walk(site.module):
        if not isinstance(node, cst.Attribute) or node.attr.value != name:
            continue
        stored = isinstance(site.parent(node), cst.AssignTarget)
        holder = site.class_of(node)
        if code(node.value) != "self" or holder is None:
            yield None
        elif any(holder is one for one in family):
            if not stored:
                yield node
            elif holder is not around:
                yield None
        elif not _sets(holder, name):
            yield None  # a mixin, perhaps


def _family(site: Site, around: cst.ClassDef) -> list[cst.ClassDef]:
    """The class, those of this file that it comes of, and those that come of it."""
    classes = [node for node in walk(site.module) if isinstance(node, cst.ClassDef)]
    bases = {
        id(one): {code(base.value).rpartition(".")[2] for base in one.bases} for one in classes
    }
    above, below = {around.name.value}, {around.name.value}
    for _ in classes:
        for one in classes:
            if one.name.value in above:
                above |= bases[id(one)]
            if bases[id(one)] & below:
                below.add(one.name.value)
    return [one for one in classes if one.name.value in above | below]


def _sets(holder: cst.ClassDef, name: str) -> bool:
    return any(
        isinstance(node, cst.AssignTarget) and code(node.target) == f"self.{name}"
        for node in walk(holder)
    )


def _read_elsewhere(site: Site, around: cst.ClassDef, name: str) -> bool:
    """Whether other files, strings, or the layers that the class comes of, may read it."""
    word = re.compile(rf"\.{re.escape(name)}\b")
    if any(word.search(text) for path, text in site.sources.items() if path != site.path):
        return True
    if project.mentions(site, rf"[\"']{re.escape(name)}[\"']") or project.mentions(site, _HIDDEN):
        return True
    own = {node.name.value for node in walk(site.module) if isinstance(node, cst.ClassDef)}
    for one in _family(site, around):
        for base in one.bases:
            text = code(base.value)
            full = resolve(site.module, base.value) or text
            if text in own or full in ("torch.nn.Module", "builtins.object", "object"):
                continue
            if not full.startswith("torch.nn.") or name in _layer_words():
                return True
    return False


def _layer_words() -> frozenset[str]:
    """Every attribute that torch's layers speak of; the files are read, torch is not imported."""
    if not _WORDS:
        spec = importlib.util.find_spec("torch")
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        for folder in folders:
            for path in sorted(Path(folder, "nn", "modules").glob("*.py")):
                _WORDS.update(re.findall(r"(?:\.|[\"'])(\w+)", path.read_text("utf-8")))
    return frozenset(_WORDS)


_WORDS: set[str] = set()


def _takes_either(site: Site, use: cst.Attribute, kind: str) -> bool:
    if only_truth_counts(site, use) or (kind in _MEASURED and _meets_tensor(site, use)):
        return True
    # Further arithmetic would divide by zero in Python, where numpy gives inf.
    return kind == "numpy.float64" and (_is_compared(site, use) or _is_made_plain(site, use))


def _is_made_plain(site: Site, use: cst.Attribute) -> bool:
    """Whether it becomes a Python number, or its text, right away."""
    match site.parent(use):
        case cst.FormattedStringExpression(conversion=None, equal=None):
            return True
        case cst.Arg() as arg:
            outer = site.parent(arg)
            made = resolve(site.module, outer.func) if isinstance(outer, cst.Call) else None
            return made in ("builtins.float", "builtins.int")
    return False


def _is_compared(site: Site, node: cst.BaseExpression) -> bool:
    """Whether it is compared with a number that is written out, and only the truth counts."""
    parent = site.parent(node)
    match parent:
        case cst.Comparison(
            comparisons=[cst.ComparisonTarget(operator=operator, comparator=other)]
        ):
            plain = not isinstance(operator, cst.Is | cst.IsNot | cst.In | cst.NotIn)
            written = isinstance(other, cst.Integer | cst.Float)
            return plain and written and only_truth_counts(site, parent)
    return False


def _meets_tensor(site: Site, use: cst.Attribute) -> bool:
    """Whether it goes straight into arithmetic with a tensor, on either side."""
    parent = site.parent(use)
    if not isinstance(parent, cst.BinaryOperation) or not isinstance(parent.operator, _ARITHMETIC):
        return False
    other = parent.left if parent.right is use else parent.right
    fact = site.fact(other)
    return fact is not None and fact.is_tensor and fact.type.endswith((".Tensor", ".Parameter"))

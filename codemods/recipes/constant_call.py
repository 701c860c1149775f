"""Python's own functions of texts and numbers, which Dynamo knows and cannot compute with."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.build import comments_in, expression
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.scopes import import_map, module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.plain_python import PURE_FUNCTIONS, PURE_METHODS
from gbfix.rewriting.project import mentions
from gbfix.rewriting.specialised import specialised
from gbfix.schema import Fact

from ..side_effects.moving import texts_of_tensors

#: With what Python's own types do with texts and numbers.
_PURE = PURE_FUNCTIONS | {
    f"builtins.{name}"
    for name in words("bytes int float str len list tuple sorted ord chr min max sum")
}
_KINDS = frozenset({"str", "bytes", "int", "float", "bool", "none"})
_NOTE = "the call is made while Dynamo compiles, once for each value of what it is given"
_REPLACES = r"\bmock|[Mm]onkey_?[Pp]atch|\bpatch[.(]"
_TEXT = 'key.replace(b"[S]", b"\\x01")'
_FACTS = {
    "x": tensor(2, 3),
    "key": Fact("bytes", "bytes"),
    _TEXT: Fact("bytes", "bytes"),
    "name": scalar("a"),
    "n": scalar(3),
    "zlib.crc32(name.encode()) % n": scalar(1),
    "zlib.crc32(name.encode())": scalar(1),
    "zlib.crc32(x)": scalar(1),
    "self.zlib": Fact("bytes", "bytes"),
    "zlib.crc32(self.zlib)": scalar(1),
}


def _source(body: str, above: str = "") -> str:
    return f"import zlib\nimport torch\n{above}\n\ndef f(self, x, key, name, n):\n    {body}\n"


_HEAD = "@torch.compiler.assume_constant_result\ndef {}:\n    return {}\n"


class ConstantCall(Codemod):
    """*What it does.*  Makes a function of what is computed from texts and numbers alone, and has
    Dynamo make the call: ``zlib.crc32(name.encode())`` becomes ``zlib_crc32(name)``, a function
    that is marked with ``torch.compiler.assume_constant_result``.

    *When it applies.*  Functions of the standard library and methods of texts and bytes that are
    known to give the same for the same (checksums, JSON, ``bytes.replace``), of values that are
    texts, bytes, numbers or lists of these.

    *Fix safety.*  Safe: Dynamo guards each of the values that the function is given, and makes the
    call again for others.

    *Refuses.*  Tensors, objects, other functions, results that are none of these, and projects that
    put other functions in the place of such (``mock.patch``).
    """

    name = "constant-call"
    codes = ("GB0007", "GB0059", "GB0156")

    examples = (
        Example(
            _source(f"return x + torch.tensor(list({_TEXT})).sum()"),
            _source(
                "return x + torch.tensor(list(key_replace(key))).sum()",
                "\n\n" + _HEAD.format("key_replace(key)", _TEXT),
            ),
            at=_TEXT,
            facts=_FACTS,
            code="GB0156",
            title="bytes",
        ),
        Example(
            _source("return x * (zlib.crc32(name.encode()) % n)", "import operator\n"),
            _source(
                "return x * (zlib_crc32_n(name, operator.index(n)))",
                "import operator\n\n\n"
                + _HEAD.format("zlib_crc32_n(name, n)", "zlib.crc32(name.encode()) % n"),
            ),
            at="zlib.crc32(name.encode())",
            facts=_FACTS,
            code="GB0007",
            title="a checksum",
        ),
    )
    near_misses = tuple(
        NearMiss(_source(body, above), at=at, why=why, facts=_FACTS, code="GB0007")
        for body, at, why, above in (
            ("return x + zlib.crc32(x)", "zlib.crc32(x)", "a tensor", ""),
            ("return x + zlib.crc32(self.key)", "zlib.crc32(self.key)", "not known", ""),
            ("return x + zlib.compress(name)", "zlib.compress(name)", "no number", ""),
            ("return x + zlib.crc32(self.zlib)", "zlib.crc32(self.zlib)", "hides the module", ""),
            (
                "return x + zlib.crc32(name.encode())",
                "zlib.crc32(name.encode())",
                "a test puts another function there",
                "import mock\nmock.patch('zlib.crc32')",
            ),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        whole = _whole(site)
        if whole is None or site.function is None or mentions(site, _REPLACES):
            return
        if activity(whole).reads & texts_of_tensors(site):
            return  # no constant: the text of a tensor, or a list of such
        top = site.top_level_statement(site.node)
        taken = names_in(site.module) | set(module_bindings(site.module))
        name = fresh(telling_name(whole), taken)
        edit = site.edit()
        given: dict[str, str] = {}
        inner: dict[cst.CSTNode, cst.CSTNode] = {}
        for node in _leaves(site, whole):
            text = code(node)
            if text not in given:
                form = specialised(site.fact(node))
                if form is not None:
                    if import_map(site.module).get(form[0], form[0]) != form[0]:
                        return
                    edit.add_import(form[0])
                given[text] = text if form is None else form[1].format(text)
            inner[node] = cst.Name(_parameter(text))
        names = [_parameter(text) for text in given]
        if not given or len(set(names)) < len(names) or set(names) & _called_by(whole, inner):
            return
        body = whole.with_changes(lpar=(), rpar=()).visit(_Put(inner))
        torch = next((n for n, home in import_map(site.module).items() if home == "torch"), None)
        if torch is None or not isinstance(body, cst.BaseExpression):
            return
        text = _HEAD.format(f"{name}({', '.join(names)})", code(body)).replace("torch", torch, 1)
        blank = cst.EmptyLine(indent=False)
        definition = cst.ensure_type(cst.parse_statement(text), cst.FunctionDef)
        edit.insert_before(top, definition.with_changes(leading_lines=[blank, blank]))
        call = expression(f"{name}({', '.join(given.values())})")
        edit.replace(whole, call.with_changes(lpar=whole.lpar, rpar=whole.rpar))
        yield edit.rewrite(f"call `{name}` while compiling", rank=35, notes=(_NOTE,))


def _called_by(whole: cst.BaseExpression, given: Collection[cst.CSTNode]) -> set[str]:
    """The names by which the expression finds its functions, which no parameter may hide."""
    inside = {id(part) for node in given for part in walk(node)}
    names = (part for part in walk(whole) if isinstance(part, cst.Name) and id(part) not in inside)
    return {part.value for part in names}


def _parameter(text: str) -> str:
    return text.rpartition(".")[2]


class _Put(cst.CSTTransformer):
    def __init__(self, new: dict[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self.new = new

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        return self.new.get(original_node, updated_node)

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.new


def _whole(site: Site) -> cst.BaseExpression | None:
    """The largest expression around the break that is made of constants and such functions."""
    best = None
    for node in (site.node, *site.ancestors(site.node)):
        if isinstance(node, cst.BaseStatement | cst.BaseSmallStatement | cst.Lambda | cst.BaseComp):
            break
        if not isinstance(node, cst.BaseExpression):
            continue
        fact = site.fact(node)
        plain = fact is not None and fact.kind in _KINDS
        if plain and not comments_in(node) and _is_pure(site, node) and _calls(node):
            best = node
    return best


def _calls(node: cst.CSTNode) -> bool:
    return any(isinstance(part, cst.Call) for part in walk(node))


def _leaves(site: Site, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The names and attributes that the expression reads, without those of its functions."""
    match node:
        case cst.Call(func=func, args=args):
            if isinstance(func, cst.Attribute) and resolve(site.module, func) not in _PURE:
                yield from _leaves(site, func.value)
            for arg in args:
                yield from _leaves(site, arg.value)
        case cst.Name() | cst.Attribute():
            if code(node) not in ("True", "False", "None"):
                yield node
        case _:
            for child in node.children:
                for part in [child] if isinstance(child, cst.BaseExpression) else child.children:
                    if isinstance(part, cst.BaseExpression):
                        yield from _leaves(site, part)


def _is_pure(site: Site, node: cst.BaseExpression) -> bool:
    match node:
        case cst.BaseNumber() | cst.SimpleString() | cst.Name("True" | "False" | "None"):
            return True
        case cst.Name() | cst.Attribute():
            fact = site.fact(node)
            if fact is None:
                return False
            listed = fact.kind in ("list", "tuple") and bool(fact.items)
            return fact.kind in _KINDS - {"none"} or (
                listed and all(item.kind in _KINDS for item in fact.items or ())
            )
        case cst.Call(func=func, args=args):
            if any(arg.star or arg.keyword is not None for arg in args):
                return False
            if not all(_is_pure(site, arg.value) for arg in args):
                return False
            if resolve(site.module, func) in _PURE:
                return True
            return (
                isinstance(func, cst.Attribute)
                and func.attr.value in PURE_METHODS
                and _is_pure(site, func.value)
            )
        case cst.BinaryOperation(left=left, right=right):
            return _is_pure(site, left) and _is_pure(site, right)
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            return _is_pure(site, value) and _is_pure(site, index)
    return False

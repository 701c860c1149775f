"""Numbers that vary between calls and are made into text: Dynamo has to know them for that."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import expression
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.specialised import specialised
from gbfix.schema import Safety

_NOTE = (
    "Dynamo compiles one graph for each value of the number that becomes text; where a call brings"
    " ever new values, it stops compiling at its limit (8 by default)"
)
_FRACTION = "where a number was whole in the run, a float in its place raises a TypeError"
_TENSOR = "a tensor that is given for the number becomes the text of its value, `2` for `tensor(2)`"
_FACTS = {"x": tensor(2, 3), "n": scalar(3), "eps": scalar(0.5), "flag": scalar(True)}
_FACTS |= {"name": scalar("a"), "self.n": scalar(3), "x.shape[0]": scalar(2)}


def _source(body: str, head: str = "") -> str:
    return f"{head}import torch\n\n\ndef f(self, x, n, eps, flag, name):\n    {body}\n"


def _example(
    title: str, before: str, after: str, code: str, *imports: str, at: str = ""
) -> Example:
    head = "".join(f"import {name}\n" for name in imports)
    return Example(
        _source(before),
        f"import torch\n{head}" + _source(after).removeprefix("import torch\n"),
        at=at or before,
        facts=_FACTS,
        code=code,
        title=title,
    )


class NumberAsText(Codemod):
    """*What it does.*  Asks for the value of a number that becomes text: ``str(n)`` becomes
    ``str(operator.index(n))``, for a float ``str(n if isinstance(n, int) else math.ldexp(n, 0))``;
    so do the numbers of f-strings, of ``%`` and of ``str.format``.

    After its second value, Dynamo keeps a number that is handed in as a symbol, and has no text
    for it. Both calls give the very number back, and make Dynamo compile for this value.

    *When it applies.*  Keys of caches and of layers (``self.layers[str(task)]``), names, messages.

    *Fix safety.*  Safe: the text is the same. Dynamo compiles one graph for each value, which the
    note says; a tensor in its place would become the text of its value.

    *Refuses.*  Values that were not seen to be plain ints or floats.
    """

    name = "number-as-text"
    codes = ("GB0059", "GB0060", "GB0088", "GB0117", "GB7000", "internal-error")

    examples = (
        _example(
            "an int",
            "return self.layers[str(n)](x)",
            "return self.layers[str(operator.index(n))](x)",
            "GB0059",
            "operator",
        ),
        _example(
            "an f-string",
            'key = f"{n:03d}_{name}_{self.n}"',
            'key = f"{operator.index(n):03d}_{name}_{operator.index(self.n)}"',
            "GB0060",
            "operator",
        ),
        _example(
            "a format with two kinds",
            'key = "%d_%s_%s" % (n, eps, x.device)',
            'key = "%d_%s_%s" % (operator.index(n), (eps if isinstance(eps, int)'
            " else math.ldexp(eps, 0)), x.device)",
            "GB0088",
            "math",
            "operator",
        ),
        _example(
            "asked by a test",
            "if str(n) not in self.known:\n        self.known[str(n)] = f'{self.n}'",
            "if str(operator.index(n)) not in self.known:\n"
            "        self.known[str(operator.index(n))] = f'{self.n}'",
            "GB0059",
            "operator",
            at="str(n)",
        ),
        _example(
            "one number",
            'key = "n%d" % n',
            'key = "n%d" % operator.index(n)',
            "GB0088",
            "operator",
        ),
        _example(
            "str.format",
            'key = "{}x{w}".format(n, w=x.shape[0])',
            'key = "{}x{w}".format(operator.index(n), w=operator.index(x.shape[0]))',
            "GB0088",
            "operator",
        ),
    )
    near_misses = tuple(
        NearMiss(head + _source(body), at=body, why=why, facts=_FACTS, code="GB0059")
        for body, why, head in (
            ("key = str(name)", "text already", ""),
            ("key = str(flag)", "True is no 1", ""),
            ("key = str(3)", "a literal", ""),
            ("key = str(x)", "a tensor", ""),
            ("key = n % eps", "a remainder", ""),
            ("key = str(operator.index(n))", "done", ""),
            ("key = str(n, 'utf-8')", "bytes", ""),
            ("key = str(n)", "another `str`", "from mine import str\n"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        texts = {code(value) for value, _ in _numbers(site, _broken(site))}
        if not texts:
            return
        edit, whole = site.edit(), False
        for value, (module, form) in _numbers(site, site.function or site.statement):
            if code(value) not in texts:
                continue
            if import_map(site.module).get(module, module) != module:
                return
            whole = whole or module == "operator"
            edit.add_import(module)
            edit.replace(value, expression(_form(site, value, form).format(code(value))))
        yield edit.rewrite(
            f"compile for the value of `{min(texts)}`, which becomes text",
            rank=13,
            notes=(_NOTE, _TENSOR, *([_FRACTION] if whole else [])),
            safety=Safety.SAFE,
            assumes=["text-of-numbers"],
        )


def _form(site: Site, value: cst.BaseExpression, form: str) -> str:
    """The form that asks for a number; one that was a float in the run may be whole elsewhere."""
    if not form.startswith("math.") or any(isinstance(node, cst.Call) for node in walk(value)):
        return form
    text = f"{{0}} if isinstance({{0}}, int) else {form.replace('{}', '{0}')}"
    return text if isinstance(site.parent(value), cst.Arg) else f"({text})"


def _broken(site: Site) -> cst.CSTNode:
    """The simple statement in which the break is; of a compound one, the expression alone."""
    found: cst.CSTNode = cst.Pass()
    for node in (site.node, *site.ancestors(site.node)):
        if isinstance(node, cst.BaseSmallStatement | cst.SimpleStatementLine):
            return node
        if isinstance(node, cst.BaseCompoundStatement):
            break
        found = node
    return found


def _numbers(
    site: Site, block: cst.CSTNode
) -> Iterator[tuple[cst.BaseExpression, tuple[str, str]]]:
    """The numbers that become text below a node, with the module and the form that ask for them."""
    for node in walk(block):
        for value in _as_text(site, node):
            fact = site.fact(value)
            form = specialised(fact)
            if form is not None and not isinstance(value, cst.Integer | cst.Float):
                yield value, form


def _as_text(site: Site, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    match node:
        case cst.FormattedStringExpression(expression=value):
            yield value
        case cst.Call(func=cst.Name("str"), args=[cst.Arg(value=value, keyword=None, star="")]):
            if resolve(site.module, node.func) in (None, "str", "builtins.str"):
                yield value
        case cst.Call(func=cst.Attribute(value=cst.SimpleString(), attr=cst.Name("format"))):
            yield from (item.value for item in node.args if not item.star)
        case cst.BinaryOperation(left=cst.SimpleString(), operator=cst.Modulo(), right=right):
            if isinstance(right, cst.Tuple):
                yield from (item.value for item in right.elements if isinstance(item, cst.Element))
            else:
                yield right

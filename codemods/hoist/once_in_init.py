"""Numbers and texts that come out the same in every call, computed when the object is made."""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.attributes import binds, bound_by_init, bound_once
from gbfix.analysis.names import fresh, names_in, telling_name
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.plain_python import PURE_FUNCTIONS, PURE_METHODS
from gbfix.schema import Fact, Safety

from ..wrap.capture import own_parameters
from ..wrap.pure import is_pure_function

_ATTRIBUTES = words("days denominator imag numerator real seconds size")
#: Of numbers, these are arithmetic: what they give hangs on nothing else.
_NUMERIC = frozenset(
    f"numpy.{name}"
    for name in words("prod sum max min sqrt ceil floor round abs log log2 exp power mean float64")
) | {"builtins.int", "builtins.float", "builtins.abs", "builtins.round"}
_RAISES = "where it fails, it fails when the object is made, no longer when it is called"

_SET = "an attribute without an underscore may be set from outside, where nothing here can see it"
_PICKLED = "an object that the old program pickled as a whole lacks the new attribute"


def _source(value: str, setup: str = "self._key = 'a'", more: str = "") -> str:
    return f"""import hashlib
import struct

import torch

SALT = b"salt"


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        {setup}

    def forward(self, x, n):
        return x * {value}
{more}"""


_DIGEST = "hashlib.md5(self._key.encode()).digest()[0]"
_COUNT = "int(np.prod(self.width))"
_FACTS = {
    "x": tensor(3),
    "n": scalar(3),
    "self._key": scalar("a"),
    _DIGEST: scalar(12),
    "struct.calcsize('if')": scalar(8),
    "hashlib.md5(SALT).digest()[0]": scalar(12),
    "hashlib.md5(n).digest()[0]": scalar(12),
    "struct.calcsize(self.text)": scalar(8),
    "self.text": scalar("if"),
}


def _near_miss(source: str, at: str, why: str, **facts: Fact) -> NearMiss:
    return NearMiss(source, at=at, why=why, facts={**_FACTS, **facts})


class OnceInInit(Codemod):
    """*What it does.*  Moves what gives the same number or text in every call to where it is
    computed once: ``struct.calcsize("if")`` above the function, and what depends on attributes
    that only ``__init__`` binds to ``__init__``, right below where it binds them.

    ```python
    return x * hashlib.md5(self._key.encode()).digest()[0]
    ```
    becomes ``return x * self._hashlib_md5_digest_item``.

    *When it applies.*  The break is in an expression made of literals, constants of the module,
    attributes of ``self`` that hold a number or a text, and functions of the standard library that
    are known to depend on their arguments alone; its value is a number, a bool or a text, which
    nobody can change in place.

    *Fix safety.*  Safe where every part is written out in the file: the value is then the same for
    all objects.  Safe, too, for arithmetic with numbers that only ``__init__`` sets:
    ``int(np.prod(self.width))``.  Unsafe elsewhere where an attribute comes from an argument of
    ``__init__`` (an expression that fails then fails earlier), or has a public name.

    *Refuses.*  Attributes (and constants) that anything in the project binds in another place, that
    are asked for by ``setattr``, or that are public and not written out; anything but numbers and
    texts (a list could be changed by who gets it); random numbers, clocks, files, the environment;
    modules with parameters, which would appear in ``state_dict``.
    """

    name = "once-in-init"
    codes = ("GB0007", "GB0059", "GB0109", "GB0147", "GB0156", "GB0208")

    examples = (
        Example(
            _source(_DIGEST),
            _source(
                "self._hashlib_md5_digest_item",
                f"self._key = 'a'\n        self._hashlib_md5_digest_item = {_DIGEST}",
            ),
            at=_DIGEST,
            facts=_FACTS,
            title="an attribute that only `__init__` binds",
        ),
        Example(
            _source("struct.calcsize('if')"),
            _source("struct_calcsize").replace(
                "\n\nclass Net", "\n\nstruct_calcsize = struct.calcsize('if')\n\n\nclass Net"
            ),
            at="struct.calcsize('if')",
            facts=_FACTS,
            title="written out",
        ),
        Example(
            _source(_COUNT, "self.width = width").replace("hashlib", "numpy as np"),
            _source(
                "self._int_prod_width",
                f"self.width = width\n        self._int_prod_width = {_COUNT}",
            ).replace("hashlib", "numpy as np"),
            at=_COUNT,
            code="GB0208",
            facts={**_FACTS, _COUNT: scalar(4), "self.width": scalar(4)},
            title="arithmetic with numbers",
        ),
    )
    near_misses = (
        _near_miss(_source("hashlib.md5(n).digest()[0]"), "hashlib.md5(n).digest()[0]", "given"),
        _near_miss(
            _source(_DIGEST, more="\n\nnet = Net(3)\nnet._key = 'b'\n"), _DIGEST, "bound elsewhere"
        ),
        _near_miss(
            _source(_DIGEST, more="\n    def rename(self, key):\n        self._key = key\n"),
            _DIGEST,
            "bound by another method",
        ),
        _near_miss(
            _source(_DIGEST, more="\n\nnet = Net(3)\nsetattr(net, '_key', 'b')\n"),
            _DIGEST,
            "bound by `setattr`",
        ),
        _near_miss(
            _source(_DIGEST, more="\n\nfor key in 'ab':\n    setattr(Net, key, 1)\n"),
            _DIGEST,
            "bound by `setattr`, perhaps",
        ),
        _near_miss(
            _source(_DIGEST).replace("(self, width)", "(self, hashlib)"),
            _DIGEST,
            "`__init__` calls something else `hashlib`",
        ),
        _near_miss(
            _source(_DIGEST, "self._key = 'a'\n        import md5 as hashlib"),
            _DIGEST,
            "`__init__` imports something else as `hashlib`",
        ),
        _near_miss(
            _source("struct.calcsize('if')")
            .replace("import struct\n", "")
            .replace("        return x", "        import struct\n        return x"),
            "struct.calcsize('if')",
            "`struct` is imported in the function alone",
        ),
        _near_miss(
            _source(_DIGEST, "if width:\n            return\n        self._key = 'a'"),
            _DIGEST,
            "`__init__` may end earlier",
        ),
        _near_miss(_source(_DIGEST, "self._key = ['a']"), _DIGEST, "a list",
                   **{"self._key": Fact("list", "list")}),
        _near_miss(
            _source("struct.calcsize(self.text)", "self.text = width"),
            "struct.calcsize(self.text)",
            "public, and from an argument",
        ),
        _near_miss(
            _source("struct.unpack('i', SALT)"),
            "struct.unpack('i', SALT)",
            "no number and no text",
            **{"struct.unpack('i', SALT)": Fact("tuple", "tuple")},
        ),
        _near_miss(
            _source(
                "hashlib.md5(SALT).digest()[0]",
                more="\n\ndef new():\n    global SALT\n    SALT = b''\n",
            ),
            "hashlib.md5(SALT).digest()[0]",
            "a constant that changes",
        ),
        _near_miss(_source("hash(self._key)"), "hash(self._key)", "not among the known",
                   **{"hash(self._key)": scalar(3)}),
        _near_miss(
            _source(_DIGEST).replace("        return x", "        hashlib = n\n        return x"),
            _DIGEST,
            "another `hashlib`",
        ),
    )  # fmt: skip

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        node = _whole(site)
        if node is None or site.function is None:
            return
        parts = _Parts(site)
        if not parts.take(node) or not parts.calls:
            return
        if parts.attributes:
            yield from _in_init(site, node, parts)
        else:
            yield from _at_module_level(site, node, parts)


def _whole(site: Site) -> cst.BaseExpression | None:
    """The smallest expression around the break whose value is a number, a bool or a text."""
    for node in (site.node, *site.ancestors(site.node)):
        if isinstance(node, cst.BaseStatement | cst.Lambda | cst.BaseComp):
            return None
        if isinstance(node, cst.BaseExpression) and _is_number_or_text(site.fact(node)):
            return node
    return None


def _is_number_or_text(fact: Fact | None) -> bool:
    kinds = ("bool", "int", "float", "str")
    return fact is not None and fact.kind in kinds and fact.type == fact.kind


@dataclasses.dataclass
class _Parts:
    """What an expression is made of; `take` is False for what may come out differently."""

    site: Site
    attributes: dict[str, None] = dataclasses.field(default_factory=dict)
    functions: dict[str, cst.BaseExpression] = dataclasses.field(default_factory=dict)
    calls: int = 0
    #: Whether all attributes are numbers: texts may be no numbers at all.
    of_numbers: bool = True

    def take(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.BaseNumber() | cst.SimpleString() | cst.ConcatenatedString():
                return True
            case cst.Name(value="True" | "False" | "None"):
                return True
            case cst.Name(value=name):
                return self._is_constant(name)
            case cst.Attribute(value=cst.Name(value=me), attr=attr) if self._is_self(me):
                self.attributes[attr.value] = None
                fact = self.site.fact(node)
                self.of_numbers &= fact is not None and fact.kind != "str"
                return _is_number_or_text(fact)
            case cst.Attribute(value=value, attr=attr):
                return attr.value in _ATTRIBUTES and self.take(value)
            case cst.Call(func=func, args=args):
                self.calls += 1
                if any(arg.star for arg in args) or not all(self.take(arg.value) for arg in args):
                    return False
                name = resolve(self.site.module, func) or ""
                if name in PURE_FUNCTIONS | _NUMERIC or is_pure_function(name):
                    self.functions[name] = func
                    return True
                return (
                    isinstance(func, cst.Attribute)
                    and func.attr.value in PURE_METHODS
                    and self.take(func.value)
                )
            case cst.BinaryOperation(left=left, right=right):
                return self.take(left) and self.take(right)
            case cst.UnaryOperation(expression=inner):
                return self.take(inner)
            case cst.Subscript(
                value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=index))]
            ):
                return self.take(value) and self.take(index)
        return False

    @property
    def is_arithmetic(self) -> bool:
        return self.of_numbers and len(self.functions) > 0 and set(self.functions) <= _NUMERIC

    def mean_the_same(self, at: cst.CSTNode) -> bool:
        """Whether the names stand for the same things at another place of the file."""
        module = self.site.module
        return all(resolve(module, func, at=at) == name for name, func in self.functions.items())

    def _is_self(self, name: str) -> bool:
        function = self.site.function
        if function is None or not function.params.params or function.decorators:
            return False
        first = function.params.params[0].name.value
        holder = self.site.class_of(function)
        return (
            name == first
            and name in own_parameters(self.site, self.site.node)
            and holder is not None
            and function in holder.body.body
        )

    def _is_constant(self, name: str) -> bool:
        """Whether a name is bound once in the project's file, to a literal."""
        if resolve(self.site.module, cst.Name(name), at=self.site.node) is not None:
            return False
        others = (t for path, t in self.site.sources.items() if path != self.site.path)
        return _bound_once(self.site.source, name) and not any(binds(t, name) for t in others)


@functools.lru_cache(maxsize=64)
def _bound_once(text: str, name: str) -> bool:
    tree = ast.parse(text)
    stores = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg) and node.arg == name)
        or (isinstance(node, ast.alias) and (node.asname or node.name) == name)
        or (isinstance(node, ast.Global) and name in node.names)
    ]
    literal = any(
        isinstance(item, ast.Assign)
        and isinstance(item.value, ast.Constant)
        and [getattr(target, "id", "") for target in item.targets] == [name]
        for item in tree.body
    )
    return literal and len(stores) == 1 and not binds(text, name)


# -- where it goes -------------------------------------------------------------------------------


def _at_module_level(site: Site, node: cst.BaseExpression, parts: _Parts) -> Iterator[Rewrite]:
    top = site.top_level_statement(site.node)
    imports = [item for item in site.module.body if _imports(item)]
    if any(site.span(item).line > site.span(top).line for item in imports):
        return
    if not parts.mean_the_same(top):
        return
    name = fresh(telling_name(node), names_in(site.module))
    edit = site.edit()
    edit.replace(node, cst.Name(name))
    blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    line = cst.parse_statement(f"{name} = {code(node)}")
    assert isinstance(line, cst.SimpleStatementLine)
    edit.insert_before(top, line.with_changes(leading_lines=blank))
    yield edit.rewrite(f"compute `{code(node)}` once, at import", rank=30, assumes=("reads-once",))


def _imports(item: cst.CSTNode) -> bool:
    return isinstance(item, cst.SimpleStatementLine) and isinstance(
        item.body[0], cst.Import | cst.ImportFrom
    )


def _in_init(site: Site, node: cst.BaseExpression, parts: _Parts) -> Iterator[Rewrite]:
    assert site.function is not None
    holder = site.class_of(site.function)
    assert holder is not None
    inits = [
        item
        for item in holder.body.body
        if isinstance(item, cst.FunctionDef) and item.name.value == "__init__"
    ]
    if len(inits) != 1 or site.function is inits[0] or inits[0].decorators:
        return
    (init,) = inits
    me = init.params.params[0].name.value if init.params.params else ""
    mine = site.function.params.params[0].name.value
    if me != mine or not isinstance(init.body, cst.IndentedBlock):
        return
    if not parts.mean_the_same(init.body.body[-1]):
        return
    if any(isinstance(part, cst.Return | cst.FunctionDef | cst.Lambda) for part in walk(init.body)):
        return
    texts = [site.source, *site.sources.values()]
    written = private = True
    last = 0
    for attribute in parts.attributes:
        place, value = _bound_in(init.body.body, me, attribute)
        if value is None or not (
            bound_once(texts, attribute)
            or (parts.is_arithmetic and bound_by_init(texts, holder.name.value, attribute))
        ):
            return
        last = max(last, place)
        is_literal = isinstance(value, cst.BaseNumber | cst.SimpleString)
        if not is_literal and not attribute.startswith("_") and not parts.is_arithmetic:
            return
        written = written and is_literal
        private = private and attribute.startswith("_")
    name = fresh(telling_name(node), names_in(site.module))
    edit = site.edit()
    edit.replace(node, cst.parse_expression(f"{me}._{name}"))
    # Not at the end: what follows may call the function already.
    edit.insert_after(init.body.body[last], cst.parse_statement(f"{me}._{name} = {code(node)}"))
    yield edit.rewrite(
        f"compute `{code(node)}` once, in `__init__`",
        rank=30,
        safety=Safety.SAFE if parts.is_arithmetic or (written and private) else Safety.UNSAFE,
        notes=(*(() if written else (_RAISES,)), *(() if private else (_SET,)), _PICKLED),
        assumes=("reads-once",),
    )


def _bound_in(
    body: Sequence[cst.BaseStatement], me: str, attribute: str
) -> tuple[int, cst.BaseExpression | None]:
    """Which statement of ``__init__`` itself binds the attribute, and to what."""
    for place, item in enumerate(body):
        match item:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
            ) if code(target) == f"{me}.{attribute}":
                return place, value
    return 0, None

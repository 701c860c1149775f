"""numpy functions of plain Python numbers, which Dynamo turns into tensors."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import call as call_of
from gbfix.analysis.build import comments_in
from gbfix.analysis.kinds import infer
from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.project import catches
from gbfix.schema import Fact, Safety

from ..wrap.capture import local_names
from .number_proof import Proof, converted
from .numpy_attribute import FLOATS, TO_PYTHON, make_numbers
from .plain_use import PlainUse

#: One number in, one number out.
_ONE_NUMBER = {
    "sqrt": "math.sqrt",
    "exp": "math.exp",
    "log": "math.log",
    "log2": "math.log2",
    "log10": "math.log10",
    "sin": "math.sin",
    "cos": "math.cos",
    "tan": "math.tan",
    "arctan": "math.atan",
    "isnan": "math.isnan",
    "isinf": "math.isinf",
    "isfinite": "math.isfinite",
    "abs": "abs",
    "absolute": "abs",
    "float64": "float",
    "int64": "int",
}
#: Of a list or tuple of ints (or a size), an int.
_OF_SEQUENCE = {"prod": "math.prod", "sum": "sum"}
_OF_INTS = {"gcd": "math.gcd", "lcm": "math.lcm"}
#: Of a list of ints, one of them.
_EXTREMES = {"min": "min", "amin": "min", "max": "max", "amax": "max"}
_ROUNDING = {"floor": "math.floor", "ceil": "math.ceil"}
_OTHERWISE = (
    "numpy's numbers wrap around, divide by zero and have methods and a dtype, which Python's do"
    " not; and `math` raises an error where numpy gives nan or inf"
)
_EMPTY = "For the size of an empty tensor, `math` raises an error where NumPy gave nan or inf."
_RAISES = (
    "Where numpy gives nan or inf (the root of a negative number, a division by zero), Python"
    " raises an error; a logarithm may differ in its last bit, and what rounds to -0.0 is 0.0."
)
_WRAPS = (
    "Beyond 64 bits NumPy's integers wrap around, and divided by zero they give 0, inf or nan;"
    " Python's grow, and raise an error. Of nothing, NumPy's sum and product are fractions."
)
_CAUGHT = (
    "the project handles such errors: where numpy gave nan or inf, a handler would run instead"
)
_N = {"n": scalar(4)}
_X = {"x": tensor(4, 6), "x.shape": Fact("tuple", "torch.Size", items=(scalar(4), scalar(6)))}


def _source(*lines: str, imports: str = "", more: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{imports}import numpy as np\n{more}\n\ndef f(x, n):\n{body}"


def _layer(value: str, *lines: str) -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return (
        "import numpy as np\nimport torch\n\n\nclass Layer(torch.nn.Module):\n"
        "    def __init__(self, coef):\n        super().__init__()\n"
        f"        self.coef = {value}\n\n"
        f"    def forward(self, x):\n{body}        return x\n"
    )


class NumpyScalar(Codemod):
    """*What it does.*  Computes Python numbers in Python: ``np.sqrt(n)`` becomes ``math.sqrt(n)``.

    Inside a compiled function every numpy call gives a tensor, also one of plain numbers, and what
    wants a number then breaks: an ``if``, a ``range``, a size, an f-string, a scale factor.
    ``math`` and builtins keep the number a number.  An attribute that ``__init__`` computed with
    numpy is made a Python number there: ``self.scale = float(np.sqrt(d))``.

    *When it applies.*  The call stands in the breaking statement, or makes a name or an attribute
    that the statement reads, and its arguments were recorded as plain ints and floats.  Or a
    function of the file returns ``np.gcd`` or ``np.lcm``, and gave the statement an integer.

    *Fix safety.*  Safe where the text shows it: the numbers are made of sizes and literals, and go
    where numpy's and Python's numbers do the same (``int(...)``, a comparison in an ``if``, the
    right of a tensor), and for ``int(np.prod(dims))`` and ``int(np.floor(n))`` of any numbers.
    So is the smallest or largest of ints that are written out, as a bound of a slice or in
    ``int(...)``.  Floats of any numbers are safe, too, where only arithmetic, comparisons and
    conversions follow, and so is the product of a tensor's sizes; a limit says that Python raises
    an error where numpy gives nan or inf (unsafe where the project has a handler for such errors).
    An attribute is safe where every reader asks its truth only, or brings it into arithmetic with a
    tensor (and, for a float, compares it with a number that is written out, or makes it Python's);
    nothing else in the project may read an attribute of that name, or by a string.  What it is made
    of must be no int that a conversion to a float would change, and no float that ``int`` cuts.
    Unsafe elsewhere, and where a function returns another type than before: numpy's numbers wrap
    around, give nan, inf and -2 for ``~True``, and have methods.

    *Refuses.*  Arrays, tensors, keyword arguments, numbers of unknown type, functions with another
    result in Python, and files in which ``math`` is some other name.
    """

    name = "numpy-scalar"
    codes = (
        "GB0170",
        "GB0033",
        "GB0208",
        "GB0088",
        "GB0112",
        "GB0059",
        "GB0087",
        "GB0213",
        "GB0294",
        "GB0300",
        "GB4315",
        "data-dependent-guard",
        "data-dependent-specialization",
        "data-dependent-other",
        "internal-error",
        "torch-runtime-error",
    )

    examples = (
        Example(
            title="a test",
            before=_source("if np.abs(n - 3) > 0:", "    return x", "return x + 1"),
            after=_source("if abs(n - 3) > 0:", "    return x", "return x + 1"),
            at="np.abs(n - 3) > 0",
            facts=_N,
        ),
        Example(
            title="where the number is made",
            before=_source("k = np.sqrt(x.shape[0])", "if k > 1:", "    return x", "return x + 1"),
            after=_source(
                "k = math.sqrt(x.shape[0])",
                "if k > 1:",
                "    return x",
                "return x + 1",
                more="import math\n",
            ),
            at="k > 1",
            facts=_X,
        ),
        Example(
            title="a product of sizes",
            before=_source("return x.view(int(np.prod(x.shape[1:])))", imports="import math\n"),
            after=_source("return x.view(int(math.prod(x.shape[1:])))", imports="import math\n"),
            at="int(np.prod(x.shape[1:]))",
            code="GB0208",
            facts={
                **_X,
                "x.shape[1:]": Fact("tuple", "torch.Size", items=(scalar(6),)),
            },
        ),
        Example(
            title="rounding to an int, and a maximum",
            before=_source("return x[: np.maximum(int(np.floor(n / 2)), 1)]"),
            after=_source("return x[: max(int(math.floor(n / 2)), 1)]", more="import math\n"),
            at="x[: np.maximum(int(np.floor(n / 2)), 1)]",
            code="GB0208",
            facts={**_N, "int(np.floor(n / 2))": scalar(2)},
        ),
        Example(
            title="any number, in arithmetic",
            before=_source(
                "k = 1 + np.ceil((n - 3) / 2)", "if k > 2:", "    return x", "return x + 1"
            ),
            after=_source(
                "k = 1 + float(math.ceil((n - 3) / 2))",
                "if k > 2:",
                "    return x",
                "return x + 1",
                more="import math\n",
            ),
            at="k > 2",
            facts=_N,
        ),
        Example(
            title="made Python's afterwards",
            before=_source("return x[: np.ceil(np.log(x.shape[0])).astype(int).item()]"),
            after=_source("return x[: math.ceil(math.log(x.shape[0]))]", more="import math\n"),
            at="x[: np.ceil(np.log(x.shape[0])).astype(int).item()]",
            code="GB0208",
            facts=_X,
        ),
        Example(
            title="a sum of numbers in a list",
            before=_source("return np.zeros((4, np.sum(n[:2])))"),
            after=_source("return np.zeros((4, sum(n[:2])))"),
            at="np.zeros((4, np.sum(n[:2])))",
            code="GB0033",
            facts={"n[:2]": Fact("list", "list", items=(scalar(1), scalar(2)))},
        ),
        Example(
            title="an attribute of the module",
            before="""
            import numpy as np
            import torch

            class Scale(torch.nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.scale = np.sqrt(dim)

                def forward(self, x):
                    if self.scale > 1:
                        return x * self.scale
                    return x
            """,
            after="""
            import numpy as np
            import torch

            class Scale(torch.nn.Module):
                def __init__(self, dim):
                    super().__init__()
                    self.scale = float(np.sqrt(dim))

                def forward(self, x):
                    if self.scale > 1:
                        return x * self.scale
                    return x
            """,
            at="self.scale > 1",
            facts={"self.scale": Fact("object", "numpy.float64")},
        ),
        Example(
            title="an attribute that may be an int of numpy's (unsafe where it is compared)",
            before=_layer("coef", "if self.coef != 1:", "    x = self.coef * x"),
            after=_layer(
                "coef.item() if isinstance(coef, np.generic) else coef",
                "if self.coef != 1:",
                "    x = self.coef * x",
            ),
            at="self.coef != 1",
            facts={"self.coef": Fact("object", "numpy.int64"), "x": tensor(4, 6)},
        ),
        Example(
            title="an attribute that is a truth",
            before=_layer("np.sum(coef) != 0", "if self.coef:", "    x = x + 1"),
            after=_layer("bool(np.sum(coef) != 0)", "if self.coef:", "    x = x + 1"),
            at="self.coef",
            facts={"self.coef": Fact("object", "numpy.bool"), "x": tensor(4, 6)},
        ),
        Example(
            title="a number of truths",
            before=_source("if np.sum(n) == 1:", "    return x", "return x + 1"),
            after=_source("if sum(n) == 1:", "    return x", "return x + 1"),
            at="np.sum(n) == 1",
            facts={"n": Fact("list", "list", items=(scalar(True), scalar(False)))},
        ),
        Example(
            title="the largest of some ints, as a bound",
            before=_source("return x[:, np.max([0, n - 3]) :]"),
            after=_source("return x[:, max([0, n - 3]) :]"),
            at="x[:, np.max([0, n - 3]) :]",
            facts=_N | {"n - 3": scalar(1)},
        ),
        Example(
            title="the smallest of some ints",
            before=_source(
                "k = int(np.min([n, x.shape[1], int(np.ceil(n / 2))]))",
                "return x[:, :k]",
            ),
            after=_source(
                "k = int(min([n, x.shape[1], int(math.ceil(n / 2))]))",
                "return x[:, :k]",
                more="import math\n",
            ),
            at="k = int(np.min([n, x.shape[1], int(np.ceil(n / 2))]))",
            facts=_N | _X | {"n / 2": scalar(2.0)},
        ),
        Example(
            title="a function that gives the number",
            before="""
            import numpy as np

            def chunk(config):
                if config.one:
                    return config.first
                return np.lcm(config.first, config.second)

            def f(x, config):
                size = chunk(config)
                if x.shape[0] % size != 0:
                    return x
                return x + 1
            """,
            after="""
            import numpy as np
            import math

            def chunk(config):
                if config.one:
                    return config.first
                return math.lcm(config.first, config.second)

            def f(x, config):
                size = chunk(config)
                if x.shape[0] % size != 0:
                    return x
                return x + 1
            """,
            at="x.shape[0] % size != 0",
            facts={"chunk(config)": Fact("object", "numpy.int64")},
        ),
    )
    near_misses = (
        *(
            NearMiss(_source(source), at=at or source, why=why, facts=facts)
            for source, at, why, facts in (
                ("return np.sqrt(x)", "np.sqrt(x)", "a tensor", _X),
                ("return np.sqrt(n)", "np.sqrt(n)", "unknown kind", {}),
                (
                    "return np.sqrt(n)",
                    "np.sqrt(n)",
                    "an array",
                    {"n": Fact("ndarray", "numpy.ndarray")},
                ),
                ("return np.sqrt(n, dtype='f4')", "", "computes in float32", _N),
                ("return np.round(n)", "np.round(n)", "rounds to a float", _N),
                ("return np.random.randn(n)", "np.random.randn(n)", "draws a number", _N),
                ("return np.sqrt(n).astype(int)", "np.sqrt(n).astype(int)", "uses the array", _N),
                (
                    "return np.sqrt(n).astype('i4').item()",
                    "np.sqrt(n).astype('i4').item()",
                    "wraps around at 32 bits",
                    _N,
                ),
                ("return np.prod(n)", "np.prod(n)", "math.prod takes no number", _N),
                (
                    "return np.zeros((2, np.sum(n)))",
                    "np.zeros((2, np.sum(n)))",
                    "not all of them are ints",
                    {"n": Fact("list", "list", items=(scalar(4), scalar(0.5)))},
                ),
                (
                    "return np.zeros((2, np.max(n, 0)))",
                    "np.zeros((2, np.max(n, 0)))",
                    "along an axis",
                    {"n": Fact("list", "list", items=(scalar(4), scalar(6)))},
                ),
                (
                    "return x[: np.max(n)]",
                    "np.max(n)",
                    "may be an array",
                    {"n": Fact("ndarray", "numpy.ndarray")},
                ),
                (
                    "return x * np.min([n, 0.5])",
                    "np.min([n, 0.5])",
                    "Python's smallest of NaN and a number goes by their order",
                    _N,
                ),
                (
                    "return np.abs(n)",
                    "np.abs(n)",
                    "True is no number here",
                    {"n": scalar(True)},
                ),
            )
        ),
        NearMiss(
            """
            import numpy as np

            def chunk(config):
                if config.one:
                    return config.first
                return np.lcm(config.first, config.second)

            def f(x, config):
                size = chunk(config)
                if x.shape[0] % size != 0:
                    return x
                return x + 1
            """,
            at="x.shape[0] % size != 0",
            why="gave an array",
            facts={"chunk(config)": Fact("ndarray", "numpy.ndarray")},
        ),
        NearMiss(
            "import numpy as np\nfrom mine import math\n\n\ndef f(n):\n    return np.sqrt(n)\n",
            at="np.sqrt(n)",
            why="math is another module",
            facts=_N,
        ),
        NearMiss(
            """
            import numpy as np

            class Scale:
                def __init__(self, dim):
                    self.scale = np.sqrt(dim)

                def set(self, scale):
                    self.scale = scale

                def forward(self, x):
                    return self.scale > 1
            """,
            at="self.scale > 1",
            why="the attribute is set in two places",
            facts={"self.scale": Fact("object", "numpy.float64")},
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        statement = site.node if _is_head(site) else site.statement
        edit, proof = site.edit(), Proof(site, lambda call: _replaced_name(site, call))
        changed: list[cst.Call] = []
        for node in _origins(site, statement):
            for call in walk(node):
                new = _in_python(site, call) if isinstance(call, cst.Call) else None
                if new is None or any(call is inner for outer in changed for inner in walk(outer)):
                    continue
                assert isinstance(call, cst.Call)
                edit.replace(call, new)
                changed.append(call)
        cores = [(converted(call) or (call, None))[0] for call in changed]
        names = [site.text(core.func) for core in cores]
        helped = _returned(site, statement)
        for call, function in helped:
            edit.replace(call, call.with_changes(func=cst.parse_expression(function)))
        names += [site.text(call.func) for call, _ in helped]
        attributes = make_numbers(site, edit, statement)
        names += attributes
        if not names:
            return
        news = [*_replacements(site, changed), *(cst.parse_expression(new) for _, new in helped)]
        if any("math." in site.module.code_for_node(new) for new in news):
            edit.add_import("math")
        unsure = [
            call
            for call in changed
            if not (proof.is_sure(call) or _is_whole_in_int(site, call) or _is_place(site, call))
        ]
        filled = Proof(site, lambda call: _replaced_name(site, call), empty=False)
        bare = [call for call in unsure if not filled.is_sure(call)]
        plain = PlainUse(site, lambda call: bool(_replaced_name(site, call)))
        single = PlainUse(site, lambda call: bool(_replaced_name(site, call)), tensors=False)
        sure = all(
            # A tensor has no more elements than fit; products of other numbers that do not, and of
            # none, are told as a limit.
            (_is_count(site, call) and single.goes_well(call))
            or (_is_float(site, call) and plain.goes_well(call) and not plain.reads_data(call))
            for call in bare
        )
        notes = [] if sure else [_OTHERWISE]
        seen = [text for text, nobody_tells in attributes.items() if not nobody_tells]
        if seen:
            notes.append(f"`{seen[0]}` loses NumPy's type, methods and width")
        if helped:
            notes.append("a function that others may call, too, gives a Python int from now on")
        if unsure and sure and catches(site, "ValueError", "OverflowError", "ZeroDivisionError"):
            notes.append(_CAUGHT)
        safety = Safety.UNSAFE if notes else Safety.SAFE
        if unsure and sure:
            floats = all(_is_float(site, call) for call in bare)
            notes.append((_RAISES if floats else _WRAPS) if bare else _EMPTY)
        yield edit.rewrite(
            f"compute a Python number without numpy: `{names[0]}`",
            safety=safety,
            notes=notes,
            rank=15,
        )


def _replacements(site: Site, calls: list[cst.Call]) -> Iterator[cst.BaseExpression]:
    for call in calls:
        new = _in_python(site, call)
        if new is not None:
            yield new


def _is_head(site: Site) -> bool:
    """Whether the node is an expression in the head of a compound statement."""
    return isinstance(site.node, cst.BaseExpression) and isinstance(
        site.statement, cst.BaseCompoundStatement
    )


def _origins(site: Site, statement: cst.CSTNode) -> list[cst.CSTNode]:
    """The statement (a compound one's head), and the assignments of each name that it reads."""
    if isinstance(statement, cst.If | cst.While):
        statement = statement.test
    elif isinstance(statement, cst.For):
        statement = statement.iter
    elif isinstance(statement, cst.BaseCompoundStatement):
        return []
    found: list[cst.CSTNode] = [statement]
    if site.function is None:
        return found
    read = {node.value for node in walk(statement) if isinstance(node, cst.Name)}
    assigned: dict[str, list[cst.BaseExpression]] = {}
    for node in walk(site.function.body):
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            if isinstance(target, cst.Name) and target.value in read:
                assigned.setdefault(target.value, []).append(node.value)
    found += [
        value
        for values in assigned.values()
        for value in values
        if not any(value is inner for inner in walk(statement))
    ]
    return found


def _returned(site: Site, statement: cst.CSTNode) -> list[tuple[cst.Call, str]]:
    """Calls whose numbers functions of this file return to the statement, and what to call.

    That it was ints is known from the number that came back.
    """
    defined: dict[str, list[cst.CSTNode]] = {}
    for item in site.module.body:
        if isinstance(item, cst.FunctionDef):
            defined.setdefault(item.name.value, []).append(item.body)
    found: dict[cst.Call, str] = {}
    for origin in _origins(site, statement):
        if not isinstance(origin, cst.Call) or not isinstance(origin.func, cst.Name):
            continue
        if origin.func.value in local_names(site, origin.func):
            continue
        bodies = defined.get(origin.func.value, [])
        fact = site.fact(origin)
        if len(bodies) != 1 or fact is None or fact.type != "numpy.int64":
            continue
        for node in walk(bodies[0]):
            call = node.value if isinstance(node, cst.Return) else None
            if not isinstance(call, cst.Call) or len(call.args) != 2 or comments_in(call):
                continue
            function = _OF_INTS.get(_numpy_name(site, call))
            plain = not any(arg.star or arg.keyword for arg in call.args)
            if function is not None and plain and _is_free(site, call, function):
                found[call] = function
    return list(found.items())


def _numpy_name(site: Site, call: cst.Call) -> str:
    target = resolve(site.module, call.func) or ""
    name = target.removeprefix("numpy.")
    return name if target.startswith("numpy.") and "." not in name else ""


def _replaced_name(site: Site, call: cst.Call) -> str:
    """The name in numpy of a call that is replaced, else nothing."""
    if _in_python(site, call) is None:
        return ""
    made = converted(call)
    return _numpy_name(site, call if made is None else made[0])


def _in_python(site: Site, call: cst.Call) -> cst.BaseExpression | None:
    """The same number without numpy; None where that is not certain."""
    made = converted(call)
    if made is None:
        used = site.parent(call)
        if isinstance(used, cst.Attribute):  # ``np.sqrt(n).astype(int)``
            return None
        return _computed(site, call, whole=_goes_into_int(site, call))
    core, kind = made
    if comments_in(call) or (kind is not None and not _is_int(site, kind)):
        return None
    rounds = _numpy_name(site, core) in _ROUNDING
    new = _computed(site, core, whole=kind is not None or not rounds)
    wrapped = "int" if kind is not None and not rounds else ""
    if new is None or (wrapped and not _is_free(site, call, wrapped)):
        return None
    new = call_of(wrapped, new) if wrapped else new
    return new.with_changes(lpar=call.lpar, rpar=call.rpar)


def _is_int(site: Site, kind: cst.BaseExpression) -> bool:
    """Whether a dtype is numpy's widest int: what is finite fits in, and Python's int is its."""
    if isinstance(kind, cst.SimpleString):
        return kind.evaluated_value in ("int", "int64")
    return resolve(site.module, kind) in ("builtins.int", "numpy.int64")


def _computed(site: Site, call: cst.Call, *, whole: bool) -> cst.BaseExpression | None:
    """The call with Python's function.

    ``whole`` says that its number becomes an int: numpy rounds to floats, Python to ints.
    """
    name = _numpy_name(site, call)
    if not name or any(arg.star or arg.keyword for arg in call.args) or comments_in(call):
        return None
    values = [arg.value for arg in call.args]
    function = _python_name(site, name, values)
    if function is None or not _is_free(site, call, function):
        return None
    parts = [_rewritten(site, value) for value in values]
    new = call_of(function, *parts)
    if name in _ROUNDING and not whole:
        if not _is_free(site, call, "float"):
            return None
        new = call_of("float", new)
    return new.with_changes(lpar=call.lpar, rpar=call.rpar)


def _python_name(site: Site, name: str, values: list[cst.BaseExpression]) -> str | None:
    facts = [_number(site, value) for value in values]
    if name in _OF_SEQUENCE and len(values) == 1:
        return _OF_SEQUENCE[name] if _is_sequence_of_ints(site, values[0]) else None
    if name in _EXTREMES and len(values) == 1:
        return _EXTREMES[name] if _is_list_of_ints(site, values[0]) else None
    if None in facts or not facts:
        return None
    kinds = {fact.kind for fact in facts if fact is not None}
    if len(values) == 1 and name in _ONE_NUMBER:
        integral = kinds == {"int"}
        return None if name == "int64" and not integral else _ONE_NUMBER[name]
    if len(values) == 1 and name in _ROUNDING:
        return _ROUNDING[name]
    if len(values) == 2 and kinds == {"int"}:
        return {**_OF_INTS, "maximum": "max", "minimum": "min"}.get(name)
    return None


def _rewritten(site: Site, value: cst.BaseExpression) -> cst.BaseExpression:
    """The argument, with numpy calls inside it replaced, too."""

    class _Inner(cst.CSTTransformer):
        def on_leave(  # type: ignore[override]
            self, original: cst.CSTNode, updated: cst.CSTNode
        ) -> cst.CSTNode:
            new = _in_python(site, original) if isinstance(original, cst.Call) else None
            return updated if new is None else new

    changed = value.visit(_Inner())
    assert isinstance(changed, cst.BaseExpression)
    return changed


def _number(site: Site, node: cst.BaseExpression) -> Fact | None:
    """The fact of a plain int or float, or None."""
    fact = infer(node, site.fact)
    if isinstance(node, cst.Call) and (fact is None or fact.type in TO_PYTHON):
        inner = _in_python(site, node)
        fact = Fact("float", "float") if inner is not None else None
    elif fact is None or fact.type in TO_PYTHON:
        number = PlainUse(site, lambda call: bool(_replaced_name(site, call))).is_number(node)
        fact = Fact("float", "float") if number else fact
    if fact is None and isinstance(node, cst.Subscript) and _is_sequence_of_ints(site, node.value):
        fact = Fact("int", "int")
    return fact if fact is not None and fact.kind in ("int", "float") else None


def _is_sequence_of_ints(site: Site, node: cst.BaseExpression) -> bool:
    fact = infer(node, site.fact)
    if fact is None or fact.kind not in ("tuple", "list"):
        return False
    if fact.type == "torch.Size":
        return True
    # numpy counts bools, too, where all that it is given are bools.
    return bool(fact.items) and all(item.kind in ("int", "bool") for item in fact.items or ())


def _is_list_of_ints(site: Site, node: cst.BaseExpression) -> bool:
    """Whether it is written out, ``[0, n - 3]``, and the run had ints in it."""
    if not isinstance(node, cst.List | cst.Tuple) or not node.elements:
        return False
    return all(
        isinstance(each, cst.Element) and _is_whole(site, each.value) for each in node.elements
    )


def _is_whole(site: Site, node: cst.BaseExpression) -> bool:
    """Whether the run had a Python int, or has one once numpy's calls in it are replaced."""
    if isinstance(node, cst.Call) and resolve(site.module, node.func) == "builtins.int":
        return True
    fact = _number(site, node)
    return fact is not None and fact.kind == "int"


def _goes_into_int(site: Site, call: cst.Call) -> bool:
    arg = site.parent(call)
    outer = site.parent(arg) if isinstance(arg, cst.Arg) else None
    return (
        isinstance(outer, cst.Call)
        and len(outer.args) == 1
        and resolve(site.module, outer.func) == "builtins.int"
    )


def _is_float(site: Site, call: cst.Call) -> bool:
    core, _ = converted(call) or (call, None)
    return _numpy_name(site, core) in FLOATS


def _is_count(site: Site, call: cst.Call) -> bool:
    """Whether it is ``np.prod(x.shape)``, ``np.prod(self.rates)`` of ints or ``np.sum(self.flags)``
    of bools, and is not divided by zero as the text has it.
    """
    name = _numpy_name(site, call)
    if name not in ("prod", "sum") or len(call.args) != 1:
        return False
    given = call.args[0].value
    fact = infer(given, site.fact)
    if name == "sum" and not (fact is not None and _are_bools(fact)):
        return False
    if fact is None or not _is_sequence_of_ints(site, given):
        return False
    # What a caller gives may be of any length and size; what an object is made with is few.
    if fact.type != "torch.Size" and not code(given).startswith("self."):
        return False
    match site.parent(call):
        case cst.BinaryOperation(right=cst.Integer() | cst.Float() as other):
            return bool(other.evaluated_value)
    return True


def _are_bools(fact: Fact) -> bool:
    return bool(fact.items) and all(item.kind == "bool" for item in fact.items or ())


def _is_whole_in_int(site: Site, call: cst.Call) -> bool:
    """Whether it is ``int(np.prod(dims))``, or ``int(np.floor(n))``.

    Whatever the numbers are, ``math.prod`` gives the same there, or raises an error (of nested
    lists, say); that of nothing is 1 and not 1.0, which ``int`` cannot tell.  ``math.floor`` of
    what is no number raises the error that ``int`` raises of it.
    """
    return _numpy_name(site, call) in ("prod", *_ROUNDING) and _goes_into_int(site, call)


def _is_place(site: Site, call: cst.Call) -> bool:
    """Whether one of some ints is a bound of a slice, an index, or goes into ``int`` or ``range``.

    There, an int of numpy's and one of Python's are the same, whatever their size.
    """
    if _numpy_name(site, call) not in _EXTREMES:
        return False
    parent = site.parent(call)
    if isinstance(parent, cst.Arg):
        outer = site.parent(parent)
        name = resolve(site.module, outer.func) if isinstance(outer, cst.Call) else None
        return name == "builtins.range" or _goes_into_int(site, call)
    return isinstance(parent, cst.Slice | cst.Index)


def _is_free(site: Site, call: cst.Call, function: str) -> bool:
    """Whether ``math`` (or the builtin) means itself where the call stands."""
    root, _, _ = function.partition(".")
    if root == "math":
        if import_map(site.module).get("math") == "math" or "math" not in names_in(site.module):
            return True
        # ``from math import sqrt`` binds no ``math``.
        return all(
            isinstance(site.parent(node), cst.ImportFrom)
            for node in walk(site.module)
            if isinstance(node, cst.Name) and node.value == "math"
        )
    return resolve(site.module, cst.Name(root), at=call) == f"builtins.{root}"

"""Tensors that a legacy constructor makes of a size, or of an array of numpy's."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.binding import times_bound
from gbfix.analysis.names import names_in
from gbfix.analysis.scopes import resolve
from gbfix.analysis.tree import walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.rewriting.project import writers
from gbfix.schema import Fact, Safety

from ..api.legacy_sizes import NOTE, is_size, sets_defaults, sized_constructors
from ..api.splice import Splice
from ..data_dependent.flow import torch_name
from .api_table import LEGACY_DTYPES

_SIZE = Fact("tuple", "torch.Size", items=(scalar(2), scalar(3)))
_FACTS = {"x": tensor(2, 3), "x.size()": _SIZE, "x.shape": _SIZE}
_SEEN = "what is recorded as a size may be another sequence in other calls"
_READ = "what is recorded as an array may be a size in other calls"
#: Functions of numpy's that make arrays.
_ARRAYS = frozenset({"arange", "array", "asarray", "linspace", "zeros", "ones", "full", "eye"})
_ALIAS = "Float = torch.cuda.FloatTensor if x.is_cuda else torch.FloatTensor"


def _source(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import torch\n\n\ndef f(x):\n{body}"


class LegacyTensor(Codemod):
    """*What it does.*  Writes ``torch.FloatTensor(x.size())`` as
    ``torch.empty(x.size(), dtype=torch.float32)``, and the like of the other legacy types; also
    where a local name stands for the type (``Float = torch.cuda.FloatTensor if x.is_cuda else
    torch.FloatTensor``).  ``torch.FloatTensor(np.arange(n))`` becomes
    ``torch.as_tensor(np.arange(n), dtype=torch.float32)``.

    Dynamo takes the size for a list of numbers, and traces a tensor that holds them; of an array it
    makes a tensor, which the legacy constructor does not convert.

    *When it applies.*  Tracing failed, or broke, in a function that makes such a tensor.

    *Fix safety.*  Safe where the argument is ``x.size()`` or ``x.shape``, or a variable that is
    bound to one in one place: both make an empty tensor of that size, type and device. Unsafe where
    the argument is only recorded as a size: the old form makes something else of a tuple. Safe
    where the argument is a call of numpy's that makes an array, and the type is one of floats: both
    forms copy it or share its memory alike. Unsafe where it is only recorded as an array.

    *Refuses.*  Arguments that are not known to be sizes or arrays, names for types that are bound
    twice, and programs that set default types or devices, by a ``with`` of a device, too.
    """

    name = "legacy-tensor"
    codes = ("GB4315", "torch-runtime-error")
    examples = (
        Example(
            _source("y = torch.FloatTensor(x.size())", "y[..., 0] = x[..., 0]", "return y"),
            _source(
                "y = torch.empty(x.size(), dtype=torch.float32)",
                "y[..., 0] = x[..., 0]",
                "return y",
            ),
            at="y[..., 0]",
            facts=_FACTS,
            title="written into afterwards",
        ),
        Example(
            _source(_ALIAS, "y = Float(x.shape)", "y[..., 0] = x[..., 0]", "return y"),
            _source(
                _ALIAS,
                "y = torch.empty(x.shape, dtype=torch.float32,"
                ' device="cuda" if x.is_cuda else "cpu")',
                "y[..., 0] = x[..., 0]",
                "return y",
            ),
            at="y[..., 0]",
            facts=_FACTS,
            title="a name for the type",
        ),
        Example(
            _source("size = x.shape", "y = torch.FloatTensor(size)", "y[0] = x[0]", "return y"),
            _source(
                "size = x.shape",
                "y = torch.empty(size, dtype=torch.float32)",
                "y[0] = x[0]",
                "return y",
            ),
            at="y[0]",
            facts={**_FACTS, "size": _SIZE},
            title="a name for the size",
        ),
        Example(
            "import numpy as np\n"
            + _source("y = torch.FloatTensor(np.arange(len(x)))", "return y + x"),
            "import numpy as np\n"
            + _source(
                "y = torch.as_tensor(np.arange(len(x)), dtype=torch.float32)", "return y + x"
            ),
            at="torch.FloatTensor(np.arange(len(x)))",
            facts=_FACTS,
            title="an array",
        ),
    )
    near_misses = (
        NearMiss(
            "import numpy as np\n"
            + _source("y = torch.LongTensor(np.linspace(0, 1, 3))", "return y + x"),
            at="y + x",
            facts=_FACTS,
            why="integers of an array of floats",
        ),
        NearMiss(
            _source("y = torch.FloatTensor([2, 3])", "return y + x"),
            at="y + x",
            facts=_FACTS,
            why="numbers",
        ),
        NearMiss(
            _source(_ALIAS, "y = Float(x)", "return y + x"),
            at="y + x",
            facts=_FACTS,
            why="a tensor",
        ),
        *(
            NearMiss(
                _source("Float = torch.FloatTensor", line, "y = Float(x.size())", "return y + x"),
                at="y + x",
                facts=_FACTS,
                why="a name for two types",
            )
            for line in (
                "Float, n = torch.DoubleTensor, 1",
                "for Float in (torch.DoubleTensor,): pass",
                "print(Float := torch.DoubleTensor)",
            )
        ),
        NearMiss(
            _source("y = torch.FloatTensor(x.size())", "return y + x")
            + "\n\nMETA = torch.device('meta')\nwith META:\n    f(1)\n",
            at="y + x",
            facts=_FACTS,
            why="a device in a `with`",
        ),
        NearMiss(
            _source(_ALIAS, "x = x.cpu()", "y = Float(x.size())", "return y + x"),
            at="y + x",
            facts=_FACTS,
            why="the test speaks of another tensor then",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        certain = _found(site, seen=False)
        found = _found(site, seen=True)
        if not found:
            return
        splice = Splice(site)
        for call, text in found.items():
            splice.replace(call, text)
        made = {text.partition("(")[0].rpartition(".")[2] for text in found.values()}
        notes = [NOTE] if "empty" in made else []
        if len(certain) < len(found):
            notes.append(_SEEN if made == {"empty"} else _READ)
        yield splice.rewrite(
            "make tensors by `torch.as_tensor`"
            if made == {"as_tensor"}
            else "make empty tensors by `torch.empty`",
            rank=9,
            notes=notes,
            safety=Safety.SAFE if len(certain) == len(found) else Safety.UNSAFE,
        )


def _found(site: Site, *, seen: bool) -> dict[cst.Call, str]:
    found = dict(sized_constructors(site, seen=seen))
    if site.function is not None and not sets_defaults(site):
        found.update(_of_arrays(site, site.function, seen=seen))
    if site.function is not None and not sets_defaults(site):
        found.update(_by_alias(site, site.function, seen=seen))
    return found


def _of_arrays(
    site: Site, function: cst.FunctionDef, *, seen: bool
) -> Iterator[tuple[cst.Call, str]]:
    """Calls of legacy types with an array of numpy's: both forms share its memory where the dtype
    is the array's already, and copy it otherwise."""
    splice = Splice(site)
    for node in walk(function.body):
        match node:
            case cst.Call(func=func, args=[cst.Arg(keyword=None, star="", value=value)]):
                kind, fact = _type(site, func), site.fact(value)
                # The types of integers take no array of floats, which `as_tensor` cuts off.
                if kind is None or kind[1] or kind[0] not in ("float32", "float64"):
                    continue
                recorded = seen and fact is not None and fact.kind == "ndarray"
                if recorded or _makes_array(site, value):
                    text, torch = splice.source_of(value), torch_name(site)
                    yield node, f"{torch}.as_tensor({text}, dtype={torch}.{kind[0]})"


def _makes_array(site: Site, node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call):
        return False
    home, _, name = (resolve(site.module, node.func) or "").rpartition(".")
    return home == "numpy" and name in _ARRAYS


def _by_alias(
    site: Site, function: cst.FunctionDef, *, seen: bool
) -> Iterator[tuple[cst.Call, str]]:
    """Calls of local names that stand for a legacy type, with what they mean."""
    types: dict[str, str | None] = {}
    splice = Splice(site)
    for node in walk(function.body):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
                once = times_bound(function, name) == 1
                types[name] = _options(site, function, value, splice) if once else None
    for node in walk(function.body):
        match node:
            case cst.Call(func=cst.Name(name), args=[cst.Arg(keyword=None, star="", value=size)]):
                options = types.get(name)
                if options and is_size(site, size, seen=seen):
                    yield node, f"torch.empty({splice.source_of(size)}, {options})"


def _options(
    site: Site, function: cst.FunctionDef, value: cst.BaseExpression, splice: Splice
) -> str | None:
    """``dtype=...`` and the device, where the value is a legacy type or one of two by a test."""
    one = _type(site, value)
    if one is not None:
        kind, on_gpu = one
        return f"dtype=torch.{kind}" + (', device="cuda"' if on_gpu else "")
    match value:
        case cst.IfExp(test=test, body=body, orelse=orelse):
            first, second = _type(site, body), _type(site, orelse)
        case _:
            return None
    if first is None or second is None or first[0] != second[0]:
        return None
    if first[1] == second[1]:
        return f"dtype=torch.{first[0]}" + (', device="cuda"' if first[1] else "")
    devices = ('"cuda"', '"cpu"') if first[1] else ('"cpu"', '"cuda"')
    if any(isinstance(part, cst.Call | cst.NamedExpr) for part in walk(test)):
        return None
    # The test is asked later than it was: what it reads must be the same then.
    if any(times_bound(function, name) > 1 for name in names_in(test)):
        return None
    asked = {part.attr.value for part in walk(test) if isinstance(part, cst.Attribute)}
    if any(len(list(writers(site, attribute))) > 1 for attribute in asked - {"is_cuda"}):
        return None
    choice = f"{devices[0]} if {splice.source_of(test)} else {devices[1]}"
    return f"dtype=torch.{first[0]}, device={choice}"


def _type(site: Site, node: cst.BaseExpression) -> tuple[str, bool] | None:
    name = resolve(site.module, node) or ""
    plain = name.removeprefix("torch.").removeprefix("cuda.")
    if not name.startswith("torch.") or plain not in LEGACY_DTYPES:
        return None
    return LEGACY_DTYPES[plain], name.startswith("torch.cuda.")

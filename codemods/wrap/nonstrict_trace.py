"""Tensor code behind an unsupported feature of Python, traced without looking at the Python."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import libcst as cst

from gbfix.analysis.activity import activity
from gbfix.analysis.scopes import function_scope, module_bindings, resolve
from gbfix.analysis.tree import code, walk, words
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, scalar, tensor
from gbfix.schema import Fact

from .capture import Refused, is_plain_tensor, lone_helper
from .helper_body import written_to
from .operator_text import torch_alias
from .pure import is_pure_function

#: Modules whose functions depend on their arguments alone.
_MODULES = ("math.", "operator.", "functools.", "itertools.", "copy.", "re.", "string.")
#: Where torch's own functions are, and the constants that are read of modules.
_TORCH_HOMES = words(
    """torch torch.nn.functional torch.linalg torch.fft torch.special torch.Tensor torch._dynamo
    torch.nn.utils.rnn torch.autograd torch.amp"""
)
_CONSTANTS_OF = ("math.", "string.", "torch.nn.functional.")
_TORCH_CONSTANTS = words(
    """torch.pi torch.inf torch.nan torch.e torch.newaxis torch.Tensor torch.strided
    torch.contiguous_format torch.preserve_format torch.channels_last torch.channels_last_3d"""
)
#: What torch is set to, or counts.
_STATEFUL = words(
    """initial_seed get_rng_state get_num_threads get_num_interop_threads get_default_dtype
    get_default_device get_printoptions is_deterministic_algorithms_warn_only_enabled
    are_deterministic_algorithms_enabled is_warn_always_enabled set_flush_denormal
    use_deterministic_algorithms set_float32_matmul_precision get_float32_matmul_precision
    set_warn_always is_autocast_enabled get_autocast_dtype is_grad_enabled
    is_inference_mode_enabled typename Generator reset Function"""
)
_WRITES_TO_OPERAND = words(
    """setitem delitem iadd iand iconcat ifloordiv ilshift imod imul imatmul ior ipow irshift isub
    itruediv ixor attrgetter methodcaller"""
)
#: Of torch, what has effects, reads values or steps outside of the graph.
_NOT_TRACED = words(
    """save load set_num_threads set_default_dtype set_default_device manual_seed seed
    set_rng_state set_grad_enabled compile from_numpy backward item tolist numpy data_ptr
    register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad share_memory_
    pin_memory set_ is_nonzero equal allclose nonzero unique unique_consecutive masked_select grad
    set_printoptions cond while_loop"""
)
#: Methods of Python's own values that may stand in the function.
_METHODS = words(
    "append extend items keys values get format join split strip lower upper startswith endswith"
)
_FORBIDDEN = (
    cst.Global,
    cst.Nonlocal,
    cst.Yield,
    cst.Await,
    cst.Lambda,
    cst.FunctionDef,
    cst.ClassDef,
    cst.Import,
    cst.ImportFrom,
    cst.Del,
    cst.Assert,
    cst.Raise,
)


def _source(body: str, decorator: str = "") -> str:
    return f"""
import math
import random
import torch

SCALE = torch.ones(3)


{decorator}def g(x, n):
    y = x.sin()
    {body}
    return y * n


def f(x):
    return g(x, 2)
"""


_NEXT = "\n    "
_FACTS = {"x": tensor(3, requires_grad=True), "n": scalar(2)}


def _near_miss(
    body: str, why: str, facts: dict[str, Fact] | None = None, *, head: str = ""
) -> NearMiss:
    at = "torch._dynamo.graph_break()"
    source = f"{head}{_source(f'{at}{_NEXT}{body}')}"
    return NearMiss(source, at=at, why=why, facts=_FACTS | (facts or {}), code="GB0025")


class NonstrictTrace(Codemod):
    """*What it does.*  Decorates a function with ``torch._dynamo.nonstrict_trace``.

    ```python
    @torch._dynamo.nonstrict_trace
    def g(x):
        ...
    ```
    The function's tensor operations still go into the graph (and have gradients), but Dynamo does
    not look at its Python, so that what Dynamo cannot read does no harm.

    *When it applies.*  The break is inside a function of the module that a compiled region calls,
    and that function is pure: it takes tensors and plain Python values, calls torch and pure
    functions of the standard library only, and decides nothing on tensors.

    *Fix safety.*  Safe.  The Python body runs while tracing only, which a pure function does not
    show.

    *Refuses.*  Effects of any kind, globals other than constants (also those of other modules:
    ``settings.SCALE``), what torch is set to, reads of a tensor's value (``.item()``), tests on
    tensors, nested functions, in-place changes of arguments, decorated
    functions, methods, and the region itself.
    """

    name = "nonstrict-trace"
    codes = ("GB0025", "GB0007", "GB0059", "GB0156", "GB0068", "GB0147", "GB0149")
    examples = (
        Example(
            _source("torch._dynamo.graph_break()"),
            _source("torch._dynamo.graph_break()", "@torch._dynamo.nonstrict_trace\n"),
            at="torch._dynamo.graph_break()",
            facts=_FACTS,
            title="a function that breaks the graph on purpose",
        ),
    )
    near_misses = (
        _near_miss("print(n)", "an effect"),
        _near_miss("y = y + SCALE", "a global tensor"),
        _near_miss("y = y * x.sum().item()", "reads a value"),
        _near_miss("y = y * float(x.sum())", "reads a value"),
        _near_miss("y = y if x.sum() > 0 else x", "decides on a tensor", {"x.sum() > 0": tensor()}),
        _near_miss("y = y * random.random()", "draws a number while tracing"),
        _near_miss("x.add_(1)", "changes its argument"),
        _near_miss("x[0] = 1", "changes its argument"),
        _near_miss("n.seen = 1", "changes its argument"),
        _near_miss("y = h(y)", "calls what is not known"),
        _near_miss("y = sorted(x)", "compares tensors"),
        _near_miss("assert n > 1", "raises while tracing"),
        _near_miss("for t in x: y = y + t", "iterates over a tensor"),
        _near_miss("y = y * n.rate", "an object", {"n": Fact("object", "Config")}),
        _near_miss("y = y * random.SCALE", "what a module holds may change"),
        _near_miss("y = y * SHARED", "a global of another module", head="from knobs import SHARED"),
        _near_miss("y = y * SHARED['a']", "the same", head="from knobs import SHARED"),
        _near_miss("y = y + torch.initial_seed()", "what torch is set to"),
        _near_miss(
            "m = n if y.dim() > 9 else [y]; m.append(x)",
            "changes its argument",
            {"n": Fact("list", "list", items=(tensor(3),)), "y.dim() > 9": scalar(False)},
        ),
        _near_miss(
            "operator.setitem(n, 0, x)",
            "changes its argument",
            {"n": Fact("list", "list", items=(tensor(3),))},
            head="import operator",
        ),
        _near_miss(
            "m = copy.copy(n); m[0].append(x)",
            "changes its argument",
            {
                "n": Fact("list", "list", items=(Fact("list", "list", items=(tensor(3),)),)),
                "m[0]": Fact("list", "list", items=(tensor(3),)),
            },
            head="import copy",
        ),
        _near_miss("z = x.view(-1); z.add_(1)", "changes its argument", {"z": tensor(3)}),
        _near_miss("g = 1", "rebinds a global", {"n": Fact("module", "Net")}),
        NearMiss(
            _source("torch._dynamo.graph_break()", "@torch.no_grad()\n"),
            at="torch._dynamo.graph_break()",
            why="decorated already",
            facts=_FACTS,
        ),
        NearMiss(
            "import torch\n\ndef f(x):\n    torch._dynamo.graph_break()\n    return x\n",
            at="torch._dynamo.graph_break()",
            why="the region itself",
            facts=_FACTS,
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        function = lone_helper(site)
        if function is None:
            return
        try:
            _check(site, function)
        except Refused:
            return
        edit = site.edit()
        torch = torch_alias(site, edit)
        decorator = cst.Decorator(cst.parse_expression(f"{torch}._dynamo.nonstrict_trace"))
        edit.replace(function, function.with_changes(decorators=[decorator]))
        yield edit.rewrite(
            f"trace `{function.name.value}` without Dynamo (nonstrict_trace)",
            rank=50,
            notes=("the function's Python runs while tracing only; keep it free of effects",),
        )


def _check(site: Site, function: cst.FunctionDef) -> None:
    """Raise `Refused` unless the function is pure, and traceable without its Python."""
    names = function_scope(function)
    _check_arguments(site, function, names.parameters)
    if len(module_bindings(site.module).get(function.name.value, ())) != 1:
        raise Refused("its name is bound again")
    for node in walk(function.body):
        _check_node(site, node, names.locals)
    for name in names.globals | names.free:
        _check_global(site, name, function)
    _check_reads(site, function, names.globals | names.free)


def _check_arguments(site: Site, function: cst.FunctionDef, parameters: Collection[str]) -> None:
    """Arguments are plain values, and the function changes none of them."""
    facts = site.locals_before(site.statement_of(site.node))
    for name in parameters:
        if not _is_plain(facts.get(name)):
            raise Refused(f"`{name}` is not known to be a plain value")
    inside = activity(function.body)
    if inside.mutates & frozenset(parameters) or inside.dynamic or inside.mutates_unknown:
        raise Refused("it changes an argument")
    objects = {
        name
        for name in parameters
        if (fact := facts.get(name)) is not None and not fact.is_python_scalar
    }
    if written_to(site, function, frozenset(objects)):
        raise Refused("it changes an argument")


def _check_node(site: Site, node: cst.CSTNode, local: frozenset[str]) -> None:
    match node:
        case node if isinstance(node, _FORBIDDEN):
            raise Refused(f"it holds `{code(node)[:30]}`")
        case cst.If() | cst.While() | cst.IfExp() | cst.CompIf():
            _check_test(site, node.test)
        case cst.BooleanOperation():
            _check_test(site, node.left)
        case cst.For() | cst.CompFor():
            _check_iterable(site, node.iter)
        case cst.Call():
            _check_call(site, node, local)
        case cst.With():
            for item in node.items:
                if not (code(item.item).startswith("torch.") and isinstance(item.item, cst.Call)):
                    raise Refused("it enters a context of its own")


def _is_plain(fact: Fact | None) -> bool:
    if fact is None:
        return False
    if fact.is_tensor:
        return is_plain_tensor(fact)
    if fact.kind in ("list", "tuple"):
        items = fact.items or ()
        flat = all(item.kind not in ("list", "tuple") for item in items)
        return bool(items) and flat and all(map(_is_plain, items))
    return fact.is_python_scalar


def _check_test(site: Site, node: cst.BaseExpression) -> None:
    fact = site.fact(node)
    if fact is None or not fact.is_python_scalar:
        raise Refused(f"it decides on `{code(node)}`")


def _check_iterable(site: Site, node: cst.BaseExpression) -> None:
    fact = site.fact(node)
    is_range = isinstance(node, cst.Call) and resolve(site.module, node.func) in (
        "builtins.range",
        "builtins.enumerate",
        "builtins.zip",
    )
    if not is_range and (fact is None or fact.kind not in ("list", "tuple")):
        raise Refused(f"it iterates over `{code(node)}`")


_READS = words("builtins.float builtins.int builtins.bool builtins.sorted builtins.set")


def _check_call(site: Site, node: cst.Call, local: frozenset[str]) -> None:
    name = resolve(site.module, node.func)
    last = node.func.attr.value if isinstance(node.func, cst.Attribute) else name or ""
    if last in _NOT_TRACED or name in _READS:
        raise Refused(f"`{code(node)}` is not traced")
    if name is not None:
        if _is_traceable(name) or is_pure_function(name):
            return
        raise Refused(f"`{name}` may have effects")
    if isinstance(node.func, cst.Attribute):
        fact = site.fact(node.func.value)
        root = node.func.value
        while isinstance(root, cst.Attribute | cst.Subscript | cst.Call):
            root = root.func if isinstance(root, cst.Call) else root.value
        starts_inside = isinstance(root, cst.Name) and root.value in local
        if fact is not None and (fact.is_tensor or last in _METHODS) and starts_inside:
            return
        if fact is None and starts_inside and not last.endswith("_"):
            return
    raise Refused(f"`{code(node)}` may have effects")


def _is_traceable(name: str) -> bool:
    """Whether a function gives the same for the same arguments, whenever it is called."""
    home, _, last = name.rpartition(".")
    if home in _TORCH_HOMES or home.startswith("torch.fx."):
        return last not in _STATEFUL
    if home == "operator":
        return last not in _WRITES_TO_OPERAND
    return name.startswith(_MODULES)


def _check_reads(site: Site, function: cst.FunctionDef, names: frozenset[str]) -> None:
    """What a module holds is read while tracing only: it must be a constant, or a function."""
    callees = {node.func for node in walk(function.body) if isinstance(node, cst.Call)}
    for node in walk(function.body):
        root: cst.CSTNode = node
        while isinstance(root, cst.Attribute):
            root = root.value
        if not isinstance(root, cst.Name) or root.value not in names or node in callees:
            continue
        parent = site.parent(node)
        if isinstance(parent, cst.Attribute) and parent.value is node:
            continue  # a part of a longer name
        name = resolve(site.module, node)
        if name is None or is_pure_function(name):
            continue
        if name.startswith(_CONSTANTS_OF) or name in _TORCH_CONSTANTS:
            continue
        raise Refused(f"`{code(node)}` may change")


def _check_global(site: Site, name: str, function: cst.FunctionDef) -> None:
    """A global may be a module, a builtin, or a number or string that is bound once."""
    bound = module_bindings(site.module).get(name, ())
    if all(isinstance(node, cst.Import | cst.ImportFrom) for node in bound):
        return
    set_outside = re.compile(rf"\.{name}\s*[-+*/]*=[^=]")
    if any(map(set_outside.search, site.sources.values())):
        raise Refused(f"`{name}` is set as an attribute of the module")
    if len(bound) == 1 and isinstance(bound[0], cst.Assign):
        value = bound[0].value
        if isinstance(value, cst.BaseNumber | cst.SimpleString) or (
            isinstance(value, cst.Name) and value.value in ("True", "False", "None")
        ):
            return
    raise Refused(f"`{name}` is a global of `{function.name.value}` that may change")

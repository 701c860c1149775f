"""What ``torch.cond`` makes of its branches outside of a graph, kept from call to call.

Where gradients are asked for, every eager call of ``torch.cond`` traces both branches to see
whether they change their operands, and every backward call traces the gradients of both: a tenth
of a second and more, for each of the dozens of inputs with which a patch is compared.  Both traces
are made with dummy values, of the graphs that Dynamo made of the branches, so that operands of the
same shapes, strides and dtypes give the same again (`torch._higher_order_ops.cond`,
`HigherOrderOperator.py_autograd_impl`, torch 2.13).  A trace that moved torch's random stream would
not be kept.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule

#: As many are kept; then all are let go, as programs with more are not compared for long anyway.
_MOST = 128
_MASKS = "grads_tensor_masks"

#: By what was asked: what was asked about (kept, so that no other object gets its address), and
#: what came out.
_kept: dict[tuple[object, ...], tuple[object, Any]] = {}


def keep_graphs_of_branches() -> None:
    """Install both memories in this process; without a sign of what is patched, do nothing."""
    home: Any = importlib.import_module("torch._higher_order_ops.cond")
    if getattr(home, "_gbfix_keeps", False):
        return
    names = ("create_bw_fn", "materialize_as_graph", "CondOp")
    if all(hasattr(home, name) for name in names) and hasattr(home.CondOp, "gen_schema"):
        home._gbfix_keeps = True
        _keep_schemas(home.CondOp)
        _keep_gradients(home)


def _keep_schemas(operator: Any) -> None:
    inner = operator.gen_schema

    @functools.wraps(inner)
    def gen_schema(self: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
        held = (true_fn, false_fn)
        key = _key("schema", held, (pred, *operands))
        return _ask(key, held, lambda: inner(self, pred, true_fn, false_fn, operands))

    operator.gen_schema = gen_schema


def _keep_gradients(home: Any) -> None:
    create, materialize = home.create_bw_fn, home.materialize_as_graph

    @functools.wraps(create)
    def create_bw_fn(fn: Any, *args: Any, **kwargs: Any) -> Any:
        made = create(fn, *args, **kwargs)
        made.gbfix_branch = fn  # `functools.wraps` hands it on to what wraps this
        return made

    @functools.wraps(materialize)
    def materialize_as_graph(fn: Any, args: Any, *more: Any, **named: Any) -> Any:
        branch, masks = getattr(fn, "gbfix_branch", None), _cell(fn)
        if branch is None or masks is None:
            return materialize(fn, args, *more, **named)

        def trace() -> tuple[Any, Any]:
            graph = materialize(fn, args, *more, **named)
            return graph, masks.cell_contents

        how = (*map(repr, more), *(f"{name}={value!r}" for name, value in sorted(named.items())))
        graph, masks.cell_contents = _ask(_key(how, (branch,), args), branch, trace)
        return graph

    home.create_bw_fn, home.materialize_as_graph = create_bw_fn, materialize_as_graph


def _cell(fn: Any) -> Any:
    """Where a backward function notes which gradients it gives."""
    names = getattr(getattr(fn, "__code__", None), "co_freevars", ())
    return fn.__closure__[names.index(_MASKS)] if _MASKS in names else None


def _key(what: object, graphs: tuple[Any, ...], operands: Any) -> tuple[object, ...] | None:
    """What a trace hangs on; None where that is not known."""
    plain = all(isinstance(item, GraphModule) for item in graphs)
    if not plain or torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    kinds = tuple(map(_kind, operands))
    if None in kinds:
        return None
    mode = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype())
    return (what, *map(id, graphs), kinds, mode, torch.is_autocast_enabled("cpu"))


def _kind(operand: Any) -> object:
    if isinstance(operand, bool | int):
        return type(operand), operand
    if type(operand) not in (torch.Tensor, torch.nn.Parameter):
        return None
    if operand.layout is not torch.strided or torch._is_functional_tensor(operand):
        return None
    return (
        operand.shape, operand.stride(), operand.dtype, operand.device, operand.requires_grad,
        operand.is_conj(), operand.is_neg(),
    )  # fmt: skip


def _ask(key: tuple[object, ...] | None, about: object, trace: Callable[[], Any]) -> Any:
    if key is None:
        return trace()
    if key in _kept:
        return _kept[key][1]
    before = torch.get_rng_state()
    found = trace()
    if torch.equal(torch.get_rng_state(), before):
        if len(_kept) >= _MOST:
            _kept.clear()
        _kept[key] = (about, found)
    return found

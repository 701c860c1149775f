"""The tables of torch's names against the installed torch."""

from __future__ import annotations

import inspect
import warnings

import pytest

from gbfix.analysis import torch_names as names

torch = pytest.importorskip("torch")


def missing(table: frozenset[str], *homes: object) -> set[str]:
    return {name for name in table if not any(hasattr(home, name) for home in homes)}


def test_every_name_exists() -> None:
    tensor, functional, nn = torch.Tensor, torch.nn.functional, torch.nn
    everywhere = (tensor, torch, functional)
    for table in (names.ELEMENTWISE, names.PREDICATES, names.TENSOR_RESULTS, names.PURE_TORCH):
        assert not missing(table, *everywhere)
    for table in (names.INT_METHODS, names.BOOL_METHODS, names.IDENTITY_METHODS):
        assert not missing(table, tensor)
    for table in (names.TENSOR_ATTRIBUTES, names.INT_ATTRIBUTES, names.BOOL_ATTRIBUTES):
        assert not missing(table, tensor)
    assert not missing(frozenset(names.CASTS), tensor)
    assert not missing(names.PURE_FUNCTIONAL, functional)
    assert not missing(names.PURE_MODULES | names.RNG_MODULES, nn)
    assert not missing(names.RNG_FUNCTIONS, torch, functional)
    assert not missing(names.RNG_METHODS, tensor)
    assert not {f"{name}_" for name in names.KEEPING_SHAPE} - set(dir(tensor))


def test_no_pure_name_is_random_or_in_place() -> None:
    pure = names.PURE_TORCH | names.PURE_METHODS | names.PURE_FUNCTIONAL
    assert not pure & (names.RNG_FUNCTIONS | names.RNG_METHODS)
    assert not {name for name in pure if name.endswith("_")}


def test_pure_methods_leave_their_receiver_and_the_random_state_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(names.PURE_METHODS):
            for start in (torch.tensor([[0.3, -0.7], [0.2, 0.9]]), torch.tensor([[1, 2], [3, 4]])):
                method = getattr(start, name, None)
                if not callable(method):
                    continue
                for args in ((), (0,), (0, 1), (start.clone(),), (-1,), (start.clone() > 0, 1)):
                    before, state = start.clone(), torch.get_rng_state()
                    try:
                        method(*args)
                    except Exception:
                        continue
                    assert torch.equal(before, start), f"{name}{args} changes its receiver"
                    assert torch.equal(state, torch.get_rng_state()), f"{name} draws numbers"


def test_functional_functions_with_training_or_inplace_flags_are_looked_at() -> None:
    """A flag that switches on state or randomness must not hide in the table of pure functions."""
    for name in names.PURE_FUNCTIONAL:
        function = getattr(torch.nn.functional, name)
        try:
            parameters = set(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            continue
        assert not parameters & {"training", "max_norm", "dropout_p", "running_mean"}, name


def test_new_memory_is_shared_with_no_argument() -> None:
    x = torch.rand(2, 3) + 1
    index, mask = torch.zeros(2, 3, dtype=torch.int64), x > 1.5
    calls = {
        **dict.fromkeys(("topk", "argsort", "softmax", "log_softmax", "cumsum"), (1,)),
        **dict.fromkeys(("cumprod", "sort", "add", "sub", "mul", "div", "pow"), (1,)),
        **dict.fromkeys(("maximum", "minimum"), (x,)),
        **dict.fromkeys(("new_zeros", "new_ones", "new_empty"), ((2, 3),)),
        "new_full": ((2, 3), 1.0),
        "clamp": (0,),
        "gather": (1, index),
        "scatter": (1, index, x),
        "index_select": (0, torch.tensor([0, 1])),
        "masked_fill": (mask, 0),
        "where": (mask, x),
        "matmul": (x.T,),
        "mm": (x.T,),
    }
    made = {
        "zeros": (2,), "ones": (2,), "empty": (2,), "full": ((2,), 1.0), "arange": (3,),
        "linspace": (0, 1, 3), "eye": (2,), "tensor": ([1.0],), "rand": (2,), "randn": (2,),
        "cat": ([x],), "stack": ([x],), "full_like": (x, 1.0), "outer": (x[0], x[0]),
        "bmm": (x[None], x.T[None]), "cdist": (x, x), "cosine_similarity": (x, x),
        **dict.fromkeys(("zeros_like", "ones_like", "empty_like"), (x,)),
    }  # fmt: skip
    for name in names.NEW_MEMORY:
        if name == "one_hot":
            given, result = index, torch.nn.functional.one_hot(index)
        elif name in made:
            given, result = x, getattr(torch, name)(*made[name])
        else:
            given, result = x, getattr(x, name)(*calls.get(name, ()))
        for part in result if isinstance(result, tuple) else (result,):
            assert part.untyped_storage().data_ptr() != given.untyped_storage().data_ptr(), name

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

"""Runs an example before and after a codemod and compares what the two do."""

from __future__ import annotations

import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from gbfix.codemod import Advice, Codemod, NearMiss, Rewrite, example_site
from gbfix.schema import Fact

Inputs = Callable[[], tuple[Any, ...]]
_PRELUDE = "import torch\nimport torch.nn.functional as F\n"


def proposals(
    codemod: Codemod, source: str, at: str, facts: Mapping[str, Fact], nth: int = 0
) -> Iterator[Rewrite | Advice]:
    case = NearMiss(_PRELUDE + textwrap.dedent(source), at, "", facts, nth=nth)
    yield from codemod.propose(example_site(case, codemod.codes[0]))


def rewritten(
    codemod: Codemod, source: str, at: str, facts: Mapping[str, Fact], nth: int = 0
) -> str:
    """The text of the codemod's first rewrite."""
    for item in proposals(codemod, source, at, facts, nth):
        if isinstance(item, Rewrite):
            return item.edits["example.py"]
        raise AssertionError(f"refused: {item.text}")
    raise AssertionError("nothing proposed")


_loaded = 0


def load(source: str) -> Callable[..., Any]:
    """The function ``f`` of a source text."""
    global _loaded
    _loaded += 1
    name = f"branch_program_{_loaded}"
    path = f"<{name}>"
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    # Dynamo imports the module of the branches that it traces.
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, path, "exec"), vars(module))
    return module.f  # type: ignore[no-any-return]


def outcome(function: Callable[..., Any], inputs: Inputs, *, grads: bool) -> dict[str, Any]:
    """Everything that a call can be told by: result, changed inputs, gradients, or the error."""
    torch.manual_seed(0)
    arguments = inputs()
    leaves = [a for a in arguments if isinstance(a, torch.Tensor)]
    if grads:
        for leaf in leaves:
            if leaf.is_floating_point():
                leaf.requires_grad_()
    try:
        result = function(*arguments)
    except Exception as error:
        return {"error": type(error)}
    seen: dict[str, Any] = {"result": result, "inputs": [leaf.detach() for leaf in leaves]}
    if grads:
        outputs = [
            t
            for t in torch.utils._pytree.tree_leaves(result)
            if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        if outputs:
            torch.autograd.backward([(t * torch.ones_like(t)).sum() for t in outputs])
        # A gradient of zero stands for none: see the codemods' notes.
        seen["grads"] = [
            None if leaf.grad is None or not leaf.grad.any() else leaf.grad for leaf in leaves
        ]
    return seen


def check(
    before: str,
    after: str,
    inputs: Sequence[Inputs],
    *,
    grads: bool = True,
    backends: Sequence[str] = ("eager", "aot_eager"),
) -> None:
    """The two texts' ``f`` agree eagerly, and the second compiles whole and still agrees."""
    original = load(_PRELUDE + textwrap.dedent(before))
    patched = load(after)
    for with_grads in (False, True) if grads else (False,):
        runs = [patched]
        torch._dynamo.reset()
        runs += [torch.compile(patched, backend=b, fullgraph=True) for b in backends]
        for given in inputs:
            expected = outcome(original, given, grads=with_grads)
            for run in runs:
                actual = outcome(run, given, grads=with_grads)
                assert actual.keys() == expected.keys(), (expected, actual)
                torch.testing.assert_close(actual, expected, equal_nan=True) if (
                    "error" not in expected
                ) else None

"""Dynamo's own setting for prints and warnings, in the script that the user starts."""

from __future__ import annotations

from collections.abc import Iterator

from gbfix.analysis.scopes import module_bindings, resolve
from gbfix.codemod import Advice, Codemod, Edit, Example, NearMiss, Rewrite, Site, tensor
from gbfix.rewriting.settings import add_setting, entry_of
from gbfix.schema import Safety

from ..side_effects.effects import effect_statement

_FUNCTIONS = {"builtins.print": "print", "warnings.warn": "warnings.warn"}

_NOTES = (
    "the setting holds for the whole program: every such call in a compiled region runs after its"
    " graph, so that it comes later than other effects of the region",
    "a tensor that is changed in place afterwards prints its later value, and another `grad_fn`",
)


def _source(setting: str, call: str = 'print("n", x)') -> str:
    return f"""
import torch
{setting}

@torch.compile
def f(x):
    {call}
    return x + 1
"""


class ReorderableLogging(Codemod):
    """*What it does.*  Lets Dynamo run a ``print`` or ``warnings.warn`` after the graph.

    ```python
    torch._dynamo.config.reorderable_logging_functions.add(print)
    ```
    goes into the script that was started, after its imports.

    *When it applies.*  To statements that print or warn, where that script belongs to the project.

    *Fix safety.*  Unsafe.  Measured on torch 2.13: values are shown as they are at the end of the
    region, after later in-place changes, with other names of ``grad_fn``; the order against every
    other effect of the region changes; and the setting holds for all regions of the program.

    *Refuses.*  ``print`` to another file or with keywords that Dynamo does not reorder, loggers
    (Dynamo refuses them whatever the setting says), and scripts that have the setting already.
    """

    name = "reorderable-logging"
    codes = ("GB0059", "GB0007")
    examples = (
        Example(
            _source(""),
            _source("\ntorch._dynamo.config.reorderable_logging_functions.add(print)\n"),
            at='print("n", x)',
            facts={"x": tensor(3, requires_grad=True)},
            title="print",
        ),
        Example(
            _source("import warnings", 'warnings.warn("odd")'),
            _source(
                "import warnings\n\n"
                "torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)",
                'warnings.warn("odd")',
            ),
            at='warnings.warn("odd")',
            title="warnings.warn",
        ),
    )
    near_misses = (
        NearMiss(
            _source("torch._dynamo.config.reorderable_logging_functions.add(print)"),
            at='print("n", x)',
            why="set already",
        ),
        NearMiss(_source("", 'x.print("n")'), at='x.print("n")', why="not the builtin"),
        NearMiss(_source("", 'y = print("n")'), at='print("n")', why="its result is used"),
        NearMiss(_source("", "open(x)"), at="open(x)", why="no print"),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        call = effect_statement(site)
        if call is None:
            return
        function = _FUNCTIONS.get(resolve(site.module, call.func) or "")
        if function is None or any("reorderable_logging_functions" in t for t in _texts(site)):
            return
        entry = entry_of(site)
        if entry is None:
            return
        edit = entry.edit()
        if _set(entry, edit, function):
            yield edit.rewrite(
                f"let Dynamo run `{function}` after the graph (reorderable_logging_functions)",
                rank=80,
                safety=Safety.UNSAFE,
                notes=_NOTES,
            )


def _texts(site: Site) -> Iterator[str]:
    yield site.source
    yield from site.sources.values()


def _set(entry: Site, edit: Edit, function: str) -> bool:
    """Add the setting after the script's imports; False where there is no place for it."""
    module, _, _ = function.rpartition(".")
    if not module and function in module_bindings(entry.module):
        return False
    text = f"torch._dynamo.config.reorderable_logging_functions.add({function})"
    return add_setting(entry, edit, text, [module] if module else [])

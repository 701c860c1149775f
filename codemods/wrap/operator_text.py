"""The text of a custom operator: its names, its definition and where it goes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import cast

import libcst as cst

from gbfix.analysis.activity import params_of
from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.tree import code, words
from gbfix.codemod import Edit, Site

from .capture import Parameter
from .own_state import named_at_run_time

#: Columns of a line, where there is a choice.
_WIDTH = 100
#: Namespaces that belong to torch itself.
_TAKEN_NAMESPACES = words(
    """aten prim prims torch torchvision torchaudio quantized sparse higher_order inductor
    profiler c10d fsdp onednn mkldnn mkl xnnpack static_runtime test triton user_defined"""
)


def namespace(site: Site) -> str:
    """The file's module path as one identifier: ``models/net.py`` in a package is ``models_net``.

    Stable from run to run, and unlike that of every other file that the program loaded: torch
    replaces (and crashes on) an operator that is registered twice under one name.
    """
    mine = _module_name(site.path, site)
    depth = 1
    others = {path for path in site.sources if path != site.path}
    name = mine
    while any(_module_name(path, site, depth) == name for path in others):
        longer = _module_name(site.path, site, depth + 1)
        if longer == name:
            break
        name, depth = longer, depth + 1
    return f"{name}_ops" if name in _TAKEN_NAMESPACES else name


def run_time_namespace(site: Site) -> str:
    """The namespace of operators that keep state, to stand in an f-string (`.own_state`)."""
    mine = namespace(site)
    # The script ``test.py``, and two files that may be loaded by one name, need more than that.
    more = "" if mine == _module_name(site.path, site) else f"_{mine}"
    return f"{{__name__.replace('.', '_')}}{more}"


def spellings(site: Site, name: str) -> tuple[str, str]:
    """What may stand for an operator's qualified name in a definition."""
    return f'"{namespace(site)}::{name}"', f'f"{run_time_namespace(site)}::{name}"'


def _module_name(path: str, site: Site, depth: int = 1) -> str:
    """At least ``depth`` parts of the path, and all packages that hold the file."""
    pure = PurePath(path)
    parts = [] if pure.stem in ("__init__", "__main__") else [pure.stem]
    folder = pure.parent
    while folder.name and (
        str(folder / "__init__.py") in site.sources or len(parts) < depth or not parts
    ):
        parts.insert(0, folder.name)
        folder = folder.parent
    text = re.sub(r"\W+", "_", "_".join(parts)).strip("_") or "module"
    return f"m_{text}" if text[0].isdigit() else text


def runs_beside_operator(site: Site) -> bool:
    """Whether the site's function is an operator's own plain code, which runs for calls that the
    operator does not take: another operator around it would not take them either.
    """
    function = site.function
    if function is None or not function.name.value.endswith("_plain"):
        return False
    name = function.name.value.removesuffix("_plain")
    return any(
        isinstance(it, cst.FunctionDef)
        and it.name.value == name
        and any("custom_op(" in code(decorator) for decorator in it.decorators)
        for it in site.module.body
    )


def operator_name(site: Site, base: str) -> str:
    """A name for the operator and its Python function that nothing in the project uses."""
    # ``check_labels`` is checked by ``check_labels_op``, and not by ``check_check_labels``.
    base = re.sub(r"^([a-z]+)_(\1_\w+)$", r"\2_op", base)
    taken = names_in(site.module)
    space = namespace(site)
    name = fresh(base, taken)
    while any(f"{space}::{name}" in text for text in site.sources.values()):
        taken.add(name)
        name = fresh(base, taken)
    return name


def torch_alias(site: Site, edit: Edit) -> str:
    """The file's own name for torch at module level; ``import torch`` is added if it has none."""
    for line in site.module.body:
        if line is site.top_level_statement(site.node):
            break
        if not isinstance(line, cst.SimpleStatementLine):
            continue
        for small in line.body:
            if not isinstance(small, cst.Import):
                continue
            for item in small.names:
                if isinstance(item.name, cst.Name) and item.name.value == "torch":
                    if item.asname is None:
                        return "torch"
                    assert isinstance(item.asname.name, cst.Name)
                    return item.asname.name.value
    edit.add_import("torch")
    return "torch"


def signature(
    parameters: Sequence[Parameter], torch: str, function: cst.FunctionDef | None = None
) -> str:
    """Parameters with their types, and the defaults that they have in ``function``."""
    has = {name: f" = {text}" for name, text in defaults(function).items()}
    return ", ".join(
        f"{p.name}: {annotation(p.annotation, torch)}{has.get(p.name, '')}" for p in parameters
    )


_SCHEMA = {
    "torch.Tensor": "Tensor", "torch.types.Number": "Scalar", "str": "str", "int": "SymInt",
    "float": "float", "bool": "bool", "torch.dtype": "ScalarType", "torch.device": "Device",
    "list[torch.Tensor]": "Tensor[]", "list[int]": "SymInt[]", "list[float]": "float[]",
    "list[str]": "str[]",
}  # fmt: skip


def schema_argument(parameters: Sequence[Parameter]) -> str:
    """``schema="..."`` for what torch does not infer from annotations: lists of texts."""
    if not any(p.annotation.startswith("list[str]") for p in parameters):
        return ""
    parts = []
    for p in parameters:
        plain = p.annotation.removesuffix(" | None")
        parts.append(f"{_SCHEMA[plain]}{'?' if plain != p.annotation else ''} {p.name}")
    return f'schema="({", ".join(parts)}) -> ()"'


def register_fake(
    name: str, parameters: Sequence[Parameter], fake: str, function: cst.FunctionDef | None = None
) -> str:
    """The lines that register a fake: an expression over the operator's parameters, which have
    the defaults of the function that becomes the operator.
    """
    has = defaults(function)
    names = ", ".join(f"{p.name}={has[p.name]}" if p.name in has else p.name for p in parameters)
    text = f"lambda{' ' + names if names else ''}: {fake}"
    if len(name) + len(text) <= _WIDTH - 16:
        return f"{name}.register_fake({text})\n"
    if len(text) <= _WIDTH - 4:
        return f"{name}.register_fake(\n    {text}\n)\n"
    return f"@{name}.register_fake\ndef _({names}):\n    return {fake}\n\n\n"


def register_no_gradient(function: cst.FunctionDef, *, several: bool) -> str:
    """The lines that register an operator as one whose results have no gradient, whatever goes in.

    Without them torch expects a formula.  Keyword-only parameters go another way, and have none.
    """
    only = bool(function.params.kwonly_params)
    count = len(params_of(function.params)) - len(function.params.kwonly_params)
    nones = ", ".join(["None"] * count)
    given = "inputs, keyword_only_inputs" if only else "inputs"
    star = "*" if several else ""
    return f"""{function.name.value}.register_autograd(
    lambda ctx, *gradients: {nones if count == 1 else f"({nones})"},
    setup_context=lambda ctx, {given}, output: ctx.mark_non_differentiable({star}output),
)
"""


def defaults(function: cst.FunctionDef | None) -> dict[str, str]:
    """The default values of a function's parameters, as text."""
    if function is None:
        return {}
    return {
        parameter.name.value: code(parameter.default)
        for parameter in params_of(function.params)
        if parameter.default is not None
    }


def annotation(text: str, torch: str) -> str:
    return re.sub(r"\btorch\.", f"{torch}.", text)


def define(
    site: Site, text: str, bodies: Sequence[cst.BaseExpression] = ()
) -> list[cst.BaseStatement]:
    """Statements of ``text``, set apart from their neighbours by two blank lines.

    ``BODY0``, ``BODY1``, ... in the text stand for the bodies, whose formatting and comments are
    kept.
    """
    indent = site.module.default_indent
    text = re.sub(
        r"^(    )+", lambda found: indent * (len(found[0]) // 4), text, flags=re.MULTILINE
    )
    text = text.replace("\n", site.module.default_newline)
    module = cst.parse_module(text, site.module.config_for_parsing)
    put = _PutBodies({f"BODY{number}": body for number, body in enumerate(bodies)})
    return [cast(cst.BaseStatement, statement.visit(put)) for statement in module.body]


def place(site: Site, edit: Edit, statements: Sequence[cst.BaseStatement]) -> None:
    """Put definitions at module level, directly before the statement that holds the site."""
    top = site.top_level_statement(site.node)
    first, *rest = named_at_run_time(site, statements, run_time_namespace(site))
    is_first = site.module.body[0] is top
    blank = [] if is_first else [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    first = first.with_changes(leading_lines=blank)
    edit.insert_before(top, first, *rest)


class _PutBodies(cst.CSTTransformer):
    def __init__(self, bodies: Mapping[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.bodies = bodies

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self.bodies.get(original_node.value, updated_node)

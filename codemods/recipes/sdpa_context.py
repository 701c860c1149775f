"""``torch.backends.cuda.sdp_kernel``, which is deprecated: the context that Dynamo traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from gbfix.analysis.names import fresh, names_in
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site

#: What `sdp_kernel` takes, in its order, and the backends in the order in which it hands them on
#: (`torch.backends.cuda.sdp_kernel`, torch 2.13).
_PARAMETERS = ("enable_flash", "enable_math", "enable_mem_efficient", "enable_cudnn")
_BACKENDS = (
    ("enable_flash", "FLASH_ATTENTION"),
    ("enable_mem_efficient", "EFFICIENT_ATTENTION"),
    ("enable_math", "MATH"),
    ("enable_cudnn", "CUDNN_ATTENTION"),
)
_HELPER = """
def {}(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    backends = []
    if enable_flash:
        backends.append(SDPBackend.FLASH_ATTENTION)
    if enable_mem_efficient:
        backends.append(SDPBackend.EFFICIENT_ATTENTION)
    if enable_math:
        backends.append(SDPBackend.MATH)
    if enable_cudnn:
        backends.append(SDPBackend.CUDNN_ATTENTION)
    return backends
"""
_SOURCE = """
import torch
import torch.nn.functional as F
{}
SCALE = 2
{}

def attend(q, k, v, config, fast=True):
    with {}:
        return F.scaled_dot_product_attention(q, k, v)
"""
_IMPORT = "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
_CALL = "torch.backends.cuda.sdp_kernel"


def _near_miss(why: str, source: str) -> NearMiss:
    return NearMiss(source, at="with ", why=why)


class SdpaContext(Codemod):
    """*What it does.*  Chooses the kernels of attention by `torch.nn.attention.sdpa_kernel`:
    ``with torch.backends.cuda.sdp_kernel(enable_math=True, enable_flash=False, ...)`` becomes
    ``with sdpa_kernel([SDPBackend.MATH])``.  Flags that are not written out go through a small
    function that makes the list.

    *When it applies.*  To a ``with`` of that context.

    *Fix safety.*  Safe: the old context does nothing but to enter the new one with that list, and
    to warn that it is deprecated.

    *Refuses.*  Files that use the names `sdpa_kernel` or `SDPBackend` for something else.
    """

    name = "sdpa-context"
    codes = ("GB0208", "GB0142", "GB0007")
    examples = (
        Example(
            _SOURCE.format("", "", f"{_CALL}(enable_flash=False, enable_mem_efficient=False)"),
            _SOURCE.format(
                _IMPORT, "", "sdpa_kernel([SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION])"
            ),
            at="with ",
            code="GB0142",
            title="flags that are written out",
        ),
        Example(
            _SOURCE.format("", "", f"torch.no_grad(), {_CALL}(**config)"),
            _SOURCE.format(
                _IMPORT,
                "\n" + _HELPER.format("sdp_backends"),
                "torch.no_grad(), sdpa_kernel(sdp_backends(**config))",
            ),
            at="with ",
            code="GB0142",
            title="flags of a configuration",
        ),
    )
    near_misses = (
        _near_miss("another context", _SOURCE.format("", "", "torch.no_grad()")),
        _near_miss(
            "a name of the file's own",
            _SOURCE.format("", "def sdpa_kernel(x):\n    return x\n\n", f"{_CALL}(fast)"),
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        statement = site.statement
        if not isinstance(statement, cst.With) or _is_taken(site):
            return
        calls = [
            item.item
            for item in statement.items
            if isinstance(item.item, cst.Call)
            and resolve(site.module, item.item.func) == "torch.backends.cuda.sdp_kernel"
        ]
        if not calls:
            return
        edit = site.edit()
        helper = ""
        for call in calls:
            listed = _listed(call.args)
            if listed is None:
                helper = helper or fresh("sdp_backends", names_in(site.module))
                plain = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in call.args]
                given = ", ".join(map(code, plain))
                listed = f"{helper}({given})"
            edit.replace(call, cst.parse_expression(f"sdpa_kernel({listed})"))
        if helper:
            top = site.top_level_statement(statement)
            made = cst.parse_statement(_HELPER.format(helper).lstrip("\n"))
            blank = [cst.EmptyLine(indent=False)] * 2
            edit.insert_before(top, made.with_changes(leading_lines=blank))
        for name in ("SDPBackend", "sdpa_kernel"):
            edit.add_import("torch.nn.attention", name)
        yield edit.rewrite("choose the kernels of attention by `sdpa_kernel`", rank=8)


def _is_taken(site: Site) -> bool:
    """Whether the file has one of the names for something else."""
    known = import_map(site.module)
    names = names_in(site.module)
    return any(
        name in names and known.get(name) != f"torch.nn.attention.{name}"
        for name in ("SDPBackend", "sdpa_kernel")
    )


def _listed(args: Sequence[cst.Arg]) -> str | None:
    """The list of backends, where all flags are written out."""
    flags = dict.fromkeys(_PARAMETERS, True)
    for at, arg in enumerate(args):
        text = code(arg.value)
        if arg.star or text not in ("True", "False") or at >= len(_PARAMETERS):
            return None
        name = arg.keyword.value if arg.keyword is not None else _PARAMETERS[at]
        if name not in flags:
            return None
        flags[name] = text == "True"
    chosen = [f"SDPBackend.{backend}" for flag, backend in _BACKENDS if flags[flag]]
    return f"[{', '.join(chosen)}]"

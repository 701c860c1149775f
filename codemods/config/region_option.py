"""Options of Dynamo that let it trace what it refuses otherwise, set for one region."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from gbfix.analysis.mask_widths import mask_widths
from gbfix.codemod import Advice, Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Safety

from ..api.splice import Splice
from .compiling import compiling
from .sizes import is_only_region, meets_no_other_size

# `torch._dynamo.patch_dynamo_config` would set `capture_scalar_outputs` for one statement.  In
# torch 2.13, it does so only for numbers of what comes into the graph: whether operators may give
# numbers is settled when the trace of a frame begins (`ShapeEnv.allow_scalar_outputs`).


@dataclasses.dataclass(frozen=True)
class _Option:
    """An option, what it is good for, and what is known against it."""

    name: str
    value: str
    title: str
    advice: str
    sizes: bool = False


_BACKWARD = _Option(
    "trace_autograd_ops",
    "True",
    "trace the backward pass inside the region",
    "Dynamo traces `backward()` and `autograd.grad` where"
    " `torch._dynamo.config.trace_autograd_ops` is on; or call them outside of the compiled part.",
)
_PARAMETER = _Option(
    "graph_break_on_nn_param_ctor",
    "False",
    "trace the making of the parameter",
    "Make parameters once, in `__init__`; one that is made in every call learns nothing.",
)
_SCALARS = _Option(
    "capture_scalar_outputs",
    "True",
    "capture numbers that come out of tensors",
    "`torch._dynamo.config.capture_scalar_outputs` (or `fullgraph=True`) captures `.item()`; a"
    " number that only scales a tensor need not leave the tensor at all.",
    sizes=True,
)
_SHAPES = _Option(
    "capture_dynamic_output_shape_ops",
    "True",
    "capture operators whose result's size depends on the data",
    "`torch._dynamo.config.capture_dynamic_output_shape_ops` (or `fullgraph=True`) captures"
    " `nonzero`, `unique` and boolean indexing; `torch.where` keeps the size where that is enough.",
    sizes=True,
)
_OPTIONS = {
    "GB0123": _BACKWARD,
    "GB9186": _BACKWARD,
    "GB0264": _PARAMETER,
    "GB0124": _SCALARS,
    "GB0033": _SCALARS,
    "GB0036": _SHAPES,
}
_HOOKS = re.compile(r"register_\w*hook")
_ITEM = "_local_scalar_dense"


def _source(*lines: str) -> str:
    return "import torch\n\n\n" + "".join(f"{line}\n" for line in lines)


class RegionOption(Codemod):
    """*What it does.*  Sets an option of Dynamo for one region, above its ``torch.compile``:
    ``@torch._dynamo.config.patch(trace_autograd_ops=True)``.

    *When it applies.*  To ``backward()`` and ``autograd.grad`` inside of the region, parameters
    made in it, and numbers or sizes that come out of tensors, where the place that compiles the
    region is in the project.

    *Fix safety.*  Dynamo assumes of a size that it has not seen that it is neither 0 nor 1 and does
    not broadcast.  The options for numbers and sizes are safe where the graph takes no such size
    to be another one, and where inputs were found on which it is 0 and on which it is 1, and
    compiled and uncompiled code agreed there; or where what has such a size is only joined with
    others, summed up or returned.  The longest of some lengths may be the width of a mask of these
    (``torch.arange(lengths.max()) < lengths[:, None]``): that is the width of what the mask is used
    with, and where one of the two is 1 and the other is not, the compiled function raises an
    error.  A region that is
    compiled by a call, not by a decorator, has the option around its calls where the script does
    no more than to call it.  Else it needs the option for the whole process, and that is unsafe,
    unless it is all that the script and its project compile.

    *Refuses.*  Programs that mention the option already, regions whose place of compilation is not
    found, and a backward pass where the program registers hooks: traced, it passes over them.
    """

    name = "region-option"
    codes = ("GB0123", "GB9186", "GB0264", "GB0124", "GB0033", "GB0036")

    examples = (
        Example(
            title="a training step",
            before=_source(
                "@torch.compile",
                "def step(w, x):",
                "    loss = (w * x).sum()",
                "    loss.backward()",
                "    return loss.detach()",
            ),
            after=_source(
                "@torch._dynamo.config.patch(trace_autograd_ops=True)",
                "@torch.compile",
                "def step(w, x):",
                "    loss = (w * x).sum()",
                "    loss.backward()",
                "    return loss.detach()",
            ),
            at="loss.backward()",
            facts={"loss": tensor(requires_grad=True)},
        ),
        Example(
            title="a number of a tensor",
            before=_source("@torch.compile", "def f(x, n):", "    return x[: n.item()]"),
            after=_source(
                "@torch._dynamo.config.patch(capture_scalar_outputs=True)",
                "@torch.compile",
                "def f(x, n):",
                "    return x[: n.item()]",
            ),
            at="n.item()",
            code="GB0124",
        ),
        Example(
            title="around the calls",
            before=_source(
                "def f(x, n):", "    return x[: n.item()]", "", "", "g = torch.compile(f)"
            ),
            after=_source(
                "def f(x, n):",
                "    return x[: n.item()]",
                "",
                "",
                "g = torch._dynamo.config.patch(capture_scalar_outputs=True)(torch.compile(f))",
            ),
            at="n.item()",
            code="GB0124",
        ),
        Example(
            title="for the whole process",
            before=_source(
                "def f(x):",
                "    return x.nonzero()",
                "",
                "",
                "g = torch.compile(f)",
                "gs = [g]",
            ),
            after=_source(
                "def f(x):",
                "    return x.nonzero()",
                "",
                "",
                "torch._dynamo.config.capture_dynamic_output_shape_ops = True",
                "g = torch.compile(f)",
                "gs = [g]",
            ),
            at="x.nonzero()",
            code="GB0036",
        ),
    )
    near_misses = (
        NearMiss(
            _source("def step(loss):", "    loss.backward()"),
            at="loss.backward()",
            why="nothing shows where it is compiled",
        ),
        NearMiss(
            _source(
                "torch._dynamo.config.trace_autograd_ops = True",
                "@torch.compile",
                "def step(loss):",
                "    loss.backward()",
            ),
            at="loss.backward()",
            why="set already",
        ),
        NearMiss(
            _source(
                "w.register_hook(print)",
                "",
                "",
                "@torch.compile",
                "def step(loss):",
                "    loss.backward()",
            ),
            at="loss.backward()",
            why="aot_autograd passes over the hooks of leaves (torch 2.13)",
        ),
        NearMiss(
            "from torch import compile\n\n\n@compile\ndef step(loss):\n    loss.backward()\n",
            at="loss.backward()",
            why="torch has no name here",
        ),
        NearMiss(
            _source("@torch.compile", "def f(x, y):", "    return torch.equal(x, y)"),
            at="torch.equal(x, y)",
            why="no number: the operator itself has none that Dynamo could capture",
            code="GB0033",
        ),
    )

    def propose(self, site: Site) -> Iterator[Rewrite | Advice]:
        option = _OPTIONS.get(site.code)
        if option is None or (site.code == "GB0033" and not _reads_a_number(site)):
            return
        yield Advice(option.advice)
        place = compiling(site)
        # Elsewhere it may stand in a function that nobody calls: transformers has such a one.
        if place is None or option.name in place.view.source:
            return
        if option is _BACKWARD and any(_HOOKS.search(text) for text in site.sources.values()):
            return
        splice = Splice(place.view)
        alone = place.function is not None or is_only_region(site)
        place.set_option(splice, option.name, option.value, around_calls=not alone)
        masks = option.sizes and site.span(site.node).line in mask_widths(site.source)
        shows = []
        if option.sizes and not meets_no_other_size(site):
            shows = ["widths" if masks else "sizes"]
        local = alone or place.only_called() is not None
        notes = []
        if not local:
            notes.append("the option holds for every region of the process from there on")
        yield splice.rewrite(
            f"{option.title} (`{option.name}`)",
            safety=Safety.SAFE if local else Safety.UNSAFE,
            notes=notes,
            rank=50 if masks else 80,
            shows=shows,
        )


def _reads_a_number(site: Site) -> bool:
    """Whether the operator that was refused reads a number out of a tensor."""
    told = f"{site.graph_break.context} {site.graph_break.explanation}"
    return _ITEM in told

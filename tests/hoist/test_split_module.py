"""What is compiled from outside, such as the `forward` of a module, is cut where it stands."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable

import pytest
from gbfix_codemods.hoist.split_function import SplitFunction
from gbfix_codemods.hoist.split_statement import SplitStatement

from gbfix.codemod import Example, Rewrite, Site, example_site
from gbfix.schema import Frame, Region, Report, Safety, Span

MODULE = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        h = self.fc(x)
        torch.save(h, "h.pt")
        return h * 2
"""


def site_of(source: str, **changes: object) -> Site:
    """The site of a `torch.save`, in a region that begins with the function around it."""
    before = textwrap.dedent(source).lstrip("\n")
    site = example_site(Example(before, "", 'torch.save(h, "h.pt")'), "GB0007")
    site.region = dataclasses.replace(Region("Net", "example.py", 5), **changes)  # type: ignore[arg-type]
    return site


def rewrites(site: Site) -> list[Rewrite]:
    proposed = [*SplitFunction().propose(site), *SplitStatement().propose(site)]
    return [item for item in proposed if isinstance(item, Rewrite)]


def test_forward_is_passed_over_and_its_parts_are_not() -> None:
    (rewrite,) = rewrites(site_of(MODULE))
    assert rewrite.safety is Safety.SAFE
    assert rewrite.edits["example.py"] == textwrap.dedent(
        """
        import torch


        class Net(torch.nn.Module):
            @torch.compiler.disable(recursive=False)
            def forward(self, x):
                h = self.forward_before(x)
                torch.save(h, "h.pt")
                return self.forward_after(h)

            def forward_before(self, x):
                h = self.fc(x)
                return h

            def forward_after(self, h):
                return h * 2
        """
    ).lstrip("\n")


def test_a_function_that_is_compiled_somewhere_else() -> None:
    source = """
        import torch


        def step(x):
            h = x + 1
            torch.save(h, "h.pt")
            return h * 2
    """
    (rewrite,) = rewrites(site_of(source, name="step"))
    assert "@torch.compiler.disable(recursive=False)\ndef step(x)" in rewrite.edits["example.py"]
    assert not rewrites(site_of(source, name="train"))


def test_a_call_without_parts_would_raise_under_fullgraph() -> None:
    (rewrite,) = rewrites(site_of(MODULE, options={"fullgraph": "True"}))
    assert rewrite.safety is Safety.UNSAFE
    assert "fullgraph=True" in rewrite.notes[-1]


@pytest.mark.parametrize(
    "source",
    [
        MODULE.replace("    def forward", "    @torch.no_grad()\n    def forward"),
        MODULE.replace("import torch", "import torch as torch_\ntorch = torch_.jit"),
        MODULE.replace("def forward", "def other"),
        MODULE.replace("    def forward", "    torch = None\n\n    def forward"),
    ],
    ids=["decorated", "no torch", "not forward", "another torch"],
)
def test_what_is_not_cut(source: str) -> None:
    assert not rewrites(site_of(source))


def test_only_where_the_region_begins() -> None:
    site = site_of(MODULE)
    caller = Frame("caller.py", 3, "main", in_project=True)
    frames = (caller, *site.graph_break.frames)
    site.graph_break = dataclasses.replace(site.graph_break, frames=frames)
    assert not rewrites(site)
    site = site_of(MODULE)
    site.region = None
    assert not rewrites(site)


def test_the_break_may_be_in_a_helper() -> None:
    source = MODULE.replace('torch.save(h, "h.pt")', "keep(h)").replace(
        "\n\nclass", '\n\ndef keep(h):\n    torch.save(h, "h.pt")\n\n\nclass'
    )
    site = site_of(source)
    (inner,) = site.graph_break.frames
    line = source.lstrip("\n").split("\n").index("        keep(h)") + 1
    outer = Frame("example.py", line, "forward", 8, line, 15, "keep(h)", in_project=True)
    site.graph_break = dataclasses.replace(site.graph_break, frames=(outer, inner))
    first, second = rewrites(site)
    assert "        keep(h)\n        return self.forward_after(h)" in first.edits["example.py"]
    call = "        torch.compiler.disable(keep)(h)\n        return self.forward_after(h)"
    assert call in second.edits["example.py"]
    assert Span(line, 8, line, 15) != site.span(site.node)


@pytest.mark.parametrize("how", ["net = torch.compile(net)", "net.compile()"])
def test_a_module_is_whole_however_it_is_compiled(
    how: str, gbfix_run: Callable[..., Report]
) -> None:
    source = f"""
        import random

        import torch

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(3, 3)

            def forward(self, x):
                x = self.fc(x)
                if random.random() < 0.5:
                    x = x * 2
                return self.fc(x)

        random.seed(1)
        torch.manual_seed(0)
        net = Net()
        {how}
        print(net(torch.ones(3)), net(torch.ones(3)))
    """
    report = gbfix_run(source)
    assert [item.status for item in report.regions] == ["split"], report
    (patch,) = report.patches
    assert "torch.compiler.disable(recursive=False)" in patch.diff

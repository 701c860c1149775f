"""Only the function that Dynamo skipped is compiled, and none by the same name elsewhere."""

from __future__ import annotations

import dataclasses

from gbfix_codemods.recipes.stale_disable import StaleDisable

from gbfix.codemod import Example, Rewrite, Site, example_site

_SOURCE = """
import torch


class First:
    @torch.compiler.disable
    def step(self, x):
        return x + 1


class Second:
    @torch.compiler.disable
    def step(self, x):
        return x + 2


def f(x, first):
    return first.step(x) * 2
"""


def test_a_method_of_another_class_stays_as_it_is() -> None:
    site = example_site(Example(_SOURCE, "", at="first.step(x)"), "GB0099")
    told = dataclasses.replace(site.graph_break, context="<function First.step at 0x7feec5a07c40>")
    site = Site(site.path, site.source, told, site.facts, entry=site.entry)
    (made,) = StaleDisable().propose(site)
    assert isinstance(made, Rewrite)
    after = made.edits[site.path]
    first, second = after.split("class Second")
    assert "disable" not in first
    assert "@torch.compiler.disable" in second

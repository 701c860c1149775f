"""Every control-flow codemod does its examples, leaves its near misses alone, and stops there."""

from __future__ import annotations

import textwrap

import pytest

from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, discover, example_site

CODEMODS = [c for c in discover() if type(c).__module__.startswith("gbfix_codemods.control_flow")]
EXAMPLES = [(c, e) for c in CODEMODS for e in c.examples]
NEAR_MISSES = [(c, m) for c in CODEMODS for m in c.near_misses]


def rewrites(codemod: Codemod, case: Example | NearMiss) -> list[Rewrite]:
    site = example_site(case, codemod.codes[0])
    return [item for item in codemod.propose(site) if isinstance(item, Rewrite)]


@pytest.mark.parametrize(("codemod", "case"), EXAMPLES, ids=lambda value: getattr(value, "at", ""))
def test_example(codemod: Codemod, case: Example) -> None:
    first = rewrites(codemod, case)[0]
    assert first.edits["example.py"] == textwrap.dedent(case.after).lstrip("\n")


@pytest.mark.parametrize(
    ("codemod", "case"), NEAR_MISSES, ids=lambda value: getattr(value, "why", "")
)
def test_near_miss(codemod: Codemod, case: NearMiss) -> None:
    assert not rewrites(codemod, case)


@pytest.mark.parametrize(("codemod", "case"), EXAMPLES, ids=lambda value: getattr(value, "at", ""))
def test_rewriting_again_changes_nothing(codemod: Codemod, case: Example) -> None:
    after = NearMiss(case.after, case.at, "", facts=case.facts)
    if case.at in case.after:
        assert not rewrites(codemod, after)


@pytest.mark.parametrize(("codemod", "case"), EXAMPLES, ids=lambda value: getattr(value, "at", ""))
@pytest.mark.parametrize("newline", ["\r\n", "\t"])
def test_odd_files_keep_their_format(codemod: Codemod, case: Example, newline: str) -> None:
    """CRLF stays CRLF, tabs stay tabs, and the result is the same program."""
    before, after = (textwrap.dedent(text).lstrip("\n") for text in (case.before, case.after))
    if newline == "\t":
        before, after, at = (t.replace("    ", "\t") for t in (before, after, case.at))
    else:
        before, after, at = (t.replace("\n", newline) for t in (before, after, case.at))
    odd = NearMiss(before, at, "", facts=case.facts, nth=case.nth)
    assert rewrites(codemod, odd)[0].edits["example.py"] == after

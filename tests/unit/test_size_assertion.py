"""Assertions of sizes that a patch writes, and how the judge knows them."""

from __future__ import annotations

import ast

import pytest

from gbfix.rewriting.assertions import size_assertion
from gbfix.worker.compare import _OF_SIZES


@pytest.mark.parametrize("said", ["the longest of `n`", 'an odd "text"', "a\\b", "two\nlines"])
def test_the_judge_knows_the_message_whatever_it_says(said: str) -> None:
    text = size_assertion("torch", "n == 1", said)
    (call,) = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert ast.unparse(call.func) == "torch._assert_async"
    message = ast.literal_eval(call.args[1])
    assert _OF_SIZES.search(message)


def test_a_message_of_a_program_is_none_of_a_size() -> None:
    assert not _OF_SIZES.search("the sizes do not fit: 3 and 4")

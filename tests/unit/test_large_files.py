"""What keeps a large file from being read, or written, again and again."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from gbfix import unseen
from gbfix.analysis import trees
from gbfix.codemod import _code_of
from gbfix.worker.values import tensors_in

_COMMENTED = "# head\n\nimport a\n\n\ndef f():\n    return 1\n\n# foot\n"


def test_a_tree_is_made_once_and_errors_are_not_kept() -> None:
    assert trees.tree_of("a = 1\n") is trees.tree_of("a = 1\n")
    for _ in range(2):
        with pytest.raises(SyntaxError):
            trees.tree_of("a = (\n")


def test_all_methods_of_a_file_are_compared_over_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was one tree, and one walk, for each method of each class."""
    old = "".join(f"class C{n}:\n    def m{n}(self):\n        pass\n\n\n" for n in range(30))
    walked: list[ast.AST] = []
    walk = ast.walk
    monkeypatch.setattr(ast, "walk", lambda node: (walked.append(node), walk(node))[1])
    assert unseen.lost_dispatch(old, old + "a = 1\n", {}) == ()
    assert len(walked) == 2


@pytest.mark.parametrize(
    "text",
    [_COMMENTED, "a = 1", "a = 1\r\nb = 2\r\n", "", "\n"],
    ids=["comments", "no last newline", "CRLF", "empty", "a newline"],
)
def test_a_changed_module_is_written_as_libcst_writes_it(text: str) -> None:
    module = cst.parse_module(text)
    changed = module.with_changes(body=[*module.body, cst.parse_statement("z = (1,\n  2)")])
    assert _code_of(module, module) == module.code == text
    assert _code_of(changed, module) == changed.code


def test_a_tensor_in_two_places_comes_once_or_with_each_path() -> None:
    import torch

    one = torch.ones(2)
    result = {"a": one, "b": [one, torch.zeros(1)]}
    assert [path for path, _ in tensors_in(result, "out")] == ["out.a", "out.b.1"]
    paths = [path for path, _ in tensors_in(result, "out", repeated=True)]
    assert paths == ["out.a", "out.b.0", "out.b.1"]


def test_objects_in_a_table_by_identity_have_the_same_names_in_every_process() -> None:
    import torch

    class Owner:
        def __init__(self) -> None:
            self.sum = torch.zeros(1)

    one, two = Owner(), Owner()
    table = {id(one): one, 7: two}
    assert [path for path, _ in tensors_in(table, "OWNERS")] == ["OWNERS.#0.sum", "OWNERS.7.sum"]


def test_tensors_are_keys_as_an_optimizer_has_them() -> None:
    """Such a key is compared with nothing: a comparison gives a tensor, of no single truth."""
    import torch

    weight = torch.ones(3)
    found = [value for _, value in tensors_in({weight: torch.zeros(3)}, "state")]
    assert len(found) == 1

"""Statements of one form share one operator of their file, and others keep their own."""

from __future__ import annotations

import ast
import textwrap

import pytest
from gbfix_codemods.side_effects.raise_to_op import RaiseToOp
from gbfix_codemods.wrap.same_operator import _Match

from gbfix.codemod import Example, Rewrite, example_site, scalar, tensor

_HEAD = """import torch


@torch.library.custom_op("example::check_f", mutates_args=())
def check_f({signature}) -> None:
    {body}


check_f.register_fake(lambda {names}: None)
check_f.register_effect(torch.library.EffectType.ORDERED)


def f(x, y, n):
    {call}
    {statement}
    return x + y
"""
_NAN = "torch.isnan(y).any()"
_FACTS = {"x": tensor(3), "y": tensor(3), "n": scalar(3), _NAN: tensor(dtype="torch.bool")}
_FACTS["y.isnan().any()"] = _FACTS["y.max() > n"] = tensor(dtype="torch.bool")
_BODY = 'if torch.isnan(x).any():\n        raise ValueError("x has NaN")'


def _known(
    statement: str, body: str = _BODY, signature: str = "x: torch.Tensor", call: str = "check_f(x)"
) -> str:
    names = ", ".join(part.partition(":")[0] for part in signature.split(", "))
    return _HEAD.format(signature=signature, body=body, names=names, call=call, statement=statement)


def _rewrite(source: str, at: str = _NAN) -> Rewrite:
    site = example_site(Example(source, "", at=at, facts=_FACTS), "GB0170")
    made = [it for it in RaiseToOp().propose(site) if isinstance(it, Rewrite)]
    assert made
    return made[0]


def _text(rewrite: Rewrite) -> str:
    (text,) = rewrite.edits.values()
    return text


def test_the_same_statement_of_another_tensor_calls_the_same_operator() -> None:
    source = _known(f'if {_NAN}:\n        raise ValueError("x has NaN")')
    rewrite = _rewrite(source)
    assert _text(rewrite) == _known("check_f(y)")
    assert "same-questions" in rewrite.assumes


def test_a_text_that_differs_becomes_a_parameter_and_the_first_call_hands_its_own_over() -> None:
    source = _known(f"if {_NAN}:\n        raise ValueError('y has \"NaN\"')")
    body = _BODY.replace('"x has NaN"', "message")
    assert _text(_rewrite(source)) == _known(
        "check_f(y, 'y has \"NaN\"')",
        body,
        "x: torch.Tensor, message: str",
        'check_f(x, "x has NaN")',
    )


def test_a_third_one_changes_nothing_of_the_operator() -> None:
    body = _BODY.replace('"x has NaN"', "message")
    signature = "x: torch.Tensor, message: str"
    call = 'check_f(x, "x has NaN")'
    source = _known(f'if {_NAN}:\n        raise ValueError("bad")', body, signature, call)
    assert _text(_rewrite(source)) == _known('check_f(y, "bad")', body, signature, call)


def test_only_texts_and_the_signature_of_the_operator_are_touched() -> None:
    """A condition that stands in the operator is no rewritten one."""
    source = _known(f'if {_NAN}:\n        raise ValueError("y has NaN")')
    (touched,) = _rewrite(source).touched.values()
    line = source.split("\n").index("    if torch.isnan(x).any():") + 1
    assert not any(span.line <= line <= span.end_line for span in touched)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (f'if {_NAN}:\n        raise KeyError("x has NaN")', "another error"),
        (f'if not {_NAN}:\n        raise ValueError("x has NaN")', "the other way round"),
        (f'if {_NAN}:\n        raise ValueError(f"{{n}} has NaN")', "a text made of a value"),
        (f'assert not {_NAN}, "x has NaN"', "another statement"),
    ],
)
def test_what_differs_in_more_than_texts_has_an_operator_of_its_own(
    statement: str, why: str
) -> None:
    rewrite = _rewrite(_known(statement))
    assert "check_f_1" in _text(rewrite), why
    assert _BODY in _text(rewrite)
    assert "same-questions" not in rewrite.assumes


def test_a_comment_stays() -> None:
    statement = f'if {_NAN}:\n        # Rare.\n        raise ValueError("x has NaN")'
    assert "check_f_1" in _text(_rewrite(_known(statement)))
    body = _BODY.replace("raise", "# Rare.\n        raise")
    assert _text(_rewrite(_known(statement, body))) == _known("check_f(y)", body)


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        ("print('a', x)", "print('b', y)", 1),
        ("print('a', x, end='')", "print('b', y, end=' ')", 2),
        ("print('a', 'b', 'c', x)", "print('d', 'e', 'f', y)", None),
        ("print(f'a {x}')", "print(f'b {y}')", None),
        ("print(f'{x}')", "print(f'{y}')", 0),
        ("print(f'{d[\"a\"]} {x}')", "print(f'{d[\"b\"]} {y}')", None),
        ("print(d['a'], x)", "print(d['b'], y)", 1),
        ("match str(x):\n    case 'a': print(x)", "match str(y):\n    case 'b': print(y)", None),
        ("'a'\nprint(x)", "'b'\nprint(y)", None),
        ("print(1, x)", "print(True, y)", None),
        ("print(x.a)", "print(y.b)", None),
        ("print(x, x)", "print(y, y)", 0),
        ("print([x for x in d])", "print([y for y in d])", 0),
        ("print([k for k in x])", "print([j for j in y])", None),
        ("print(b'a', x)", "print(b'b', y)", None),
    ],
)
def test_what_is_the_same_but_for_names_and_texts(old: str, new: str, texts: int | None) -> None:
    trees = []
    for name, body in (("x", old), ("y", new)):
        lines = textwrap.indent(body, "    ")
        (tree,) = ast.parse(f"def check({name}: torch.Tensor):\n{lines}").body
        assert isinstance(tree, ast.FunctionDef)
        trees.append(tree)
    match = _Match(*trees)
    assert match.fits() == (texts is not None)
    if texts is not None:
        assert len(match.differing) == texts


def test_numbers_are_no_texts() -> None:
    body = 'if x.max() > 3:\n        raise ValueError("large")'
    statement = 'if y.max() > n:\n        raise ValueError("large")'
    assert "check_f_1" in _text(_rewrite(_known(statement, body), "y.max() > n"))


def test_two_names_do_not_stand_for_one() -> None:
    """``x`` twice is not ``y`` and ``x``."""
    body = 'if torch.isnan(x).any() and torch.isnan(x).all():\n        raise ValueError("bad")'
    statement = f'if {_NAN} and torch.isnan(x).all():\n        raise ValueError("bad")'
    assert "check_f_1" in _text(_rewrite(_known(statement, body)))


@pytest.mark.parametrize(
    "change",
    [
        ("check_f(x)", "check_f(x=x)"),
        ("check_f(x)", "torch.vmap(check_f)(x)"),
        ("check_f(x)", "check_f(*[x])"),
        ("mutates_args=()", "mutates_args={'x'}"),
        ("EffectType.ORDERED", "EffectType.UNORDERED"),
        ("lambda x: None", "lambda x: print()"),
        ("def check_f(x: torch.Tensor)", "def check_f(x: torch.Tensor = None)"),
        ("\n\n\ndef f(", "\ncheck_f.register_kernel('cuda')(print)\n\n\ndef f("),
        ("    check_f(x)", "    torch.ops.example.check_f(x)"),
        ('raise ValueError("x has NaN")', 'raise ValueError(f"x has {1} NaN")'),
    ],
)
def test_an_operator_that_is_used_or_made_otherwise_is_left_alone(change: tuple[str, str]) -> None:
    source = _known(f'if {_NAN}:\n        raise ValueError("y has NaN")').replace(*change)
    assert "check_f_1" in _text(_rewrite(source))


def test_an_operator_that_another_file_calls_gets_no_parameter() -> None:
    source = _known(f'if {_NAN}:\n        raise ValueError("y has NaN")')
    site = example_site(Example(source, "", at=_NAN, facts=_FACTS), "GB0170")
    site.sources = {**site.sources, "other.py": "from example import check_f\n"}
    (text,) = next(it for it in RaiseToOp().propose(site) if isinstance(it, Rewrite)).edits.values()
    assert "check_f_1" in text

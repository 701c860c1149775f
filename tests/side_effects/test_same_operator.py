"""Statements of one form share one operator of their file, and others keep their own."""

from __future__ import annotations

import ast
import textwrap

import pytest
from gbfix_codemods.side_effects.logging_to_op import LoggingToOp
from gbfix_codemods.wrap.same_operator import _Match

from gbfix.codemod import Example, Rewrite, Site, example_site, scalar, tensor
from gbfix.schema import Fact

_HEAD = """import logging

import torch

logger = logging.getLogger(__name__)


@torch.library.custom_op("example::log_f", mutates_args=())
def log_f({signature}) -> None:
    {body}


log_f.register_fake(lambda {names}: None)
log_f.register_effect(torch.library.EffectType.ORDERED)


def f(x, y, n):
    {call}
    {statement}
    return x + y
"""
_FACTS = {
    "x": tensor(3),
    "y": tensor(3),
    "n": scalar(3),
    "logger": Fact("object", "logging.Logger"),
}
_BODY = 'logger.info("x is %d", x.sum().item())'
_SAME = 'logger.info("x is %d", y.sum().item())'
_OTHER = 'logger.info("y is %d", y.sum().item())'


def _known(
    statement: str, body: str = _BODY, signature: str = "x: torch.Tensor", call: str = "log_f(x)"
) -> str:
    names = ", ".join(part.partition(":")[0] for part in signature.split(", "))
    return _HEAD.format(signature=signature, body=body, names=names, call=call, statement=statement)


def _site(source: str) -> Site:
    at = "y.sum().item()"
    return example_site(Example(source, "", at=at, facts=_FACTS), "GB0291")


def _text(source: str | Site) -> str:
    site = _site(source) if isinstance(source, str) else source
    rewrite = next(it for it in LoggingToOp().propose(site) if isinstance(it, Rewrite))
    (text,) = rewrite.edits.values()
    return text


def test_the_same_statement_of_another_tensor_calls_the_same_operator() -> None:
    assert _text(_known(_SAME)) == _known("log_f(y)")


def test_a_text_that_differs_becomes_a_parameter_and_the_first_call_hands_its_own_over() -> None:
    body = _BODY.replace('"x is %d"', "text")
    assert _text(_known(_OTHER.replace('"y is %d"', "'\"y\" is %d'"))) == _known(
        "log_f(y, '\"y\" is %d')",
        body,
        "x: torch.Tensor, text: str",
        'log_f(x, "x is %d")',
    )


def test_a_third_one_changes_nothing_of_the_operator() -> None:
    known = (_BODY.replace('"x is %d"', "text"), "x: torch.Tensor, text: str")
    call = 'log_f(x, "x is %d")'
    assert _text(_known(_OTHER, *known, call)) == _known('log_f(y, "y is %d")', *known, call)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ('logger.warning("x is %d", y.sum().item())', "another level"),
        ('logger.info("x is %d", y.sum().item(), n)', "one more value"),
        ('logger.info(f"x {n} is %d", y.sum().item())', "a text made of a value"),
        ('logger.info("x is %d", y.sum().item() + 1)', "another value"),
    ],
)
def test_what_differs_in_more_than_texts_has_an_operator_of_its_own(
    statement: str, why: str
) -> None:
    text = _text(_known(statement))
    assert "log_f_1" in text, why
    assert _BODY in text


def test_a_condition_is_asked_in_an_operator_of_its_own() -> None:
    """Forced, it would hold for the first call of a shared one, too."""
    lines = "if logger.isEnabledFor(10):\n        "
    source = _known(lines + _SAME, lines + _BODY)
    guard = example_site(
        Example(source, "", at="logger.isEnabledFor(10)", facts=_FACTS, nth=1), "GB0291"
    )
    assert "log_f_1" in _text(guard)


@pytest.mark.parametrize(
    "change",
    [
        ("    log_f(x)", "    log_f(x=x)"),
        ("    log_f(x)", "    torch.vmap(log_f)(x)"),
        ("    log_f(x)", "    log_f(*[x])"),
        ("    log_f(x)", "    torch.ops.example.log_f(x)"),
        ("mutates_args=()", "mutates_args={'x'}"),
        ("EffectType.ORDERED", "EffectType.UNORDERED"),
        ("lambda x: None", "lambda x: print()"),
        ("def log_f(x: torch.Tensor)", "def log_f(x: torch.Tensor = None)"),
        ("\n\n\ndef f(", "\nlog_f.register_kernel('cuda')(print)\n\n\ndef f("),
        ('"x is %d", x.sum', 'f"x is {1}", x.sum'),
    ],
)
def test_an_operator_that_is_used_or_made_otherwise_is_left_alone(change: tuple[str, str]) -> None:
    source = _known(_OTHER)
    assert source.replace(*change) != source
    assert "log_f_1" in _text(source.replace(*change))


def test_an_operator_that_another_file_calls_gets_no_parameter() -> None:
    site = _site(_known(_OTHER))
    site.sources = {**site.sources, "other.py": "from example import log_f\n"}
    assert "log_f_1" in _text(site)


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
        ("warnings.warn(f'{x}')", "warnings.warn(f'{y}')", None),
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

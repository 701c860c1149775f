"""Where a size that comes out of a tensor meets no other one, and where it may."""

from __future__ import annotations

import dataclasses

import pytest
from gbfix_codemods.config.sizes import is_only_region, meets_no_other_size

from gbfix.codemod import Example, Site, example_site, tensor
from gbfix.schema import Region

FACTS = {"lengths": tensor(3, dtype="torch.int64"), "x": tensor(4)}


def site(*lines: str, at: str = "torch.arange(n)", head: str = "", tail: str = "") -> Site:
    body = "".join(f"    {line}\n" for line in lines)
    source = f"import torch\n{head}\n\ndef f(lengths, x):\n{body}\n{tail}"
    return example_site(Example(source, source, at=at, facts=FACTS), "GB0033")


JOINED = "torch.cat([torch.arange(n) for n in lengths.unbind()])"


@pytest.mark.parametrize(
    "lines",
    [
        (f"return {JOINED}",),
        (f"places = {JOINED}", "return places"),
        ("return torch.cat([torch.arange(n) for n in lengths]).sum()",),
    ],
)
def test_joined_summed_up_or_returned(lines: tuple[str, ...]) -> None:
    assert meets_no_other_size(site(*lines))


@pytest.mark.parametrize(
    "lines",
    [
        (f"return {JOINED} + x",),
        (f"places = {JOINED}", "return places * x"),
        (f"return x[{JOINED}]",),
        (f"return torch.stack([{JOINED}, x])",),
        (f"return {JOINED}.mean(0)",),
        (f"return {JOINED}.sum(0)",),
        (f"return {JOINED}.view(2, -1)",),
        (f"return torch.zeros(lengths.max().item()), {JOINED}",),
        (f"return x.nonzero(), {JOINED}",),
        (f"return helper({JOINED})",),
        (f"places = {JOINED}", "places = places + x", "return places"),
        (f"places = {JOINED}", "places += x", "return places"),
    ],
)
def test_met_by_another(lines: tuple[str, ...]) -> None:
    assert not meets_no_other_size(site(*lines))


def test_more_than_one_dimension() -> None:
    lines = ("return torch.cat([torch.zeros(n, 2) for n in lengths.unbind()])",)
    assert not meets_no_other_size(site(*lines, at="torch.zeros(n, 2)"))


def only(head: str = "", tail: str = "", other: str = "") -> bool:
    made = site(f"return {JOINED}", head=head, tail=tail)
    made.region = Region("f", "example.py", 3, "example.py", 9)
    if other:
        made.sources = {"example.py": made.source, "other.py": other}
    return is_only_region(made)


def test_a_script_that_compiles_one_function() -> None:
    assert only(tail="g = torch.compile(f)\n")


@pytest.mark.parametrize(
    ("head", "tail", "other"),
    [
        ("", "g = torch.compile(f)\nh = torch.compile(abs)\n", ""),
        ("", "g = torch.compile(f)\n", "import torch\n\nh = torch.compile(abs)\n"),
        ("", "g = torch.compile(f)\nf.compile()\n", ""),
        ("", 'g = getattr(torch, "compile")(f)\n', ""),
        ("", "from torch import compile as fast\ng = fast(f)\nh = fast(abs)\n", ""),
        ("", 'g = torch.compile(f)\nh = getattr(torch, "com" + "pile")(f)\n', ""),
        ("", 'g = torch.compile(f)\nh = getattr(f, f"c{0}")()\n', ""),
        ("", "g = torch.compile(f)\nh = map(getattr, [torch], ['compile'])\n", ""),
        ("", "g = torch.compile(f)\n", "import re\n\nh = re.compile('a')\nk = h.compile\n"),
    ],
)
def test_others_are_compiled_too(head: str, tail: str, other: str) -> None:
    assert not only(head, tail, other)


@pytest.mark.parametrize(
    "other",
    [
        "import re\n\nh = re.compile('a')\n",
        "code = compile('1', '', 'eval')\n",
        "h = getattr(len, '__name__', '')\n",
        "def layer(owner, n):\n    return getattr(owner, f'conv{n}')\n",
        "def field(owner, name):\n    return getattr(owner, name)\n",
    ],
)
def test_what_compiles_no_region(other: str) -> None:
    assert only(tail="g = torch.compile(f)\n", other=other)


def test_a_module_that_a_script_imports_is_not_alone() -> None:
    made = site(f"return {JOINED}", tail="g = torch.compile(f)\n")
    made.region = dataclasses.replace(Region("f", "example.py", 3), compile_path="lib.py")
    assert not is_only_region(made)

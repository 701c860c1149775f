"""Codes, families and titles are known, whatever torch is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gbfix import catalog, registry
from gbfix.registry import FAMILIES, Registry, UnknownCodeError, family_for

SEED = json.loads(Path(registry.__file__).with_name("seed_codes.json").read_text(encoding="utf-8"))
KNOWN = Registry.load()


def test_the_installed_torchs_codes_are_all_known() -> None:
    folder = registry.torch_folder()
    assert folder is not None
    data = json.loads((folder / "_dynamo" / "graph_break_registry.json").read_text())
    assert KNOWN.problem == ""
    for code, entries in data.items():
        assert KNOWN.entry(code).installed
        assert len(KNOWN.entry(code).entries) == len(entries)
        for entry in entries:
            if not entry["Gb_type"].startswith("_"):
                assert KNOWN.code_for(entry["Gb_type"]) is not None


def test_titles_lead_to_the_code_that_torchs_own_message_links_to() -> None:
    folder = registry.torch_folder()
    assert folder is not None
    data = json.loads((folder / "_dynamo" / "graph_break_registry.json").read_text())
    linked = {entry["Gb_type"]: code for code, entries in data.items() for entry in entries}
    linked.pop("_gb_type", None)
    assert {title: KNOWN.code_for(title) for title in linked} == linked


def test_the_seed_list_is_complete() -> None:
    assert list(SEED) == [f"GB{number:04d}" for number in range(286)]


@pytest.mark.parametrize("known", [KNOWN, Registry({}, SEED)], ids=["with torch", "without torch"])
def test_every_seeded_code_is_known_under_its_title(known: Registry) -> None:
    for code, title in SEED.items():
        entry = known.entry(code)
        assert title in (entry.title, *entry.former_titles)
        assert known.code_for(title) is not None


def test_every_code_has_a_title_and_a_link() -> None:
    for code in KNOWN.codes():
        assert KNOWN.title(code)
        assert KNOWN.url(code).endswith(f"/gb/{code.lower()}.html")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("GB0170", "GB0170"),
        ("gb0170", "GB0170"),
        ("170", "GB0170"),
        (" 0170 ", "GB0170"),
        ("25", "GB0025"),
        ("Data-dependent branching", "GB0170"),
        ("Dynamo cache limit exceeded", "GB0039"),
        ("data-dependent-guard", "data-dependent-guard"),
        ("Internal-Error", "internal-error"),
    ],
)
def test_people_may_write_codes_in_many_ways(text: str, code: str) -> None:
    assert KNOWN.resolve(text) == code


@pytest.mark.parametrize(
    ("text", "close"),
    [
        ("GB01700", "GB0170"),
        ("9999", "GB9898"),
        ("data-dep", "data-dependent-guard"),
        ("data dependent branch", "data-dependent-guard"),
        ("Tensor.item()", "GB0124"),
        ("\x00", "gbfix codes"),
        ("", "gbfix codes"),
        ("zzzzzz", "gbfix codes"),
    ],
)
def test_an_unknown_code_is_an_error_that_names_what_is_close(text: str, close: str) -> None:
    with pytest.raises(UnknownCodeError, match=re.escape(close)):
        KNOWN.resolve(text)


def test_placeholders_in_titles_match_what_torch_fills_in() -> None:
    known = Registry(registry._entries_of({"GB0001": [{"Gb_type": "bad {a.b} in {c}"}]}), {})
    assert known.code_for("bad list in dict(x)") == "GB0001"
    assert known.code_for("bad list") is None


def test_a_title_that_two_codes_had_belongs_to_the_one_that_has_it_now() -> None:
    entries = registry._entries_of(
        {
            "GB0001": [{"Gb_type": "new name"}, {"Gb_type": "shared"}],
            "GB0002": [{"Gb_type": "shared"}],
            "GB0003": [{"Gb_type": "other"}, {"Gb_type": "shared"}],
        }
    )
    assert Registry(entries, {"GB0004": "shared"}).code_for("shared") == "GB0002"


def test_source_text_that_leaked_into_the_registry_is_not_shown() -> None:
    entry = KNOWN.entry("GB0170")
    assert entry.explanation.startswith("Detected data-dependent branching")
    assert entry.former_titles == ()
    assert "_explanation" not in entry.explanation
    joined = KNOWN.entry("GB0003").hints[0]
    assert joined == (
        "Call a generator from inside of a non-generator Python function and "
        "compile that function instead."
    )


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"GB0001": 3}', '{"GB0001": [{"Context": ""}], "x": []}', "\x00", '"GB0001"'],
)
def test_a_broken_registry_file_leaves_the_seeded_codes(tmp_path: Path, content: str) -> None:
    path = tmp_path / "registry.json"
    path.write_text(content)
    known = Registry.load(path)
    assert set(SEED) <= set(known.codes())
    assert known.entry("GB0170").title == "Data-dependent branching"
    assert not known.entry("GB0001").installed


def test_a_newer_torchs_codes_and_shapes_are_taken_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "registry.json"
    path.write_text(json.dumps({"GB9999": {"Gb_type": "brand new", "Hints": None, "More": 1}}))
    known = Registry.load(path)
    assert known.code_for("brand new") == "GB9999"
    assert known.entry("GB9999").hints == ()
    assert known.code_for("never heard of") is None
    assert known.url("GB1234") == "" and known.title("GB1234") == ""


@pytest.mark.parametrize(
    ("error_type", "message", "family"),
    [
        ("UserError", "Could not guard on data-dependent expression Eq(u0, 1)", "guard"),
        ("torch._dynamo.exc.UserError", "Could not guard on data-dependent expression", "guard"),
        (
            "torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode",
            "Consider annotating. Could not guard on data-dependent expression Eq(u0, 0)",
            "guard",
        ),
        ("BackendCompilerFailed", "Could not guard on data-dependent expression u0", "guard"),
        ("UserError", "Could not extract specialized integer from x", "specialization"),
        ("InternalTorchDynamoError", "Could not extract specialized integer", "specialization"),
        ("DataDependentOutputException", "aten._local_scalar_dense.default", "other"),
        ("UserError", "Tried to use data-dependent value in the sub", "other"),
    ],
)
def test_data_dependent_errors_have_families(error_type: str, message: str, family: str) -> None:
    assert family_for(error_type, message) == f"data-dependent-{family}"


@pytest.mark.parametrize(
    ("error_type", "message", "family"),
    [
        ("InternalTorchDynamoError", "AttributeError: x", "internal-error"),
        ("BackendCompilerFailed", "backend='aot_eager' raised:", "backend-error"),
        ("TorchRuntimeError", "RuntimeError when making fake tensor call", "torch-runtime-error"),
        ("FailOnRecompileLimitHit", "", "recompile-limit"),
        ("RuntimeError", "Hard failure: recompile_limit reached with fullgraph", "recompile-limit"),
        (
            "UncapturedHigherOrderOpError",
            "Could not guard on data-dependent expression",
            "uncaptured-hop",
        ),
        ("UserError", "torch.cond expects a bool", "user-error"),
        ("ZeroDivisionError", "division by zero", "unknown"),
        ("", "", "unknown"),
    ],
)
def test_other_errors_have_families(error_type: str, message: str, family: str) -> None:
    assert family_for(error_type, message) == family
    assert family in FAMILIES


def test_advice_is_written_for_all_families_and_the_common_codes() -> None:
    written = {path.stem for path in Path(registry.__file__).with_name("advice").glob("*.md")}
    assert written <= {*KNOWN.codes(), *FAMILIES}
    assert set(FAMILIES) <= written
    assert len(written - set(FAMILIES)) >= 40


@pytest.mark.parametrize(
    "path",
    sorted(Path(registry.__file__).with_name("advice").glob("*.md")),
    ids=lambda path: path.stem,
)
def test_advice_is_short_and_its_sketches_are_python(path: Path) -> None:
    advice = registry.advice(path.stem)
    assert advice is not None
    assert 80 <= len(advice.text) <= 900
    assert bool(advice.before) == bool(advice.after)
    for sketch in (advice.before, advice.after):
        compile(sketch, path.name, "exec")
    assert advice.before != advice.after or not advice.before


@pytest.mark.parametrize("name", ["GB9999", "../seed_codes", "", "a/b"])
def test_no_advice_where_none_was_written(name: str) -> None:
    assert registry.advice(name) is None


def test_the_static_catalog_agrees_with_the_codemods_themselves() -> None:
    from gbfix.codemod import discover

    read = {info.name: info.codes for info in catalog.codemods()}
    assert read == {codemod.name: codemod.codes for codemod in discover()}


def test_codemods_answer_codes_and_families_that_exist() -> None:
    for info in catalog.codemods():
        assert info.codes
        for code in info.codes:
            assert KNOWN.resolve(code) == code


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('class A(Codemod):\n    name = "a"\n    codes = ("GB0001",)\n', {"a": ("GB0001",)}),
        (
            "class A(Codemod):\n"
            '    """Doc.\n\n    codes = ("GB0009",)\n    """\n'
            '    name: ClassVar[str] = "a"  # why\n'
            '    codes: ClassVar[tuple[str, ...]] = (\n        "GB0001",  # (one)\n'
            '        "GB0002",\n    )\n',
            {"a": ("GB0001", "GB0002")},
        ),
        ('class Base(Codemod):\n    name = "a"\n', {}),
        ('class A:\n    name = compute()\n    codes = ("GB0001",)\n', {}),
        ("class A(\n  syntax error", {}),
        ('class A:\n    codes = ("GB1",)\nclass B:\n    name = "b"\n    codes = ()\n', {"b": ()}),
        ("", {}),
    ],
)
def test_names_and_codes_are_read_without_importing(
    tmp_path: Path, source: str, found: dict[str, tuple[str, ...]]
) -> None:
    path = tmp_path / "mod.py"
    path.write_text(source)
    assert {info.name: info.codes for info in catalog._read(path)} == found


@pytest.mark.parametrize("words", [["--help"], ["explain", "170"], ["codes"], ["--version"]])
def test_light_commands_import_neither_torch_nor_libcst_nor_rich(words: list[str]) -> None:
    program = (
        "import sys; from gbfix.cli import main; status = main(sys.argv[1:]);"
        "heavy = {'torch', 'libcst', 'rich', 'numpy', 'gbfix_codemods'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

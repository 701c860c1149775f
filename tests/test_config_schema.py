"""``config.schema.json`` says of ``[tool.gbfix]`` what `gbfix.config` does."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

import gbfix
from gbfix import config

SCHEMA = json.loads((Path(gbfix.__file__).parent / "config.schema.json").read_text())

GOOD = [
    "",
    'targets = ["train.py --epochs 1", {target = "m.py::Net", inputs = "(1,)"}]',
    'select = ["GB0170"]\nignore = []\nexclude = ["vendored"]\nbackend = ["inductor"]',
    'calls = 3\njobs = 0\ntimeout = 1.5\nmemory-limit = "8G"\nunsafe-fixes = true\ncache = false',
    'include = ["transformers"]\ncallers = "any"',
    "memory-limit = 1000\ninductor-timeout = 2.5",
]
BAD = [
    "cals = 3",
    "calls = -1",
    "calls = 1.5",
    'calls = "3"',
    "timeout = true",
    "cache = 1",
    'select = "GB0170"',
    'targets = "train.py"',
    "targets = [1]",
    'targets = [{inputs = "x"}]',
    'targets = [{target = "a.py", input = "x"}]',
    "memory-limit = 1.5",
    'include = "transformers"',
    'callers = "all"',
]


def check(table: str, folder: Path) -> tuple[bool, bool]:
    """What the schema and what the program think of a table."""
    (folder / "pyproject.toml").write_text(f"[tool.gbfix]\n{table}\n")
    data = tomllib.loads(table)
    by_schema = jsonschema.Draft202012Validator(SCHEMA).is_valid(data)
    try:
        config.load(folder)
    except config.ConfigError:
        return by_schema, False
    return by_schema, True


@pytest.mark.parametrize("table", GOOD)
def test_good_tables_pass_both(table: str, tmp_path: Path) -> None:
    assert check(table, tmp_path) == (True, True)


@pytest.mark.parametrize("table", BAD)
def test_bad_tables_pass_neither(table: str, tmp_path: Path) -> None:
    assert check(table, tmp_path) == (False, False)


def test_the_schema_knows_every_key() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == set(config._KEYS)

"""Files of a project that the recorded run does not load."""

from __future__ import annotations

from pathlib import Path

from gbfix.project_files import neighbours

_FILES = {
    "main.py": "import layers\n",
    "layers.py": "x = 1\n",
    "report.py": "from main import run\n",
    "study.py": "import report as r\n",
    "by_name.py": "import importlib\nimportlib.import_module('main').run()\n",
    "other_name.py": "import importlib\nimportlib.import_module('os')\n",
    "says_it.py": "# main and layers are imported elsewhere\nprint('main')\n",
    "broken.py": "import main\ndef\n",
    "venv/pyvenv.cfg": "",
    "venv/lib.py": "import main\n",
    ".hidden/a.py": "import main\n",
    "tests/test_main.py": "from project.layers import x\n",
}


def _project(folder: Path) -> None:
    for name, text in _FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def test_what_imports_a_loaded_file_or_one_that_does(tmp_path: Path) -> None:
    _project(tmp_path)
    loaded = [str(tmp_path / "main.py"), str(tmp_path / "layers.py")]
    found = neighbours(loaded, loaded[0], str(tmp_path))
    names = {str(Path(path).relative_to(tmp_path)) for path in found}
    assert names == {"report.py", "study.py", "by_name.py", "tests/test_main.py"}
    assert found[str(tmp_path / "report.py")] == _FILES["report.py"]


def test_the_whole_project_is_looked_at_from_a_script_below_it(tmp_path: Path) -> None:
    _project(tmp_path)
    (tmp_path / "scripts").mkdir()
    entry = tmp_path / "scripts" / "go.py"
    entry.write_text("import layers\n")
    found = neighbours([str(tmp_path / "layers.py")], str(entry), str(tmp_path))
    assert str(tmp_path / "main.py") in found

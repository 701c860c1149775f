"""Writes what is generated: gbfix/coverage*.json, docs/codes.md and docs/codemods/*.md.

    python docs/generate.py            # write
    python docs/generate.py --check    # say what is not current, exit 1

Coverage is counted from the corpus, whose cases the test suite runs; the pages of codemods come
from their docstrings and examples.  `tests/test_docs.py` keeps all of it current.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

from gbfix.codemod import Codemod, Example, NearMiss, discover
from gbfix.report import explain

ROOT = Path(__file__).resolve().parent.parent
_ORDER = ("fixed", "unsafe", "advice", "eager-error")
#: A block of code between fences, and a literal as docstrings write it.
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_LITERAL = re.compile(r"(?<!`)``(?!`)(.+?)(?<!`)``(?!`)", re.DOTALL)


def coverage() -> dict[Path, str]:
    """What the corpus shows of each code: the best outcome, the number of cases; or why none.

    One file for the seed codes, one for all others.
    """
    found: dict[str, dict[str, object]] = {}
    for path in sorted((ROOT / "corpus").glob("*/*/case.toml")):
        about = tomllib.loads(path.read_text())
        outcome = about["outcome"]
        if outcome == "fixed" and about.get("unsafe"):
            outcome = "unsafe"
        row = found.setdefault(about["code"], {"outcome": outcome, "cases": 0})
        row["outcome"] = min(str(row["outcome"]), outcome, key=_ORDER.index)
        row["cases"] = int(str(row["cases"])) + 1
    for path in sorted((ROOT / "corpus").glob("unreached*.toml")):
        for code, about in tomllib.loads(path.read_text()).items():
            found.setdefault(code, {"outcome": about["kind"], "cases": 0, "why": about["why"]})
    seed = json.loads((ROOT / "gbfix" / "seed_codes.json").read_text())
    texts = {}
    for name, seeded in (("coverage.json", True), ("coverage_newer.json", False)):
        codes = [code for code in sorted(found) if (code in seed) == seeded]
        lines = [f"{json.dumps(code)}: {json.dumps(found[code])}" for code in codes]
        texts[Path("gbfix", name)] = "{\n" + ",\n".join(lines) + "\n}\n"
    return texts


def page(codemod: Codemod) -> str:
    """A codemod's page."""
    doc = inspect.cleandoc(type(codemod).__doc__ or "")
    codes = ", ".join(f"`{code}`" for code in codemod.codes)
    parts = [f"# {codemod.name}", f"Answers {codes}.", _markdown(doc), "## Examples"]
    for example in codemod.examples:
        parts += list(_example(example))
    parts.append("## Left alone")
    for miss in codemod.near_misses:
        parts.append(f"{miss.why[:1].upper()}{miss.why[1:]}:")
        parts.append(_python(miss))
    return "\n\n".join(parts) + "\n"


def _markdown(doc: str) -> str:
    """A docstring whose literals stand in single backticks; its blocks of code stay as they are."""
    parts = _FENCED.split(doc)
    parts[::2] = [_LITERAL.sub(r"`\1`", text) for text in parts[::2]]
    return "".join(parts)


def _summary(codemod: Codemod) -> str:
    """What a codemod does, for the index: its first paragraph, up to a block of code."""
    doc = re.split(r"\n\n|\n *```", inspect.cleandoc(type(codemod).__doc__ or ""))[0]
    text = _markdown(" ".join(doc.replace("*What it does.*", "").split()))
    return f"{text[:-1]}." if text.endswith(":") else text


def _example(example: Example) -> Iterator[str]:
    if example.title:
        yield f"### {example.title[:1].upper()}{example.title[1:]}"
    yield _python(example)
    yield "becomes"
    yield _fenced(example.after)


def _python(case: Example | NearMiss) -> str:
    return _fenced(case.before if isinstance(case, Example) else case.source)


def _fenced(source: str) -> str:
    return f"```python\n{textwrap.dedent(source).strip()}\n```"


def generated() -> dict[Path, str]:
    """All generated files, by path from the root."""
    codemods = sorted(
        (item for item in discover() if type(item).__module__.startswith("gbfix_codemods.")),
        key=lambda item: item.name,
    )
    pages = {Path("docs", "codemods", f"{item.name}.md"): page(item) for item in codemods}
    index = ["# Codemods", ""]
    for item in codemods:
        index.append(f"- [{item.name}]({item.name}.md): {_summary(item)}")
    pages[Path("docs", "codemods", "README.md")] = "\n".join(index) + "\n"
    return {
        **coverage(),
        Path("docs", "codes.md"): "# Codes\n\n" + explain.codes("markdown"),
        **pages,
    }


def main() -> int:
    check = "--check" in sys.argv[1:]
    if not check:
        for path, text in coverage().items():  # the table is made from it
            (ROOT / path).write_text(text, encoding="utf-8")
    stale = []
    files = generated()
    for path, text in files.items():
        full = ROOT / path
        if full.exists() and full.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path))
        if not check:
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_text(text, encoding="utf-8")
    pages = ROOT / "docs" / "codemods"
    for full in sorted(pages.glob("*.md")):
        if full.relative_to(ROOT) not in files:
            stale.append(str(full.relative_to(ROOT)))
            if not check:
                full.unlink()
    print("\n".join(stale))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

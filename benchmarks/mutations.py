"""How many wrong patches the ladder lets through: wrong mutants of right ones.

    python benchmarks/mutations.py [--cases GLOB] [--most N] [--each N] [--seed N] [--out FILE]

Takes the corpus' after-files, changes one thing in what the patch wrote (arms swapped, a
comparison turned, a sign turned, ``detach``/``clone`` dropped, ``any`` for ``all``, a number
changed, a statement dropped), and asks two judges.  An independent one runs original and mutant,
uncompiled, on the program's own calls and on forty redrawn ones, and says whether they differ.
`gbfix verify` says what it says of any change.  Printed: the share of right after-files that are
called safe, the share of wrong mutants that are not, and every survivor.  A case whose right file
the independent judge takes for another program (it draws calls that no contract covers, and
compares all that is printed) says nothing and is left out.  So is one whose right file the corpus
itself marks as unsafe: there is no mutant that could be called safe by mistake.
"""

from __future__ import annotations

import argparse
import ast
import copy
import fnmatch
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from gbfix import changes
from gbfix.ladder import new_lines
from gbfix.runner import Runner
from gbfix.schema import Options, Target
from gbfix.verify import verify

CORPUS = Path(__file__).parent.parent / "corpus"
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.Lt,
    ast.Lt: ast.Gt,
    ast.GtE: ast.LtE,
    ast.LtE: ast.GtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_NAMES = {"any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum", "sum": "mean"}
_DROPPED = frozenset({"detach", "clone", "contiguous", "to", "float", "double"})


def mutants(source: str, lines: set[int]) -> Iterator[tuple[str, str]]:
    """What was done, and the text, for every change of one thing on one of the lines."""
    tree = ast.parse(source)
    places = [
        index
        for index, node in enumerate(ast.walk(tree))
        if isinstance(node, ast.expr | ast.stmt) and node.lineno in lines
    ]
    for index in places:
        for change in range(3):
            again = copy.deepcopy(tree)
            node = next(item for at, item in enumerate(ast.walk(again)) if at == index)
            what = _mutate(again, node, change)
            if what:
                ast.fix_missing_locations(again)
                yield f"line {getattr(node, 'lineno', 0)}: {what}", ast.unparse(again) + "\n"


def _mutate(tree: ast.Module, node: ast.AST, change: int) -> str:
    """Change the node in place; what was done, or nothing."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _TURNED and change == 0:
        node.ops[0] = _TURNED[type(node.ops[0])]()
        return "comparison turned"
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS and change == 0:
        node.op = _SIGNS[type(node.op)]()
        return "operator changed"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and change == 0:
        node.value = node.value + 1
        return "number changed"
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if change == 0 and name in ("where", "cond") and len(node.args) >= 3:
            node.args[1], node.args[2] = node.args[2], node.args[1]
            return "arms swapped"
        if change == 1 and name in _NAMES and isinstance(node.func, ast.Attribute):
            node.func.attr = _NAMES[name]
            return f"{name} became {_NAMES[name]}"
        if change == 2 and name in _DROPPED and isinstance(node.func, ast.Attribute):
            _replace(tree, node, node.func.value)
            return f"{name} dropped"
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr) and change == 0:
        _replace(tree, node, ast.Pass())
        return "statement dropped"
    return ""


def _replace(tree: ast.Module, old: ast.AST, new: ast.AST) -> None:
    class Replacer(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else super().generic_visit(node)

    Replacer().visit(tree)


#: The independent judge: one file, forty rounds of redrawn inputs; what came out goes to stdout.
JUDGE = """
import contextlib, io, json, os, pickle, random, runpy, sys
import torch
torch.set_num_threads(1)
calls = []
real = torch.compile
def neutral(model=None, **options):
    if sys._getframe(1).f_globals.get("__name__", "").startswith("torch."):
        return real(model, **options)  # torch.cond compiles itself
    if model is None:
        return lambda function: neutral(function)
    def call(*args, **kwargs):
        if len(calls) < 4:
            calls.append((model, args, kwargs))
        return model(*args, **kwargs)
    call.__wrapped__ = model
    return call
torch.compile = neutral
torch.nn.Module.compile = lambda self, *a, **k: None
def flat(value):
    import torch.utils._pytree as tree
    if hasattr(value, "__dict__") and not isinstance(value, (torch.Tensor, torch.nn.Module)):
        value = dict(vars(value))
    return tree.tree_leaves(value)
def image(value):
    return [(str(v.dtype), tuple(v.shape), v.detach().double().tolist() if not v.is_complex() else
             [v.real.tolist(), v.imag.tolist()]) if isinstance(v, torch.Tensor) else repr(v)
            for v in flat(value)]
def redrawn(value, n):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        new = torch.randn(value.shape, dtype=value.dtype) * (0.1, 1.0, 10.0)[n % 3]
        return new.requires_grad_(value.requires_grad)
    if isinstance(value, torch.Tensor) and value.dtype == torch.bool:
        return torch.rand(value.shape) < (0.0, 0.5, 1.0)[n % 3]
    if isinstance(value, torch.Tensor) and value.numel():
        return torch.randint(int(value.min()), int(value.max()) + 1, value.shape, dtype=value.dtype)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(redrawn(item, n) for item in value)
    if isinstance(value, dict):
        return {key: redrawn(item, n) for key, item in value.items()}
    return value
out = io.StringIO()
results = []
torch.manual_seed(0); random.seed(0)
try:
    with contextlib.redirect_stdout(out):
        runpy.run_path(sys.argv[1], run_name="__main__")
except BaseException as error:
    results.append(type(error).__name__)
results.append(out.getvalue())
for n in range(40):
    for model, args, kwargs in calls:
        torch.manual_seed(n); random.seed(n)
        args, kwargs = redrawn(args, n), redrawn(kwargs, n)
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                result = model(*args, **kwargs)
                grads = [v for v in flat((args, kwargs)) if isinstance(v, torch.Tensor)
                         and v.requires_grad and v.is_leaf]
                ends = [v.sum() for v in flat(result) if isinstance(v, torch.Tensor)
                        and v.requires_grad and v.is_floating_point()]
                if ends and grads:
                    torch.autograd.backward(ends)
            found = [image(result), image([v.grad if v.grad is not None else torch.zeros_like(v)
                                           for v in grads]), out.getvalue()]
        except Exception as error:
            found = type(error).__name__
        results.append(found)
print(json.dumps(results))
"""


def observed(path: Path) -> object:
    """What a program gives, by the independent judge."""
    with tempfile.TemporaryDirectory() as folder:
        judge = Path(folder, "judge.py")
        judge.write_text(JUDGE)
        try:
            run = subprocess.run(
                [sys.executable, str(judge), str(path)],
                cwd=path.parent,
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            return json.loads(run.stdout.splitlines()[-1])
        except (subprocess.TimeoutExpired, IndexError, ValueError):
            return None


def same(one: object, other: object) -> bool:
    """Whether two observations agree, numbers up to rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (one != one and other != other) or (
            abs(one - other) <= 1e-4 * max(abs(one), abs(other), 1e-2)
        )  # fmt: skip
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def judged(folder: Path, name: str, before: bytes, after: str, runner: Runner) -> tuple[str, str]:
    """What `gbfix verify` says of a change of one file, and why."""
    path = str(folder / name)
    change = changes.Change("before", (changes.ChangedFile(path, before, after.encode()),))
    # A mutant may loop for ever: no right file takes that long.
    options = Options(timeout=90.0)
    result = verify(Target("script", path, cwd=str(folder)), options, change, runner=runner)
    reasons = [text for part in result.parts for text in part.reasons]
    return result.status, "; ".join(reasons)[:200]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", default="*")
    parser.add_argument("--most", type=int, default=1000, help="cases at most")
    parser.add_argument("--each", type=int, default=4, help="mutants of each case at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    choose = random.Random(given.seed)
    cases = sorted(path.parent for path in CORPUS.glob("*/*/case.toml"))
    cases = [
        case for case in cases if fnmatch.fnmatch(f"{case.parent.name}/{case.name}", given.cases)
    ]
    choose.shuffle(cases)
    rows: list[dict[str, object]] = []
    done = 0
    with Runner() as runner:
        runner.wait_ready()
        for case in cases:
            about = tomllib.loads((case / "case.toml").read_text())
            if (
                about["outcome"] != "fixed"
                or about.get("slow")
                or about.get("unsafe")
                or about.get("target", ["before.py"]) != ["before.py"]
            ):
                continue
            if done >= given.most:
                break
            done += 1
            rows += one_case(case, given.each, choose, runner)
            if given.out:
                given.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    right = [row for row in rows if row["what"] == "as it is"]
    wrong = [row for row in rows if row["wrong"]]
    safe = sum(row["status"] == "safe" for row in right)
    caught = sum(row["status"] != "safe" for row in wrong)
    print(f"right after-files called safe: {safe} of {len(right)}")
    print(f"wrong mutants not called safe: {caught} of {len(wrong)}")
    return 0


def one_case(
    case: Path, most: int, choose: random.Random, runner: Runner
) -> Iterator[dict[str, object]]:
    before = (case / "before.py").read_text()
    after = (case / "after.py").read_text()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for path in case.iterdir():
            if path.suffix == ".py" and path.name != "after.py":
                shutil.copy(path, folder)
        truth = observed(folder / "before.py")
        made = list(mutants(after, new_lines(before, after)))
        choose.shuffle(made)
        for what, text in [("as it is", after), *made[:most]]:
            (folder / "before.py").write_text(text)
            now = observed(folder / "before.py")
            wrong = truth is not None and not same(truth, now)
            if what == "as it is" and (wrong or truth is None):
                print(f"left out {case.parent.name}/{case.name}: the judge cannot tell", flush=True)
                return
            if what != "as it is" and not wrong:
                continue
            status, why = judged(folder, "before.py", before.encode(), text, runner)
            row: dict[str, object] = {
                "case": f"{case.parent.name}/{case.name}", "what": what, "wrong": wrong,
                "status": status, "why": why,
            }  # fmt: skip
            survives = wrong and status == "safe"
            print(
                f"{'SURVIVES ' if survives else ''}{row['case']}: {what}: {status} {why}",
                flush=True,
            )
            yield row


if __name__ == "__main__":
    sys.exit(main())

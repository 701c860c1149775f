"""Contexts that say how eager code runs, and nothing about what it computes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from gbfix.analysis.build import comments_in, expression
from gbfix.analysis.scopes import import_map, resolve
from gbfix.analysis.tree import code, walk
from gbfix.codemod import Codemod, Example, NearMiss, Rewrite, Site, tensor
from gbfix.schema import Fact, Safety

_ANOMALIES = (
    "Compiled code does not note for anomaly detection where an operation stands; Dynamo cannot"
    " switch that on for a part of a graph."
)
#: What the contexts do, which compiled code is then without.
_CONTEXTS = {
    "torch.backends.cudnn.flags": (
        "Compiled code leaves cuDNN's settings as they are, which counts on CUDA alone: another"
        " algorithm may round otherwise."
    ),
    "torch.autograd.set_detect_anomaly": _ANOMALIES,
    "torch.autograd.detect_anomaly": _ANOMALIES,
    "torch.autograd.anomaly_mode.set_detect_anomaly": _ANOMALIES,
    "torch.autograd.anomaly_mode.detect_anomaly": _ANOMALIES,
    "torch.jit.optimized_execution": (
        "Compiled code leaves the optimizer of TorchScript as it is, which it does not run."
    ),
}
_LOCKS = frozenset({"_thread.lock", "_thread.RLock", "lock", "RLock", "threading.RLock"})
_LOCK = (
    "Compiled code does not take the lock: two threads that find nothing in a table compute the"
    " entry twice, and one of the two stays."
)
#: How a project says that several threads run its code.
_THREADS = re.compile(
    r"\bThread|\bthreading\.Timer|start_new_thread|to_thread|run_in_executor|DataParallel"
)
#: How a key of several parts is written is no matter: ``table[(a, b)]``, ``table[a, b]``.
_LOOSE = re.compile(r"[\s()]")
_DERIVES = re.compile(r"\bbackward\(|\bgrad\(")
_FACTS = {"x": tensor(2, 3), "self._lock": Fact("object", "_thread.lock")}
_AT = "torch.backends.cudnn.flags(enabled=False)"
_WITH = "    with {}:\n        y = self.layer(x)\n    return y\n"
_EAGER = "contextlib.nullcontext() if torch.compiler.is_compiling() else "


def _source(body: str, head: str = "import torch\n") -> str:
    return f"{head}\n\ndef f(self, x, other):\n{body}"


def _example(title: str, before: str, code: str = "GB0208") -> Example:
    after = _source(_WITH.format(_EAGER + before), "import torch\nimport contextlib\n")
    return Example(
        _source(_WITH.format(before)), after, at=before, facts=_FACTS, code=code, title=title
    )


class ContextInEager(Codemod):
    """*What it does.*  Enters a context in eager code only, of which Dynamo knows nothing and on
    which no value depends: ``with torch.backends.cudnn.flags(enabled=False):`` becomes ``with
    contextlib.nullcontext() if torch.compiler.is_compiling() else
    torch.backends.cudnn.flags(enabled=False):``.

    *When it applies.*  Settings of cuDNN, anomaly detection, the optimizer of TorchScript; locks of
    ``threading``.

    *Fix safety.*  Safe: eager code does what it did, and compiled code computes the same; the note
    says what it goes without. A lock counts only around what fills in a table; it is unsafe where
    the project starts threads. Unsafe, too, where tensors were seen on CUDA.

    *Refuses.*  Contexts whose value is bound (``as flags``) or in which gradients are computed, and
    all others.
    """

    name = "context-in-eager"
    codes = ("GB0007", "GB0008", "GB0142", "GB0208")

    examples = (
        _example("settings of cuDNN", _AT),
        _example("anomaly detection", "torch.autograd.set_detect_anomaly(True)", "GB0008"),
        _example("a lock", "self._lock", "GB0142"),
    )
    near_misses = tuple(
        NearMiss(_source(_WITH.format(text)), at=at, why=why, facts=_FACTS, code="GB0142")
        for text, at, why in (
            (f"{_AT} as flags", _AT, "its value is bound"),
            ("torch.autocast('cuda')", "torch.autocast('cuda')", "values depend on it"),
            ("torch.backends.mkldnn.flags(enabled=False)",) * 2 + ("counts on the CPU",),
            ("other", "other", "not known"),
            ("self._lock:\n        self.calls += 1\n    with other", "self._lock", "a count"),
            ("self._lock:\n        other.append(x)\n    with other", "self._lock", "a list"),
            ("self._lock:\n        self.last = x\n    with other", "self._lock", "an attribute"),
            (_EAGER + _AT, _EAGER + _AT, "done"),
            (f"{_AT}:\n        x.sum().backward()\n    with {_AT}", _AT, "anomalies show there"),
        )
    )

    def propose(self, site: Site) -> Iterator[Rewrite]:
        block = site.statement
        if not isinstance(block, cst.With) or block.asynchronous is not None:
            return
        if import_map(site.module).get("contextlib", "contextlib") != "contextlib":
            return
        edit = site.edit()
        notes: list[str] = []
        locks = False
        if _DERIVES.search(code(block.body)):
            return  # anomalies are looked for while gradients are computed
        for item in block.items:
            note = _without(site, item.item)
            if note == _LOCK and not _only_fills(block.body):
                return
            if note is None or item.asname is not None or comments_in(item):
                continue
            locks = locks or note == _LOCK
            notes.append(note)
            text = f"{_EAGER}{code(item.item)}"
            edit.replace(item.item, expression(text))
        if not notes:
            return
        edit.add_import("contextlib")
        edit.add_import("torch")
        texts = (site.source, *site.sources.values())
        threads = locks and any(_THREADS.search(text) for text in texts)
        if threads:
            notes.append("The project starts threads, which may get into each other's way then.")
        before = site.locals_before(block).values()
        counts = any((fact.device or "").startswith("cuda") for fact in before)
        yield edit.rewrite(
            f"enter `{code(block.items[0].item)}` in eager code only",
            rank=30,
            notes=tuple(dict.fromkeys(notes)),
            safety=Safety.UNSAFE if threads or counts else Safety.SAFE,
        )


def _only_fills(block: cst.BaseSuite) -> bool:
    """Whether a block binds names and makes entries that are not there: what two threads may do at
    once, where they find the same.
    """
    for node in walk(block):
        match node:
            case cst.If(test=cst.Comparison(comparisons=[cst.ComparisonTarget(test)]), orelse=None):
                if not isinstance(test, cst.NotIn | cst.Is):
                    return False
            case cst.Assign(targets=targets):
                plain = all(isinstance(it.target, cst.Name) for it in targets)
                if not plain and not _is_entry(node, block):
                    return False
            case cst.Return() | cst.Pass():
                pass
            case cst.BaseSmallStatement() | cst.BaseCompoundStatement():
                return False
    return True


def _is_entry(line: cst.Assign, block: cst.BaseSuite) -> bool:
    """Whether it stands below ``if key not in table:`` (or ``is None``) and makes that entry."""
    for node in walk(block):
        match node:
            case cst.If(test=cst.Comparison(left=left, comparisons=[asked])) if any(
                part is line for part in walk(node.body)
            ):
                made = [code(target.target) for target in line.targets]
                entry = f"{code(asked.comparator)}[{code(left)}]"
                found = code(left) if isinstance(asked.operator, cst.Is) else entry
                return [_LOOSE.sub("", text) for text in made] == [_LOOSE.sub("", found)]
    return False


def _without(site: Site, context: cst.BaseExpression) -> str | None:
    """What compiled code goes without; None for a context that is not known."""
    if isinstance(context, cst.Call):
        if any(isinstance(node, cst.NamedExpr | cst.Await) for node in walk(context)):
            return None
        return _CONTEXTS.get(resolve(site.module, context.func) or "")
    fact = site.fact(context)
    return _LOCK if fact is not None and fact.type in _LOCKS else None

"""What the program's text and its golden run say of its calls, for the contract."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Sequence

from gbfix.evidence import Kinds, Usage
from gbfix.worker.protocol import Afterwards, CallKind, Outcome

#: How a text asks whether a tensor has elements or rows.
_ASKS_EMPTY = re.compile(
    r"numel\(\)\s*(?:==|!=|>|<|\)|:)|\b(?:if|while|and|or|not)\s+(?:not\s+)?len\(|len\([^()]*\)\s*(?:==|!=|>)\s*0"
    r"|(?:shape\[[^]]*\]|size\([^()]*\))\s*(?:==|!=|>)\s*0|\bis_empty\b|\.nelement\(\)"
)
#: How a text asks for NaN and infinities.
_ASKS_NAN = re.compile(r"\b(?:isnan|isinf|isfinite|nan_to_num)\(")
_SECOND_ORDER = re.compile(r"create_graph\s*=\s*True|\b(?:hessian|gradgradcheck|jacfwd|jvp)\(")
_LEAVES_AUTOGRAD = re.compile(r"\.numpy\(\)|np\.(?:as)?array\(|\.requires_grad\b(?!\s*=[^=])")
#: How a text tells a zero gradient from none itself.
_ASKS_FOR_NONE = re.compile(r"\bgrad\s+is\s+(?:not\s+)?None\b")
#: Where the words of an error count: somebody looks at them.
_READS_MESSAGES = re.compile(
    r"\bexcept\b[^\n:]*\bas\b|\btraceback\b|\bmatch\s*=|\braises\(|exc_info|excepthook"
)
_CHECKS = re.compile(r"\btorch\._check\w*\(")
#: How long a piece of text has to be to tell a message.
_TELLING = 4
_ADDRESSES = re.compile(r"\.data_ptr\(\)|\bid\(")


def kinds(golden: Outcome, texts: Sequence[str]) -> dict[str, Kinds]:
    """By region: the kinds of its recorded calls, with what the text asks for itself."""
    asks_empty = any(_ASKS_EMPTY.search(_without_selections(text)) for text in texts)
    asks_nan = any(_ASKS_NAN.search(text) for text in texts)
    second_order = any(_SECOND_ORDER.search(text) for text in texts)
    found: dict[str, Kinds] = {}
    for event in golden.of(CallKind):
        known = found.get(event.key)
        found[event.key] = known.with_call(event.kinds) if known else event.kinds
    return {
        key: dataclasses.replace(
            item, asks_empty=asks_empty, asks_nan=asks_nan, second_order=second_order
        )
        for key, item in found.items()
    }


def _without_selections(text: str) -> str:
    """The text without questions for the size of what a mask selects: ``active.numel() == 0`` where
    ``active = losses[losses > 0]``.  Data decides that, whatever batches come.
    """
    names = sorted(_selections(text))
    if not names:
        return text
    name = rf"\b(?:{'|'.join(map(re.escape, names))})\b"
    asks = rf"(?<!\.){name}\.(?:numel\(\)|nelement\(\)|shape\[0\]|size\(0\))|\blen\({name}\)"
    return re.sub(asks, "selected", text)


def _selections(text: str) -> set[str]:
    """Names that hold, wherever the text binds them, what a mask selects or where it holds."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return set()
    bound: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                bound.setdefault(name, []).append(value)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound.setdefault(name, []).append(None)
    found: set[str] = set()
    for name, values in bound.items():
        # An assignment's own target is among the names that are stored.
        plain = [value for value in values if value is not None]
        if plain and len(values) == 2 * len(plain) and all(map(_selects, plain)):
            found.add(name)
    return found


def _selects(value: ast.expr) -> bool:
    match value:
        case ast.Subscript(slice=index):
            return _is_mask(index)
        case ast.Call(func=ast.Attribute(attr="nonzero" | "masked_select" | "argwhere")):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="squeeze" | "flatten" | "view")):
            return _selects(inner)
    return False


def _is_mask(index: ast.expr) -> bool:
    match index:
        case ast.Compare():
            return True
        case ast.UnaryOp(op=ast.Invert()):
            return True
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return _is_mask(left) or _is_mask(right)
    return False


def usage(golden: Outcome, texts: Iterable[str], callers: str) -> Usage:
    """What the program does with what its regions give back."""
    texts = list(texts)
    after = golden.of(Afterwards)
    asks = any(_ASKS_FOR_NONE.search(text) for text in texts)
    return Usage(
        changes=frozenset(key for event in after for key in event.changed),
        steps=any(event.steps for event in after)
        or (asks and any(e.plain_steps for e in after))
        or any(_steps_by_hand(text) for text in texts),
        identity=any(_asks_identity(text) for text in texts),
        leaves_autograd=any(_LEAVES_AUTOGRAD.search(text) for text in texts),
        reads_messages=any(_READS_MESSAGES.search(text) for text in texts),
        own_messages=frozenset(part for text in texts for part in _own_messages(text)),
        any_callers=callers == "any",
    )


#: A step that somebody takes without an optimizer: what has no gradient stays as it is.
_ASKS_GRADIENT = re.compile(r"\.grad is (?:not )?None")
_UPDATES = re.compile(r"-=|\+=|\.(?:sub|add|addcdiv|addcmul|lerp|copy)_\(")


def _steps_by_hand(text: str) -> bool:
    return bool(_ASKS_GRADIENT.search(text) and _UPDATES.search(text))


def _own_messages(text: str) -> set[str]:
    """Pieces of the messages of the RuntimeErrors that the text raises itself.

    Of a message that is put together from unknown parts, the piece is "", which is in all.
    """
    if _CHECKS.search(text):
        return {""}  # torch._check raises RuntimeErrors in the program's words
    if "RuntimeError" not in text:
        return set()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {""}
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
            continue
        if getattr(node.exc.func, "id", "") != "RuntimeError" or not node.exc.args:
            continue
        pieces = [
            piece
            for part in ast.walk(node.exc.args[0])
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            for piece in re.split(r"%\w|\{[^{}]*\}", part.value)
            if len(piece.strip()) >= _TELLING
        ]
        found.add(max(pieces, key=len, default="").strip())
    return found


def _asks_identity(text: str) -> bool:
    """Whether the text asks if two objects are one, or for the address of one."""
    if _ADDRESSES.search(text):
        return True
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return True
    return any(
        isinstance(node, ast.Compare)
        and any(
            isinstance(operator, ast.Is | ast.IsNot) and _is_object(left) and _is_object(right)
            for operator, left, right in zip(
                node.ops, (node.left, *node.comparators), node.comparators, strict=False
            )
        )
        for node in ast.walk(tree)
    )


def _is_object(node: ast.expr) -> bool:
    """Whether the expression may be any object: no constant, no class, no member of an enum."""
    if isinstance(node, ast.Attribute):
        return not (node.attr[:1].isupper() or (isinstance(node.value, ast.Name)
                    and node.value.id in ("torch", "np", "enum")))  # fmt: skip
    if isinstance(node, ast.Name):
        return not node.id[:1].isupper()
    return not isinstance(node, ast.Constant | ast.Call)

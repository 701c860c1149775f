"""Turns live values into plain records: facts for codemods, and images for comparing two runs.

An *image* is a tree of plain Python data and detached tensor copies that needs no user class to be
read again, so that one process can compare what another saw.
"""

from __future__ import annotations

import array
import ast
import collections
import contextlib
import dataclasses
import enum
import functools
import hashlib
import inspect
import io
import itertools
import linecache
import logging
import operator
import os
import random
import re
import sys
import threading
import types
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from gbfix.schema import Fact

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_MAX_ITEMS = 8
#: A dict of plain values is told by its types up to so many entries.
_MOST_PLAIN = 256
_PLAIN_TYPES = (int, float, bool, str)
_MAX_DEPTH = 6
_MAX_OBJECTS = 5000
#: Elements of an array of numpy's that is kept whole.
_LARGE = 10_000
#: Objects whose ``repr`` says all.
_COUNT = re.compile(r" count=(\d+) ")
_SHOWN = (itertools.count, enum.Enum, torch.dtype, torch.device)
_SHOWN_MODULES = frozenset({"datetime", "decimal", "fractions", "pathlib"})
#: What ``torch.nn.Module`` keeps for itself: its parts are walked by name, the rest is machinery.
_MODULE_PARTS = frozenset(vars(torch.nn.Module())) - {"training"} | {"_compiled_call_impl"}

#: What a module of TorchScript has beside them.
_SCRIPT_PARTS = frozenset({"_actual_script_module", "_initializing", "_c", "forward"})


def qualified(kind: type) -> str:
    """``torch.Tensor`` for a class; builtins without their module."""
    module = getattr(kind, "__module__", "")
    name = getattr(kind, "__qualname__", str(kind))
    return name if module in ("builtins", "") else f"{module}.{name}"


class Project:
    """Decides which files are the user's own: under the root, in no installed package.

    Those of ``include`` (folders and files) may be patched as well.
    """

    def __init__(
        self, root: str, exclude: tuple[str, ...] = (), include: tuple[str, ...] = ()
    ) -> None:
        self.root = os.path.realpath(root)
        self._include = tuple(os.path.realpath(path) for path in include)
        self._exclude = tuple(os.path.realpath(os.path.join(root, path)) for path in exclude)
        self._outside = {os.path.realpath(p) for p in (sys.prefix, sys.base_prefix)} | {
            os.path.dirname(os.path.realpath(torch.__file__)),
            os.path.dirname(os.path.realpath(os.__file__)),
            os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
        }

    @functools.cache  # noqa: B019  (one project a process)
    def owns(self, path: str) -> bool:
        """Whether the file belongs to the project."""
        if not path or path.startswith("<"):
            return False
        real = os.path.realpath(path)
        if any(real == item or real.startswith(item + os.sep) for item in self._exclude):
            return False
        if any(real == item or real.startswith(item + os.sep) for item in self._include):
            return True
        if not real.startswith(self.root + os.sep):
            return False
        parts = real[len(self.root) :].split(os.sep)
        if "site-packages" in parts or "dist-packages" in parts:
            return False
        return not any(
            real.startswith(item + os.sep) and not self.root.startswith(item + os.sep)
            for item in self._outside
            if item != self.root
        )


class FactMaker:
    """Makes facts; tokens for identity and storage are stable within one maker."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._tokens: dict[object, int] = {}

    def fact(self, value: object, depth: int = 0) -> Fact:
        """The fact of a value; never raises, whatever half-built object it is given."""
        try:
            return self._fact(value, depth)
        except Exception:
            return Fact("object", qualified(type(value)))

    def _fact(self, value: object, depth: int) -> Fact:
        kind = type(value)
        name = qualified(kind)
        identity = self._token(("object", id(value)))
        if isinstance(value, torch.Tensor):
            return self._tensor(value, name, identity)
        if isinstance(value, _SCALARS) and kind in _SCALARS:
            label = "none" if value is None else kind.__name__
            keep = not isinstance(value, str | bytes) or len(value) <= 200
            return Fact(
                label, name, value=value if keep else None, constant=keep, identity=identity
            )
        if isinstance(value, list | tuple):
            label = "list" if isinstance(value, list) else "tuple"
            items = tuple(self.fact(item, depth + 1) for item in value[:_MAX_ITEMS])
            whole = items if depth < 3 and len(value) <= _MAX_ITEMS else None
            return Fact(label, name, items=whole, identity=identity)
        if isinstance(value, dict):
            held = items_of(value)
            keys = tuple(str(key)[:80] for key, _ in held[:32])
            items = tuple(self.fact(item, depth + 1) for _, item in held[:_MAX_ITEMS])
            whole = items if depth < 2 and len(held) <= _MAX_ITEMS else None
            kinds = {(type(key), type(item)) for key, item in held[:_MOST_PLAIN]}
            only = kinds.pop() if len(kinds) == 1 and len(held) <= _MOST_PLAIN else None
            holds = ""
            if only is not None and {*only} <= {*_PLAIN_TYPES}:
                holds = ": ".join(kind.__name__ for kind in only)
            return Fact("dict", name, keys=keys, items=whole, holds=holds, identity=identity)
        if isinstance(value, set | frozenset):
            return Fact("set", name, identity=identity)
        if isinstance(value, torch.nn.Module):
            return Fact(
                "module",
                name,
                value="training" if value.training else "eval",
                qualname=name,
                in_project=self._owns(kind),
                identity=identity,
            )
        if isinstance(value, np.ndarray):
            shape = tuple(value.shape)
            return Fact("ndarray", name, shape=shape, dtype=str(value.dtype), identity=identity)
        if isinstance(value, types.ModuleType):
            return Fact("pymodule", name, qualname=value.__name__, identity=identity)
        if isinstance(value, type):
            qualname = qualified(value)
            return Fact("class", name, qualname=qualname, in_project=self._owns(value))
        if callable(value) and hasattr(value, "__name__"):
            return self._function(value, name, identity)
        if isinstance(value, collections.abc.Iterator):
            return Fact("iterator", name, identity=identity)
        return Fact("object", name, in_project=self._owns(kind), identity=identity)

    def _tensor(self, value: torch.Tensor, name: str, identity: int) -> Fact:
        if is_uninitialized(value):
            return Fact("tensor", name, dtype=str(value.dtype), identity=identity)
        strides: tuple[int, ...] | None = None
        storage = 0
        if is_plain(value):
            strides = tuple(value.stride())
            try:
                storage = self._token(("storage", value.untyped_storage()._cdata))
            except (RuntimeError, NotImplementedError):
                storage = 0
        constant: Any = None
        if is_plain(value) and value.numel() == 1 and not value.is_meta:
            constant = value.detach().reshape(()).tolist()
        return Fact(
            "tensor",
            name,
            shape=tuple(value.shape) if not value.is_nested else None,
            dtype=str(value.dtype),
            device=str(value.device),
            strides=strides,
            requires_grad=value.requires_grad,
            is_leaf=value.is_leaf,
            value=constant,
            identity=identity,
            storage=storage,
        )

    def _function(self, value: Any, name: str, identity: int) -> Fact:
        module = getattr(value, "__module__", None) or ""
        if not module:
            owner = getattr(value, "__self__", None)
            if isinstance(owner, types.ModuleType):
                module = owner.__name__
            elif owner is not None:
                module = qualified(type(owner))
        qualname = getattr(value, "__qualname__", value.__name__)
        path = ""
        with contextlib.suppress(TypeError, ValueError, OSError):
            path = inspect.getfile(inspect.unwrap(value))
        return Fact(
            "function",
            name,
            qualname=f"{module}.{qualname}" if module else qualname,
            in_project=self._project.owns(path),
            identity=identity,
        )

    def _owns(self, kind: type) -> bool:
        module = sys.modules.get(kind.__module__)
        return self._project.owns(getattr(module, "__file__", None) or "")

    def _token(self, key: object) -> int:
        return self._tokens.setdefault(key, len(self._tokens) + 1)


# -- walking -----------------------------------------------------------------------------------


#: Whose objects hold nothing of the program (triton's kernels: what was compiled, and timed).
_CLOSED = frozenset({"torch", "builtins", "numpy", "threading", "logging", "io", "triton"})


def tensors_in(
    root: object, name: str = "", *, modules: bool = True, repeated: bool = False
) -> Iterator[tuple[str, Any]]:
    """Every tensor reachable from a value, with a stable path; each tensor once.

    Where they may be ``repeated``, one that stands in several places comes with the path of each.

    Walks lists, tuples, dicts, dataclasses, ``nn.Module`` (parameters, buffers and attributes)
    and plain objects' ``__dict__``; nothing is called.
    """
    seen: set[int] = set()
    queue: collections.deque[tuple[str, object, int]] = collections.deque([(name, root, 0)])
    while queue and len(seen) < _MAX_OBJECTS:
        path, value, depth = queue.popleft()
        if isinstance(value, _SCALARS) or id(value) in seen or depth > _MAX_DEPTH + 4:
            continue
        if not (repeated and isinstance(value, torch.Tensor)):
            seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield path, value
            continue
        for key, child in children(value, modules=modules):
            queue.append((f"{path}.{key}" if path else key, child, depth + 1))


def items_of(value: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """What a mapping holds, without a call of a method that a kind of dictionary overrides.

    That may load what is asked for (the tables of all models of a library).
    """
    if isinstance(value, collections.OrderedDict):
        return list(collections.OrderedDict.items(value))
    return list(dict.items(value) if isinstance(value, dict) else value.items())


def children(value: object, *, modules: bool = True) -> Iterator[tuple[str, object]]:
    """The named parts of a container, module or plain object."""
    if isinstance(value, Mapping):
        for place, (key, item) in enumerate(items_of(value)):
            # An identity is another number in each process, and the object is the same.
            own = type(key) is int and key == id(item)  # a tensor would compare its elements
            yield f"#{place}" if own else _key_name(key, place), item
    elif isinstance(value, list | tuple | collections.deque):
        for index, item in enumerate(filter(_is_programs, list(value))):
            yield str(index), item
    elif isinstance(value, torch.nn.Module):
        if modules:
            yield from _parts_of_module(value)
    elif not isinstance(value, _NAMED) and not _is_closed(value):
        yield from _attributes(value)


def _key_name(key: object, place: int) -> str:
    """What an entry is called; what a tensor or an object says of itself is no name."""
    if isinstance(key, str):
        return key
    parts = key if isinstance(key, tuple) else (key,)
    plain = all(isinstance(part, (*_SCALARS, enum.Enum)) for part in parts)
    return repr(key) if plain else f"#{place}"


#: Objects that a program reaches by their names; what they hold is the module's.
_NAMED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def _parts_of_module(value: torch.nn.Module) -> Iterator[tuple[str, object]]:
    state = vars(value)
    if isinstance(value, torch.jit.ScriptModule):
        own = {key: item for key, item in state.items() if key not in _SCRIPT_PARTS}
        state = {**own, **_held_by_script(value)}
    for group in ("_parameters", "_buffers", "_modules"):
        yield from list(state.get(group, {}).items())
    for key, item in list(state.items()):
        if key not in _MODULE_PARTS and not key.startswith(("_gbfix", "_torchdynamo")):
            yield key, item


def _held_by_script(value: torch.jit.ScriptModule) -> dict[str, Any]:
    """What TorchScript holds for a module, under the names that a plain module has for it."""
    inner = vars(value).get("_actual_script_module", value)
    held: dict[str, Any] = {}
    for group in ("_parameters", "_buffers", "_modules"):
        held[group] = dict(vars(inner).get(group, {}).items())
    kind = vars(inner).get("_concrete_type")
    names = {*kind.get_attributes(), *kind.get_constants()} if kind is not None else set()
    for group in list(held.values()):
        names.difference_update(group)
    held.update((name, getattr(inner, name, None)) for name in sorted(names - _MODULE_PARTS))
    return held


def _is_closed(value: object) -> bool:
    """Whether the object is of a library into whose objects nobody looks."""
    if (type(value).__module__ or "").split(".")[0] not in _CLOSED:
        return False
    return not (isinstance(value, logging.LogRecord) or dataclasses.is_dataclass(value))


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """What stands in an object's ``__dict__`` and in its slots."""
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        hidden = _OF_THE_MACHINE if isinstance(value, logging.LogRecord) else frozenset()
        yield from (item for item in list(attributes.items()) if item[0] not in hidden)
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            slot = vars(kind).get(name)
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):
                    yield name, slot.__get__(value)


#: Where and when a log record was made; its words, level and arguments are the program's.
_OF_THE_MACHINE = frozenset(
    {
        *("created", "msecs", "relativeCreated", "thread", "threadName", "process", "processName"),
        *("pathname", "filename", "module", "lineno", "funcName", "stack_info", "taskName"),
    }
)


def _is_programs(value: object) -> bool:
    """Whether a part is the program's, and no warning that torch's C++ gives once in a process."""
    if not isinstance(value, warnings.WarningMessage):
        return True
    return "(Triggered internally at" not in str(value.message)


def leaf(value: object) -> object:
    """What an object without readable parts holds (a random stream, a text buffer, a lock's state).

    None where nothing can be said.  Equal states give equal answers in every process.
    """
    data: object = None
    if isinstance(value, random.Random):
        data = repr(value.getstate())
    elif isinstance(value, np.random.Generator):
        data = repr(value.bit_generator.state)
    elif isinstance(value, np.random.RandomState):
        data = repr(value.get_state(legacy=True))
    elif isinstance(value, torch.Generator):
        data = value.get_state().numpy().tobytes() if value.device.type == "cpu" else None
    elif isinstance(value, io.StringIO | io.BytesIO):
        return None if value.closed else value.getvalue()
    elif isinstance(value, bytearray | array.array):
        data = bytes(value)
    elif is_counted(value):
        return f"left: {operator.length_hint(value)}"
    elif isinstance(value, types.GeneratorType):
        return _reached(value)
    elif isinstance(value, _SHOWN) or type(value).__module__ in _SHOWN_MODULES:
        return repr(value)
    elif isinstance(value, _WAITED_FOR):
        return _waiting(value)
    elif isinstance(value, warnings.WarningMessage):
        # What was caught is compared by its words: a line, a time or a thread is the machine's.
        return f"{value.category.__name__}: {value.message}"
    if data is None:
        return None
    raw = data if isinstance(data, bytes) else str(data).encode()
    return hashlib.sha256(raw).hexdigest()[:16]


#: Iterators that know how much is left of them.
_COUNTED_ITERATORS = frozenset(
    {
        *("list_iterator", "list_reverseiterator", "tuple_iterator", "range_iterator"),
        *("dict_keyiterator", "dict_valueiterator", "dict_itemiterator", "set_iterator"),
    }
)


def is_counted(value: object) -> bool:
    """Whether it is an iterator that knows how much is left of it."""
    return type(value).__name__ in _COUNTED_ITERATORS and type(value).__module__ == "builtins"


def _reached(value: types.GeneratorType[Any, Any, Any]) -> str:
    """How far a generator has come: its place, and the plain values of its names."""
    frame = value.gi_frame
    if frame is None:
        return "ended"
    held = {name: item for name, item in frame.f_locals.items() if type(item) in _SCALARS}
    return f"at {frame.f_lasti}: {sorted(held.items())!r}"


_WAITED_FOR = (
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Event,
    threading.Semaphore,
)


def _waiting(value: object) -> str:
    """Whether (and how often) a lock is held; whether an event is set."""
    if isinstance(value, threading.Event):
        return f"set: {value.is_set()}"
    if isinstance(value, threading.Semaphore):
        return f"left: {value._value}"
    if isinstance(value, threading.Condition):
        return _waiting(value._lock)  # type: ignore[attr-defined]
    shown = repr(value)  # "<locked _thread.RLock object owner=... count=1 at ...>"
    count = _COUNT.search(shown)
    return f"held: {count.group(1) if count else int(shown.startswith('<locked'))}"


def is_plain(value: torch.Tensor) -> bool:
    """Whether the tensor is dense memory with strides: neither sparse, nested nor quantized."""
    strided = value.layout is torch.strided and not value.is_nested and not value.is_quantized
    return strided and not is_uninitialized(value)


def is_uninitialized(value: torch.Tensor) -> bool:
    """Whether it is a lazy module's parameter or buffer that has no size yet."""
    return bool(torch.nn.parameter.is_lazy(value))


def version(value: torch.Tensor) -> int:
    """How often the tensor was written in place; -1 for inference tensors, which do not count."""
    return -1 if value.is_inference() else value._version


# -- images ------------------------------------------------------------------------------------


@dataclasses.dataclass
class TensorImage:
    """A detached copy of a tensor and what else a caller could see of it."""

    data: torch.Tensor
    shape: tuple[int, ...]
    dtype: str
    device: str
    strides: tuple[int, ...] | None
    requires_grad: bool
    kind: str
    #: Paths of inputs (or earlier outputs) whose memory this tensor shares, or that it *is*.
    same: str = ""
    shares: str = ""
    #: Plain values that the program keeps in attributes of the tensor.
    notes: tuple[tuple[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True)
class Whose:
    """Which earlier container or object a result *is* (empty: a new one)."""

    name: str


@dataclasses.dataclass(frozen=True)
class FunctionImage:
    """A function of Python's that a call gives back: its name, its text, and what it holds."""

    name: str
    text: str
    held: list[Any]


#: What may be called later, with values of the call that made it.
_HOLDING = (types.FunctionType, types.MethodType, functools.partial)


@functools.cache
def _functions_of(path: str) -> dict[int, list[str]]:
    """The functions of a file by their first lines, without places and comments."""
    found: dict[int, list[str]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            line = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
            found.setdefault(line, []).append(ast.dump(node))
    return found


class Imager:
    """Makes images of values.

    ``known`` names earlier tensors, so that results that are or share them are told apart;
    ``objects`` names containers and objects by id, to the same end (None: not asked for, as the
    values are none that a call gives back).
    """

    def __init__(
        self,
        known: Mapping[str, torch.Tensor] | None = None,
        objects: Mapping[int, str] | None = None,
    ) -> None:
        self._objects = None if objects is None else dict(objects)
        self._ids: dict[int, str] = {}
        self._storages: dict[int, str] = {}
        self._keep: list[object] = []
        for name, value in (known or {}).items():
            self.know(name, value)

    def know(self, name: str, value: torch.Tensor) -> None:
        self._keep.append(value)
        self._ids.setdefault(id(value), name)
        token = storage_token(value)
        if token:
            self._storages.setdefault(token, name)

    def image(self, value: object, path: str = "", depth: int = 0, skip: int = 0) -> Any:
        """The image; ``skip`` is the id of an object to leave out (against cycles)."""
        if isinstance(value, torch.Tensor):
            image = self._tensor(value)
            self.know(path, value)
            return image
        if isinstance(value, _SCALARS) and type(value) in _SCALARS:
            return value
        if depth > _MAX_DEPTH:
            return ("deep", qualified(type(value)))
        if isinstance(value, np.ndarray):
            return ("ndarray", str(value.dtype), value.copy() if value.dtype != object else None)
        if isinstance(value, np.generic):
            return ("npscalar", str(value.dtype), value.item())
        whose = self._whose(value, path)
        if isinstance(value, Mapping):
            return (
                "dict",
                qualified(type(value)),
                whose,
                [
                    (
                        self.image(key, depth=depth + 1),
                        self.image(item, f"{path}.{_key_name(key, place)}", depth + 1),
                    )
                    for place, (key, item) in enumerate(items_of(value))
                ],
            )
        if isinstance(value, list | tuple | collections.deque):
            items = [self.image(v, f"{path}.{i}", depth + 1) for i, v in enumerate(list(value))]
            return ("list", qualified(type(value)), whose, items)
        if isinstance(value, set | frozenset):
            return ("set", qualified(type(value)), sorted(map(repr, value)))
        if isinstance(value, torch.nn.Module):
            return ("module", qualified(type(value)))
        if isinstance(value, type | types.ModuleType):
            return ("name", getattr(value, "__qualname__", value.__name__))
        if isinstance(value, _HOLDING) or (callable(value) and hasattr(value, "__name__")):
            return self._function(value, path, depth + 1)
        if isinstance(value, torch.dtype | torch.device | torch.Size):
            return ("torch", str(value))
        said = leaf(value)
        if said is not None and (is_counted(value) or isinstance(value, types.GeneratorType)):
            # An object still: a patch that passes the list itself is told by that.
            return ("object", qualified(type(value)), whose, [("left", said)])
        if said is not None:
            return ("leaf", qualified(type(value)), said)
        parts = [
            (key, self.image(item, f"{path}.{key}", depth + 1))
            for key, item in children(value)
            if id(item) != skip
        ]
        return ("object", qualified(type(value)), whose, parts)

    def _function(self, value: Any, path: str, depth: int) -> Any:
        """The image of what can be called; of what a call gives back, with all that it holds."""
        if self._objects is None or not isinstance(value, _HOLDING):
            return ("function", getattr(value, "__name__", ""))
        if isinstance(value, functools.partial):
            given = (value.func, value.args, value.keywords)
            return ("partial", self.image(given, path, depth))
        if isinstance(value, types.MethodType):
            return ("method", self.image((value.__func__, value.__self__), path, depth))
        held: list[object] = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # a name that is bound later
                held.append(cell.cell_contents)
        parts = enumerate(item for item in held if item is not value)
        code = value.__code__
        texts = _functions_of(code.co_filename).get(code.co_firstlineno, [])
        images = [self.image(item, f"{path}.{place}", depth) for place, item in parts]
        return FunctionImage(value.__name__, "\n".join(texts), images)

    def _whose(self, value: object, path: str) -> Whose | None:
        if self._objects is None or isinstance(value, tuple | frozenset):
            return None
        self._keep.append(value)
        known = self._objects.get(id(value), "")
        self._objects.setdefault(id(value), path)
        return Whose(known)

    def _tensor(self, value: torch.Tensor) -> TensorImage | tuple[Any, ...]:
        kind = qualified(type(value))
        if is_uninitialized(value):
            return ("uninitialized tensor", kind, str(value.dtype), value.requires_grad)
        if value.is_nested:
            rows = [self._tensor(row) for row in value.detach().unbind()]
            return ("nested tensor", kind, str(value.layout), value.requires_grad, rows)
        if is_traceable_wrapper_subclass(value):
            return self._wrapper(value, kind)
        if not is_plain(value):
            try:
                dense = value.detach().dequantize() if value.is_quantized else value.to_dense()
                dense = dense.detach().clone()
            except (RuntimeError, NotImplementedError):
                return ("opaque tensor", str(value.layout), str(tuple(value.shape)))
            kind = f"{kind} ({value.layout})"
            strides = None
        else:
            # Kept in main memory: a process may look at it that has no accelerator in use.
            away = value.device.type not in ("cpu", "meta")
            dense = value.detach().cpu() if away else value.detach().clone()
            strides = tuple(value.stride())
        if type(dense) is not torch.Tensor:
            try:
                dense = dense.as_subclass(torch.Tensor)
            except (RuntimeError, TypeError):
                return ("opaque tensor", qualified(type(value)), str(tuple(value.shape)))
        token = storage_token(value)
        return TensorImage(
            dense,
            tuple(value.shape),
            str(value.dtype),
            str(value.device),
            strides,
            value.requires_grad,
            kind,
            self._ids.get(id(value), ""),
            self._storages.get(token, "") if token else "",
            _notes(value),
        )

    def _wrapper(self, value: Any, kind: str) -> tuple[Any, ...]:
        """A tensor that is made of others (a shard of a parameter): by what it is made of."""
        names, context = value.__tensor_flatten__()
        said = repr(context)
        return (
            "wrapper tensor",
            kind,
            str(tuple(value.shape)),
            str(value.dtype),
            value.requires_grad,
            self._ids.get(id(value), ""),
            "" if " at 0x" in said else said,
            [
                (name, self._tensor(part))
                for name in names
                if isinstance(part := getattr(value, name), torch.Tensor)  # else a mesh of devices
            ],
        )


def _notes(value: torch.Tensor) -> tuple[tuple[str, Any], ...]:
    held = getattr(value, "__dict__", None) or {}
    return tuple(
        (name, item)
        for name, item in sorted(held.items())
        if type(item) in _SCALARS and not name.startswith(("_gbfix", "_torch", "_dynamo"))
    )


def storage_token(value: torch.Tensor) -> int:
    """A number that two tensors share when they share memory; 0 where that cannot be known."""
    try:
        if is_uninitialized(value) or value.numel() == 0:
            return 0
        return int(value.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):
        return 0


def objects_in(roots: Mapping[str, object]) -> dict[int, str]:
    """Names of the mutable containers and plain objects that hang from the roots, by id."""
    result: dict[int, str] = {}
    queue = collections.deque((name, value, 0) for name, value in roots.items())
    while queue and len(result) < _MAX_OBJECTS:
        path, value, depth = queue.popleft()
        if isinstance(value, (*_SCALARS, torch.Tensor)) or id(value) in result:
            continue
        if depth > _MAX_DEPTH:
            continue
        result[id(value)] = path
        for key, child in children(value):
            queue.append((f"{path}.{key}", child, depth + 1))
    return result


def state_image(roots: Mapping[str, object]) -> dict[str, Any]:
    """Python values (no tensors) that hang from the roots: counters, lists, flags, caches."""
    result: dict[str, Any] = {}
    seen: set[int] = set()
    queue = collections.deque((name, value, 0) for name, value in roots.items())
    while queue and len(seen) < _MAX_OBJECTS:
        path, value, depth = queue.popleft()
        if isinstance(value, np.generic):
            result[path] = ("npscalar", str(value.dtype), value.item())
            continue
        if isinstance(value, _SCALARS):
            # A subclass of the user's (an IntEnum) could not be read by another process.
            result[path] = value if type(value) in _SCALARS else repr(value)
            continue
        if isinstance(value, torch.Tensor) or id(value) in seen or depth > _MAX_DEPTH:
            continue
        seen.add(id(value))
        said = leaf(value)
        if said is not None:
            result[path] = said
            continue
        if isinstance(value, list | tuple | dict | set | frozenset | collections.deque):
            # A dict's own way to iterate is the program's.
            listed = isinstance(value, list | tuple | collections.deque)
            count = sum(map(_is_programs, list(value))) if listed else len(value)
            result[f"len({path})"] = count
            if isinstance(value, set | frozenset):
                result[path] = sorted(map(repr, value))
        if isinstance(value, np.ndarray):
            if value.dtype != object:
                result[path] = ("ndarray", str(value.dtype), _summary(value))
                continue
            value = value.ravel().tolist()
        for key, child in children(value):
            queue.append((f"{path}.{key}", child, depth + 1))
    return result


def _summary(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array; of a large one, the sums of its pieces and the values between them."""
    if value.size <= _LARGE:
        return value.copy()
    if value.dtype.kind not in "biuf":
        return np.frombuffer(hashlib.sha256(value.tobytes()).digest(), np.uint8)
    flat = value.ravel()
    places = np.linspace(0, flat.size, _LARGE // 2, endpoint=False).astype(np.int64)
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(flat, places, dtype=np.float64)
    return np.concatenate([sums, flat[places].astype(np.float64)])


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> frozenset[str]:
    """Names in ``after`` that are new there or have another value."""
    return frozenset(
        name for name, value in after.items() if name not in before or _differs(before[name], value)
    )


def is_same_state(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two images of state tell the same, arrays and NaN included."""
    return before.keys() == after.keys() and not changed(before, after)


def _differs(old: Any, new: Any) -> bool:
    if isinstance(old, tuple) and isinstance(new, tuple) and old[:1] == new[:1] == ("ndarray",):
        return bool(old[1] != new[1] or not np.array_equal(old[2], new[2], equal_nan=False))
    # By text: NaN equals itself then, and True is not 1.
    return old is not new and repr(old) != repr(new)

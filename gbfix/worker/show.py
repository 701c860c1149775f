"""Shows what a change does to one call: both versions on the same inputs, side by side.

    python show.py          # exit status 1: they differ, 0: they do not

Beside this file, which needs nothing but torch and the program's own packages:
`counterexample.json` says what is run, `input.pt` holds the inputs, `old/` and `new/` the texts.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import json
import logging
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
#: Stands in `input.pt` for a value that only the program itself can make.
KEEP = ("__the program's own__",)
#: Audit events that change the world outside the process (see the table in Python's manual).
EVENTS = frozenset({
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.kill", "os.link", "os.mkdir", "os.putenv",
    "os.remove", "os.rename", "os.rmdir", "os.spawn", "os.symlink", "os.system", "os.truncate",
    "os.unsetenv", "os.utime", "shutil.copyfile", "shutil.move", "shutil.rmtree", "socket.connect",
    "socket.sendto", "sqlite3.connect", "subprocess.Popen", "urllib.Request", "webbrowser.open",
})  # fmt: skip
#: What is done below one of these is the compiler's, whoever called it.
COMPILER = (
    f"{os.sep}torch{os.sep}_dynamo{os.sep}",
    f"{os.sep}torch{os.sep}_inductor{os.sep}",
    f"{os.sep}torch{os.sep}_functorch{os.sep}",
    f"{os.sep}torch{os.sep}fx{os.sep}",
)


def main() -> int:
    about = json.loads((HERE / "counterexample.json").read_text(encoding="utf-8"))
    if len(sys.argv) > 1:
        return _side(about, sys.argv[1], sys.argv[2])
    print(f"{about['what']}: {about['text']}\n")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for side in ("old", "new"):
            out = os.path.join(folder, side)
            words = [sys.executable, os.path.abspath(__file__), side, out]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if os.path.exists(out):
                import torch

                results[side] = torch.load(out, weights_only=False)
            else:
                shown = (done.stdout + done.stderr).strip().splitlines()
                end = shown[-1] if shown and done.returncode else ""
                results[side] = {"the program prints": done.stdout, "the program ends with": end}
    same = True
    for name in dict.fromkeys([*results["old"], *results["new"]]):
        old, new = (results[side].get(name, "nothing") for side in ("old", "new"))
        if not _equal(old, new):
            same = False
            print(f"{name}\n  old: {_short(old)}\n  new: {_short(new)}")
    print("\nThe two agree here." if same else "\nThe two differ.")
    return 0 if same else 1


def _equal(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        try:
            torch.testing.assert_close(other, one, equal_nan=True)
        except AssertionError:
            return False
        if one.is_floating_point() and one.numel():
            # Small numbers are all close: they are compared with the largest of them as well.
            finite = torch.isfinite(one) & torch.isfinite(other)
            a, b = one[finite].double(), other[finite].double()
            if a.numel() and (a - b).abs().max() > 0.03 * torch.maximum(a.abs(), b.abs()).max():
                return False
        return one.requires_grad == other.requires_grad
    return type(one) is type(other) and repr(one) == repr(other)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    kind = f" {tuple(value.shape)} {value.dtype}" if hasattr(value, "dtype") else ""
    return (text if len(text) < 300 else text[:300] + " ...") + kind


# -- one version ---------------------------------------------------------------------------------


def _side(about: dict[str, Any], side: str, out: str) -> int:
    os.chdir(about["cwd"])
    sys.dont_write_bytecode = True
    import torch

    _seed(about["start"])
    texts = {}
    for path, name in about[side].items():
        texts[path] = (HERE / side / name).read_bytes() if name else None
    region = about["regions"][side]
    watch = _Watch(about, side, out, torch.compile)

    def compile_as_is(model: Any = None, **options: Any) -> Any:
        return model if model is not None else lambda function: function

    torch.compile = compile_as_is
    torch.nn.Module.compile = lambda self, *args, **options: None  # type: ignore[method-assign]
    if region:
        builtins.__watch_call__ = watch.decorate  # type: ignore[attr-defined]
    served = _Texts(texts, region)
    sys.meta_path.insert(0, served)
    _run(about, served)
    return 0


def _run(about: dict[str, Any], served: _Texts) -> None:
    kind, value = about["kind"], about["target"]
    if kind == "callable":
        path, _, qualname = value.partition("::")
        full = os.path.abspath(path)
        sys.path.insert(0, os.path.dirname(full))
        module = types.ModuleType(os.path.splitext(os.path.basename(full))[0])
        module.__file__ = full
        sys.modules[module.__name__] = module
        exec(served.code(full), vars(module))
        item: Any = module
        for part in qualname.split("."):
            item = getattr(item, part)
        import torch

        given = eval(about["inputs"], {"torch": torch, **vars(module)})
        parts = given if isinstance(given, dict) else {"args": given}
        args = parts.get("args", ())
        args = args if isinstance(args, tuple) else (args,)
        if isinstance(item, type):
            item = item(*parts.get("init", ()))
        for _ in range(about["index"] + 1):
            item(*args, **parts.get("kwargs", {}))
        return
    main = types.ModuleType("__main__")
    if kind == "module":
        sys.path.insert(0, os.getcwd())
        spec = importlib.util.find_spec(value)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(value + ".__main__")
        assert spec is not None and spec.origin is not None
        full, main.__package__, main.__spec__ = spec.origin, spec.parent or "", spec
        sys.argv = [full, *about["args"]]
    else:
        full = os.path.abspath(value)
        sys.path.insert(0, os.path.dirname(full))
        sys.argv = [value, *about["args"]]
    main.__file__ = full
    sys.modules["__main__"] = main
    exec(served.code(full), vars(main))


class _Texts(importlib.abc.MetaPathFinder):
    """Serves the texts of one version in place of what is on disk."""

    def __init__(self, texts: dict[str, bytes | None], region: dict[str, Any] | None) -> None:
        self._texts = texts
        self._region = region

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        last = name.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            base = os.path.join(os.path.realpath(folder or os.getcwd()), last)
            for file, inside in ((os.path.join(base, "__init__.py"), [base]), (base + ".py", None)):
                known = self._texts.get(file) is not None
                if known or (self._region and self._region["path"] == file):
                    return importlib.util.spec_from_file_location(
                        name, file, loader=_Loader(name, file, self),
                        submodule_search_locations=inside,
                    )  # fmt: skip
                if file not in self._texts and os.path.exists(file):
                    return None
        return None

    def code(self, path: str) -> types.CodeType:
        real = os.path.realpath(path)
        data = self._texts.get(real)
        data = Path(path).read_bytes() if data is None else data
        tree = ast.parse(data, path)
        if self._region and real == self._region["path"]:
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = [node.lineno, *(item.lineno for item in node.decorator_list)]
                    if self._region["line"] in lines:
                        hook = ast.Name("__watch_call__", ast.Load())
                        node.decorator_list.append(ast.copy_location(hook, node))
                        break
        return compile(tree, path, "exec", dont_inherit=True)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, texts: _Texts) -> None:
        super().__init__(name, path)
        self._texts = texts

    def get_code(self, fullname: str) -> types.CodeType:
        return self._texts.code(self.path)


class _Watch:
    """Waits for the call, gives it the saved inputs, and keeps what came of it."""

    def __init__(self, about: dict[str, Any], side: str, out: str, real_compile: Any) -> None:
        self._about = about
        self._side = side
        self._out = out
        self._compile = real_compile
        self._calls = 0
        self._inside = False

    def decorate(self, function: Any) -> Any:
        import functools

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            owner = self._about["regions"][self._side]["class"]
            other = owner and (not args or type(args[0]).__qualname__ != owner)
            if self._inside or other:
                return function(*args, **kwargs)
            self._calls += 1
            self._inside = True
            try:
                if self._calls > self._about["index"]:
                    self._try(function, args, kwargs)
                return function(*args, **kwargs)
            finally:
                self._inside = False

        return call

    def _try(self, function: Any, args: Any, kwargs: Any) -> None:
        import torch

        saved = torch.load(HERE / "input.pt", weights_only=False)
        owner = args[:1] if saved["module"] else ()
        own = args[len(owner) :]
        named = dict(kwargs)
        if len(own) != len(saved["args"]) or set(named) != set(saved["kwargs"]):
            with contextlib.suppress(TypeError, ValueError):
                bound = inspect.signature(function).bind(*args, **kwargs)
                own = list(bound.arguments.values())[len(owner) :]
        pairs = zip(saved["args"], [*own, *[None] * len(saved["args"])], strict=False)
        given = [_filled(value, mine) for value, mine in pairs]
        words = {name: _filled(v, named.get(name)) for name, v in saved["kwargs"].items()}
        state = _state(function, args)
        _vary(saved, state, owner)
        compiled = self._about["rung"] if self._side == "new" else "eager"
        run = owner[0] if owner else function  # a module by its call, which runs hooks, too
        if compiled != "eager":
            how, _, backend = compiled.partition("-")
            run = self._compile(run, backend=backend or how, fullgraph=how == "fullgraph")
        mode = torch.enable_grad() if saved["kind"] == "grad" else contextlib.nullcontext()
        if saved["kind"] in ("numbers", "instance"):
            # A compiler takes a number for a constant until it has seen a second one.
            with mode, contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
                run(*args[len(owner) :], **kwargs)
        if saved["kind"] == "instance":
            _renumber([value for value in args if isinstance(value, torch.nn.Module)])
        for value in state.values():
            if isinstance(value, torch.Tensor) and value.is_leaf:
                value.grad = None
        _seed(saved["seed"])
        found: dict[str, Any] = {}
        printed = io.StringIO()
        result = None
        with mode, contextlib.redirect_stdout(printed), _seen(found):
            try:
                result = run(*given, **words)
            except (Exception, SystemExit) as error:
                found["raises"] = f"{type(error).__name__}: {error}"
            found.update(_surroundings())
        _flatten("output", result, found)
        _flatten("input afterwards", [*given, *words.values()], found)
        for name, value in _state(function, args).items():
            _flatten(f"{name} afterwards", value, found)
            if isinstance(value, torch.Tensor) and value.is_leaf and value.grad is not None:
                _flatten(f"{name}.grad afterwards", value.grad, found)
        found["prints"] = printed.getvalue()
        with contextlib.redirect_stdout(printed := io.StringIO()):
            self._gradients(result, [*given, *words.values()], state, found)
        found["prints in the backward pass"] = printed.getvalue()
        torch.save(found, self._out)
        sys.stdout.flush()
        os._exit(0)

    def _gradients(self, result: Any, given: Any, state: dict[str, Any], found: Any) -> None:
        import torch

        flat: dict[str, Any] = {}
        _flatten("", result, flat, detach=False)
        outputs = [v for v in flat.values() if isinstance(v, torch.Tensor) and v.requires_grad]
        if not outputs:
            return
        generator = torch.Generator().manual_seed(7)
        seeds = [torch.randn(v.shape, generator=generator).to(v.device, v.dtype) for v in outputs]
        leaves: dict[str, Any] = {}
        _flatten("input", given, leaves, detach=False)
        leaves.update(state)
        wanted = {
            name: value for name, value in leaves.items()
            if isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf
        }  # fmt: skip
        for value in wanted.values():
            value.grad = None
        try:
            torch.autograd.backward(outputs, seeds)
        except Exception as error:
            found["backward raises"] = f"{type(error).__name__}: {error}"
        for name, value in wanted.items():
            found[f"gradient of {name}"] = None if value.grad is None else value.grad.clone()


def _seed(seed: int) -> None:
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(seed % 2**32)


def _surroundings() -> dict[str, Any]:
    """What a call may leave changed around it: random streams and settings of the process."""
    import torch

    found = {
        "torch random stream afterwards": torch.get_rng_state(),
        "random stream afterwards": _digest(random.getstate()),
        "grad mode afterwards": torch.is_grad_enabled(),
        "inference mode afterwards": torch.is_inference_mode_enabled(),
        "default dtype afterwards": str(torch.get_default_dtype()),
        "autocast afterwards": torch.is_autocast_enabled("cpu"),
        "deterministic algorithms afterwards": torch.are_deterministic_algorithms_enabled(),
        "working folder afterwards": os.getcwd(),
    }
    if "numpy" in sys.modules:
        import numpy

        found["numpy random stream afterwards"] = _digest(numpy.random.get_state())
    return found


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _seen(found: dict[str, Any]) -> Iterator[None]:
    """Keeps log records, warnings and what is done outside of the process while it lasts."""
    logs: list[tuple[str, str, str]] = []
    warned: list[tuple[str, str]] = []
    events: list[tuple[str, str]] = []
    active = True

    def audit(event: str, args: tuple[Any, ...]) -> None:
        # A file by its number has been opened before, by its name.
        opened = event == "open" and isinstance(args[0], str) and isinstance(args[1], str)
        writes = opened and set(args[1]) & set("wax+")
        if not active or not (writes or event in EVENTS) or by_compiler(sys._getframe(1)):
            return
        what = args[1] if event == "subprocess.Popen" else args[0] if args else ""
        if "__pycache__" not in str(what):
            events.append((event, " ".join(map(str, what)) if type(what) is list else str(what)))

    handle = logging.Logger.handle

    def keep_record(logger: logging.Logger, record: logging.LogRecord) -> None:
        if not by_compiler(sys._getframe(1)):
            logs.append((record.name, record.levelname, record.getMessage()))
        handle(logger, record)

    def keep_warning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not by_compiler(sys._getframe(1)):
            warned.append((category.__name__, str(message)))

    shown = warnings.showwarning
    logging.Logger.handle = keep_record  # type: ignore[method-assign, assignment]
    warnings.showwarning = keep_warning
    sys.addaudithook(audit)  # an audit hook cannot be taken away: it sleeps afterwards
    try:
        yield
    finally:
        active = False
        logging.Logger.handle = handle  # type: ignore[method-assign]
        warnings.showwarning = shown
    found.update({"logs": logs, "warnings": warned, "does outside of the process": events})


def by_compiler(
    frame: types.FrameType | None, never: tuple[str, ...] = COMPILER, around: str = __file__
) -> bool:
    """Whether the compiler, not the program, is what runs just now (innermost frame that tells).

    Compilation happens inside the user's call: its log files and caches are not the program's.
    What is done below ``never`` is not the program's; ``around`` calls the program, and tells not.
    """
    while frame is not None:
        name = frame.f_code.co_filename
        if any(part in name for part in never):
            return True
        if f"{os.sep}torch{os.sep}" in name or name.startswith("<frozen"):
            pass  # torch calls the program in many ways
        elif "site-packages" in name or "dist-packages" in name:
            pass  # a library acts for whoever called it: the compiler locks its files with one
        elif around not in name and not is_stdlib(name):
            return False
        frame = frame.f_back
    return False


_STDLIB = os.path.realpath(sysconfig.get_path("stdlib"))


def is_stdlib(name: str) -> bool:
    """Whether a file is one of Python's own library."""
    return name.startswith(_STDLIB) and "site-packages" not in name


def _renumber(modules: list[Any]) -> None:
    """Give the floats that the project's own modules hold other values, as another instance has."""
    for module in modules:
        for part in module.modules():
            if type(part).__module__.partition(".")[0] == "torch":
                continue
            held = vars(part)
            for name, value in list(held.items()):
                if type(value) is float:
                    held[name] = value * 1.5 + 0.25


def _filled(value: Any, own: Any) -> Any:
    if value == KEEP if isinstance(value, tuple) and len(value) == 1 else False:
        return own
    if isinstance(value, list | tuple) and isinstance(own, list | tuple):
        return type(value)(_filled(a, b) for a, b in zip(value, own, strict=False))
    if isinstance(value, dict) and isinstance(own, dict):
        return {name: _filled(item, own.get(name)) for name, item in value.items()}
    return value


def _vary(saved: dict[str, Any], state: dict[str, Any], owner: Any) -> None:
    """What the variation does to state, where it is one of state."""
    import torch

    if saved["kind"] == "state":
        factor = -1.0 if saved["label"] == "state-negated" else 300.0
        for value in {id(v): v for v in state.values() if isinstance(v, torch.Tensor)}.values():
            if value.is_floating_point():
                value.data.mul_(factor)
    if saved["kind"] == "mode":
        for module in owner:
            for part in module.modules():
                part.training = not part.training


def _state(function: Any, args: Any) -> dict[str, Any]:
    """Tensors and plain values that the call can reach without a search: its module's, globals."""
    import torch

    found: dict[str, Any] = {}
    for value in args[:1]:
        if isinstance(value, torch.nn.Module):
            found.update({f"self.{n}": v for n, v in value.state_dict(keep_vars=True).items()})
        for name, item in getattr(value, "__dict__", {}).items():
            if not name.startswith("_") and isinstance(item, _PLAIN):
                found[f"self.{name}"] = item
            found.update(_stream(f"self.{name}", item))
    for name, item in getattr(function, "__globals__", {}).items():
        if not name.startswith("__") and isinstance(item, (*_PLAIN, torch.Tensor)):
            found[name] = item
        found.update(_stream(name, item))
        if isinstance(item, types.FunctionType) and item.__globals__ is function.__globals__:
            # A list among the defaults, or an attribute, keeps what earlier calls put there.
            defaults = [*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
            found[f"{name}'s defaults"] = [v for v in defaults if isinstance(v, _PLAIN)]
            found[f"{name}'s attributes"] = {
                key: v for key, v in vars(item).items() if isinstance(v, _PLAIN)
            }
        if isinstance(item, torch.nn.Module):
            found.update({f"{name}.{n}": v for n, v in item.state_dict(keep_vars=True).items()})
    return found


def _stream(name: str, item: Any) -> dict[str, Any]:
    """The state of a random stream or a lock of the program's own, below its name."""
    import torch

    if isinstance(item, torch.Generator):
        return {name: item.get_state()}
    if type(item) is random.Random:
        return {name: _digest(item.getstate())}
    if type(item).__module__ == "_thread" and hasattr(item, "acquire"):
        return {name: repr(item).split()[0]}  # whether it is held
    if type(item).__module__.startswith("numpy.random"):
        state = getattr(item, "bit_generator", item)
        return {name: _digest(getattr(state, "state", None) or item.get_state())}
    return {}


_MEMBERS = (str, bytes, bool, int, float)
_PLAIN = (bool, int, float, str, list, dict, tuple, set)


def _flatten(name: str, value: Any, found: dict[str, Any], *, detach: bool = True) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        kept = value.detach().clone().requires_grad_(value.requires_grad) if detach else value
        found[name] = kept
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _flatten(f"{name}[{index}]", item, found, detach=detach)
    elif isinstance(value, dict):
        for key, item in value.items():
            _flatten(f"{name}[{key!r}]", item, found, detach=detach)
    elif value is not None and hasattr(value, "__dict__") and not callable(value):
        _flatten(name, dict(vars(value)), found, detach=detach)
    elif isinstance(value, set | frozenset):
        # Members with an address in their text would differ from run to run.
        found[name] = sorted(repr(item) for item in value if isinstance(item, _MEMBERS))
    elif isinstance(value, str | bytes | int | float | bool | complex | type(None)):
        found[name] = value


if __name__ == "__main__":
    sys.exit(main())

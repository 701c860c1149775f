"""Serves patched source files at import, in place of the ones that are installed.

    import gbfix.overlay
    gbfix.overlay.install("overlay")

as the first lines of a script, or ``gbfix run --overlay overlay script.py``.  The folder is what
``gbfix --include PACKAGE --save DIR`` wrote (see `gbfix.overlays`).  Neither torch nor the engine
nor any dependency is loaded.  A file that is not the one which was patched is left as it is, with
one warning.  Installed files are never written.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys

from gbfix import GbfixError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, ModuleType, TracebackType
    from typing import Any
else:
    ModuleType = type(sys)  # without loading `types`

#: The manifest's name in an overlay's folder, and the version of its form.
MANIFEST = "gbfix-overlay.json"
FORMAT = 1


class OverlayError(GbfixError):
    """What is wrong with an overlay's folder, in one line with the next step."""


class File:
    """One patched file: the module that it is, and where its new text lies.

    ``package`` is empty for a file of the project (whose root is known relative to the folder).
    """

    def __init__(self, folder: str, entry: dict[str, Any], root: str) -> None:
        try:
            self.package: str = entry["package"]
            self.path: str = entry["path"]
            self.digest: str = entry["sha256"]
            self.patched_digest: str = entry["patched_sha256"]
            self.version: str = entry.get("version", "")
        except KeyError as missing:
            raise OverlayError(
                f"{os.path.join(folder, MANIFEST)}: an entry of `files` has no {missing}; "
                "save the overlay again"
            ) from None
        self.text = os.path.join(folder, "files", *self.path.split("/"))
        #: The file itself, as far as that is known before it is imported.
        self.place = "" if self.package else os.path.realpath(os.path.join(root, self.path))
        parts = self.path.removesuffix(".py").split("/")
        if parts[-1] == "__init__":
            parts.pop()
        self.module = ".".join(parts)

    def is_at(self, name: str, origin: str) -> bool:
        """Whether the module of this name, found there, is the one that was patched."""
        real = os.path.realpath(origin)
        if self.place:
            return real == self.place
        return name == self.module and real.replace(os.sep, "/").endswith("/" + self.path)

    def problem(self, origin: str) -> str:
        """Why the text cannot be served for the file there; empty where it can."""
        try:
            if _digest(origin) != self.digest:
                of = f" (of {self.package} {self.version})" if self.package else ""
                return f"is not the file that was patched{of}"
            if _digest(self.text) != self.patched_digest:
                return f"has a patched text that was changed by hand ({self.text})"
        except OSError as error:
            return f"cannot be read with its patched text ({error})"
        return ""


class Manifest:
    """What an overlay's folder says of itself."""

    def __init__(self, folder: str) -> None:
        import json

        self.folder = os.path.abspath(folder)
        path = os.path.join(self.folder, MANIFEST)
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        except FileNotFoundError:
            raise OverlayError(
                f"{folder}: is no overlay (it has no {MANIFEST}); "
                "name the folder that `gbfix --save` wrote"
            ) from None
        except (OSError, ValueError) as error:
            raise OverlayError(f"{path}: cannot be read: {error}; save the overlay again") from None
        if not isinstance(data, dict) or data.get("version") != FORMAT:
            raise OverlayError(
                f"{path}: is of another version of gbfix; save the overlay again with this one"
            )
        self.data: dict[str, Any] = data
        root = os.path.normpath(os.path.join(self.folder, data.get("root") or "."))
        self.files = [File(self.folder, entry, root) for entry in data.get("files", [])]


def install(folder: str | os.PathLike[str]) -> None:
    """Serve the overlay's texts to every import from now on, here and in spawned processes.

    Raises `OverlayError` where the folder is none.
    """
    manifest = Manifest(os.fspath(folder))
    for finder in sys.meta_path:
        if isinstance(finder, Finder) and finder.folder == manifest.folder:
            return
    finder = Finder(manifest)
    sys.meta_path.insert(0, finder)
    _mend_tracebacks()
    finder.warn_of_loaded()
    if "multiprocessing.spawn" in sys.modules:
        _tell_children(sys.modules["multiprocessing.spawn"])


class Finder:
    """Finds modules where Python would, and gives those of the overlay another text."""

    def __init__(self, manifest: Manifest) -> None:
        self.folder = manifest.folder
        self._named: dict[str, list[File]] = {}
        for file in manifest.files:
            self._named.setdefault(file.module.rpartition(".")[2], []).append(file)
        self._warned: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "multiprocessing.spawn":
            return self._noted(fullname, path, target)
        files = self._named.get(fullname.rpartition(".")[2])
        if files is None:
            return None
        spec = self._behind(fullname, path, target)
        if spec is None or not spec.origin:
            return spec
        file = self._for(fullname, spec.origin, files)
        if file is not None:
            spec.loader = Loader(spec.name, spec.origin, file)
            spec.cached = None
        return spec

    def code(self, path: str) -> CodeType | None:
        """The code of a script that the overlay holds, else None."""
        real = os.path.realpath(path)
        for file in self._all():
            if file.place == real and self._fits(path, file):
                return compiled(file, path)
        return None

    def warn_of_loaded(self) -> None:
        """Modules that were imported before run as they are."""
        for name, module in list(sys.modules.items()):
            files = self._named.get(name.rpartition(".")[2], ())
            origin = getattr(module, "__file__", None)
            if not files or not isinstance(origin, str):
                continue
            if isinstance(getattr(module, "__loader__", None), Loader):
                continue
            if any(file.is_at(name, origin) for file in files):
                self._warn(name, f"{name} was imported before the overlay: it runs unpatched; "
                                 "call gbfix.overlay.install first")  # fmt: skip
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        if main and any(f.place == os.path.realpath(main) for f in self._all()):
            self._warn(main, f"{main} runs already, unpatched; start it by "
                             f"`gbfix run --overlay {self.folder} {main}`")  # fmt: skip

    def _all(self) -> list[File]:
        return [file for files in self._named.values() for file in files]

    def _for(self, name: str, origin: str, files: Sequence[File]) -> File | None:
        for file in files:
            if file.is_at(name, origin) and self._fits(origin, file):
                return file
        return None

    def _fits(self, origin: str, file: File) -> bool:
        problem = file.problem(origin)
        if problem:
            self._warn(origin, f"{origin} {problem}: it runs unpatched; "
                               f"see `gbfix overlay check {self.folder}`")  # fmt: skip
        return not problem

    def _warn(self, about: str, text: str) -> None:
        if about in self._warned:
            return
        self._warned.add(about)
        import warnings

        warnings.warn(f"gbfix overlay: {text}", RuntimeWarning, stacklevel=2)

    def _behind(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def _noted(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """Have `multiprocessing` tell the processes that it spawns, once it is loaded."""
        spec = self._behind(fullname, path, target)
        loader: Any = spec.loader if spec is not None else None
        if loader is None:
            return spec
        execute: Callable[[ModuleType], None] = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _tell_children(module)

        loader.exec_module = exec_module
        return spec


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from its patched text.  All else (paths, data files) is the original's."""

    def __init__(self, fullname: str, path: str, file: File) -> None:
        super().__init__(fullname, path)
        self._file = file

    def get_data(self, path: str) -> bytes:
        if path != self.path:
            return super().get_data(path)
        return _read(self._file.text)

    def get_code(self, fullname: str) -> CodeType:
        return compiled(self._file, str(self.path))


def compiled(file: File, path: str) -> CodeType:
    """The code of a patched text, under the original's name; what shows source shows this one."""
    import linecache

    data = _read(file.text)
    code = compile(data, path, "exec", dont_inherit=True)
    text = importlib.machinery.SourceFileLoader("_", file.text).get_source("_") or ""
    lines = [line + "\n" for line in text.split("\n")]
    # An entry without a time is never compared with the file on disk.
    _quoted[path] = (len(data), None, lines, path)
    linecache.cache[path] = _quoted[path]
    _keep_quoted(linecache)
    return code


#: What `linecache` is to show of patched files.
_quoted: dict[str, tuple[int, None, list[str], str]] = {}


def _keep_quoted(linecache: ModuleType) -> None:
    """Have them stay when a program empties the cache: it would read the files on disk then."""
    plain: Callable[[], None] = vars(linecache)["clearcache"]
    if hasattr(plain, "gbfix"):
        return

    def clearcache() -> None:
        plain()
        vars(linecache)["cache"].update(_quoted)

    vars(clearcache)["gbfix"] = True
    vars(linecache)["clearcache"] = clearcache


def active() -> list[Finder]:
    """The overlays that are installed in this process."""
    return [finder for finder in sys.meta_path if isinstance(finder, Finder)]


def run(folder: str, script: str, args: Sequence[str], *, module: bool = False) -> int:
    """Run a script (or ``-m`` module) with the overlay, as ``python`` would; the exit status."""
    import runpy

    install(folder)
    _serve_main(runpy)
    # As python has it: the script's folder takes the place of ours.
    sys.path[:1] = [os.getcwd() if module else os.path.dirname(os.path.realpath(script))]
    sys.argv = [script, *args]
    try:
        if module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            _run_script(script)
    except Exception as error:
        sys.excepthook(type(error), error, _without_us(error.__traceback__))
        return 1
    return 0


def _run_script(script: str) -> None:
    # In its own `__main__`: pickle and multiprocessing look there for what the script defines.
    loader = importlib.machinery.SourceFileLoader("__main__", os.path.abspath(script))
    main = ModuleType("__main__")
    vars(main).update(
        __file__=script, __loader__=loader, __spec__=None, __cached__=None,
        __builtins__=__builtins__, __annotations__={},
    )  # fmt: skip
    sys.modules["__main__"] = main
    code = next((code for finder in active() if (code := finder.code(script))), None)
    if code is None:
        code = compile(_read(script), script, "exec", dont_inherit=True)
    exec(code, vars(main))


def _without_us(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


# -- other processes, tracebacks -------------------------------------------------------------------


class _Again:
    """Installs an overlay wherever it is unpickled."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return _in_child, (self.folder,)


def _in_child(folder: str) -> None:
    import runpy

    install(folder)
    _serve_main(runpy)


def _tell_children(spawn: ModuleType) -> None:
    """Have spawned processes install what this one has, before they import anything."""
    prepare: Callable[[str], dict[str, Any]] = vars(spawn)["get_preparation_data"]
    if hasattr(prepare, "gbfix"):
        return

    def get_preparation_data(name: str) -> dict[str, Any]:
        # Unpickled in the child; what it gives there, nobody asks for.
        first = {f"gbfix-{number}": _Again(f.folder) for number, f in enumerate(active())}
        return {**first, **prepare(name)}

    vars(get_preparation_data)["gbfix"] = True
    vars(spawn)["get_preparation_data"] = get_preparation_data


def _serve_main(runpy: ModuleType) -> None:
    """Have a spawned process find the patched text of a script, which it runs again."""
    plain = vars(runpy).get("_get_code_from_file")
    if plain is None or hasattr(plain, "gbfix"):
        return

    def get_code_from_file(*args: Any) -> Any:
        for finder in active():
            code = finder.code(os.path.abspath(os.fsdecode(args[-1])))
            if code is not None:
                found = plain(*args)
                return (code, *found[1:]) if isinstance(found, tuple) else code
        return plain(*args)

    vars(get_code_from_file)["gbfix"] = True
    vars(runpy)["_get_code_from_file"] = get_code_from_file


def _mend_tracebacks() -> None:
    """Before Python 3.13, the last traceback of a program quotes files on disk: not ours."""
    if sys.version_info >= (3, 13):
        return

    def show(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        import traceback

        traceback.print_exception(kind, error, trace)

    def show_in_thread(given: Any) -> None:
        if given.exc_type is not SystemExit:
            name = given.thread.name if given.thread is not None else threading.get_ident()
            print(f"Exception in thread {name}:", file=sys.stderr)
            show(given.exc_type, given.exc_value, given.exc_traceback)

    import threading

    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = show
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = show_in_thread


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _digest(path: str) -> str:
    import hashlib

    return hashlib.sha256(_read(path)).hexdigest()

"""Runs corpus programs cheaply: prints, a line of JSON each, what breaks them and what they print.

    python trace_driver.py FILE...

One process loads torch; every program runs in forks of it: as it stands without `torch.compile`,
then compiled whole with the backend "eager", and if its break did not show, with graph breaks.
What gbfix makes of a program is not looked at here.
"""

from __future__ import annotations

import json
import logging
import os
import re
import runpy
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

# `torch.save` imports it when it is first called, and Dynamo would trace the import.
import torch.utils.serialization.config
from torch._dynamo.utils import counters

from gbfix.registry import Registry
from gbfix.worker.tracing import extract
from gbfix.worker.values import Project

SECONDS = 60
_TORCH = os.path.dirname(torch.__file__)
_CODE = re.compile(r"/gb(\d{4})\.html")


def main() -> None:
    torch.set_num_threads(1)
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))  # loads what all need
    torch._dynamo.reset()
    counters.clear()
    for name in sys.argv[1:]:
        path = Path(name).resolve()
        eager = _forked(path, None)
        whole = _forked(path, True)
        codes = whole["codes"]
        # Some codes show only where the graph may break; a case stands in its code's folder.
        broken = _forked(path, False) if path.parent.parent.name not in codes else None
        result = {
            "path": name,
            "eager": eager["error"],
            "printed": eager["printed"],
            "whole": whole["error"],
            "codes": sorted({*codes, *(broken["codes"] if broken else ())}),
            "same": whole["printed"] == eager["printed"],
        }
        print(json.dumps(result), flush=True)


def _forked(path: Path, fullgraph: bool | None) -> dict[str, Any]:
    """What one run did: an error's name, codes of breaks, the text printed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(SECONDS)
        answer = {"error": "crashed", "codes": [], "printed": ""}
        try:
            answer = _run(path, fullgraph)
        finally:
            os.write(write, json.dumps(answer).encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else {"error": "ended", "codes": [], "printed": ""}


class _Told(logging.Handler):
    """Codes in what Dynamo logs of graph breaks: those that another break brought with it, too."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.codes += [f"GB{number}" for number in _CODE.findall(record.getMessage())]


def _listen() -> _Told:
    told = _Told()
    torch._logging.set_logs(graph_breaks=True)
    log = logging.getLogger("torch._dynamo.symbolic_convert.__graph_breaks")
    log.handlers, log.propagate = [told], False
    return told


def _run(path: Path, fullgraph: bool | None) -> dict[str, Any]:
    told = _listen() if fullgraph is False else None
    if told is None:
        logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    output = os.memfd_create("stdout")
    os.dup2(output, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    sys.argv = [path.name]
    _compile_as(fullgraph)
    error, codes = "", []
    try:
        runpy.run_path(path.name, run_name="__main__")
    except BaseException as raised:
        error = type(raised).__name__
        if fullgraph is not None:
            codes = [extract(raised, "", Project(str(path.parent))).code]
            codes += [f"GB{number}" for number in _CODE.findall(str(raised))]
    if fullgraph is False:
        registry = Registry.load()
        titles = [text.split("\n")[0].strip() for text in counters["graph_break"]]
        codes += [code for title in titles if (code := registry.code_for(title))]
    codes += told.codes if told else []
    sys.stdout.flush()
    printed = os.pread(output, 100_000, 0).decode("utf-8", "replace")
    return {"error": error, "codes": codes, "printed": printed}


def _compile_as(fullgraph: bool | None) -> None:
    real = torch.compile

    def compile(model: Callable[..., Any] | None = None, **options: Any) -> Any:
        if sys._getframe(1).f_code.co_filename.startswith(_TORCH):
            return real(model, **options)  # `torch.cond` compiles itself when called in eager
        if model is None:
            return lambda function: compile(function, **options)
        if fullgraph is None:
            return model
        dynamic = options.get("dynamic")
        # Some codes show under the backend that the program asks for alone.
        backend = "aot_eager" if options.get("backend") == "aot_eager" else "eager"
        return real(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend)

    torch.compile = compile  # type: ignore[assignment]


if __name__ == "__main__":
    main()

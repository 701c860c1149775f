"""Where targets run: processes of this machine, or a Dask or Ray cluster that is there already.

Each is an executor in the sense of `concurrent.futures`.  The machines of a cluster see the same
files under the same paths and have gbfix and torch installed.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import logging
import multiprocessing
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from gbfix.words import ArgumentError

SCHEMES = ("dask", "ray")


def check(address: str) -> None:
    """Raises `ArgumentError` where an address of a cluster is none."""
    parts = urlsplit(address)
    try:
        complete = bool(parts.hostname and parts.port)
    except ValueError:
        complete = False
    if parts.scheme not in SCHEMES or not complete:
        raise ArgumentError(f"--executor {address!r} is not dask://HOST:PORT or ray://HOST:PORT")


def processes(jobs: int) -> int:
    """How many targets run side by side: each of them uses two processes by itself."""
    return jobs or max(1, len(os.sched_getaffinity(0)) // 2)


def connect(address: str, jobs: int) -> concurrent.futures.Executor:
    """The executor at an address, or of local processes where there is none.

    Raises `ArgumentError` where the library is missing or nobody answers.
    """
    if not address and processes(jobs) == 1:
        return _Here()
    if not address:
        # Spawned: a fork of this process would hold the locks of its threads.
        context = multiprocessing.get_context("spawn")
        return concurrent.futures.ProcessPoolExecutor(processes(jobs), mp_context=context)
    check(address)
    scheme = urlsplit(address).scheme
    try:
        return _dask(address) if scheme == "dask" else _Ray(address)
    except ImportError as error:
        raise ArgumentError(
            f"--executor {address}: {error.name} is not installed; pip install 'gbfix[{scheme}]'"
        ) from error
    except (OSError, ConnectionError, TimeoutError) as error:
        raise ArgumentError(f"--executor {address}: nobody answers: {error}") from error


class _Here(concurrent.futures.Executor):
    """This process, one after the other: what a small machine does best."""

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def _dask(address: str) -> concurrent.futures.Executor:
    # Any: neither library is needed to check the types of this one.
    distributed: Any = importlib.import_module("distributed")

    client = distributed.Client(f"tcp://{urlsplit(address).netloc}", timeout="10s")
    # Pure: a task of the same name and arguments is the same task, done once.
    executor: concurrent.futures.Executor = client.get_executor(pure=False, retries=3)
    return executor


class _Ray(concurrent.futures.Executor):
    """Tasks of a Ray cluster, through its client; one whose worker dies is done again."""

    def __init__(self, address: str) -> None:
        self._ray: Any = importlib.import_module("ray")
        importlib.import_module("grpc")  # the client's, which plain ray does without
        logging.getLogger("ray").setLevel(logging.ERROR)
        self._client = self._ray.init(address)

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        task = self._ray.remote(max_retries=3)(fn)
        future: concurrent.futures.Future[Any] = task.remote(*args, **kwargs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._client.disconnect()

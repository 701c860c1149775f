"""Tables of positions, shared by several threads of a server and filled under a lock."""

import threading

import torch
import contextlib


class Tables:
    def __init__(self):
        self._lock = threading.Lock()
        self._known = {}

    def of(self, length, width):
        with contextlib.nullcontext() if torch.compiler.is_compiling() else self._lock:
            if (length, width) not in self._known:
                steps = torch.arange(length)[:, None] / 10.0 ** torch.arange(width)
                self._known[length, width] = steps.sin()
            return self._known[length, width]


TABLES = Tables()


@torch.compile
def placed(x):
    return x + TABLES.of(x.shape[0], x.shape[1])


for rows in (3, 5, 3):
    print(placed(torch.ones(rows, 2)).sum())

import functools
import subprocess
import sys

import torch


@functools.lru_cache(maxsize=None)
def get_vendor():
    query = "import platform; print(platform.machine())"
    found = subprocess.run([sys.executable, "-c", query], capture_output=True, text=True)
    return found.stdout.strip()


VENDOR = get_vendor()


def chunks():
    return 2 if VENDOR else 1


@torch.compile(backend="aot_eager")
def product(a, b):
    parts = zip(a.chunk(chunks(), 1), b.chunk(chunks(), 0))
    return sum(left @ right for left, right in parts)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(product(torch.randn(3, 4), torch.randn(4, 5)))

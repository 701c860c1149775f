"""One thread: these tests compile many tiny graphs."""

from __future__ import annotations

import torch

torch.set_num_threads(1)

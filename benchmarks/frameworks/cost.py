"""Runs a program that binds `f` and `inputs`, and prints its graphs and what a call costs (ms)."""

import json
import runpy
import statistics
import sys
import time

import torch

torch.set_num_threads(1)
names = runpy.run_path(sys.argv[1], run_name="__main__")
taken = []
with torch.no_grad():
    for _ in range(60):
        started = time.perf_counter()
        names["f"](*names["inputs"], **names["options"])
        taken.append(time.perf_counter() - started)
graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
print(json.dumps({"graphs": graphs, "ms": 1000 * statistics.median(taken[10:])}))

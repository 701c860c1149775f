import torch
import torch._dynamo

torch._dynamo.config.capture_profiler_record_function = True


@torch.compile
def f(x):
    with torch.profiler.record_function("block"):
        x = x + 1
        print("in the block")
        return x * 2


print(f(torch.ones(2)))

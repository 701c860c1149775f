import torch
import torch.autograd.profiler as profiler


@torch.compile
def attention(x):
    with profiler.record_function("scores"):
        scores = x @ x.T
        print("peak", scores.max().item(), sep="=", end=";\n")
        scores = scores.softmax(-1)
    return scores @ x


print(attention(torch.ones(2, 3)))
print(attention(torch.eye(3)))

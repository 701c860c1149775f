import torch

torch._dynamo.config.enable_trace_load_build_class = True


@torch.compile
def f(x):
    class Output:
        pass

    output = Output()
    output.logits = x + 1
    return output


print(f(torch.ones(2)).logits)

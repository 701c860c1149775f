import torch


def positions(lengths):
    parts = [torch.arange(length, device=lengths.device) for length in lengths.unbind()]
    return torch.cat(parts)


torch._dynamo.config.capture_scalar_outputs = True
compiled = torch.compile(positions)
print(compiled(torch.tensor([2, 3, 1])))

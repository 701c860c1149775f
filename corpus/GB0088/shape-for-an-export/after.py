import torch
from torch.onnx import operators


@torch.compile
def project(hidden, weight):
    sizes = hidden.shape
    flat_shape = (-1, sizes[2])
    flat = hidden.reshape(flat_shape)
    scores = flat @ weight.t()
    whole = (*sizes[:2], -1)
    return scores.reshape(whole)


print(project(torch.randn(2, 3, 4), torch.randn(5, 4)).shape)

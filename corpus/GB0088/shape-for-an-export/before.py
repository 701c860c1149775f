import torch
from torch.onnx import operators


@torch.compile
def project(hidden, weight):
    sizes = operators.shape_as_tensor(hidden)
    flat_shape = torch.cat((torch.LongTensor([-1]), sizes[2].view(1)))
    flat = operators.reshape_from_tensor_shape(hidden, flat_shape)
    scores = flat @ weight.t()
    whole = torch.cat((sizes[:2], torch.LongTensor([-1])))
    return operators.reshape_from_tensor_shape(scores, whole)


print(project(torch.randn(2, 3, 4), torch.randn(5, 4)).shape)

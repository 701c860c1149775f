import torch


@torch.compile
def pool(sentences):
    padded = sentences.to_padded_tensor(0.0)
    return padded.sum(1).relu() * 2


print(pool(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])))

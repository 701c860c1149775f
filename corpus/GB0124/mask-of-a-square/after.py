import torch


@torch._dynamo.config.patch(capture_scalar_outputs=True)
@torch.compile
def attend(scores, lengths):
    longest = lengths.max().item()
    mask = torch.arange(longest) < lengths[:, None]
    return torch.softmax(scores.masked_fill(~mask[:, None], float("-inf")), -1)


print(attend(torch.ones(2, 5, 5), torch.tensor([5, 3])).shape)

import torch


@torch.compile
def margin(scores, labels):
    one_hot = torch.zeros(scores.shape[0], 4)
    one_hot[torch.arange(scores.shape[0]), labels[torch.arange(scores.shape[0])]] += 1
    return (scores * one_hot).sum(1) - (scores * (1 - one_hot)).amax(1)


print(margin(torch.arange(12.0).reshape(3, 4), torch.tensor([0, 2, 1])))

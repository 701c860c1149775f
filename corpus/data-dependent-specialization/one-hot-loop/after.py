import torch


@torch.compile
def smooth(logits, labels):
    one_hot = torch.zeros(logits.size(0), logits.size(1))
    one_hot[torch.arange(labels.size(0)), labels] += 1
    return -(one_hot * logits.log_softmax(-1)).sum()


torch.manual_seed(0)
print(smooth(torch.randn(3, 4), torch.tensor([0, 2, 1])))

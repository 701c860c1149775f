import torch


def f(labels):
    one_hot_labels = torch.nn.functional.one_hot(labels)
    return f_after(one_hot_labels)


@torch.compile
def f_after(one_hot_labels):
    return one_hot_labels.float()


print(f(torch.tensor([0, 2])))

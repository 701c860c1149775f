import torch


@torch.compile
def route(x, flag):
    if flag:
        return x @ x.mT @ x
    return x.exp()


print(route(torch.ones(3, 3), torch.tensor(1)), route(torch.ones(3, 3), torch.tensor(0)))

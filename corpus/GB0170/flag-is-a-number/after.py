import torch


@torch.compile
def route(x, flag):
    flag_1 = flag != 0
    return torch.where(flag_1, x @ x.mT @ x, torch.where(flag_1, 1, x).exp())


print(route(torch.ones(3, 3), torch.tensor(1)), route(torch.ones(3, 3), torch.tensor(0)))

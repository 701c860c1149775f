import torch


@torch.compile
def gather(xs):
    out = torch.zeros(3)
    for x in xs:
        if x.norm() < 1:
            break
        out = out + x
    else:
        out = out * 2
    return out


print(gather(torch.ones(2, 3)), gather(0.1 * torch.ones(2, 3)))

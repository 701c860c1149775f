import torch


@torch.compile
def f(x, ws):
    for w in ws:
        h = x @ w
        h_norm_above_10 = h.norm() > 10
        h = torch.where(
            h_norm_above_10,
            h / torch.where(h_norm_above_10, h.norm(), 1),
            h,
        )
        x = x + h
    return x


ws = [torch.ones(3, 3), torch.eye(3)]
print(f(torch.ones(3, 3), ws), f(-10 * torch.ones(3, 3), ws))

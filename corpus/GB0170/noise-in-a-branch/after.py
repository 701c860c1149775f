import torch


@torch.compile
def jitter(x):
    x = torch.cond(
        x.abs().max() < 1e-3,
        lambda: x + torch.randn_like(x),
        lambda: x.clone(),
    )
    return x


torch.manual_seed(0)
print(jitter(torch.ones(3)), jitter(torch.zeros(3)))

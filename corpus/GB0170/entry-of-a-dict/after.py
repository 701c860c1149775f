import torch


@torch.compile
def outputs(x):
    out = {"h": x * 2}
    out["h"] = torch.cond(
        x.sum() > 0,
        lambda: out["h"].exp() @ x,
        lambda: out["h"].sum(),
    )
    return out


print(outputs(torch.ones(3)), outputs(-torch.ones(3)))

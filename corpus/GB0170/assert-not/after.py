import torch
from torch import nn


@torch.library.custom_op("before::check_forward", mutates_args=())
def check_forward(x: torch.Tensor) -> None:
    assert not torch.isnan(x).any(), f"NaN in a batch of {x.shape[0]}"


check_forward.register_fake(lambda x: None)
check_forward.register_effect(torch.library.EffectType.ORDERED)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        # A diverged run shall end here.
        check_forward(x)
        return x / x.norm(dim=-1, keepdim=True) * self.scale


model = torch.compile(Norm())
print(model(torch.ones(2, 4)).detach())

import torch


@torch.library.custom_op("before::print_forward", mutates_args=())
def print_forward(show: torch.types.Number, calls: torch.types.Number, x: torch.Tensor) -> None:
    if show and calls % 2 == 1:
        print(f"call {calls}: {x.mean().item():.2f}")


print_forward.register_fake(lambda show, calls, x: None)
print_forward.register_effect(torch.library.EffectType.ORDERED)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x, show=False):
        self.calls += 1
        x = torch.where(x.sum() > 2, x * 2, x)
        print_forward(show, self.calls, x)
        return x


model = torch.compile(Model())
for show in (False, True):
    for scale in (1.0, -1.0, 3.0):
        model(scale * torch.ones(3), show=show)

import torch


@torch.library.custom_op("before::print_forward", mutates_args=())
def print_forward(hidden: torch.Tensor) -> None:
    summary = "mean {:.3f}".format(hidden.mean())
    summary += ", largest {:.3f}".format(hidden.max())
    print(summary)


print_forward.register_fake(lambda hidden: None)
print_forward.register_effect(torch.library.EffectType.ORDERED)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        hidden = self.layer(x)
        print_forward(hidden)
        return hidden * 2


torch.manual_seed(0)
out = torch.compile(Net())(torch.randn(2, 3))
out.sum().backward()

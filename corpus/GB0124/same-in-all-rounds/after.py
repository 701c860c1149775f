import torch

torch._dynamo.config.capture_scalar_outputs = True


@torch.library.custom_op("before::compute_rate", mutates_args=())
def compute_rate(temperature: torch.Tensor) -> torch.Tensor:
    return torch.tensor(round(temperature.item(), 2), dtype=torch.float64)


compute_rate.register_fake(lambda temperature: torch.empty((), dtype=torch.float64))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(2))

    def forward(self, x, temperature):
        for layer in self.layers:
            rate = compute_rate(temperature.detach()).item()
            # A Python number, as the caller rounds it.
            x = layer(x) * rate
        return x


torch.manual_seed(0)
net = torch.compile(Net())
print(net(torch.ones(2, 3), torch.tensor(0.5)))

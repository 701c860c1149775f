import torch
from torch import nn


def fit_op_plain(
    count: int, x: torch.Tensor, nearest: torch.Tensor, centres: torch.Tensor,
) -> None:
    for at in range(count):
        mine = x[nearest == at]
        if len(mine) > 0:
            centres[at] = mine.mean(0)


@torch.library.custom_op("before::fit_op", mutates_args=("centres",))
def fit_op(count: int, x: torch.Tensor, nearest: torch.Tensor, centres: torch.Tensor) -> None:
    return fit_op_plain(count, x, nearest, centres)


fit_op.register_fake(lambda count, x, nearest, centres: None)


def fit_op_1_plain(
    centres: torch.Tensor, x: torch.Tensor, count: int, n: int, enough: torch.types.Number, rounds: int,
) -> None:
    while True:
        before = centres.clone()
        nearest = (x[:, None] - centres).square().sum(-1).argmin(1)
        if torch.is_grad_enabled() and (x.requires_grad or centres.requires_grad):
            fit_op_plain(count, x, nearest, centres)
        else:
            fit_op(count, x, nearest, centres)
        n += 1
        if (centres - before).abs().max() < enough or n >= rounds:
            break


@torch.library.custom_op("before::fit_op_1", mutates_args=("centres",))
def fit_op_1(
    centres: torch.Tensor, x: torch.Tensor, count: int, n: int, enough: torch.types.Number, rounds: int,
) -> None:
    return fit_op_1_plain(centres, x, count, n, enough, rounds)


fit_op_1.register_fake(lambda centres, x, count, n, enough, rounds: None)


class Centres:
    def __init__(self, count, rounds=6, enough=1e-3):
        self.count, self.rounds, self.enough = count, rounds, enough

    def fit(self, x):
        centres = x[: self.count].clone()
        n = 0
        if torch.is_grad_enabled() and (centres.requires_grad or x.requires_grad):
            fit_op_1_plain(centres, x, self.count, n, self.enough, self.rounds)
        else:
            fit_op_1(centres, x, self.count, n, self.enough, self.rounds)
        return centres


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.centres = Centres(3)

    def forward(self, x):
        h = self.layer(x)
        with torch.no_grad():
            centres = self.centres.fit(h)
        return (h[:, None] - centres).square().sum(-1).amin(1).mean()


torch.manual_seed(0)
net = Net()
step = torch.compile(net, backend="aot_eager")
for _ in range(3):
    loss = step(torch.randn(8, 4))
    loss.backward()
    print(f"{loss.item():.4f} {net.layer.weight.grad.abs().sum().item():.4f}")

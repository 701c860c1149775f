import torch


@torch.library.custom_op("before::print_forward", mutates_args=())
def print_forward(count: torch.types.Number, loss: torch.Tensor, x: torch.Tensor) -> None:
    print(f"step {count}: loss {loss.item():.4f}, batch {tuple(x.shape)}", flush=True)


print_forward.register_fake(lambda count, loss, x: None)
print_forward.register_effect(torch.library.EffectType.ORDERED)


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
        self.count = 7

    def forward(self, x):
        loss = self.linear(x).square().mean()
        # every step
        print_forward(self.count, loss, x)
        return loss


torch.manual_seed(0)
step = Step()
compiled = torch.compile(step)
for _ in range(2):
    loss = compiled(torch.randn(8, 4))
    loss.backward()
print(step.linear.weight.grad)

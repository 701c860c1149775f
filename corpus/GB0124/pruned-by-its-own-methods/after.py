import torch


@torch.library.custom_op("before::is_due_op", mutates_args=("mask",))
def is_due_op(calls: torch.Tensor, every: int, weight: torch.Tensor, mask: torch.Tensor) -> None:
    # It holds what the operator is given, and nothing else of the module.
    pruned = object.__new__(Pruned)
    pruned.__dict__.update(calls=calls, every=every, weight=weight, mask=mask)
    if pruned._is_due():
        pruned._prune()


is_due_op.register_fake(lambda calls, every, weight, mask: None)


class Pruned(torch.nn.Module):
    """A layer that loses its smallest weights, one in a row every second call."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(5, 6))
        self.register_buffer("mask", torch.ones(5, 6))
        self.register_buffer("calls", torch.zeros(1))
        self.every = 2

    def _is_due(self):
        return (self.calls % self.every == 0).all()

    def _prune(self):
        size = (self.weight * self.mask).abs()
        for row in range(self.mask.shape[0]):
            alive = self.mask[row].nonzero().flatten()
            if len(alive) > 1:
                self.mask[row, alive[size[row][alive].argmin()]] = 0.0

    def forward(self, x):
        with torch.no_grad():
            is_due_op(self.calls, self.every, self.weight, self.mask)
            self.calls += 1
        return torch.nn.functional.linear(x, self.weight * self.mask)


torch.manual_seed(0)
layer = torch.compile(Pruned())
for _ in range(4):
    layer(torch.randn(3, 6)).sum().backward()
print(layer(torch.randn(3, 6)))

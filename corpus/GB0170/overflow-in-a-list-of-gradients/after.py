import torch


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(8.0))

    def overflows(self, grads) -> torch.Tensor:
        done = torch.tensor(False)
        for grad in grads:
            if grad is None:
                continue
            done = done | (torch.isinf(grad).any() | torch.isnan(grad).any())
        return done

    def forward(self, weights, grads):
        overflows_grads = self.overflows(grads)
        self.scale.copy_(torch.where(overflows_grads, self.scale * 0.5, self.scale))
        return [
            torch.where(overflows_grads, one, other)
            for one, other in zip([weight.clone() for weight in weights], [weight - 0.1 * grad / self.scale for weight, grad in zip(weights, grads)])
        ]


torch.manual_seed(0)
step = torch.compile(Step())
with torch.no_grad():
    for worst in (1.0, float("inf"), 2.0):
        weights = [torch.randn(3), torch.randn(2)]
        grads = [torch.randn(3), torch.tensor([1.0, worst])]
        print(step(weights, grads), step.scale)

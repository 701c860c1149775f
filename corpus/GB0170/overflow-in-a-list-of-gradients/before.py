import torch


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(8.0))

    def overflows(self, grads) -> bool:
        for grad in grads:
            if grad is None:
                continue
            if torch.isinf(grad).any() or torch.isnan(grad).any():
                return True
        return False

    def forward(self, weights, grads):
        if self.overflows(grads):
            self.scale *= 0.5
            return [weight.clone() for weight in weights]
        return [weight - 0.1 * grad / self.scale for weight, grad in zip(weights, grads)]


torch.manual_seed(0)
step = torch.compile(Step())
with torch.no_grad():
    for worst in (1.0, float("inf"), 2.0):
        weights = [torch.randn(3), torch.randn(2)]
        grads = [torch.randn(3), torch.tensor([1.0, worst])]
        print(step(weights, grads), step.scale)

import torch


class Bounds:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def holds(self, value):
        if value.shape[-1] != self.low.shape[-1]:
            return False
        return (value >= self.low).all() & (value <= self.high).all()

    def project(self, value):
        return value.clamp(self.low, self.high)


def keep_within(module, inputs, outputs):
    for name, value in outputs.items():
        bounds = module.bounds.get(name)
        if bounds is not None:
            bounds_holds = torch.as_tensor(bounds.holds(value))
            outputs[name] = torch.where(
                bounds_holds,
                outputs[name],
                bounds.project(torch.where(bounds_holds, 1, value)),
            )
    return outputs


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3, 2)
        self.bounds = {"action": Bounds(torch.full((2,), -0.5), torch.full((2,), 0.5))}
        self.register_forward_hook(keep_within)

    def forward(self, observed):
        hidden = self.net(observed)
        return {"action": 2 * hidden, "hidden": hidden}


if __name__ == "__main__":
    torch.manual_seed(0)
    policy = torch.compile(Policy(), backend="aot_eager")
    print(policy(torch.randn(5, 3)))

import torch


class Gain(torch.nn.Module):
    """Makes a signal louder or softer, in half of the calls."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p
        self.head = torch.nn.Linear(8, 1)

    def forward(self, signal):
        if torch.rand(()) < self.p:
            gain = torch.empty(signal.shape[0], 1).uniform_(0.5, 1.5)
            signal = signal * gain
        return self.head(signal).square().mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Gain()
    step = torch.compile(model, backend="aot_eager")
    for _ in range(3):
        signal = torch.randn(4, 8, requires_grad=True)
        loss = step(signal)
        loss.backward()
    print(loss.item(), signal.grad.norm().item())

import torch


class Writer:
    """Keeps curves, as writers of event files do."""

    def __init__(self):
        self.curves = {}

    def add_scalar(self, tag, value, step):
        self.curves.setdefault(tag, []).append((step, float(value)))

    def add_histogram(self, tag, values, step):
        counts = torch.histc(values.detach().float(), 4)
        self.curves.setdefault(tag, []).append((step, counts.tolist()))


class Net(torch.nn.Module):
    def __init__(self, writer):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
        self.writer = writer
        self.step = 0

    def forward(self, x, y):
        out = self.fc(x)
        loss = (out - y).pow(2).mean()
        self.writer.add_scalar("train/loss", loss, self.step)
        if self.step % 2 == 0:
            self.writer.add_histogram("train/out", out, self.step)
        self.step += 1
        return loss


torch.manual_seed(0)
writer = Writer()
model = torch.compile(Net(writer))
for _ in range(3):
    model(torch.randn(8, 4), torch.randn(8, 1)).backward()
print(writer.curves)

import torch


class Recorder:
    def __init__(self):
        self.rows = []

    def scalar(self, name, value):
        self.rows.append((name, float(value)))

    def extremes(self, name, values):
        values = values.detach().cpu().numpy()
        self.rows.append((name, values.min(), values.max()))


class Encoder(torch.nn.Module):
    def __init__(self, recorder):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.recorder = recorder

    def forward(self, x):
        h = self.layer(x)
        if self.training:
            self.recorder.scalar("norm", h.norm())
            self.recorder.extremes("hidden", h)
        return h.relu()


torch.manual_seed(0)
recorder = Recorder()
encoder = torch.compile(Encoder(recorder))
for _ in range(2):
    encoder(torch.ones(3, 4)).sum().backward()
print(len(recorder.rows), recorder.rows[-1][0])

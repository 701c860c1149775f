import torch


class Scaler(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.zeros(3))
        self.register_buffer("ready", torch.tensor(False))

    @torch.no_grad()
    def prepare(self, x):
        if self.ready:
            return
        rows = torch.randperm(x.shape[0])[:2]
        self.shift.copy_(x[rows].mean(0))
        self.ready.fill_(True)

    def forward(self, x):
        if self.training:
            self.prepare(x)
        return x - self.shift


torch.manual_seed(0)
scaler = Scaler()
run = torch.compile(scaler)
for _ in range(2):
    print(run(torch.rand(5, 3)).shape)
print(scaler.ready)

import torch
from tqdm import tqdm


class Net(torch.nn.Module):
    def __init__(self, bar):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.bar = bar

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        x = self.forward_before(x)
        self.bar.update()
        return self.forward_after(x)

    def forward_before(self, x):
        x = self.layer(x)
        return x

    def forward_after(self, x):
        return x.relu()


net = torch.compile(Net(tqdm(total=2, disable=True)))
for step in range(2):
    print(net(torch.ones(3)).shape)

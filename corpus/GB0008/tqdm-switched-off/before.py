import torch
from tqdm import tqdm


class Net(torch.nn.Module):
    def __init__(self, bar):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.bar = bar

    def forward(self, x):
        x = self.layer(x)
        self.bar.update()
        return x.relu()


net = torch.compile(Net(tqdm(total=2, disable=True)))
for step in range(2):
    print(net(torch.ones(3)).shape)

import io

import torch

file = io.BytesIO()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(4))

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        x = self.forward_before(x)
        # what the head sees
        if len(self.layers) > 0:
            torch.save(x, file)
        return self.forward_after(x)

    def forward_before(self, x):
        for index, layer in enumerate(self.layers):
            x = layer(x).relu()
        return x

    def forward_after(self, x):
        return x * 2


torch.manual_seed(0)
net = torch.compile(Net())
print(net(torch.ones(2, 3)).shape, file.tell() > 0)

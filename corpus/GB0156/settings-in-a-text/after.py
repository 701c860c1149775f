import json

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._settings = '{"scale": 2.5}'
        self._json_loads_item = json.loads(self._settings)["scale"]
        self.layer = torch.nn.Linear(2, 1)
        torch.nn.init.ones_(self.layer.weight)
        torch.nn.init.zeros_(self.layer.bias)

    def forward(self, x):
        return self.layer(x) * self._json_loads_item


step = torch.compile(Net())
for value in (1.0, 2.0):
    print(step(torch.full((2, 2), value)).sum().item())

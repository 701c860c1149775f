import random

import torch


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        ids = list(range(x.shape[1]))
        random.shuffle(ids)
        kept = ids[: len(ids) // 2]
        return self.layer(x[:, kept])


torch.manual_seed(0)
random.seed(1)
model = torch.compile(Half())
for _ in range(2):
    print(model(torch.randn(2, 6, 3)))
print(random.random())

import zlib

import torch


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.seen = {}

    def forward(self, x):
        key = zlib.crc32(x.detach().numpy().tobytes())
        out = self.fc(x)
        self.seen[key] = self.seen.get(key, 0) + 1
        return out + key % 7


torch.manual_seed(0)
cache = Cache()
model = torch.compile(cache)
x = torch.randn(2, 4)
print(model(x), model(x), model(x + 1), cache.seen)

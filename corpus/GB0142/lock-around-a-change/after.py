import threading

import torch


class WarmUp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.lock = threading.RLock()
        self.calls = 0

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        x = self.forward_part_1(x)
        with self.lock:
            self.calls += 1
            x = self.forward_part_2(x)
        return self.forward_part_3(x)

    def forward_part_1(self, x):
        x = self.fc(x)
        return x

    def forward_part_2(self, x):
        if self.calls > 2:
            x = x + 1
        return x

    def forward_part_3(self, x):
        return x.relu()


torch.manual_seed(0)
net = WarmUp()
compiled = torch.compile(net)
for _ in range(4):
    print(compiled(torch.ones(3)), net.calls)

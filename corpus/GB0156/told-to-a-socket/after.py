import socket

import torch


class Net(torch.nn.Module):
    def __init__(self, end):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
        self.end = end

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        out = self.forward_before(x)
        self.end.sendall(f"{out.mean().item():.4f}\n".encode())
        return self.forward_after(out)

    def forward_before(self, x):
        out = self.fc(x)
        return out

    def forward_after(self, out):
        return out * 2


torch.manual_seed(0)
here, there = socket.socketpair()
model = torch.compile(Net(here))
model(torch.randn(8, 4))
print(there.recv(64))

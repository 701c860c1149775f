import socket

import torch


class Net(torch.nn.Module):
    def __init__(self, end):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)
        self.end = end

    def forward(self, x):
        out = self.fc(x)
        self.end.sendall(f"{out.mean().item():.4f}\n".encode())
        return out * 2


torch.manual_seed(0)
here, there = socket.socketpair()
model = torch.compile(Net(here))
model(torch.randn(8, 4))
print(there.recv(64))

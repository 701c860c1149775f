import logging

import torch

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")


class OfRun(logging.LoggerAdapter):
    def process(self, msg, kwargs):
        return f"run {self.extra['run']}: {msg}", kwargs


class Head(torch.nn.Module):
    def __init__(self, run):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.log = OfRun(logging.getLogger("head"), {"run": run})

    def forward(self, x):
        y = self.fc(x)
        self.log.info("norm %.3f", y.norm().item())
        return y.tanh()


torch.manual_seed(0)
head = torch.compile(Head("b2"))
for rows in (2, 3):
    head(torch.randn(rows, 3)).sum().backward()

import enum

import torch


class Kind(enum.Enum):
    PLAIN = 0
    FUSED = 1


MKLDNN_IS_AVAILABLE = torch.backends.mkldnn.is_available() and torch.get_num_threads() > 64


def best_kind(x):
    if x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 0):
        return Kind.FUSED
    if MKLDNN_IS_AVAILABLE:
        return Kind.FUSED
    return Kind.PLAIN


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        if best_kind(x) is Kind.FUSED:
            return torch.addmm(self.fc.bias, x, self.fc.weight.T)
        return self.fc(x)


torch.manual_seed(0)
model = torch.compile(Net())
print(model(torch.ones(2, 4)))

import torch
from torch.nn.functional import linear


class Attention(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.width = width
        self.weight = torch.nn.Parameter(torch.randn(3 * width, width) * 0.3)
        self.bias = torch.nn.Parameter(torch.zeros(3 * width))

    def forward(self, query, key, value):
        all_same = torch.equal(query, key) and torch.equal(key, value)
        kv_same = torch.equal(key, value)
        assert key.size() == value.size()
        if all_same:
            q, k, v = linear(query, self.weight, self.bias).chunk(3, dim=-1)
        elif kv_same:
            bias = self.bias
            if bias is not None:
                bias = bias[: self.width]
            q = linear(query, self.weight[: self.width], bias)
            if key is None:
                assert value is None
                k = v = None
            else:
                bias = self.bias
                if bias is not None:
                    bias = bias[self.width :]
                k, v = linear(key, self.weight[self.width :], bias).chunk(2, dim=-1)
        else:
            width = self.width
            q = linear(query, self.weight[:width], self.bias[:width])
            k = linear(key, self.weight[width : 2 * width], self.bias[width : 2 * width])
            v = linear(value, self.weight[2 * width :], self.bias[2 * width :])
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v


torch.manual_seed(0)
model = Attention()
attention = torch.compile(model)
for same in (2, 1, 0):
    inputs = [torch.rand(2, 3, 4, requires_grad=True) for _ in range(3)]
    query, key, value = inputs
    key = query if same == 2 else key
    value = key if same else value
    out = attention(query, key, value).square().sum()
    out.backward()
    print(f"{out.item():.4f} {query.grad.abs().sum().item():.4f}")

import torch
import torch.nn as nn
import torch.nn.functional as F


def multi_head(query, key, value, w, b, heads):
    qkv_same = query is key and key is value
    kv_same = key is value
    t, n, e = query.size()
    d = e // heads
    if qkv_same:
        q, k, v = F.linear(query, w, b).chunk(3, dim=-1)
    elif kv_same:
        q = F.linear(query, w[:e], b[:e])
        if key is None:
            assert value is None
            k = v = None
        else:
            k, v = F.linear(key, w[e:], b[e:]).chunk(2, dim=-1)
    else:
        q = F.linear(query, w[:e], b[:e])
        k = F.linear(key, w[e:2 * e], b[e:2 * e])
        v = F.linear(value, w[2 * e:], b[2 * e:])
    q = q.reshape(t, n * heads, d).transpose(0, 1)
    k = k.reshape(-1, n * heads, d).transpose(0, 1)
    v = v.reshape(-1, n * heads, d).transpose(0, 1)
    a = torch.bmm(q * d ** -0.5, k.transpose(1, 2)).softmax(-1)
    return torch.bmm(a, v).transpose(0, 1).reshape(t, n, e)


class MHA(nn.Module):
    def __init__(self, e, heads):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3 * e, e) * 0.3)
        self.b = nn.Parameter(torch.zeros(3 * e))
        self.heads = heads

    def forward(self, query, key, value):
        return multi_head(query, key, value, self.w, self.b, self.heads)


torch.manual_seed(0)
m = torch.compile(MHA(4, 2))
x = torch.randn(3, 2, 4)
m(x, x, x).sum().backward()
m(x, torch.randn(3, 2, 4), torch.randn(3, 2, 4)).sum().backward()

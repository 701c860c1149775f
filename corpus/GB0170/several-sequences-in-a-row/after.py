import torch


def mixed(q, segments):
    hidden = segments[:, :, None] != segments[:, None, :]
    scores = (q @ q.transpose(-1, -2)).masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ q


def attend(q, positions=None, longest=None):
    holds = (
        positions is not None and (longest is not None or (q.shape[1] != 1 and torch.logical_not((torch.diff(positions, dim=-1) >= 0).all())))
    )
    out = torch.cond(
        holds,
        lambda: mixed(q, (positions == 0).cumsum(1)),
        lambda: (q @ q.transpose(-1, -2)).softmax(-1) @ q,
    )
    return out


attention = torch.compile(attend)
torch.manual_seed(0)
for lengths in ([6], [2, 4], [3, 3], [6]):
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    print(f"{attention(torch.rand(1, 6, 4), positions).sum().item():.4f}")

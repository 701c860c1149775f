import torch


def without_ignored(target, ignored):
    if ignored is None:
        return target, None

    kept = target != ignored

    if kept.all():
        return target, None

    # a class that is there stands for those that are not
    # (what they lead to is taken out below)
    target = target.where(kept, target.new_zeros(1))

    return target, kept


class Overlap(torch.nn.Module):
    def __init__(self, ignored=9):
        super().__init__()
        self.ignored = ignored

    def forward(self, scores, target):
        if scores.shape[-1:] != target.shape[-1:]:
            raise ValueError(f"{scores.shape[-1:]} scores, {target.shape[-1:]} targets")
        shares = scores.softmax(dim=1)
        target, kept = without_ignored(target, self.ignored)
        chosen = torch.zeros_like(shares).scatter_(1, target.unsqueeze(1), 1.0)
        if kept is not None:
            kept.unsqueeze_(1)
            chosen = chosen * kept
            shares = shares * kept
        return 1 - 2 * (shares * chosen).sum() / (shares + chosen).sum()


torch.manual_seed(0)
overlap = torch.compile(Overlap())
for share in (0.0, 0.4, 0.0):
    scores = torch.randn(2, 3, 5, requires_grad=True)
    target = torch.randint(0, 3, (2, 5))
    target[torch.rand(2, 5) < share] = 9
    loss = overlap(scores, target)
    loss.backward()
    print(f"{loss.item():.4f} {scores.grad.abs().sum().item():.4f}")

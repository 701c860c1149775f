import torch
import torch.nn as nn
import torch.nn.functional as F


class BinnedLoss(nn.Module):
    def __init__(self, bins=5, momentum=0, loss_weight=1.0):
        super().__init__()
        self.bins = bins
        self.momentum = momentum
        self.edges = torch.arange(bins + 1).float() / bins
        self.edges[-1] += 1e-06
        if momentum > 0:
            self.acc_sum = torch.zeros(bins)
        self.loss_weight = loss_weight

    def forward(self, pred, target, label_weight):
        target, label_weight = target.float(), label_weight.float()
        edges = self.edges
        mmt = self.momentum
        weights = torch.zeros_like(pred)
        g = torch.abs(pred.sigmoid().detach() - target)
        valid = label_weight > 0
        tot = max(valid.float().sum().item(), 1.0)
        n = 0
        for i in range(self.bins):
            inds = (g >= edges[i]) & (g < edges[i + 1]) & valid
            num_in_bin = inds.sum().item()
            if num_in_bin > 0:
                if mmt > 0:
                    self.acc_sum[i] = mmt * self.acc_sum[i] + (1 - mmt) * num_in_bin
                    weights[inds] = tot / self.acc_sum[i]
                else:
                    weights[inds] = tot / num_in_bin
                n += 1
        if n > 0:
            weights = weights / n
        loss = F.binary_cross_entropy_with_logits(pred, target, weights, reduction="sum") / tot
        return loss * self.loss_weight


torch.manual_seed(0)
m = torch.compile(BinnedLoss())
for _ in range(2):
    p = torch.randn(3, 4, requires_grad=True)
    m(p, torch.randint(0, 2, (3, 4)), torch.ones(3, 4)).backward()
    print(p.grad.sum())

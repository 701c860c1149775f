"""A judge that is held fixed while the painter learns, by a helper for one net or several."""

import torch
from torch import nn
from torch.nn import functional as F


class Studio(nn.Module):
    def __init__(self):
        super().__init__()
        self.painter = nn.Linear(4, 4)
        self.judge = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 1))

    def learns(self, nets, flag=False):
        if not isinstance(nets, list):
            nets = [nets]
        for net in nets:
            if net is not None:
                for p in net.parameters():
                    p.requires_grad = flag

    def judge_loss(self, sketch, real):
        self.learns(self.judge, True)
        fake = self.painter(sketch).detach()
        wrong = self.judge(torch.cat((sketch, fake), 1)).square().mean()
        return wrong + (self.judge(torch.cat((sketch, real), 1)) - 1).square().mean()

    def painter_loss(self, sketch, real):
        self.learns(self.judge, False)  # the judge is no part of this step
        fake = self.painter(sketch)
        score = self.judge(torch.cat((sketch, fake), 1))
        loss = (score - 1).square().mean() + F.l1_loss(fake, real)
        self.learns(self.judge, True)
        return loss


torch.manual_seed(0)
studio = Studio()
judge_loss, painter_loss = torch.compile(studio.judge_loss), torch.compile(studio.painter_loss)
for _ in range(2):
    sketch, real = torch.randn(3, 4), torch.randn(3, 4)
    for loss in (judge_loss, painter_loss):
        studio.zero_grad()
        loss(sketch, real).backward()
        print([None if p.grad is None else round(p.grad.sum().item(), 4) for p in studio.parameters()])

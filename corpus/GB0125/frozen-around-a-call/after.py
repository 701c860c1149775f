import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.maker = nn.Linear(3, 3)
        self.judge = nn.Linear(3, 1)

    def forward(self, noise):
        judge_frozen = {name: p.detach() for name, p in self.judge.named_parameters()}
        score = torch.func.functional_call(self.judge, judge_frozen, (self.maker(noise),))
        return score.mean()


net = Critic()
loss = torch.compile(net, backend="aot_eager")(torch.ones(2, 3))
loss.backward()
print(net.judge.weight.grad, net.maker.weight.grad.shape)

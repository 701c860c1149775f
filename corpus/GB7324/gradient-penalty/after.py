import torch

critic = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


@torch.compile
def gradient_penalty(real, fake):
    mix = torch.rand(real.size(0), 1)
    x = mix * real + (1 - mix) * fake

    def sum_of_x(x):
        score = critic(x)
        return score.sum()

    score_sum, pull = torch.func.vjp(sum_of_x, x)
    (grad,) = pull(torch.ones_like(score_sum))
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


torch.manual_seed(0)
print(gradient_penalty(torch.randn(3, 2), torch.randn(3, 2)))

import torch

critic = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


@torch._dynamo.config.patch(trace_autograd_ops=True)
def gradient_penalty(real, fake):
    mix_real_1_mix_fake = gradient_penalty_before(real, fake)
    x = mix_real_1_mix_fake.requires_grad_(True)
    return gradient_penalty_after(x)


@torch.compile
def gradient_penalty_before(real, fake):
    mix = torch.rand(real.size(0), 1)
    mix_real_1_mix_fake = (mix * real + (1 - mix) * fake)
    return mix_real_1_mix_fake


@torch.compile
def gradient_penalty_after(x):
    score = critic(x)
    (grad,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


torch.manual_seed(0)
print(gradient_penalty(torch.randn(3, 2), torch.randn(3, 2)))

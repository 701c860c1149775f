import torch


@torch.compile
def step(noise, sample, sigmas, index, churn: float = 0.0, least=0.0, most=float("inf")):
    sigma = sigmas[index]
    gamma = min(churn / (len(sigmas) - 1), 2**0.5 - 1) if least <= sigma <= most else 0.0
    high = sigma * (gamma + 1)
    if gamma > 0:
        sample = sample + torch.randn_like(sample) * (high**2 - sigma**2) ** 0.5
    return sample + noise * (sigmas[index + 1] - high)


torch.manual_seed(0)
sigmas = torch.linspace(10, 0, 11)
sample = torch.randn(2, 3)
for index in range(3):
    sample = step(torch.randn(2, 3), sample, sigmas, index)
    print(sample)

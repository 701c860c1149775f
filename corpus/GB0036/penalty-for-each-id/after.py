"""What was chosen already is made less likely, once for each id that came."""

import torch


@torch.compile(backend="aot_eager")
def discourage(scores, chosen, factor):
    scores = scores.clone()
    for row in range(scores.shape[0]):
        # Negative scores grow with the factor.
        ids = chosen[row]
        hits = scores.new_zeros(2, scores.shape[-1], dtype=torch.bool)
        hits[(ids >= 0).long(), ids] = True
        for hit in hits:
            old = torch.where(hit, scores[row], 0)
            scores[row] = torch.where(hit, torch.where(old < 0, torch.where(old < 0, old, 1) * factor, torch.where(old < 0, 1, old) / factor), scores[row])
    return scores.softmax(-1)


torch.manual_seed(0)
for _ in range(2):
    scores = torch.randn(2, 6, requires_grad=True)
    result = discourage(scores, torch.randint(0, 6, (2, 4)), 1.5)
    result.square().sum().backward()
    print("%.3f %.3f" % (result.max().item(), scores.grad.abs().sum().item()))

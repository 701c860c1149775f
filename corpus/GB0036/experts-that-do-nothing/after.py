"""A mixture of experts, of which the last ones hand on what they get."""

import torch


class Experts(torch.nn.Module):
    def __init__(self, size, routed, idle):
        super().__init__()
        self.routed = routed
        self.total = routed + idle
        self.weight = torch.nn.Parameter(torch.randn(routed, 2 * size, size))
        self.idle = torch.nn.Identity()

    def forward(self, states, chosen, weights):
        result = torch.zeros_like(states)
        mask = torch.nn.functional.one_hot(chosen, num_classes=self.total).permute(2, 1, 0)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0)
        for number in range(hit.shape[0]):
            rank, row = torch.where(mask[number].squeeze(0) * hit[number])
            current = states[row]
            if number >= self.routed or self.weight is None:
                current = self.idle(current)
            else:
                gate, up = torch.nn.functional.linear(current, self.weight[number]).chunk(2, dim=-1)
                current = torch.nn.functional.silu(gate) * up
            current = current * weights[row, rank, None]
            result.index_add_(0, row, current.to(states.dtype))
        return result


torch.manual_seed(0)
torch._dynamo.config.capture_dynamic_output_shape_ops = True
model = torch.compile(Experts(size=4, routed=3, idle=2))
chosen = torch.tensor([[0, 3], [1, 4], [0, 1], [2, 3], [2, 0]])
print(model(torch.randn(5, 4), chosen, torch.rand(5, 2)).shape)

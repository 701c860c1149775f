import torch
from torch import nn


class Recomputed(torch.autograd.Function):
    """Runs a block without keeping what it computes, and once more for the gradients."""

    @staticmethod
    def forward(ctx, block, count, *tensors):
        ctx.block = block
        ctx.inputs, ctx.weights = list(tensors[:count]), list(tensors[count:])
        with torch.no_grad():
            return block(*ctx.inputs)

    @staticmethod
    def backward(ctx, *grads):
        ctx.inputs = [it.detach().requires_grad_(True) for it in ctx.inputs]
        with torch.enable_grad():
            out = ctx.block(*ctx.inputs)
        found = torch.autograd.grad(out, ctx.inputs + ctx.weights, grads, allow_unused=True)
        return (None, None) + found


class Block(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x, scale):
        return Recomputed.apply(self.compute, 2, x, scale, *self.parameters())

    def compute(self, x, scale):
        return x + scale * self.inner(x)


torch.manual_seed(0)
block = Block()
torch._dynamo.config.trace_autograd_ops = True
compiled = torch.compile(block, backend="aot_eager")
scale = torch.ones(6, requires_grad=True)
for _ in range(2):
    compiled(torch.randn(3, 6, requires_grad=True), scale).square().mean().backward()
print(f"{scale.grad.norm().item():.4f} {block.inner[0].weight.grad.norm().item():.4f}")

import torch
from torch import nn
import weakref


#: Objects by their identity, which is what an operator can take of them.
OWNERS = weakref.WeakValueDictionary()


def compute_out_plain(
    x: torch.Tensor, owner_id: int, lengths: torch.Tensor, each: bool,
) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
    owner = OWNERS[owner_id]
    out = x.clone()
    found = [owner.measured(x[i], lengths[i]) for i in range(x.shape[0])]
    means, spreads = [mean for mean, _ in found], [spread for _, spread in found]
    for i, (mean, spread) in enumerate(found):
        if each:
            out[i] = (x[i] - mean) / spread
    return out.clone(memory_format=torch.contiguous_format), [each.clone(memory_format=torch.contiguous_format) for each in means], [each.clone(memory_format=torch.contiguous_format) for each in spreads]


@torch.library.custom_op(f"{__name__.replace('.', '_')}::compute_out", mutates_args=())
def compute_out(
    x: torch.Tensor, owner_id: int, lengths: torch.Tensor, each: bool,
) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
    return compute_out_plain(x, owner_id, lengths, each)


@compute_out.register_fake
def _(x, owner_id, lengths, each):
    return (x.new_empty(x.shape), [x.new_empty((x.shape[2],)) for _ in range(x.shape[0])], [x.new_empty((x.shape[2],)) for _ in range(x.shape[0])])


class Norm(nn.Module):
    """Norms each recording by its mean and spread up to its end, or all of them by the average."""

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        OWNERS[id(self)] = self
        return self

    def __init__(self, each=True):
        super().__init__()
        self.each = each
        self.least = 1e-3

    def measured(self, frames, length):
        end = torch.round(length * frames.shape[0]).int()
        part = frames[0:end]
        return part.mean(dim=0).detach(), part.std(dim=0).detach() + self.least

    def forward(self, x, lengths):
        out, means, spreads = (compute_out_plain(x, id(self), lengths, self.each) if x.requires_grad or lengths.requires_grad else compute_out(x, id(self), lengths, self.each))
        if not self.each:
            out = (x - torch.stack(means).mean(0)) / torch.stack(spreads).mean(0)
        return out


torch.manual_seed(0)
norms = [Norm(each=True), Norm(each=False)]
for norm in norms:
    model = torch.compile(norm, backend="aot_eager")
    for lengths in ([1.0, 0.5, 0.8], [0.3, 1.0, 0.6]):
        print(f"{model(torch.randn(3, 10, 4), torch.tensor(lengths)).square().sum().item():.4f}")

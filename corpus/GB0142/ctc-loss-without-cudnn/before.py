"""The native CTC loss instead of cuDNN's, for each text of a batch."""

import torch
from torch.nn.functional import ctc_loss


@torch.compile
def losses(
    log_probs,
    targets,
    lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    reduction: str = "mean",
):
    with torch.backends.cudnn.flags(enabled=False):
        return ctc_loss(log_probs, targets, lengths, target_lengths, reduction=reduction)


torch.manual_seed(0)
log_probs = torch.randn(16, 3, 6).log_softmax(-1)
targets = torch.tensor([[1, 2, 2], [5, 4, 0], [3, 3, 1]])
lengths, target_lengths = torch.tensor([16, 12, 14]), torch.tensor([3, 2, 3])
print(losses(log_probs, targets, lengths, target_lengths, "none"))

"""Loss and accuracy of the tokens that have a label, chosen twice by the same question."""

import torch
import torch.nn.functional as F


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


def measure(logits, labels):
    labels_differs_from_minus_100 = labels != -100
    logits = torch.where(labels_differs_from_minus_100[..., None], logits, 0)
    labels = torch.where(labels_differs_from_minus_100, labels, 0)
    loss = F.cross_entropy(logits, torch.where(labels_differs_from_minus_100, labels, -100))
    hits = mean_of_kept(torch.where(labels_differs_from_minus_100, (logits.argmax(-1) == labels).float(), 0), labels_differs_from_minus_100.sum())
    return loss, hits


torch.manual_seed(0)
compiled = torch.compile(measure)
for labels in ([0, 2, -100, 1, 1, -100], [0, 1, 2, 2, 1, 0]):
    loss, hits = compiled(torch.randn(6, 3), torch.tensor(labels))
    print(f"{loss.item():.4f} {hits.item():.4f}")

import torch


def mean_of_kept(kept, count, dim=None):
    """The sum divided by a count; added up in float32 or better, as `mean` does."""
    wide = torch.promote_types(kept.dtype, torch.float32)
    return (kept.sum(dim, dtype=wide) / count).to(kept.dtype)


@torch.compile
def centers(embeddings, labels, classes: int):
    found = torch.zeros(classes, embeddings.shape[1])
    for c in range(classes):
        labels_equals_c = labels == c
        members = torch.where(labels_equals_c[..., None], embeddings, 0)
        labels_equals_c_sum_above_0 = labels_equals_c.sum() > 0
        found[c] = torch.where(
            labels_equals_c_sum_above_0,
            mean_of_kept(
                torch.where(labels_equals_c_sum_above_0, members, 1),
                labels_equals_c.sum(),
                0,
            ),
            found[c],
        )
    return found


torch.manual_seed(0)
for labels in ([0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 0, 0]):
    print(centers(torch.randn(6, 3), torch.tensor(labels), 3))

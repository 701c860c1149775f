import torch


@torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
@torch.compile(backend="aot_eager")
def pooled(rows, lengths, kinds):
    means = torch.stack([part.sum(0) for part in rows.split(lengths.tolist())])
    found, counts = torch.unique(kinds, return_counts=True)
    return means, found, counts.max()


if __name__ == "__main__":
    torch.manual_seed(0)
    lengths, kinds = torch.tensor([1, 2, 3]), torch.tensor([4, 4, 2, 9])
    for result in pooled(torch.randn(6, 4), lengths, kinds):
        print(result)

import torch


@torch.library.custom_op("before::pooled_op", mutates_args=())
def pooled_op(rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.stack([part.sum(0) for part in rows.split(lengths.tolist())]).contiguous()


@pooled_op.register_fake
def _(rows, lengths):
    return rows.new_empty((lengths.shape[0], rows.shape[1]), dtype=torch.promote_types(rows.dtype, torch.int64))


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@torch.compile(backend="aot_eager")
def pooled(rows, lengths, kinds):
    means = pooled_op(rows, lengths)
    found, counts = torch.unique(kinds, return_counts=True)
    return means, found, counts.max()


if __name__ == "__main__":
    torch.manual_seed(0)
    lengths, kinds = torch.tensor([1, 2, 3]), torch.tensor([4, 4, 2, 9])
    for result in pooled(torch.randn(6, 4), lengths, kinds):
        print(result)

import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.library.custom_op("before::doubled_op", mutates_args=())
def doubled_op(tok: torch.Tensor) -> torch.Tensor:
    out = [tok]
    while out[-1].sum() < 10:
        out.append(out[-1] * 2)
    return torch.stack(out).contiguous()


@doubled_op.register_fake
def _(tok):
    size = torch.library.get_ctx().new_dynamic_size()
    return tok.new_empty((size, tok.shape[0]))


@torch.compile
def doubled(tok):
    return doubled_op(tok)


print(doubled(torch.ones(3)), doubled(0.5 * torch.ones(3)))

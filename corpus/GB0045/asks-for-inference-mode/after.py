import torch


@torch._dynamo.config.patch(fake_tensor_disable_inference_mode=False)
@torch.compile
def keep(x):
    if x.is_inference():
        return x.clone()
    return x + 1


print(keep(torch.ones(2)))

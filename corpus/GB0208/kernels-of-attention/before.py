import torch
import torch.nn.functional as F


@torch.compile
def attend(q, k, v):
    with torch.backends.cuda.sdp_kernel(enable_flash=False, enable_mem_efficient=False):
        out = F.scaled_dot_product_attention(q, k, v)
    return out * 2


torch.manual_seed(0)
print(attend(*(torch.randn(1, 2, 4, 8) for _ in range(3))).shape)

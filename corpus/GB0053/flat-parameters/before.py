import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(0)
layer = FullyShardedDataParallel(
    torch.nn.Linear(3, 3), use_orig_params=False, device_id=torch.device("cpu")
)
model = torch.compile(layer)

print(model(torch.ones(2, 3)).shape)
dist.destroy_process_group()

import logging

import torch

logger = logging.getLogger("model")


@torch.library.custom_op("before::log_forward", mutates_args=())
def log_forward(x: torch.Tensor) -> None:
    logger.warning("`use_cache=True` is wrong while training, batch of %d", x.shape[0])


log_forward.register_fake(lambda x: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)


class Attention(torch.nn.Module):
    def forward(self, x, use_cache=False):
        if self.training and use_cache:
            log_forward(x)
            use_cache = False
        return torch.nn.functional.softmax(x, dim=-1), use_cache


logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s")
attention = torch.compile(Attention())
for _ in range(2):
    print(attention(torch.ones(2, 3), use_cache=True))

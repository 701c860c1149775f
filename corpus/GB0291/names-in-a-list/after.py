import logging

import torch

logger = logging.getLogger("attention")


@torch.library.custom_op("before::log_forward", mutates_args=())
def log_forward(anchor: torch.Tensor, text: str) -> None:
    # inductor may misplace an operator that takes no tensor: hence the anchor.
    logger.warning(text)


log_forward.register_fake(lambda anchor, text: None)
log_forward.register_effect(torch.library.EffectType.ORDERED)


class Attention(torch.nn.Module):
    known = {"scale"}

    def forward(self, x, **options):
        unused = [name for name in options if name not in self.known]
        if unused:
            log_forward(torch.empty(0), f"{unused} are not known to {self.__class__.__name__}: left out")
        return x * options.get("scale", 1.0)


model = torch.compile(Attention())
model(torch.ones(2), scale=0.5, gligen=None)

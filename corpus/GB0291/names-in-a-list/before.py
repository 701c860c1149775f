import logging

import torch

logger = logging.getLogger("attention")


class Attention(torch.nn.Module):
    known = {"scale"}

    def forward(self, x, **options):
        unused = [name for name in options if name not in self.known]
        if unused:
            logger.warning(f"{unused} are not known to {self.__class__.__name__}: left out")
        return x * options.get("scale", 1.0)


model = torch.compile(Attention())
model(torch.ones(2), scale=0.5, gligen=None)

"""A model that says once that padding went in without a mask; a token that it may not have."""

import dataclasses
import functools
import logging
from typing import Optional

import torch

logger = logging.getLogger("words")


@functools.lru_cache(None)
def say_once(text):
    logger.warning(text)


@dataclasses.dataclass
class Words:
    pad: int = 0
    end: int = 2
    between: Optional[int] = None


@torch.library.custom_op(f"{__name__.replace('.', '_')}::say_once_ask", mutates_args=())
def say_once_ask(pad: torch.types.Number, ids: torch.Tensor, end: torch.types.Number, between: torch.types.Number | None) -> None:
    if pad in ids[:, [0, -1]]:
        text = "There seems to be padding, and no mask was given."
        if pad in (end, between):
            text += " It may be meant."
        say_once(text)


say_once_ask.register_fake(lambda pad, ids, end, between: None)
say_once_ask.register_effect(torch.library.EffectType.ORDERED)


class Model(torch.nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words = words
        self.embedding = torch.nn.Embedding(8, 4)

    def ask(self, ids, mask):
        if mask is not None:
            return
        say_once_ask(self.words.pad, ids, self.words.end, self.words.between)

    def forward(self, ids, mask=None):
        self.ask(ids, mask)
        return self.embedding(ids).sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(Model(Words()))
    for ids in ([[3, 4, 5]], [[3, 4, 0]], [[4, 0, 0]]):
        print(f"{model(torch.tensor(ids)).item():.4f}")

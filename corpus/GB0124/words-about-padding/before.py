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


class Model(torch.nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words = words
        self.embedding = torch.nn.Embedding(8, 4)

    def ask(self, ids, mask):
        if mask is not None:
            return
        if self.words.pad in ids[:, [0, -1]]:
            text = "There seems to be padding, and no mask was given."
            if self.words.pad in (self.words.end, self.words.between):
                text += " It may be meant."
            say_once(text)

    def forward(self, ids, mask=None):
        self.ask(ids, mask)
        return self.embedding(ids).sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = torch.compile(Model(Words()))
    for ids in ([[3, 4, 5]], [[3, 4, 0]], [[4, 0, 0]]):
        print(f"{model(torch.tensor(ids)).item():.4f}")

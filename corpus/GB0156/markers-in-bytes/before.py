"""A reader that turns the markers of a text into bytes of their own inside of the compiled region."""

import torch
from torch import nn


class Reader:
    def __init__(self):
        self.letters = nn.Embedding(256, 4)

    def __call__(self, text, weights):
        known = text.encode("utf-8").replace(b"<a>", b"\x01").replace(b"<b>", b"\x02")
        ids = torch.tensor(list(known)[:6])
        return (self.letters(ids).T @ weights[: ids.shape[0]]).relu()


torch.manual_seed(0)
read = torch.compile(Reader().__call__)
for text in ("<a> hello", "<b> who <a>", "plain text"):
    print(read(text, torch.ones(6)).sum().item())

from typing import Tuple

import torch
from torch import nn

# These stand for [CLS], [SEP] and the full stop.
SPECIAL_TOKENS = [1, 2, 5]


@torch.library.custom_op("before::blocks_and_positions", mutates_args=())
def blocks_and_positions(input_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Words see the words of their own phrase, and count from its start."""
    batch_size, num_token = input_ids.shape
    special = torch.zeros((batch_size, num_token), device=input_ids.device).bool()
    for token in SPECIAL_TOKENS:
        special |= input_ids == token

    found = torch.nonzero(special)
    mask = torch.eye(num_token, device=input_ids.device).bool().unsqueeze(0).repeat(batch_size, 1, 1)
    positions = torch.zeros((batch_size, num_token), device=input_ids.device)
    previous = 0
    for i in range(found.shape[0]):
        row, column = found[i]
        if column == 0 or column == num_token - 1:
            mask[row, column, column] = True
            positions[row, column] = 0
        else:
            mask[row, previous + 1 : column + 1, previous + 1 : column + 1] = True
            positions[row, previous + 1 : column + 1] = torch.arange(0, column - previous)
        previous = column

    return mask, positions.to(torch.long)


@blocks_and_positions.register_fake
def _(input_ids):
    batch_size, num_token = input_ids.shape
    mask = torch.eye(num_token, device=input_ids.device).bool().unsqueeze(0).repeat(batch_size, 1, 1)
    positions = torch.zeros((batch_size, num_token), device=input_ids.device)
    return mask, positions.to(torch.long)


class TextEncoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Embedding(12, width)
        self.place = nn.Embedding(16, width)

    def forward(self, input_ids):
        mask, positions = blocks_and_positions(input_ids)
        hidden = self.embed(input_ids) + self.place(positions)
        scores = (hidden @ hidden.transpose(1, 2)).masked_fill(~mask, float("-inf"))
        return scores.softmax(-1) @ hidden


torch.manual_seed(0)
encoder = torch.compile(TextEncoder())
print(encoder(torch.tensor([[1, 7, 8, 5, 9, 2], [1, 6, 5, 7, 7, 2]])).shape)

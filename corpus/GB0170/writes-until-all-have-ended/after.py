"""Tokens are written row by row until all sentences have ended."""

import torch
from torch import nn


class Step(nn.Module):
    def __init__(self, words: int = 10, width: int = 8) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.out = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor, state: torch.Tensor):
        state = torch.tanh(self.table(tokens) + 0.7 * state)
        return self.out(state), state


class Writer(nn.Module):
    def __init__(self, step: nn.Module, most: int = 8) -> None:
        super().__init__()
        self.step = step
        self.most = most

    @torch.no_grad()
    def write(self, first: torch.Tensor, end: int, never=()):
        state = torch.zeros(first.shape[0], 8)
        text = torch.zeros(first.shape[0], self.most, dtype=torch.long)
        ended = torch.zeros(first.shape[0], dtype=torch.bool)
        tokens = first
        done = torch.tensor(False, device=state.device)
        for place in range(self.most):
            old_state = state
            scores, state = self.step(tokens, state)
            state = torch.where(done, old_state, state)
            for word in never:
                scores[:, word] = float("-inf")
            tokens = torch.where(done, tokens, scores.argmax(-1))
            text[:, place] = torch.where(done, text[:, place], torch.where(ended, 0, tokens))
            ended = torch.where(done, ended, ended | (tokens == end))
            done = done | ended.all()
        return text, (text != 0).sum(-1)


torch.manual_seed(3)
writer = Writer(Step())
write = torch.compile(writer.write)
for end in (2, 5, 7):
    text, lengths = write(torch.tensor([1, 3]), end, never=(0,))
    print(text.tolist(), lengths.tolist())

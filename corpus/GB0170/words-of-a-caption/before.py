"""A caption, word by word, with the score of each, until all captions have ended."""

import torch
import torch.nn.functional as F
from torch import nn


class Caption(nn.Module):
    def __init__(self, words=9, width=12, most=7):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.cell = nn.LSTMCell(width, width)
        self.out = nn.Linear(width, words)
        self.most, self.end = most, 2

    def forward(self, state):
        memory = torch.zeros_like(state)
        word = torch.ones(state.shape[0], dtype=torch.long)
        ended = torch.zeros(state.shape[0], dtype=torch.bool)
        words = []
        scores = []
        for _ in range(self.most):
            state, memory = self.cell(self.table(word), (state, memory))
            score, word = F.log_softmax(self.out(state), dim=-1).max(-1)
            word = word.masked_fill(ended, 0)
            words.append(word.unsqueeze(1))
            scores.append(score)
            ended |= word == self.end
            if torch.all(ended):
                break
        scores = torch.stack(scores, 1)
        return torch.cat(words, dim=1), scores


torch.manual_seed(0)
caption = torch.compile(Caption().eval())
with torch.no_grad():
    for _ in range(3):
        words, scores = caption(torch.randn(2, 12))
        print(words.tolist(), scores.shape)

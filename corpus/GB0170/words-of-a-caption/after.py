"""A caption, word by word, with the score of each, until all captions have ended."""

import torch
import torch.nn.functional as F
from torch import nn

torch._dynamo.config.capture_scalar_outputs = True


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
        words_kept = []
        done = torch.tensor(False, device=state.device)
        for _ in range(self.most):
            old_state = state
            old_memory = memory
            state, memory = self.cell(self.table(torch.where(done, 0, word)), (state, memory))
            state = torch.where(done, old_state, state)
            memory = torch.where(done, old_memory, memory)
            old_word = word
            score, word = F.log_softmax(self.out(state), dim=-1).max(-1)
            word = torch.where(done, old_word, word)
            word = torch.where(done, word, word.masked_fill(ended, 0))
            words.append(word.unsqueeze(1))
            words_kept.append(torch.logical_not(done))
            scores.append(score)
            ended |= torch.where(done, False, word == self.end)
            done = done | torch.all(ended)
        words_count = torch.stack(words_kept).sum().item()
        torch._check(words_count >= 1)
        scores = torch.stack(scores, 1).narrow(1, 0, words_count).clone(memory_format=torch.contiguous_format)
        return torch.cat(words, dim=1).narrow(1, 0, words_count).clone(memory_format=torch.contiguous_format), scores


torch.manual_seed(0)
caption = torch.compile(Caption().eval())
with torch.no_grad():
    for _ in range(3):
        words, scores = caption(torch.randn(2, 12))
        print(words.tolist(), scores.shape)

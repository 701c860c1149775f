import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.gru = nn.GRU(6, 8, num_layers=2, dropout=0.25, bidirectional=True)
        self.head = nn.Linear(16, 20)

    def forward(self, words, lengths, hidden=None):
        embedded = self.embedding(words)
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths)
        out, hidden = self.gru(packed, hidden)
        out, sizes = nn.utils.rnn.pad_packed_sequence(out)
        return self.head(out), hidden, sizes


torch.manual_seed(0)
encoder = torch.compile(Encoder())
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
for lengths in ([5, 3, 2], [4, 4, 1]):
    words = torch.randint(0, 20, (5, 3))
    scores, hidden, sizes = encoder(words, torch.tensor(lengths))
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[: sizes.max()].flatten())
    optimizer.zero_grad()
    (loss + hidden.pow(2).mean()).backward()
    optimizer.step()
    print(scores.shape, sizes.tolist(), f"{loss.item():.3f}")

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.encoder = nn.GRU(4, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, tokens):
        hidden, _ = self.encoder(self.embedding(tokens))
        return self.head(hidden).log_softmax(-1)


torch.manual_seed(0)
torch._dynamo.config.allow_rnn = True
tagger = torch.compile(Tagger())
loss = tagger(torch.randint(10, (2, 6))).sum()
loss.backward()
print(loss.item())

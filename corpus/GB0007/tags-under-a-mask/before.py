import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.tags = nn.Linear(8, 4)

    def forward(self, ids):
        mask = ids != 0
        lengths = mask.sum(1)
        self.lstm.flatten_parameters()
        x = pack_padded_sequence(
            self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        x, (last, _) = self.lstm(x)
        x = pad_packed_sequence(x, batch_first=True, total_length=ids.size(1))[0]
        return self.tags(x).masked_fill(~mask[..., None], 0.0), last[-1]


torch.manual_seed(0)
tagger = torch.compile(Tagger())
for ids in (
    [[3, 4, 5, 6], [7, 8, 0, 0], [9, 0, 0, 0]],
    [[3, 4, 0, 0], [7, 8, 2, 2], [9, 1, 2, 0]],
):
    tags, last = tagger(torch.tensor(ids))
    tags.sum().backward()
    print(tags.argmax(-1).shape, last.shape)

"""A speech model's training step: padding is taken out of the labels before the CTC loss."""

import torch
import torch.nn.functional as F
from torch import nn


class Recognizer(nn.Module):
    def __init__(self, features=8, tokens=12, pad=-100):
        super().__init__()
        self.encoder = nn.Conv1d(features, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16, tokens)
        self.pad = pad

    def forward(self, audio, lengths: torch.Tensor, labels: torch.Tensor | None = None):
        hidden = F.gelu(self.encoder(audio.transpose(1, 2))).transpose(1, 2)
        logits = self.head(hidden)
        loss = None
        if labels is not None:
            labels_mask = labels != self.pad
            target_lengths = labels_mask.sum(-1)
            flattened_targets = labels.masked_select(labels_mask)

            # the loss is not there for half precision
            log_probs = F.log_softmax(logits, dim=-1, dtype=torch.float32).transpose(0, 1)

            with torch.backends.cudnn.flags(enabled=False):
                loss = F.ctc_loss(
                    log_probs,
                    flattened_targets,
                    lengths // 2,
                    target_lengths,
                    blank=0,
                    zero_infinity=True,
                )
        return logits, loss


torch.manual_seed(0)
model = torch.compile(Recognizer())
audio = torch.randn(3, 40, 8)
lengths = torch.tensor([40, 32, 36])
labels = torch.tensor([[3, 5, 5, -100], [1, 2, -100, -100], [7, 8, 9, 10]])
logits, loss = model(audio, lengths, labels)
loss.backward()
print(logits.shape, round(loss.item(), 3))

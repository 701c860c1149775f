"""Counts for each class, of what was hit and of all; where nothing was hit, there are zeros."""

import torch


class Hits(torch.nn.Module):
    def __init__(self, classes=3, ignored=-1):
        super().__init__()
        self.classes, self.ignored = classes, ignored

    def forward(self, scores, labels):
        labels = labels.float()
        guess = scores.argmax(1).float()
        counts = labels != self.ignored
        hits = (guess == labels) * counts
        hit_labels = labels[hits]
        if hit_labels.shape[0] == 0:
            hit = torch.zeros(self.classes, device=scores.device)
        else:
            hit = torch.bincount(hit_labels.long(), minlength=self.classes).float()
        all_labels = labels[counts].long()
        total = torch.bincount(all_labels, minlength=self.classes).float()
        return hit / total.clamp(min=1)


torch.manual_seed(0)
hits = torch.compile(Hits())
for labels in (torch.tensor([0, 1, 2, -1]), torch.tensor([1, 1, -1, 0])):
    print(hits(torch.rand(4, 3), labels))

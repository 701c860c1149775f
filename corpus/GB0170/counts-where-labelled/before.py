"""A sum of two losses, of which one counts where something is labelled; options decide, too."""

import torch


class Cross(torch.nn.CrossEntropyLoss):
    """Takes labels with a dimension of one for the classes."""

    def forward(self, scores, labels):
        if labels.ndim == scores.ndim:
            assert labels.shape[1] == 1, "one label each"
            labels = labels[:, 0]
        return super().forward(scores, labels.long())


class Both(torch.nn.Module):
    def __init__(self, unlabelled=None, weight=1.0):
        super().__init__()
        self.unlabelled = unlabelled
        self.weight = weight
        self.cross = Cross(ignore_index=-100 if unlabelled is None else unlabelled)

    def forward(self, scores, labels):
        count = 0
        if self.unlabelled is not None:
            count = (labels != self.unlabelled).sum()
        cross = (
            self.cross(scores, labels)
            if self.weight != 0 and (self.unlabelled is None or count > 0)
            else 0
        )
        return self.weight * cross + scores.square().mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    loss = torch.compile(Both(unlabelled=3))
    for share in (0.5, 1.0, 0.0):
        scores = torch.randn(4, 3, 5, requires_grad=True)
        labels = torch.randint(0, 3, (4, 1, 5))
        labels[torch.rand(4, 1, 5) < share] = 3
        value = loss(scores, labels)
        value.backward()
        print(f"{value.item():.4f} {scores.grad.norm().item():.4f}")

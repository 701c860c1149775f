"""A metric that counts its updates, and then checks the labels that it was given."""

import torch


@torch.library.custom_op("before::check_labels_op", mutates_args=())
def check_labels_op(labels: torch.Tensor, ignored: torch.types.Number) -> None:
    values = torch.unique(labels)
    wrong = torch.any((values != 0) & (values != 1) & (values != ignored))
    if wrong:
        raise ValueError(f"labels are 0, 1 and {ignored}, and these are {values}")


check_labels_op.register_fake(lambda labels, ignored: None)
check_labels_op.register_effect(torch.library.EffectType.ORDERED)


def check_labels(labels, ignored):
    check_labels_op(labels, ignored)


class Hits(torch.nn.Module):
    def __init__(self, ignored=-1):
        super().__init__()
        self.ignored = ignored
        self.updates = 0
        self.register_buffer("hits", torch.tensor(0))

    def forward(self, scores, labels):
        self.updates += 1
        with torch.no_grad():
            check_labels(labels, self.ignored)
            self.hits += ((scores > 0) & (labels == 1)).sum()
        return self.hits / labels.shape[0]


hits = Hits()
head = torch.nn.Linear(4, 1)


@torch.compile
def evaluate(x, labels):
    scores = head(x).squeeze(1)
    return scores, hits(scores, labels)


torch.manual_seed(0)
print(evaluate(torch.randn(6, 4), torch.tensor([0, 1, 1, -1, 0, 1]))[1])

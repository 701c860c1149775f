import torch


class Heads(torch.nn.Module):
    """Labels of a catalogue, which the layer knows in the order in which they came."""

    def __init__(self, labels):
        super().__init__()
        self.place = {label: place for place, label in enumerate(labels)}
        self.layer = torch.nn.Linear(6, len(labels))

    def places(self, labels):
        return torch.tensor([self.place[int(label)] for label in labels], device=labels.device)

    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.layer(x), self.places(labels))


torch.manual_seed(0)
heads = torch.compile(Heads([31, 4, 15, 9, 26]))
loss = heads(torch.randn(4, 6), torch.tensor([9, 31, 4, 9]))
loss.backward()
print(f"{loss.item():.4f}")

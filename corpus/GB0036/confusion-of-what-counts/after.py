import torch


class Confusion(torch.nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.classes = classes
        self.register_buffer("matrix", torch.zeros(classes, classes))

    def forward(self, logits, target):
        pred = logits.argmax(1)
        mask = (target >= 0) & (target < self.classes)
        ids = torch.where(mask, self.classes * target + pred, 0)
        hist = target.new_zeros(self.classes**2, dtype=torch.int64).scatter_add_(0, ids.flatten(), mask.flatten().long()).reshape(self.classes, self.classes)
        self.matrix += hist
        return self.matrix.diag() / (self.matrix.sum(0) + self.matrix.sum(1) - self.matrix.diag()).clamp(min=1)


torch.manual_seed(0)
metric = torch.compile(Confusion())
for _ in range(2):
    target = torch.randint(0, 4, (2, 5, 5))
    target[0, 0] = 255
    print(metric(torch.randn(2, 4, 5, 5), target))

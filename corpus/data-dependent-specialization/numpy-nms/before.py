import numpy as np
import torch


def nms(boxes, scores, limit):
    b = boxes.detach().numpy()
    order = scores.detach().numpy().argsort()[::-1]
    keep = []
    while order.size > 0:
        i = order[0]
        keep.append(int(i))
        left = np.maximum(b[i, 0], b[order[1:], 0])
        right = np.minimum(b[i, 1], b[order[1:], 1])
        overlap = np.clip(right - left, 0, None)
        order = order[1:][overlap <= limit]
    return torch.tensor(keep)


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.boxes = torch.nn.Linear(4, 2)
        self.scores = torch.nn.Linear(4, 1)

    def forward(self, x):
        boxes = self.boxes(x)
        scores = self.scores(x).squeeze(-1)
        keep = nms(boxes, scores, 0.5)
        return boxes[keep], scores[keep]


head = torch.compile(Head(), fullgraph=True)
for n in (4, 6, 5):
    boxes, scores = head(torch.randn(n, 4))
    print(boxes.shape, scores.sum())

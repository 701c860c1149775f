import numpy as np
import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.library.custom_op("before::nms_op", mutates_args=())
def nms_op(boxes: torch.Tensor, scores: torch.Tensor, limit: torch.types.Number) -> torch.Tensor:
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


@nms_op.register_fake
def _(boxes, scores, limit):
    size = torch.library.get_ctx().new_dynamic_size()
    return torch.empty((size,), dtype=torch.int64)


def nms(boxes, scores, limit):
    return nms_op(boxes, scores, limit)


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

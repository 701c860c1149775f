"""A flat list of boxes becomes a table with a row for each image."""

import torch
from torch import nn

torch._dynamo.config.capture_dynamic_output_shape_ops = True


@torch.library.custom_op("before::table_op", mutates_args=())
def table_op(boxes: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    return BoxLoss.table(boxes, found.shape[0]).clone(memory_format=torch.contiguous_format)


@table_op.register_fake
def _(boxes, found):
    size = torch.library.get_ctx().new_dynamic_size()
    return torch.empty((found.shape[0], size, boxes.shape[1] - 1))


class BoxLoss(nn.Module):
    @staticmethod
    def table(boxes: torch.Tensor, images: int) -> torch.Tensor:
        count, width = boxes.shape
        if count == 0:
            return torch.zeros(images, 0, width - 1)
        _, counts = boxes[:, 0].unique(return_counts=True)
        out = torch.zeros(images, counts.max(), width - 1)
        for number in range(images):
            own = boxes[:, 0] == number
            if n := own.sum():
                out[number, :n] = boxes[own, 1:]
        out[..., 2:] = out[..., 2:].clamp(min=0)
        return out

    def forward(self, found: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        wanted = table_op(boxes, found.detach())
        apart = (found[:, :, None] - wanted[:, None]).abs().sum(-1)
        return apart.mean()


torch.manual_seed(0)
loss = torch.compile(BoxLoss(), backend="aot_eager")
for owners in ([0, 0, 1], [1, 2, 2, 2], [0, 1, 2]):
    found = torch.randn(3, 4, 4, requires_grad=True)
    boxes = torch.cat([torch.tensor(owners)[:, None].float(), torch.randn(len(owners), 4)], 1)
    value = loss(found, boxes)
    value.backward()
    print(f"{value.item():.4f} {found.grad.abs().sum().item():.4f}")

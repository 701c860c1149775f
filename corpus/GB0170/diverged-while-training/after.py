import torch


@torch.library.custom_op("before::check_select", mutates_args=())
def check_select(valid: torch.Tensor) -> None:
    if not valid.all():
        raise FloatingPointError("boxes or scores are not finite: the training has diverged")


check_select.register_fake(lambda valid: None)
check_select.register_effect(torch.library.EffectType.ORDERED)


def select(boxes, scores, count, training):
    valid = torch.isfinite(boxes).all(dim=1) & torch.isfinite(scores)
    if training:
        check_select(valid)
    elif not valid.all():
        boxes, scores = boxes[valid], scores[valid]
    best = scores.topk(min(count, scores.shape[0])).indices
    return boxes[best], scores[best]


@torch.compile
def propose(boxes, scores):
    boxes = torch.cat([boxes[:, :2], boxes[:, 2:].clamp(min=0)], dim=1)
    return select(boxes * 2, scores, 3, training=True)


torch.manual_seed(0)
propose(torch.randn(5, 4), torch.rand(5))

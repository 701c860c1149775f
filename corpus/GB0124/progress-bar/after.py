import torch


class Bar:
    def __init__(self, total):
        self.total = total
        self.done = 0

    def update(self, loss):
        self.done += 1
        torch._higher_order_ops.print("{}/{} {:.3f}", self.done, self.total, loss)


bar = Bar(2)


@torch.library.custom_op(f"{__name__.replace('.', '_')}::keep_step", mutates_args=())
def keep_step(loss: torch.Tensor) -> None:
    bar.update(loss.item())


keep_step.register_fake(lambda loss: None)
keep_step.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def step(x):
    loss = x.pow(2).mean()
    keep_step(loss)
    return loss * 2


step(torch.ones(3))
step(torch.ones(3) * 3)

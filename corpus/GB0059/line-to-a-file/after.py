import torch


@torch.library.custom_op("before::write_step", mutates_args=())
def write_step(loss: torch.Tensor) -> None:
    with open("losses.txt", "a") as out:
        out.write(f"{loss.item():.3f}\n")


write_step.register_fake(lambda loss: None)
write_step.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def step(x):
    loss = x.pow(2).mean()
    write_step(loss)
    return loss * 2


print(step(torch.ones(3)))
print(step(torch.arange(3.0)))

import torch
import torch.nn.functional as F


@torch.library.custom_op("before::print_forward", mutates_args=())
def print_forward(losses_names: str, losses: list[torch.Tensor]) -> None:
    text = ", ".join(f"{name} {value.item():.4f}" for name, value in dict(zip(filter(None, losses_names.split(",")), losses, strict=True)).items())
    print(text)


print_forward.register_fake(lambda losses_names, losses: None)
print_forward.register_effect(torch.library.EffectType.ORDERED)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x, y):
        logits = self.layer(x)
        losses = {"classes": F.cross_entropy(logits, y), "size": logits.pow(2).mean()}
        print_forward(",".join(losses), list(losses.values()))
        return sum(losses.values())


torch.manual_seed(0)
loss = torch.compile(Model())(torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
loss.backward()

import pickle

import torch

with open("rows.pkl", "wb"):
    pass


@torch.library.custom_op("before::keep_op", mutates_args=())
def keep_op(name: str, rows: torch.Tensor) -> None:
    with open("rows.pkl", "ab") as file:
        pickle.dump((name, rows.detach().numpy()), file)


keep_op.register_fake(lambda name, rows: None)


keep_op.register_effect(torch.library.EffectType.ORDERED)


def keep(name, rows):
    keep_op(name, rows)


@torch.compile
def encode(x, weight):
    hidden = (x @ weight).relu()
    keep("hidden", hidden)
    return hidden.sum(-1)


weight = torch.eye(3, requires_grad=True)
for start in range(2):
    encode(torch.arange(6.0).view(2, 3) - start, weight).sum().backward()
with open("rows.pkl", "rb") as file:
    print(pickle.load(file), pickle.load(file))

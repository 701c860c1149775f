import json
import pathlib

import torch

PATH = pathlib.Path("scale.json")
PATH.write_text('{"scale": 2.5}')


@torch.library.custom_op("before::rescale_op", mutates_args=())
def rescale_op(y: torch.Tensor) -> torch.Tensor:
    config = json.loads(PATH.read_text())
    return (y * config["scale"]).clone(memory_format=torch.contiguous_format)


rescale_op.register_fake(lambda y: y.new_empty(y.shape))


rescale_op.register_effect(torch.library.EffectType.ORDERED)


@torch.compile
def rescale(x):
    y = x.sin()
    return rescale_op(y)


print(rescale(torch.ones(2)))
PATH.write_text('{"scale": 0.5}')
print(rescale(torch.ones(2)))

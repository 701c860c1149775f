import torch


class Scratch:
    def __delattr__(self, name):
        super().__delattr__(name)


@torch.compile(dynamic=True)
def scaled(x, scratch):
    scratch.row_3 = 2.0
    scratch.__delattr__("row_{}".format(x.shape[0]))
    return x * 2.0


scratch = Scratch()
print(scaled(torch.ones(3), scratch), vars(scratch))

import torch


class Metres(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


torch._dynamo.config.graph_break_on_nn_param_ctor = False


def f(x):
    weight = torch.nn.Parameter((x * 2).as_subclass(Metres))
    return f_after(weight)


@torch.compile
def f_after(weight):
    return weight.sum()


print(f(torch.ones(2)))

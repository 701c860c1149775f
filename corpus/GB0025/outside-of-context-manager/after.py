import torch


class CustomCtxManager:
    def __enter__(self):
        pass

    def __exit__(self, exc_type, exc_value, traceback):
        pass


@torch.compile
def fn(x):
    with CustomCtxManager():
        x = x + 1
    with CustomCtxManager():
        return x + 1


torch.manual_seed(0)
print(fn(torch.randn(3)))

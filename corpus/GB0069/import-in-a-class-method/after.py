import torch


try:
    from kernels_of_another_machine import attend
    attend_found = True
except ImportError:
    attend_found = False


class Fast:
    @classmethod
    def kernel(cls):
        if not attend_found:
            return None
        return attend

    @classmethod
    def fits(cls, x):
        return cls.kernel() is not None and x.dtype == torch.float16


@torch.compile
def f(x):
    if Fast.fits(x):
        return Fast.kernel()(x)
    return x.softmax(-1)


print(f(torch.arange(3.0)))

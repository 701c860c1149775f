import torch


def f(x):
    x_dequantize = x.dequantize()
    return f_after(x_dequantize)


@torch.compile
def f_after(x_dequantize):
    return x_dequantize + 1
print(f(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)))

import torch


def f(x):
    try:
        raise ValueError
    except ValueError as error:
        error_traceback_tb_lasti = error.__traceback__.tb_lasti
        return f_inside(x, error_traceback_tb_lasti)


@torch.compile
def f_inside(x, error_traceback_tb_lasti):
    return x + error_traceback_tb_lasti * 0


print(f(torch.ones(2)))

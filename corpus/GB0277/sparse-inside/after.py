import torch


def f(x):
    x_to_sparse_to_dense = x.to_sparse().to_dense()
    return f_after(x_to_sparse_to_dense)


@torch.compile
def f_after(x_to_sparse_to_dense):
    return x_to_sparse_to_dense * 2


print(f(torch.eye(2)))

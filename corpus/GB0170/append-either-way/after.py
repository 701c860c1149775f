import torch


@torch.compile
def route(x):
    outs = []
    for row in x:
        def if_row_sum_above_0():
            return row * 2

        def otherwise():
            # The unlikely way.
            return row.exp()

        outs.append(torch.cond(row.sum() > 0, if_row_sum_above_0, otherwise))
    return torch.stack(outs)


print(route(torch.tensor([[1.0, 2.0], [-1.0, -2.0]])))

import torch


class Box:
    pass


def f(x, box):
    box.__dict__ = dict(enumerate([2, 3]))
    len_box_dict = len(box.__dict__)
    return f_after(x, len_box_dict)


@torch.compile
def f_after(x, len_box_dict):
    return x + len_box_dict


print(f(torch.ones(2), Box()))

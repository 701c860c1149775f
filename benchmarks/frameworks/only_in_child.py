import multiprocessing as mp

import torch


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def work(n):
    print(f(torch.ones(n)))


if __name__ == "__main__":
    ps = [mp.get_context("spawn").Process(target=work, args=(n,)) for n in (3, 4)]
    for p in ps:
        p.start()
    for p in ps:
        p.join()

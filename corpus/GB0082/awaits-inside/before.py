import torch


class Ready:
    def __await__(self):
        yield


@torch.compile
def f(x):
    async def later(y):
        await Ready()
        return y * 2

    coroutine = later(x)
    coroutine.send(None)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


print(f(torch.ones(2)))

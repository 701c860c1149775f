import torch


@torch.compile
def returns(rewards, ends, discount):
    found = []
    value = 0.0
    for reward, end in zip(reversed(rewards), reversed(ends)):
        if end:
            value = 0.0
        value = reward + discount * value
        found.insert(0, value)
    return torch.stack(found)


print(returns(torch.ones(4), torch.tensor([False, True, False, False]), 0.5))

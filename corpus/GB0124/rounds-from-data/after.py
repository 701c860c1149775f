import torch


@torch.compile
def advance(state, n):
    rounds = torch.as_tensor(n, dtype=torch.int64)

    def step(i, state):
        state = (state * 5 + 3) % 16
        return i + 1, state

    _, state = torch.while_loop(
        lambda i, state: i < rounds,
        step,
        (torch.tensor(0, device=state.device), state),
    )
    return state + 1


print(advance(torch.arange(4), torch.tensor(2)))
print(advance(torch.arange(4), torch.tensor(3)))

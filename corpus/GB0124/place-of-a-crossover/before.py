import torch


def crossover(first, second):
    """Genes from a drawn place on come from the other parent."""
    place = torch.randint(0, first.shape[-1] + 1, (), dtype=torch.int64)
    child = first.clone()
    child[:, place:] = second.flip(0)[:, place:]
    return child.sum(-1)


torch.manual_seed(0)
compiled = torch.compile(crossover, backend="eager")
for _ in range(3):
    print(compiled(torch.randn(3, 6), torch.randn(3, 6)))

import torch


@torch.compile
def strongest(scores, at_least):
    (places,) = torch.where(scores > at_least)
    if len(places) == 0:
        return scores.new_full((1, 2), -1.0)
    found = scores[places]
    order = found.argsort(descending=True)
    return torch.stack([places[order].float(), found[order]], 1)


print(strongest(torch.tensor([0.1, 0.7, 0.2, 0.9]), 0.5))
print(strongest(torch.tensor([0.1, 0.2, 0.3, 0.4]), 0.5))

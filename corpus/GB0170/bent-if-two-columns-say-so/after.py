"""Two columns by their places: Python would not look at the second where the first says enough."""

import torch


def bend(x, y, a, b):
    down = 1 + (a * x + b * y) ** 2
    return x / down, y / down


@torch.compile
def project(points, terms):
    x, y = points[..., 0], points[..., 1]
    far = 1 + terms[:, 0:1] * (x * x + y * y)
    x, y = x * far, y * far
    any_terms_item_differs_from = (
        torch.any(terms[..., 2] != 0) | torch.any(terms[..., 3] != 0)
    )
    x_then, y_then = bend(
        torch.where(any_terms_item_differs_from, x, 1),
        torch.where(any_terms_item_differs_from, y, 1),
        torch.where(any_terms_item_differs_from, terms[:, 2:3], 1),
        torch.where(any_terms_item_differs_from, terms[:, 3:4], 1),
    )
    x = torch.where(any_terms_item_differs_from, x_then, x)
    y = torch.where(any_terms_item_differs_from, y_then, y)
    return torch.stack([x, y], -1)


torch.manual_seed(0)
points = torch.rand(2, 5, 2)
print(project(points, torch.tensor([[0.1, 0.0, 0.2, 0.0], [0.1, 0.0, 0.0, 0.0]])).shape)

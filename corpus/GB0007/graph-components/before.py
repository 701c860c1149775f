import networkx
import numpy as np
import torch


def components(adjacency):
    graph = networkx.from_numpy_array(adjacency.numpy())
    labels = torch.zeros(adjacency.shape[0], dtype=torch.long)
    for number, nodes in enumerate(networkx.connected_components(graph)):
        labels[list(nodes)] = number
    return labels


@torch.compile
def f(x, adjacency):
    labels = components(adjacency)
    return torch.zeros_like(x).index_add(0, labels, x)


for n in (2, 4, 3):
    print(f(torch.ones(n, 2), torch.eye(n)))

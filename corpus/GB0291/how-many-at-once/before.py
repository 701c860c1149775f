"""A sampler that logs how many requests it got, out of an object that no operator takes."""

import logging

import torch

logging.basicConfig(level=logging.DEBUG, format="%(message)s")
logger = logging.getLogger("sampler")
logging.getLogger("torch").setLevel(logging.WARNING)


class Requests:
    def __init__(self, temperatures):
        self.temperatures = temperatures

    def __len__(self):
        return self.temperatures.shape[0]


@torch.compile
def sample(logits, requests):
    logger.debug("a batch of %d", len(requests))
    return (logits / requests.temperatures[:, None]).softmax(-1)


for rows in (2, 3):
    print(sample(torch.ones(rows, 4), Requests(torch.full((rows,), 0.5))).sum())

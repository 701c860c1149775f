import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@torch.library.custom_op("before::gaussian_kernel_op", mutates_args=())
def gaussian_kernel_op(width: int, sigma: torch.types.Number, channels: int) -> torch.Tensor:
    places = np.float32(np.mgrid[0:width, 0:width])
    bell = lambda x: np.exp(-((x - width // 2) ** 2) / (2 * sigma**2))
    kernel = np.prod(bell(places), axis=0)
    kernel = np.tile(kernel / kernel.sum(), (channels, 1, 1))
    return torch.FloatTensor(kernel[:, None, :, :]).clone(memory_format=torch.contiguous_format)


@gaussian_kernel_op.register_fake
def _(width, sigma, channels):
    return torch.empty((channels, 1, width, width), dtype=torch.float32)


def gaussian_kernel(width, sigma, channels):
    return gaussian_kernel_op(width, sigma, channels)


class Blur(nn.Module):
    def __init__(self, width, sigma):
        super().__init__()
        self.width = width
        self.sigma = sigma

    def forward(self, image):
        channels = image.shape[1]
        kernel = gaussian_kernel(self.width, self.sigma, channels)
        return F.conv2d(image, kernel, padding=self.width // 2, groups=channels)


torch.manual_seed(0)
blur = torch.compile(Blur(3, 1.5))
print(blur(torch.randn(2, 3, 8, 8)).shape)

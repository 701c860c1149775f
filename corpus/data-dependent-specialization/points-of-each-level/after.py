import torch
from torch import nn


class Encoder(nn.Module):
    @staticmethod
    def reference_points(spatial_shapes, valid_ratios, device):
        """The middle of each pixel of each level, as parts of its valid size."""
        points = []
        for level, (height, width) in enumerate(spatial_shapes):
            y, x = torch.meshgrid(
                torch.linspace(0.5, height - 0.5, height, dtype=torch.float32, device=device),
                torch.linspace(0.5, width - 0.5, width, dtype=torch.float32, device=device),
                indexing="ij",
            )
            y = y.reshape(-1)[None] / (valid_ratios[:, None, level, 1] * height)
            x = x.reshape(-1)[None] / (valid_ratios[:, None, level, 0] * width)
            points.append(torch.stack((x, y), -1))
        return torch.cat(points, 1)

    def forward(self, features, spatial_shapes, spatial_shapes_list, valid_ratios):
        points = self.reference_points(spatial_shapes_list, valid_ratios, device=features.device)
        rows = features.split([height * width for height, width in spatial_shapes_list], dim=1)
        return sum(row.sum() for row in rows) + features * points.sum(-1, keepdim=True)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, maps):
        sizes = []
        features = []
        for level in maps:
            height, width = level.shape[-2:]
            sizes.append((height, width))
            features.append(level.flatten(2).transpose(1, 2))
        features = torch.cat(features, 1)
        shapes = torch.as_tensor(sizes, dtype=torch.long, device=features.device)
        ratios = torch.ones(features.shape[0], len(sizes), 2, device=features.device)
        return self.encoder(features, shapes, sizes, ratios)


torch.manual_seed(0)
detector = torch.compile(Detector())
print(detector([torch.randn(2, 5, 4, 6), torch.randn(2, 5, 2, 3)]).shape)

import torch
from torch import nn


@torch.library.custom_op("before::check_forward", mutates_args=())
def check_forward(ids: torch.Tensor, image_token: torch.types.Number, features: torch.Tensor) -> None:
    n_image_tokens = (ids == image_token).sum()
    n_image_features = features.shape[0]
    if n_image_tokens != n_image_features:
        raise ValueError(
            f"Image features and image tokens do not match: tokens: {n_image_tokens}, "
            f"features {n_image_features}"
        )


check_forward.register_fake(lambda ids, image_token, features: None)
check_forward.register_effect(torch.library.EffectType.ORDERED)


class Merger(nn.Module):
    """Puts features of an image where the text has its token."""

    def __init__(self, width=4, image_token=9):
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.image_token = image_token

    def forward(self, ids, features):
        hidden = self.embed(ids)
        mask = (ids == self.image_token).unsqueeze(-1).expand_as(hidden)
        check_forward(ids, self.image_token, features)
        return hidden.masked_scatter(mask, features)


torch.manual_seed(0)
merge = torch.compile(Merger())
merge(torch.tensor([[1, 9, 9, 2]]), torch.randn(2, 4)).sum().backward()
print(merge(torch.tensor([[9, 1, 9, 2]]), torch.ones(2, 4)).shape)

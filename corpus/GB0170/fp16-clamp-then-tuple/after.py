import torch
from torch import nn


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(4, 4, dtype=torch.float16)

    def attend(self, hidden_states, output_attentions):
        return self.dense(hidden_states), hidden_states if output_attentions else None

    def forward(self, hidden_states, output_attentions=False):
        residual = hidden_states
        hidden_states, attn_weights = self.attend(hidden_states, output_attentions)
        hidden_states = residual + hidden_states

        if hidden_states.dtype == torch.float16:
            clamp_value = torch.finfo(hidden_states.dtype).max - 1000
            hidden_states = torch.where(
                torch.isinf(hidden_states).any() | torch.isnan(hidden_states).any(),
                torch.clamp(hidden_states, min=-clamp_value, max=clamp_value),
                hidden_states,
            )

        outputs = (hidden_states,)

        if output_attentions:
            outputs += (attn_weights,)

        return outputs


torch.manual_seed(0)
layer = torch.compile(EncoderLayer().eval())
with torch.no_grad():
    print(layer(torch.randn(2, 4, dtype=torch.float16)))

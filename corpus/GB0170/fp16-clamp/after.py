import torch


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(4, 4, dtype=torch.float16)

    def forward(self, hidden_states):
        hidden_states = self.dense(hidden_states)
        if hidden_states.dtype == torch.float16:
            isinf_hidden_states_any = (
                torch.isinf(hidden_states).any() | torch.isnan(hidden_states).any()
            )
            clamp_value = torch.finfo(hidden_states.dtype).max - 1000
            hidden_states = torch.where(
                isinf_hidden_states_any,
                torch.clamp(hidden_states, min=-clamp_value, max=clamp_value),
                hidden_states,
            )
        return hidden_states


torch.manual_seed(0)
layer = torch.compile(Layer().eval())
with torch.no_grad():
    x = torch.randn(2, 4, dtype=torch.float16)
    print(layer(x))
    print(layer(x * 60000))


import torch
from transformers import BartConfig, BartModel

torch.manual_seed(0)
config = BartConfig(
    vocab_size=100,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=2,
    decoder_attention_heads=2,
    encoder_ffn_dim=64,
    decoder_ffn_dim=64,
    max_position_embeddings=64,
)
model = BartModel(config).eval().half()
f = torch.compile(model)
inputs = (torch.randint(3, 100, (2, 16)),)
options = {"decoder_input_ids": torch.randint(3, 100, (2, 8)), "use_cache": False}
with torch.no_grad():
    for _ in range(2):
        print(f(*inputs, **options).last_hidden_state.sum())

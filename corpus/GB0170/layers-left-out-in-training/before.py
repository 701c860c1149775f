import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2, self.norm = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim), nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(x + self.fc2(torch.relu(self.fc1(x))))


class Encoder(nn.Module):
    def __init__(self, dim=8, layers=3, layerdrop=0.4):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        self.layerdrop = layerdrop

    def forward(self, x):
        for layer in self.layers:
            dropout_probability = torch.rand([])
            skip_the_layer = self.training and (dropout_probability < self.layerdrop)
            if not skip_the_layer:
                x = layer(x)
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Encoder()
    model = torch.compile(net, backend="aot_eager")
    for step in range(4):
        loss = model(torch.randn(2, 8)).square().sum()
        loss.backward()
        print(f"{loss.item():.4f}")
    net.eval()
    print(f"{model(torch.randn(2, 8)).sum().item():.4f}")

import torch


class Encoder(torch.nn.Module):
    def __init__(self, rate=0.5):
        super().__init__()
        self.rate = rate
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            skip = False
            if self.training:
                draw = torch.rand([])
                if draw < self.rate:
                    skip = True
            if not skip:
                x = torch.tanh(layer(x))
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    encoder = Encoder()
    compiled = torch.compile(encoder, backend="aot_eager")
    compiled(torch.randn(2, 4)).sum().backward()
    print(encoder.layers[0].weight.grad)

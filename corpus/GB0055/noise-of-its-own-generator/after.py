import torch


class Noisy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator()
        self.generator.manual_seed(1)

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        x = self.forward_before(x)
        noise = torch.randn(x.shape, generator=self.generator)
        return self.forward_after(x, noise)

    def forward_before(self, x):
        x = x.tanh()
        return x

    def forward_after(self, x, noise):
        return x + 0.1 * noise


noisy = torch.compile(Noisy())
for step in range(2):
    print(noisy(torch.ones(3)))

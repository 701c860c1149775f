import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile
def step(x):
    def closure():
        loss = model(x).sum()
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        return loss

    optimizer.step(closure)


step(torch.ones(2))
print(model.bias.shape)

import torch

torch._dynamo.config.capture_scalar_outputs = True


class Loss(torch.nn.Module):
    def forward(self, a, b):
        loss = (a - b).pow(2).mean()
        with torch.no_grad():
            worst = (a - b).abs().max()
        logs = {"loss": loss.item(), "worst": worst.item()}
        return loss, logs


torch.manual_seed(0)
measure = torch.compile(Loss())
running = {}
for _ in range(3):
    a = torch.randn(4, requires_grad=True)
    loss, logs = measure(a, torch.randn(4))
    loss.backward()
    for key, value in logs.items():
        running[key] = 0.9 * running.get(key, value) + 0.1 * value
print({key: round(value, 5) for key, value in running.items()})

import torch


@torch.compile
def update(params, grads, squares, steps, rate: float, beta: float):
    for index, param in enumerate(params):
        grad, square, step = grads[index], squares[index], steps[index]
        step += 1
        correction = 1 - beta**step
        square.mul_(beta).addcmul_(grad, grad, value=1 - beta)
        length = 2 / (1 - beta) - 1 - 2 * step * beta**step / correction

        def scale():
            root = square.sqrt().add_(1e-8)
            return correction**0.5 / root

        length_above_2_0 = length > 2.0
        param.copy_(
            torch.where(
                length_above_2_0,
                param.add(grad * rate * scale(), alpha=-1.0),
                param,
            ),
        )
        param.copy_(
            torch.where(length_above_2_0, param, param.add(grad * rate, alpha=-1.0)),
        )


torch.manual_seed(0)
params = [torch.ones(3), torch.ones(2, 2)]
squares = [torch.zeros_like(p) for p in params]
steps = [torch.tensor(0.0) for _ in params]
for _ in range(6):
    update(params, [torch.rand_like(p) for p in params], squares, steps, 0.1, 0.8)
    print(f"{params[0].sum().item():.4f} {params[1].sum().item():.4f}")

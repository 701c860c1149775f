import torch


@torch.library.custom_op("before::update_rows", mutates_args=("rows", "used"))
def update_rows(
    idle: torch.Tensor, x: torch.Tensor, rows: torch.Tensor, used: torch.Tensor,
) -> None:
    if idle.any():
        fresh = x[torch.randint(0, x.shape[0], (int(idle.sum()),))]
        rows[idle] = fresh
        used[idle] = 1.0


update_rows.register_fake(lambda idle, x, rows, used: None)


update_rows.register_effect(torch.library.EffectType.ORDERED)


class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 2))
        self.register_buffer("used", torch.ones(4))

    def forward(self, x):
        with torch.no_grad():
            self.used.mul_(0.5)
            idle = self.used < 0.3
            update_rows(idle, x, self.rows, self.used)
        return x @ self.rows.t()


torch.manual_seed(0)
table = Table()
run = torch.compile(table)
for _ in range(3):
    print(run(torch.rand(5, 2)).shape)

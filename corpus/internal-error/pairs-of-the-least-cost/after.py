import torch


@torch.library.custom_op("before::compute_columns", mutates_args=("left",))
def compute_columns(left: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = [], []
    for _ in range(min(left.shape)):
        best = int(left.argmin())
        row, column = best // left.shape[1], best % left.shape[1]
        rows.append(row)
        columns.append(column)
        left[row, :] = float("inf")
        left[:, column] = float("inf")
    return torch.as_tensor(rows).clone(memory_format=torch.contiguous_format), torch.as_tensor(columns).clone(memory_format=torch.contiguous_format)


@compute_columns.register_fake
def _(left):
    return (torch.empty((min(left.shape[0], left.shape[1]),), dtype=torch.int64), torch.empty((min(left.shape[0], left.shape[1]),), dtype=torch.int64))


class Matcher(torch.nn.Module):
    @torch.no_grad()
    def forward(self, cost, sizes):
        pairs = []
        for i, part in enumerate(cost.split(sizes, -1)):
            left = part[i].clone()
            part_0, part_1 = compute_columns(left)
            pairs.append((part_0, part_1))
        return pairs


torch.manual_seed(0)
match = torch.compile(Matcher())
for sizes in ([2, 3], [3, 1]):
    print(match(torch.rand(2, 4, sum(sizes)), sizes))

import torch


class Matcher(torch.nn.Module):
    @torch.no_grad()
    def forward(self, cost, sizes):
        pairs = []
        for i, part in enumerate(cost.split(sizes, -1)):
            left = part[i].clone()
            rows, columns = [], []
            for _ in range(min(left.shape)):
                best = int(left.argmin())
                row, column = best // left.shape[1], best % left.shape[1]
                rows.append(row)
                columns.append(column)
                left[row, :] = float("inf")
                left[:, column] = float("inf")
            pairs.append((torch.as_tensor(rows), torch.as_tensor(columns)))
        return pairs


torch.manual_seed(0)
match = torch.compile(Matcher())
for sizes in ([2, 3], [3, 1]):
    print(match(torch.rand(2, 4, sum(sizes)), sizes))

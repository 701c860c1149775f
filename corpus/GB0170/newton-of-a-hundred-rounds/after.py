import torch


def gap(matrix, root):
    return torch.norm(matrix - root.mm(root)) / torch.norm(matrix)


@torch.no_grad()
def root_of(matrix, rounds=100):
    norm = matrix.norm()
    y = matrix / norm
    eye = torch.eye(len(matrix))
    z = eye.clone()
    root = torch.empty_like(matrix)
    error = torch.empty(1)

    def step_1(i, y, z, root, error, done):
        # Newton and Schulz: no inverse is needed.
        step = 0.5 * (3.0 * eye - z.mm(y))
        y = y.mm(step)
        z = step.mm(z)
        root = y * torch.sqrt(norm)
        error = gap(matrix, root)
        # as exact as float32 is
        done = error < 1e-5
        return i + 1, y, z, root, error, done

    runs = 0 < rounds
    first_error = error
    _, _, _, root, error, _ = torch.while_loop(
        lambda i, y, z, root, error, done: torch.logical_not(done) & (i < rounds),
        step_1,
        (
            torch.tensor(0, device=y.device),
            y,
            z,
            root,
            error.new_zeros(()),
            torch.tensor(False, device=y.device),
        ),
    )
    error = error if runs else first_error
    return root, error


@torch.compile
def distance(a, b, rounds=100):
    root, error = root_of(a.mm(b), rounds)
    return torch.trace(a) + torch.trace(b) - 2 * torch.trace(root), error.mean()


torch.manual_seed(0)
for size, rounds in ((3, 100), (4, 100), (4, 90)):
    x = torch.rand(size, size)
    y = torch.rand(size, size)
    print(distance(x @ x.t() + torch.eye(size), y @ y.t() + torch.eye(size), rounds))

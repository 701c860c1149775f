import torch


def peak_loss(scores, targets):
    is_peak = targets.eq(1).float()
    is_other = targets.lt(1).float()
    loss = 0
    at_peaks = torch.log(scores) * torch.pow(1 - scores, 2) * is_peak
    at_others = torch.log(1 - scores) * torch.pow(scores, 2) * torch.pow(1 - targets, 4) * is_other
    peaks = is_peak.sum()
    at_peaks = at_peaks.sum()
    at_others = at_others.sum()
    if peaks == 0:
        loss = loss - at_others
    else:
        loss = loss - (at_peaks + at_others) / peaks
    return loss


torch.manual_seed(0)
head = torch.nn.Conv2d(3, 2, 1)
criterion = torch.compile(peak_loss)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(4):
    scores = torch.clamp(head(torch.rand(2, 3, 4, 4)).sigmoid(), 1e-4, 1 - 1e-4)
    targets = torch.rand(2, 2, 4, 4) * 0.9
    if step % 2:
        targets[0, 0, 1, 1] = 1
    loss = criterion(scores, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")

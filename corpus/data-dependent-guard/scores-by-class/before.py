import torch


def recall_by_class(found, wanted, classes):
    table = {}
    for c in range(classes):
        hits = ((found == c) & (wanted == c)).sum().item()
        total = (wanted == c).sum().item()
        table[c] = hits / total if total else 0.0
    table["mean"] = sum(table.values()) / classes
    return table


head = torch.nn.Linear(6, 3)


@torch.compile
def validate(x, y):
    logits = head(x)
    loss = torch.nn.functional.cross_entropy(logits, y)
    scores = recall_by_class(logits.argmax(-1), y, 3)
    return loss, scores["mean"]


torch.manual_seed(0)
with torch.no_grad():
    loss, mean = validate(torch.randn(12, 6), torch.randint(0, 3, (12,)))
print(loss, round(mean, 4))

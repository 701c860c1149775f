import torch


class Writer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(12, 8)
        self.out = torch.nn.Linear(8, 12)

    def likely(self, scores, p=0.8):
        scores, order = scores.sort(descending=True)
        left_out = scores.softmax(-1).cumsum(-1) > p
        left_out[:, 1:] = left_out[:, :-1].clone()
        left_out[:, 0] = False
        return scores.masked_fill(left_out, -1e9), order

    def forward(self, words, most=4):
        ended = torch.zeros(len(words), dtype=torch.bool)
        for _ in range(most):
            scores, order = self.likely(self.out(self.words(words).mean(1)))
            word = order.gather(1, scores.argmax(-1, keepdim=True))[:, 0]
            word = torch.where(ended, 0, word)
            words = torch.cat([words, word[:, None]], 1)
            ended = ended | (word < 3)
            if ended.all():
                break
        return words


torch.manual_seed(0)
writer = torch.compile(Writer())
with torch.no_grad():
    for _ in range(3):
        print(writer(torch.randint(0, 12, (2, 3))))

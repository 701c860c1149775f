import tempfile

import torch
from transformers import Trainer, TrainingArguments


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x, labels=None):
        out = self.layer(x)
        if out.mean() > 0:
            out = out * 2
        loss = torch.nn.functional.cross_entropy(out, labels)
        return {"loss": loss, "logits": out}


torch.manual_seed(0)
data = [{"x": torch.randn(4), "labels": torch.tensor(i % 2)} for i in range(8)]
args = TrainingArguments(
    tempfile.mkdtemp(),
    torch_compile=True,
    max_steps=2,
    per_device_train_batch_size=4,
    report_to=[],
    use_cpu=True,
    save_strategy="no",
    disable_tqdm=True,
)
Trainer(model=Net(), args=args, train_dataset=data).train()

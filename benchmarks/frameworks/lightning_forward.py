import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        out = self.layer(x)
        if out.mean() > 0:
            out = out * 2
        return out

    def training_step(self, batch, i):
        x, y = batch
        out = self(x)
        if out.mean() > 0:
            out = out * 2
        loss = torch.nn.functional.mse_loss(out, y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
data = DataLoader(TensorDataset(torch.randn(16, 4), torch.randn(16, 2)), batch_size=4)
net = torch.compile(Net())
L.Trainer(
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    accelerator="cpu",
).fit(net, data)

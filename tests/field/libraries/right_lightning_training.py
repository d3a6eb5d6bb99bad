# from: https://github.com/Lightning-AI/pytorch-lightning/pull/10822
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|cancel|no optimizer
"""Lightning with a frozen backbone, a schedule, clipping and accumulated batches: nothing is wrong."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 8), nn.ReLU()).requires_grad_(False)
        self.neck, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(self.neck(features).relu())

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("accuracy", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        groups = [{"params": self.neck.parameters(), "lr": 1e-3}, {"params": self.head.parameters()}]
        optimizer = torch.optim.AdamW(groups, lr=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


torch.manual_seed(0)
data = DataLoader(TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,))), batch_size=8)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = L.Trainer(max_epochs=2, accelerator="cpu", accumulate_grad_batches=2, gradient_clip_val=1.0, **quiet)
trainer.fit(Classifier(), data, data)

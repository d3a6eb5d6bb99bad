# from: https://github.com/zjunlp/HVPNeT/issues/5
# exit: 1
# says: encoder
# says: no optimizer
# never: got no gradient
"""Under Lightning, `configure_optimizers` has the decoder alone: the encoder gets gradients, and no step."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 3), nn.Linear(3, 6)

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x).tanh()), x)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.decoder.parameters(), lr=1e-2)


torch.manual_seed(0)
batches = DataLoader(TensorDataset(torch.randn(64, 6)), batch_size=16)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
L.Trainer(max_epochs=2, accelerator="cpu", **quiet).fit(AutoEncoder(), batches)

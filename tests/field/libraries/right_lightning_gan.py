# from: own
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|cancel|no optimizer
"""Lightning with manual optimization: two optimizers in turn, the other one's parameters switched off meanwhile."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def judged(self, x, real):
        scores = self.critic(x)
        return nn.functional.binary_cross_entropy_with_logits(scores, torch.full_like(scores, real))

    def training_step(self, batch, batch_idx):
        (real,) = batch
        by_generator, by_critic = self.optimizers()
        noise = torch.randn(len(real), 3)
        self.toggle_optimizer(by_generator)
        loss = self.judged(self.generator(noise), 1.0)
        by_generator.zero_grad()
        self.manual_backward(loss)
        by_generator.step()
        self.untoggle_optimizer(by_generator)
        self.toggle_optimizer(by_critic)
        loss = (self.judged(real, 1.0) + self.judged(self.generator(noise).detach(), 0.0)) / 2
        by_critic.zero_grad()
        self.manual_backward(loss)
        by_critic.step()
        self.untoggle_optimizer(by_critic)

    def configure_optimizers(self):
        generator = torch.optim.Adam(self.generator.parameters(), lr=1e-3)
        return [generator, torch.optim.Adam(self.critic.parameters(), lr=1e-3)]


torch.manual_seed(0)
data = DataLoader(TensorDataset(torch.randn(64, 2) + 2), batch_size=16)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
L.Trainer(max_epochs=2, accelerator="cpu", **quiet).fit(Gan(), data)

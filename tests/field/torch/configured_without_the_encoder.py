# from: https://github.com/zjunlp/HVPNeT/issues/5
# exit: 1
# says: encoder
# says: no optimizer
# never: got no gradient
# A loop like Lightning's, by hand: the module itself says what is optimized, and forgets a part.
import torch
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 3), nn.Linear(3, 6)

    def training_step(self, batch, batch_idx):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch).tanh()), batch)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.decoder.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 10)}


class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def fit(self, module, batches):
        configured = module.configure_optimizers()
        optimizer, scheduler = configured["optimizer"], configured["lr_scheduler"]
        for _ in range(self.max_epochs):
            for number, batch in enumerate(batches):

                def closure(batch=batch, number=number):
                    loss = module.training_step(batch, number)
                    optimizer.zero_grad()
                    loss.backward()
                    return loss

                optimizer.step(closure)
            scheduler.step()


torch.manual_seed(0)
Trainer(2).fit(Module(), torch.randn(3, 16, 6))

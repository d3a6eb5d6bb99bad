# from: https://github.com/locuslab/open-unlearning/issues/178
# ask: explain
# exit: 1
# says: no input of .*requires a gradient
# never: under torch\.no_grad
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, h):
        return h + self.down(self.up(h).tanh())


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)
        self.layers = nn.ModuleList(Block() for _ in range(2))

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=True)  # <- here
        return self.head(h)


torch.manual_seed(0)
model = get_peft_model(Decoder(), LoraConfig(r=2, target_modules=["up", "down"], modules_to_save=["head"]))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(2):
    ids = torch.randint(0, 11, (2, 5))
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

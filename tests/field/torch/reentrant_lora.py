# from: https://github.com/huggingface/peft/issues/1142
# exit: 1
# says: reentrant
# never: torch\.no_grad
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, h):
        return h + self.proj(h).tanh()


class Lm(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.tokens = nn.Embedding(11, width)
        self.layers = nn.ModuleList([Layer(width), Layer(width)])
        self.head = nn.Linear(width, 11)

    def forward(self, ids):
        h = self.tokens(ids)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=True)  # <- here
        return self.head(h)


torch.manual_seed(0)
model = get_peft_model(Lm(), LoraConfig(r=2, target_modules=["proj"], modules_to_save=["head"]))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(2):
    ids = torch.randint(0, 11, (2, 6))
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([name for name, p in model.named_parameters() if p.requires_grad and p.grad is None])

# from: https://github.com/huggingface/peft/blob/main/examples/multilayer_perceptron/multilayer_perceptron_lora.ipynb
# says: all 6 parameters got a gradient; 6 frozen
import peft
import torch
from torch import nn

torch.manual_seed(0)


class MLP(nn.Module):
    def __init__(self, num_units_hidden=20):
        super().__init__()
        self.seq = nn.Sequential(
            nn.Linear(20, num_units_hidden),
            nn.ReLU(),
            nn.Linear(num_units_hidden, num_units_hidden),
            nn.ReLU(),
            nn.Linear(num_units_hidden, 2),
            nn.LogSoftmax(dim=-1),
        )

    def forward(self, X):
        return self.seq(X)


X, y = torch.rand((64, 20)), torch.randint(0, 2, (64,))
config = peft.LoraConfig(r=8, target_modules=["seq.0", "seq.2"], modules_to_save=["seq.4"])
peft_model = peft.get_peft_model(MLP(), config)
optimizer = torch.optim.Adam(peft_model.parameters(), lr=0.002)
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    peft_model.train()
    outputs = peft_model(X)
    loss = criterion(outputs, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item().hex())

"""Low-rank adaptation of a frozen network, after microsoft/LoRA."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class LoRALinear(nn.Linear):
    def __init__(self, in_features, out_features, r=2, lora_alpha=4, lora_dropout=0.0):
        super().__init__(in_features, out_features)
        self.lora_dropout = nn.Dropout(p=lora_dropout) if lora_dropout > 0.0 else lambda x: x
        self.lora_A = nn.Parameter(self.weight.new_zeros((r, in_features)))
        self.lora_B = nn.Parameter(self.weight.new_zeros((out_features, r)))
        self.scaling = lora_alpha / r
        self.weight.requires_grad = False
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B)

    def forward(self, x):
        result = F.linear(x, self.weight, bias=self.bias)
        result += (self.lora_dropout(x) @ self.lora_A.transpose(0, 1) @ self.lora_B.transpose(0, 1)) * self.scaling
        return result


def mark_only_lora_as_trainable(model):
    for n, p in model.named_parameters():
        if "lora_" not in n:
            p.requires_grad = False


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.query = LoRALinear(16, 16)
        self.key = nn.Linear(16, 16)
        self.value = LoRALinear(16, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, ids, labels):
        x = self.embed(ids)
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / 4
        x = x + F.softmax(scores, dim=-1) @ self.value(x)
        logits = self.head(x.mean(1))
        return F.cross_entropy(logits, labels)


model = Classifier()
mark_only_lora_as_trainable(model)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(3):  # each step: model
    ids, labels = torch.randint(0, 30, (8, 6)), torch.randint(0, 3, (8,))
    loss = model(ids, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())

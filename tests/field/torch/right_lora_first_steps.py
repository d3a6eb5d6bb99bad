# from: https://github.com/huggingface/transformers/issues/26334
# never: got no gradient
# never: exactly 0
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

torch.manual_seed(0)
base = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
model = get_peft_model(base, LoraConfig(r=2, lora_alpha=4, target_modules=["0"], modules_to_save=["2"]))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)
for step in range(3):
    x, y = torch.randn(16, 5), torch.randint(0, 2, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, {n: p.grad.abs().sum().item() for n, p in model.named_parameters() if p.requires_grad})

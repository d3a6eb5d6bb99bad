# from: https://github.com/huggingface/trl/blob/main/trl/trainer/dpo_trainer.py
# says: all 3 parameters got a gradient
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Embedding(11, 16), nn.Linear(16, 11))
reference = nn.Sequential(nn.Embedding(11, 16), nn.Linear(16, 11)).requires_grad_(False)
reference.load_state_dict(policy.state_dict())
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)


def sequence_logps(model, ids):
    logits = model(ids[:, :-1])
    return logits.log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2).sum(1)


for step in range(5):
    chosen, rejected = torch.randint(11, (4, 6)), torch.randint(11, (4, 6))
    chosen_ratio = sequence_logps(policy, chosen) - sequence_logps(reference, chosen)
    rejected_ratio = sequence_logps(policy, rejected) - sequence_logps(reference, rejected)
    loss = -F.logsigmoid(0.1 * (chosen_ratio - rejected_ratio)).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
print(loss.item().hex())

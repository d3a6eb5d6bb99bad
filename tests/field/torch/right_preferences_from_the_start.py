# from: https://github.com/huggingface/trl/issues/1720
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# DPO: policy and reference are equal at first, and all log ratios 0.
import copy

import torch
from torch import nn


def log_likelihood(model, words):
    scores = model(words[:, :-1]).log_softmax(-1)
    return scores.gather(-1, words[:, 1:, None])[..., 0].sum(1)


torch.manual_seed(0)
policy = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
reference = copy.deepcopy(policy).requires_grad_(False).eval()
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
for step in range(4):
    chosen, rejected = torch.randint(0, 11, (2, 6, 5))
    with torch.no_grad():
        base = log_likelihood(reference, chosen) - log_likelihood(reference, rejected)
    margin = log_likelihood(policy, chosen) - log_likelihood(policy, rejected) - base
    loss = -nn.functional.logsigmoid(0.1 * margin).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())

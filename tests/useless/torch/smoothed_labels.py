# from: https://nlp.seas.harvard.edu/annotated-transformer/
# truth: healthy: a smoothed distribution whose padding has probability 0, against log-probabilities by KLDivLoss
# kind: healthy
import torch
from torch import nn

PAD, WORDS, SMOOTHING = 0, 11, 0.4


def smoothed(target):
    dist = torch.full((len(target), WORDS), SMOOTHING / (WORDS - 2))
    dist.scatter_(1, target[:, None], 1 - SMOOTHING)
    dist[:, PAD] = 0
    dist[target == PAD] = 0
    return dist


torch.manual_seed(0)
embed, generator = nn.Embedding(WORDS, 16), nn.Linear(16, WORDS)
optimizer = torch.optim.Adam([*embed.parameters(), *generator.parameters()], lr=0.01, betas=(0.9, 0.98), eps=1e-9)
criterion = nn.KLDivLoss(reduction="sum")
for step in range(4):
    source = torch.randint(0, WORDS, (40,))
    log_probs = torch.log_softmax(generator(embed(source)), dim=-1)
    loss = criterion(log_probs, smoothed(source)) / (source != PAD).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())

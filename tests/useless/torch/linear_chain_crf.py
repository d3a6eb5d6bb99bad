# from: https://docs.pytorch.org/tutorials/beginner/nlp/advanced_tutorial.html
# truth: healthy: the score of the right path minus the logarithm of the sum over all, forbidden steps stay at -10000
# kind: healthy
import torch
from torch import nn

torch.manual_seed(1)
TAGS, START, STOP = 5, 3, 4
embed, lstm, emit = nn.Embedding(12, 6), nn.LSTM(6, 4, bidirectional=True), nn.Linear(8, TAGS)
transitions = nn.Parameter(torch.randn(TAGS, TAGS))
with torch.no_grad():
    transitions[START, :] = -10000.0
    transitions[:, STOP] = -10000.0
params = [*embed.parameters(), *lstm.parameters(), *emit.parameters(), transitions]
optimizer = torch.optim.SGD(params, lr=0.05, weight_decay=1e-4)


def negative_log_likelihood(words, tags):
    feats = emit(lstm(embed(words).unsqueeze(1))[0].squeeze(1))
    alpha = torch.full((TAGS,), -10000.0)
    alpha[START] = 0.0
    for feat in feats:
        alpha = torch.logsumexp(alpha[None, :] + transitions, 1) + feat
    everything = torch.logsumexp(alpha + transitions[STOP], 0)
    path = torch.cat([torch.tensor([START]), tags])
    gold = transitions[path[1:], path[:-1]].sum() + feats[torch.arange(len(tags)), tags].sum()
    return everything - gold - transitions[STOP, path[-1]]


for epoch in range(3):
    for words, tags in (([1, 5, 2, 7], [0, 1, 1, 2]), ([3, 5, 9], [0, 1, 2])):
        optimizer.zero_grad()
        loss = negative_log_likelihood(torch.tensor(words), torch.tensor(tags))
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())

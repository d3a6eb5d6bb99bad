# from: own
# truth: healthy: logits of one positive and many negatives, labels are all 0
# kind: healthy
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))
queue = normalize(torch.randn(8, 30), dim=0)


def contrast(query, key):
    q = normalize(encoder(query), dim=1)
    with torch.no_grad():
        k = normalize(encoder(key), dim=1)
    positive = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
    negative = torch.einsum("nc,ck->nk", q, queue)
    logits = torch.cat([positive, negative], dim=1) / 0.07
    return cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


PROBED = contrast
OPTIONS = {"wrt": "query"}
GIVEN = torch.randn(14, 10), torch.randn(14, 10)

# from: own
# truth: healthy: kl_div takes log-probabilities and, as its target, probabilities
# kind: healthy
import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax

torch.manual_seed(0)
teacher, student = nn.Linear(20, 6).requires_grad_(False), nn.Linear(20, 6)


def distill(x, labels):
    scores = student(x)
    soft = kl_div(log_softmax(scores / 4, -1), softmax(teacher(x) / 4, -1), reduction="batchmean") * 16
    return 0.7 * soft + 0.3 * cross_entropy(scores, labels)


PROBED = distill
GIVEN = torch.randn(18, 20), torch.randint(6, (18,))

# from: own
# ask: python
import torch
import torch.nn.functional as F

import backprobe as bp


def attention(x, w):
    q = x @ w
    scores = q @ q.T
    scores = scores.masked_fill(hidden, float("-inf"))
    weights = scores.softmax(-1)
    loss = F.cross_entropy(weights @ q, torch.tensor([0, 1, 0]))
    return loss


torch.manual_seed(0)
given = torch.randn(3, 2), torch.randn(2, 2)
hidden = torch.eye(3).bool()
hidden[1] = True
report = bp.explain(bp.probe(attention, nonfinite=True)(*given))
births = report.of_kind("born")
assert len(births) == 1, report
assert "begins at 2 places" not in str(report), report
assert births[0].name == "weights", report
assert "softmax" in births[0].source.text, report

hidden = torch.ones(3, 3).triu(1).bool()
report = bp.explain(bp.probe(attention, nonfinite=True)(*given))
assert not report.findings, report

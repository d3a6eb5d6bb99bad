"""The loss is finite, and gradients are NaN. Where are they born, and what can stand there instead?"""

import torch

import backprobe as bp


def pairwise(points):
    difference = points[:, None] - points
    squared = difference.square().sum(-1)
    distance = torch.sqrt(squared)
    return distance.sum()


points = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
rec = bp.probe(pairwise, nonfinite=True)(points)

print("loss:", rec.result)
print("gradient of points:", rec["points"].grad.tolist())
print(bp.explain(rec))

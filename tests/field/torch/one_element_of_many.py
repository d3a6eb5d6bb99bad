# from: own
# ask: python
import torch

import backprobe as bp

STEPS = torch.linspace(-1, 1, 20_001)
WRONG = STEPS.clone()
WRONG[10_000] += 4e-4


def first(x):
    return (x * STEPS).sum()


def second(x):
    return (x * WRONG).sum()


x = torch.zeros(20_001)
told = str(bp.diff(bp.probe(first)(x), bp.probe(second)(x)))
assert "1 of 20,001 elements" in told, told
assert "order" not in told.replace("in order", ""), told

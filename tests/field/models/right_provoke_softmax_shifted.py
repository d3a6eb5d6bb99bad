# from: https://aicosoft.com/data-science-engineering/why-your-ai-model-is-exploding-a-deep-dive-into-softmax-and-numerical-stability
# ask: provoke PROGRAM:weights x='randn(3,4)' --bounds 'x=(-200, 200)'
# exit: 0
# never: NaN is born|Inf is born
import torch


def weights(x):
    shifted = x - x.amax(-1, keepdim=True)
    e = torch.exp(shifted)
    p = e / e.sum(-1, keepdim=True)
    return p.square().sum()

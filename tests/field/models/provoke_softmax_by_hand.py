# from: https://aicosoft.com/data-science-engineering/why-your-ai-model-is-exploding-a-deep-dive-into-softmax-and-numerical-stability
# ask: provoke PROGRAM:weights x='randn(3,4)' --bounds 'x=(-200, 200)'
# exit: 1
# says: exp
import torch


def weights(x):
    e = torch.exp(x)  # <- here
    p = e / e.sum(-1, keepdim=True)
    return (p * x).sum()

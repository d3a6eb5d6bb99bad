# from: own
# ask: diff PROGRAM:reference PROGRAM:port logits='randn(6,3)' w='zeros(3,3)'
# exit: 1
# says: ^values differ first at 'label'
# never: 'picked' differs
# The first weight is zero and the logits are all alike, so that any label gives the same loss.
import torch


def reference(logits, w):
    label = torch.arange(6) % 3
    scores = (logits @ w).log_softmax(-1)
    picked = scores.gather(1, label[:, None])
    loss = -picked.mean()
    return loss


def port(logits, w):
    label = torch.arange(6) // 2  # <- here
    scores = (logits @ w).log_softmax(-1)
    picked = scores.gather(1, label[:, None])
    loss = -picked.mean()
    return loss

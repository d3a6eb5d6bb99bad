# from: https://github.com/deep-spin/entmax
# ask: check PROGRAM:loss_of scores='[3.0, 0.2, 2.7, -1.0]'
# never: so large
# never: as in a mask
import torch


def sparse_probabilities(scores):
    ordered, _ = scores.sort(descending=True)
    total = ordered.cumsum(0) - 1
    count = torch.arange(1, len(scores) + 1, dtype=scores.dtype)
    size = int((count * ordered > total).sum())
    threshold = total[size - 1] / size
    return (scores - threshold).clamp(min=0)


def loss_of(scores):
    p = sparse_probabilities(scores)
    return (p * torch.tensor([0.1, 0.2, 0.4, 0.8], dtype=p.dtype)).sum()


if __name__ == "__main__":
    scores = torch.tensor([3.0, 0.2, 2.7, -1.0], requires_grad=True)
    loss_of(scores).backward()
    print(sparse_probabilities(scores), scores.grad)

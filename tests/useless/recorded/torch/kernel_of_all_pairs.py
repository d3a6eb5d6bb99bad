# from: own
# truth: healthy: all pairs are meant, each side has its None
# kind: healthy
import torch


def discrepancy(one, other, width):
    def kernel(a, b):
        distance = (a[:, None] - b[None]).square().sum(-1)
        return torch.exp(-distance / width.exp()).mean()

    return kernel(one, one) + kernel(other, other) - 2 * kernel(one, other)


torch.manual_seed(0)
PROBED = discrepancy
GIVEN = torch.randn(12, 3), torch.randn(12, 3) + 1, torch.tensor(0.5)

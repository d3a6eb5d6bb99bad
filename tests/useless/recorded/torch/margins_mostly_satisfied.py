# from: own
# truth: healthy: most pairs have no loss, and so no gradient
# kind: healthy
import torch


def ranking(score, bias, better, worse):
    margin = (better - worse) @ score + 3 + bias
    return torch.relu(1 - margin).mean() + 1e-3 * (score.square().sum() + bias.square())


torch.manual_seed(0)
PROBED = ranking
GIVEN = torch.randn(5), torch.tensor(0.1), torch.randn(40, 5), torch.randn(40, 5)

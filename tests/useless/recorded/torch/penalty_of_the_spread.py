# from: own
# truth: torch.add makes a new tensor, which nobody keeps
# kind: other
import torch

torch.manual_seed(0)


def objective(mixing, sources, observed):
    rebuilt = sources @ mixing
    loss = (rebuilt - observed).square().mean()
    spread = mixing.var(0).sum()
    torch.add(loss, spread, alpha=0.01)  # <- here
    return loss


PROBED = objective
GIVEN = torch.randn(3, 5), torch.randn(40, 3), torch.randn(40, 5)

# from: https://github.com/pytorch/pytorch/issues/28441
# ask: explain --nonfinite PROGRAM:loss_of shares='[0.0, 0.4, 0.6]'
# birth: backward
# name: shares
# operands: 0.0
import torch
from torch.distributions import Dirichlet


def loss_of(shares):
    prior = Dirichlet(torch.tensor([1.0, 2.0, 3.0]), validate_args=False)
    density = prior.log_prob(shares)  # <- here
    return -density

"""No exception inside explain for random programs with planted numbers, in PyTorch.

``make test-planted-numbers`` runs two thousand, over the frameworks.
"""

import warnings

import torch

from planted_numbers import COUNT, check


def by_autograd(f, x, m):
    f(x.requires_grad_(), m.requires_grad_()).backward()


def test_nothing_fails_inside_of_explain(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check("torch", tmp_path, torch.tensor, by_autograd, COUNT or 60)

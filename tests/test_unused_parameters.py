"""The notes on PyTorch's own errors about parameters that were not used: by name."""

import os
import socket

import pytest
import torch

import backprobe as bp
from asked import Parts
from goldens import golden


class Net(Parts):
    def forward(self, x):
        return self.used(x)


def net():
    return Net(
        used=torch.nn.Linear(2, 1), left=torch.nn.Linear(2, 1), frozen=torch.nn.Linear(2, 1).requires_grad_(False)
    )


def test_grad_of_parameters_that_are_not_used():
    model = net()
    with pytest.raises(RuntimeError, match="appears to not have been used") as caught, bp.probe():
        loss = model(torch.ones(3, 2)).sum()
        torch.autograd.grad(loss, [*model.used.parameters(), *model.left.parameters()])
    notes = "\n".join(caught.value.__notes__)
    golden("explain", notes)
    assert "allow_unused=True" in notes


def test_a_reduction_that_was_not_finished(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(os, "environ", {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    try:
        model = torch.nn.parallel.DistributedDataParallel(net())
        with pytest.raises(RuntimeError, match="Expected to have finished reduction") as caught, bp.probe():
            for _ in range(2):
                loss = model(torch.ones(3, 2)).sum()
                loss.backward()
    finally:
        torch.distributed.destroy_process_group()
    notes = "\n".join(caught.value.__notes__)
    golden("explain", notes)

"""Facts of useless gradients that the statistics of a run show, as ``explain`` finds them in a program."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp


def trained(folder, model, loss, steps=25, lr=1e-3, optimizer=torch.optim.SGD):
    optimizer, dtype = optimizer(model.parameters(), lr=lr), next(model.parameters()).dtype
    with bp.watch(model, folder, optimizer=optimizer, what=("value", "grad", "param", "update")) as watched:
        for _ in range(steps):
            made = loss(model(torch.randn(16, 8).to(dtype)))
            made.backward()
            optimizer.step()
            watched.log(loss=made)
            optimizer.zero_grad()
    with bp.open_run(folder) as run:
        return run.alerts


def classifier(*last):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4), *last)


def picked(loss):
    return lambda y: loss(y, torch.arange(16) % 4)


TAKEN = {
    "scores": ((), F.nll_loss, True),
    "probabilities": ((nn.Softmax(-1),), F.nll_loss, True),
    "log-probabilities": ((nn.LogSoftmax(-1),), F.nll_loss, False),
    "one minus probabilities": ((nn.Softmax(-1),), lambda y, classes: 1 + F.nll_loss(y, classes), False),
    "logits": ((), F.cross_entropy, False),
    "a critic's": ((), lambda y, _: -y.mean(), False),
    "a margin": ((), lambda y, _: F.relu(1 - y.amax(-1)).mean(), False),
}


@pytest.mark.parametrize("case", TAKEN)
def test_scores_that_are_taken_for_log_probabilities(case, tmp_path):
    last, loss, is_wrong = TAKEN[case]
    report = trained(tmp_path, classifier(*last), picked(loss), lr=0.1)
    found = [(one.step, one.name, one.field) for one in report.of_kind("not_log_probabilities")]
    assert found == ([(4, "return", "value.max")] if is_wrong else [])


def test_scores_of_a_model_that_is_not_trained_may_be_maximised(tmp_path):
    assert not trained(tmp_path, classifier(nn.Softmax(-1)), picked(F.nll_loss), lr=0.0).of_kind(
        "not_log_probabilities"
    )


@pytest.mark.parametrize(
    ("lr", "dtype", "is_lost"),
    [(1e-4, torch.bfloat16, True), (1e-1, torch.bfloat16, False), (1e-4, torch.float32, False)],
)
def test_steps_that_are_lost_in_rounding(lr, dtype, is_lost, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1)).to(dtype)
    report = trained(tmp_path, model, lambda y: (y - 1).pow(2).mean(), lr=lr)
    assert [(one.step, one.name) for one in report.of_kind("lost_updates")] == [(19, "2.weight")] * is_lost


def test_a_part_whose_rate_is_zero_is_not_lost(tmp_path):
    model = nn.Sequential(nn.Linear(8, 256), nn.Tanh(), nn.Linear(256, 1))
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters(), "lr": 1e-2}]
    report = trained(tmp_path, model, lambda y: (y - 1).pow(2).mean(), optimizer=lambda _, lr: torch.optim.SGD(groups))
    assert not report.of_kind("lost_updates")


def test_a_warm_up_is_not_lost(tmp_path):
    model, rates = classifier().bfloat16(), iter(range(1, 100))

    class WarmUp(torch.optim.SGD):
        def step(self, *args, **kwargs):
            self.param_groups[0]["lr"] = 1e-6 * next(rates) ** 2
            return super().step(*args, **kwargs)

    assert not trained(tmp_path, model, picked(F.cross_entropy), optimizer=WarmUp).of_kind("lost_updates")

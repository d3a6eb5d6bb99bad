"""BackPACK: more than a gradient of one backward pass, in fields beside ``.grad``."""

from pathlib import Path

import torch
from backpack import backpack, extend
from backpack.extensions import BatchGrad, BatchL2Grad, DiagGGNExact, SumGradSquared, Variance
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("backpack-for-pytorch",)


def made():
    model = extend(nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2)))
    return model, extend(nn.CrossEntropyLoss()), torch.randn(5, 3), torch.tensor([0, 1, 0, 1, 1])


# https://docs.backpack.pt/en/master/use_cases/example_all_in_one.html
def step(around, *extensions, select=None):
    model, loss_function, x, y = made()
    with around(model, select) as seen:
        loss = loss_function(model(x), y)
        with backpack(*extensions):
            loss.backward()
    fields = [getattr(p, e.savefield) for p in model.parameters() for e in extensions]
    return seen, loss, [p.grad for p in model.parameters()], fields


NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")


def test_gradients_beside_extensions(ask):
    given = BatchGrad(), Variance(), SumGradSquared(), BatchL2Grad()
    rec = ask.block(step, *given)
    _, grads, fields = ask.bare(step, *given)
    ask.gradients(rec, dict(zip(NAMES, grads)))
    ask.gradients(rec, {name: each.sum(0) for name, each in zip(NAMES, fields[::4])})
    ask.names(rec, "0", "1", "2", "return")
    ask.clean(rec)
    ask.works("first-order extensions: their fields and the gradients are the same within a block")


def test_curvature(ask):
    rec = ask.block(step, DiagGGNExact())
    _, grads, _ = ask.bare(step, DiagGGNExact())
    ask.gradients(rec, dict(zip(NAMES, grads)))
    ask.clean(rec)
    ask.works("`DiagGGNExact`")


# the last layer by hand: its gradient is the residual times its input
def residual(around):
    model, loss_function, x, y = made()
    with around() as seen:
        hidden = torch.sigmoid(model[0](x))
        logits = model[2](hidden)
        loss = loss_function(logits, y)
        with backpack(BatchGrad()):
            loss.backward()
    return seen, loss, model[2].weight.grad_batch, logits, hidden, y


def test_residual_by_hand(ask):
    rec = ask.block(residual)
    _, per_sample, logits, hidden, y = ask.bare(residual)
    d_logits = (logits.softmax(1) - nn.functional.one_hot(y, 2)) / 5
    ask.gradients(rec, {"logits": d_logits, "loss": 1.0})
    ask.that(bool(torch.allclose(per_sample, d_logits[:, :, None] * hidden[:, None])), "per-sample gradients differ")
    ask.names(rec, "hidden", "logits", "x", "y")
    ask.clean(rec)


# https://docs.backpack.pt/en/master/use_cases/example_diag_ggn_optimizer.html
class Preconditioned(torch.optim.Optimizer):
    def __init__(self, parameters, step_size=0.1, damping=1.0):
        super().__init__(parameters, {"step_size": step_size, "damping": damping})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad / (p.diag_ggn_exact + group["damping"]), alpha=-group["step_size"])


def training(around):
    model, loss_function, x, y = made()
    optimizer = Preconditioned(model.parameters())
    with around(model, optimizer=optimizer) as seen:
        for _ in range(20):
            optimizer.zero_grad()
            loss = loss_function(model(x), y)
            with backpack(DiagGGNExact()):
                loss.backward()
            optimizer.step()
    return seen, loss, list(model.parameters())


def test_training_is_watched(ask):
    last = ask.watched(training)
    ask.rows(last, "0", "2", *NAMES)
    ask.works("`bp.watch` over an optimizer that reads `diag_ggn_exact`")


# planted
def cut_step(around):
    model, loss_function, x, y = made()
    head = extend(nn.Linear(2, 2))
    with around() as seen:
        features = model(x)
        kept = features.data  # <- cut
        loss = loss_function(head(kept), y)
        with backpack(BatchGrad()):
            loss.backward()
    return seen, loss


def nan_step(around):
    model, loss_function, x, y = made()
    with around() as seen:
        logits = model(x)
        spread = (logits - logits).norm(dim=1)
        ratio = spread / spread.sum()  # <- nan
        loss = loss_function(logits, y) + ratio.sum()
        with backpack(BatchGrad()):
            loss.backward()
    return seen, loss


def test_planted(ask):
    rec = ask.block(cut_step)
    ask.cut(rec, cut_step)
    ask.statuses(rec, {"features": "not_connected", "kept": "detached"})
    rec = ask.block(nan_step, nonfinite=True)
    ask.nan(rec, nan_step)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "backpack_variance.py")

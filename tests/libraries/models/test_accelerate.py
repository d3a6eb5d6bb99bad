"""Accelerate: a loop of one's own, whose model, optimizer and batches are wrapped."""

from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FRAMEWORK, LIBRARIES = "PyTorch", ("accelerate",)
NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")


def made(**options):
    accelerator = Accelerator(cpu=True, **options)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(40, 4), torch.randint(0, 2, (40,)))
    return accelerator, *accelerator.prepare(model, optimizer, DataLoader(data, batch_size=2))


# https://huggingface.co/docs/accelerate/basic_tutorials/migration
def training(around, steps=20, clip=None, **options):
    accelerator, model, optimizer, batches = made(**options)
    with around(accelerator.unwrap_model(model), optimizer=optimizer) as seen:
        for x, y in [*batches][:steps]:
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if clip is not None:
                accelerator.clip_grad_norm_(model.parameters(), clip)
            grads = [p.grad.clone() for p in model.parameters()]
            optimizer.step()
            optimizer.zero_grad()
    return seen, loss, grads, list(model.parameters())


def one(around):
    seen, loss, grads, _ = training(around, 1)
    return seen, loss, grads


def test_migration(ask):
    rec = ask.block(one)
    _, grads = ask.bare(one)
    ask.gradients(rec, dict(zip(NAMES, grads)))
    ask.names(rec, "0", "2", "return")
    ask.clean(rec)
    last = ask.watched(training)
    ask.rows(last, "0", "2", *NAMES)
    ask.works("`prepare` and `accelerator.backward`: a block, and `bp.watch` with the prepared optimizer")


def clipped(around):
    return training(around, 20, 0.01)


def test_clipping(ask):
    last = ask.watched(clipped)
    ask.rows(last, *NAMES)
    *_, grads, _ = ask.bare(clipped)
    for name, grad in zip(NAMES, grads):
        rms = float(grad.square().mean().sqrt())
        ask.that(abs(last[name]["grad.rms"] - rms) < 1e-6, f"{name}: {last[name]['grad.rms']} is not {rms}")
    ask.works("clipping: gradients of a run are those after it")


# https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
def accumulated(around):
    accelerator, model, optimizer, batches = made(gradient_accumulation_steps=2)
    with around(accelerator.unwrap_model(model)) as seen:
        for x, y in [*batches][:2]:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
    return seen, loss, [p.grad for p in model.parameters()], [*batches][:2]


def accumulated_results(around):
    return accumulated(around)[:3]


def test_accumulation(ask):
    rec = ask.block(accumulated_results)
    _, grads = ask.bare(accumulated_results)
    ask.gradients(rec, dict(zip(NAMES, grads)))
    ask.names(rec, "return#0", "return#1", "0#1")
    ask.clean(rec)
    ask.works("accumulation: each batch apart, parameters as the sum")


# the last layer by hand, in a plain block
def by_hand(around):
    accelerator, model, optimizer, batches = made()
    x, y = next(iter(batches))
    with around() as seen:
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        accelerator.backward(loss)
    return seen, loss, logits, y


def test_logits_by_hand(ask):
    rec = ask.block(by_hand)
    _, logits, y = ask.bare(by_hand)
    ask.gradients(rec, {"logits": (logits.softmax(1) - nn.functional.one_hot(y, 2)) / 2, "loss": 1.0})
    ask.names(rec, "x", "y", "logits", "loss")
    ask.clean(rec)


# planted
def cut(around):
    accelerator, model, optimizer, batches = made()
    x, y = next(iter(batches))
    head = nn.Linear(2, 2)
    with around() as seen:
        logits = model(x)
        gathered = accelerator.gather(logits).detach()  # <- cut
        loss = nn.functional.cross_entropy(head(gathered), y)
        accelerator.backward(loss)
    return seen, loss


def nan(around):
    accelerator, model, optimizer, batches = made()
    x, y = next(iter(batches))
    with around() as seen:
        logits = model(x)
        probabilities = logits.softmax(1) - logits.softmax(1)
        entropy = -(probabilities * probabilities.log()).sum()  # <- nan
        loss = nn.functional.cross_entropy(logits, y) + 0.1 * entropy
        accelerator.backward(loss)
    return seen, []


def test_planted(ask):
    rec = ask.block(cut)
    ask.cut(rec, cut)
    rec = ask.block(nan, nonfinite=True)
    ask.nan(rec, nan)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "accelerate_simple.py")

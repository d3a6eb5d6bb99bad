"""Accelerate, looked into as docs/trainers.md says."""

import accelerate
import pytest
import torch
from recipes import EVERY, ByHand, Recipe, same, same_weights

NAMES = ["0", "2", "0.weight"]
BATCHES = EVERY + 2


def loss_of(model, batch):
    return torch.nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True))


def run(train, names=(), **options):
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = accelerate.Accelerator(cpu=True, **options)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    by_hand = ByHand(model, names)
    rows = torch.randn(4 * BATCHES, 4, generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(rows, batch_size=4)
    train(accelerator, *accelerator.prepare(model, optimizer, loader), loss_of, 0.01)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    return model, by_hand


def bare(accelerator, model, optimizer, batches, loss_of, max_norm):
    for batch in batches:
        with accelerator.accumulate(model):
            accelerator.backward(loss_of(model, batch))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize(
    "options",
    [{}, {"gradient_accumulation_steps": 2}, {"gradient_accumulation_steps": 2, "mixed_precision": "bf16"}],
    ids=["clipped", "accumulated", "bfloat16"],
)
def test_two_layers_every_tenth_step(options):
    recipe = Recipe("Accelerate", NAMES)
    expected, _ = run(bare, **options)
    _, by_hand = run(bare, NAMES, **options)
    model, _ = run(recipe["train"], **options)
    assert same_weights(model, expected)
    assert [step for step, _ in recipe.seen] == [0, 10]
    for name in NAMES:
        assert same(recipe.gradients(name), by_hand.at(name, lambda batch: batch % EVERY == 0)), name
    assert all(rec.notes == () for _, rec in recipe.seen)

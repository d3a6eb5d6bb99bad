"""Lightning, looked into as docs/trainers.md says."""

import lightning.pytorch as lightning
import pytest
import torch
from recipes import EVERY, ByHand, Recipe, same, same_weights

NAMES = ["net.0", "net.2", "net.0.weight"]
UPDATES = EVERY + 1


class Module(lightning.LightningModule):
    def __init__(self, failing=-1, skipping=-1):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.failing, self.skipping = failing, skipping

    def training_step(self, batch, batch_idx):
        if batch_idx == self.failing:
            raise ValueError("a batch is broken")
        if batch_idx == self.skipping:
            return None
        return torch.nn.functional.mse_loss(self.net(batch), batch.sum(1, keepdim=True))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def train(module, batches, callbacks=(), names=(), **options):
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        **options,
    )
    by_hand = ByHand(module, names)
    rows = torch.randn(4 * batches, 4, generator=torch.Generator().manual_seed(1))
    trainer.fit(module, torch.utils.data.DataLoader(rows, batch_size=4))
    return module, by_hand


@pytest.mark.parametrize(
    ("accumulated", "options"),
    [
        (1, {}),
        (2, {"gradient_clip_val": 0.01}),
        (2, {"gradient_clip_val": 0.01, "precision": "bf16-mixed"}),
        (1, {"precision": "bf16-true"}),
    ],
    ids=["plain", "accumulated and clipped", "bfloat16", "bfloat16 only"],
)
def test_two_layers_every_tenth_step(accumulated, options):
    options, batches = options | {"accumulate_grad_batches": accumulated}, accumulated * UPDATES
    recipe = Recipe("Lightning", NAMES)
    bare, _ = train(Module(), batches, **options)
    _, by_hand = train(Module(), batches, names=NAMES, **options)
    module, _ = train(Module(), batches, [recipe["Look"]()], **options)
    assert same_weights(module, bare)
    assert [step for step, _ in recipe.seen] == [step for step in (0, 10) for _ in range(accumulated)]
    for name in NAMES:
        assert same(recipe.gradients(name), by_hand.at(name, lambda batch: batch // accumulated % EVERY == 0)), name
    assert all(rec.notes == () for _, rec in recipe.seen)


def test_a_step_that_is_skipped_is_not_looked_at():
    recipe = Recipe("Lightning", NAMES)
    bare, _ = train(Module(skipping=0), UPDATES)
    module, _ = train(Module(skipping=0), UPDATES, [recipe["Look"]()])
    assert same_weights(module, bare)
    assert [step for step, _ in recipe.seen] == [10]


def test_an_error_of_the_training_ends_the_block_and_comes_out():
    recipe = Recipe("Lightning", ["net.0", "net.2"])
    with pytest.raises(ValueError, match="a batch is broken"):
        train(Module(failing=0), 2, [recipe["Look"]()])
    assert recipe.seen == []
    assert not torch.nn.modules.module._global_forward_hooks

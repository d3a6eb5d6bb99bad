"""Hugging Face's Trainer, looked into as docs/trainers.md says."""

import pytest
import torch
from recipes import EVERY, ByHand, Recipe, same, same_weights
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import backprobe as bp

LAYERS = ["transformer.h.0.mlp", "transformer.h.1.attn"]
WEIGHT = "transformer.h.0.mlp.c_fc.weight"
UPDATES = EVERY + 1


def gpt2():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            n_embd=8,
            n_layer=2,
            n_head=2,
            vocab_size=20,
            n_positions=8,
            bos_token_id=0,
            eos_token_id=0,
            loss_type="ForCausalLM",
        )
    )


def texts():
    ids = torch.randint(0, 20, (4 * UPDATES, 6), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in ids]


def train(kind, folder, names=(), **options):
    arguments = TrainingArguments(
        folder,
        max_steps=UPDATES,
        per_device_train_batch_size=2,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        learning_rate=0.01,
        **options,
    )
    trainer = kind(model=gpt2(), args=arguments, train_dataset=texts())
    by_hand = ByHand(trainer.model, names)
    trainer.train()
    return trainer.model, by_hand


@pytest.mark.parametrize(
    ("accumulated", "options"),
    [
        (1, {"max_grad_norm": 0}),
        (2, {"max_grad_norm": 0.01}),
        (2, {"max_grad_norm": 0.01, "bf16": True}),
        (1, {"activation_checkpointing": True}),
    ],
    ids=["plain", "accumulated and clipped", "bfloat16", "checkpoints"],
)
def test_two_layers_every_tenth_step(tmp_path, capsys, accumulated, options):
    options = options | {"gradient_accumulation_steps": accumulated}
    recipe = Recipe("Hugging Face `Trainer`", [*LAYERS, WEIGHT])
    bare, _ = train(Trainer, tmp_path, **options)
    _, by_hand = train(Trainer, tmp_path, [*LAYERS, WEIGHT], **options)
    model, _ = train(recipe["LookingTrainer"], tmp_path, **options)
    assert same_weights(model, bare)
    assert [step for step, _ in recipe.seen] == [step for step in (0, 10) for _ in range(accumulated)]
    for name in [*LAYERS, WEIGHT]:
        assert same(recipe.gradients(name), by_hand.at(name, lambda batch: batch // accumulated % EVERY == 0)), name
    assert all(rec.notes == () for _, rec in recipe.seen)
    assert "step 10\nname " in capsys.readouterr().out


def test_a_cache_of_keys_is_as_long_after_a_verb_as_it_was():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20, n_positions=32)).eval()
    cache, x = DynamicCache(), torch.rand(1, 4, 8)
    with torch.no_grad():
        model(inputs_embeds=x, past_key_values=cache)

    def loss(x):
        h = x * 2
        return model(inputs_embeds=h, past_key_values=cache).logits.square().mean()

    before = cache.layers[0].keys
    bp.noise_floor(loss, runs=2)(x)
    bp.sweep(loss, "h", replace=lambda value: value * 0)(x)
    assert cache.layers[0].keys is before
    assert cache.get_seq_length() == 4

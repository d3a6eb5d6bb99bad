"""PEFT: adapters beside frozen weights, which wrap the modules of a model under other names."""

from pathlib import Path

import torch
from peft import IA3Config, LoraConfig, PromptTuningConfig, get_peft_model
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

FRAMEWORK, LIBRARIES = "PyTorch", ("peft", "transformers")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        hidden = torch.tanh(self.up(x))
        return self.down(hidden)


def adapted(config):
    return get_peft_model(Block(), config)


LORA = LoraConfig(r=2, lora_alpha=4, target_modules=["up", "down"], init_lora_weights=False)
DORA = LoraConfig(r=2, lora_alpha=4, target_modules=["up"], use_dora=True, init_lora_weights=False)
IA3 = IA3Config(target_modules=["up", "down"], feedforward_modules=["down"])
UP = "base_model.model.up"


def training(around, config, steps=20, select=None):
    model = adapted(config)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    trained = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    return seen, loss, trained, list(model.parameters()), model, x, y


def bitwise(around, *args):
    return training(around, *args)[:-3]


# https://huggingface.co/docs/peft/developer_guides/custom_models
def test_lora(ask):
    rec = ask.block(bitwise, LORA, 1)
    _, grads, _ = ask.bare(bitwise, LORA, 1)
    ask.gradients(rec, grads)
    ask.names(rec, UP, f"{UP}.base_layer", f"{UP}.lora_A.default", f"{UP}.lora_B.default.weight")
    ask.statuses(rec, {f"{UP}.base_layer.weight": "frozen"})
    ask.clean(rec)
    last = ask.watched(bitwise, LORA)
    ask.rows(last, f"{UP}.lora_A.default.weight", f"{UP}.lora_B.default")
    ask.works("LoRA: both factors of each layer; what is frozen is said to be; `bp.watch` over the training")


# the factors by hand: with W' = W + 2 B A, dB = 2 d_out^T (x A^T), dA = 2 B^T d_out^T x
def test_lora_by_hand(ask):
    rec = ask.block(bitwise, LORA, 1, ["**"])
    torch.manual_seed(0)
    model = adapted(LORA)
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    parts = dict(model.named_parameters())
    weights = {}
    for name in ("up", "down"):
        low, high = (parts[f"base_model.model.{name}.lora_{part}.default.weight"].detach() for part in "AB")
        base = parts[f"base_model.model.{name}.base_layer.weight"].detach()
        weights[name] = base + 2 * high @ low, parts[f"base_model.model.{name}.base_layer.bias"].detach(), low, high
    up, b_up, a1, b1 = weights["up"]
    down, b_down, a2, b2 = weights["down"]
    hidden = torch.tanh(x @ up.T + b_up)
    d_out = 2 * (hidden @ down.T + b_down - y) / 16
    d_up = d_out @ down * (1 - hidden**2)
    right = {
        "up.lora_B.default.weight": 2 * d_up.T @ (x @ a1.T),
        "up.lora_A.default.weight": 2 * b1.T @ d_up.T @ x,
        "down.lora_B.default.weight": 2 * d_out.T @ (hidden @ a2.T),
        "down.lora_A.default.weight": 2 * b2.T @ d_out.T @ hidden,
        "up": d_up,
        "down": d_out,
    }
    ask.gradients(rec, {f"base_model.model.{name}": each for name, each in right.items()}, tolerance=1e-4)


# https://huggingface.co/docs/peft/developer_guides/lora#weight-decomposed-low-rank-adaptation-dora
def test_dora(ask):
    rec = ask.block(bitwise, DORA, 1)
    _, grads, _ = ask.bare(bitwise, DORA, 1)
    ask.gradients(rec, grads)
    ask.names(rec, UP, f"{UP}.lora_magnitude_vector.default.weight")
    ask.clean(rec)
    last = ask.watched(bitwise, DORA)
    ask.rows(last, f"{UP}.lora_magnitude_vector.default.weight")
    ask.works("DoRA: the magnitudes too")


# https://huggingface.co/docs/peft/package_reference/ia3
def test_ia3(ask):
    rec = ask.block(bitwise, IA3, 1)
    _, grads, _ = ask.bare(bitwise, IA3, 1)
    ask.gradients(rec, grads)
    ask.names(rec, *grads, UP)
    ask.clean(rec)
    ask.works("IA3")


# https://huggingface.co/docs/peft/package_reference/prompt_tuning
def prompts(around, steps=1):
    config = GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=11, n_positions=16, bos_token_id=0, eos_token_id=0)
    model = get_peft_model(GPT2LMHeadModel(config), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3))
    model.eval()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    ids = torch.randint(0, 11, (2, 5))
    with around(model, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


def test_prompt_tuning(ask):
    rec = ask.block(prompts)
    _, grads = ask.bare(prompts)
    ask.that(len(grads) == 1, f"trained: {list(grads)}")
    ask.gradients(rec, grads)
    ask.names(rec, "base_model.transformer.h.0.attn", "base_model.transformer.h.0.mlp", *grads)
    ask.clean(rec)
    last = ask.watched(prompts, 20)
    ask.rows(last, *grads)
    ask.works("prompt tuning of a language model: the prompts, and every layer of the frozen model")


# planted
class Cut(Block):
    def forward(self, x):
        hidden = torch.tanh(self.up(x))
        hidden = torch.tensor(hidden.tolist())  # <- cut
        return self.down(hidden)


class Nan(Block):
    def forward(self, x):
        hidden = torch.relu(self.up(x))
        scale = hidden.min().sqrt()  # <- nan
        return self.down(hidden) * scale


def planted(around, kind):
    model = get_peft_model(kind(), LORA)
    with around(model, ["**", "**:*"]) as seen:
        loss = model(torch.randn(8, 4)).square().mean()
        loss.backward()
    return seen, loss


def test_planted(ask):
    rec = ask.block(planted, Cut)
    ask.cut(rec, Cut.forward)
    ask.statuses(rec, {f"{UP}.lora_A.default.weight": "not_connected"})
    rec = ask.block(planted, Nan, nonfinite=True)
    ask.nan(rec, Nan.forward)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "peft_multilayer_perceptron.py")

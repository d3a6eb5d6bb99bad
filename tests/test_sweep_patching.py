"""The published patching examples of TransformerLens, done again: the numbers of forward hooks by hand, bitwise.

They are those of its main demo, of its exploratory analysis demo, and of its module ``patching``: the residual stream
by layer and position, each part of a block by layer and position, head outputs, attention patterns, and heads ablated.
The model is of their architecture, small and random, with a module for each place where a hook is put.
"""

import itertools

import pytest
import torch
from torch import nn

import backprobe as bp

LAYERS, HEADS, WIDTH, HEAD, TOKENS, VOCABULARY = 3, 4, 16, 4, 6, 20


class HookPoint(nn.Identity):
    """Where a hook is put by hand."""


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Parameter(torch.randn(3, HEADS, WIDTH, HEAD) / 4)
        self.out = nn.Parameter(torch.randn(HEADS, HEAD, WIDTH) / 2)
        self.hook_v, self.hook_pattern, self.hook_z = HookPoint(), HookPoint(), HookPoint()

    def forward(self, x):
        q, k, v = torch.einsum("bpw,nhwd->nbphd", x, self.qkv)
        v = self.hook_v(v.contiguous())
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / HEAD**0.5
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        pattern = self.hook_pattern(scores.masked_fill(~mask, float("-inf")).softmax(-1))
        z = self.hook_z(torch.einsum("bhqk,bkhd->bqhd", pattern, v))
        return torch.einsum("bqhd,hdw->bqw", z, self.out)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.attn, self.ln2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.hook_resid_pre = HookPoint()

    def forward(self, x):
        resid_pre = self.hook_resid_pre(x)
        resid_mid = resid_pre + self.attn(self.ln1(resid_pre))
        return resid_mid + self.mlp(self.ln2(resid_mid))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final, self.unembed = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embed(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.unembed(self.final(x))


CLEAN = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]])
CORRUPT = torch.tensor([[1, 2, 13, 4, 5, 6], [7, 8, 14, 10, 11, 12]])
ANSWERS = torch.tensor([[3, 13], [9, 14]])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Transformer().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def metric(model):
    """The logit difference: 0 where the prompt is corrupt, 1 where it is clean."""
    clean, corrupt = (difference(model(tokens)) for tokens in (CLEAN, CORRUPT))
    return lambda logits: (difference(logits) - corrupt) / (clean - corrupt)


def difference(logits):
    right, wrong = logits[:, -1].gather(1, ANSWERS).T
    return (right - wrong).mean()


def cached(model, tokens):
    """What goes through each hook point."""
    cache = {}
    points = [(name, module) for name, module in model.named_modules() if not isinstance(module, nn.ModuleList)]
    handles = [
        module.register_forward_hook(lambda _, args, out, name=name: cache.update({name: out}))
        for name, module in points
    ]
    model(tokens)
    for handle in handles:
        handle.remove()
    return cache


def with_hook(model, metric, name, change):
    """The metric of a run in which one hook point lets something else through."""
    handle = model.get_submodule(name).register_forward_hook(lambda _, args, out: change(out.clone()))
    value = metric(model(CORRUPT)).item()
    handle.remove()
    return value


def patched(model, metric, hook, axes):
    """By hand: for each layer, and each index along some axes, the clean value there."""
    clean, found = cached(model, CLEAN), {}
    for layer in range(LAYERS):
        name = hook.format(layer)
        sizes = [range(clean[name].shape[axis]) for axis in axes]
        for places in itertools.product(*sizes):
            index = [slice(None)] * clean[name].dim()
            for axis, place in zip(axes, places):
                index[axis] = place

            def change(value):
                value[tuple(index)] = clean[name][tuple(index)]
                return value

            found[(layer, *places)] = with_hook(model, metric, name, change)
    return list(found.values())


EXAMPLES = {
    "the residual stream before each block, by position": ("blocks.*:resid_pre", "blocks.{}.hook_resid_pre", (1,)),
    "the output of attention, by position": ("blocks.*.attn", "blocks.{}.attn", (1,)),
    "the output of the MLP, by position": ("blocks.*.mlp", "blocks.{}.mlp", (1,)),
    "heads": ("blocks.*.attn:z", "blocks.{}.attn.hook_z", (2,)),
    "heads, by position": ("blocks.*.attn:z", "blocks.{}.attn.hook_z", (1, 2)),
    "values of heads": ("blocks.*.attn:v#1", "blocks.{}.attn.hook_v", (2,)),
    "attention patterns of heads": ("blocks.*.attn:pattern", "blocks.{}.attn.hook_pattern", (1,)),
    "whole layers": ("blocks.*.attn", "blocks.{}.attn", ()),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_activation_patching(model, metric, example):
    select, hook, axes = EXAMPLES[example]
    clean = bp.probe(model.requires_grad_(), select, of=metric)(CLEAN)
    swept = bp.sweep(model, select, of=metric, replace=clean, axis=axes)(CORRUPT)
    assert list(swept.outputs.values()) == patched(model, metric, hook, axes)
    assert swept.output == 0
    assert len({*swept.effects.values()}) > 1
    sizes = [{1: HEADS if "pattern" in select else TOKENS, 2: HEADS}[axis] for axis in axes]
    assert swept.grid.shape == (LAYERS, *sizes)


def test_the_clean_residual_stream_at_the_corrupt_position_restores_the_answer(model, metric):
    clean = bp.probe(model.requires_grad_(), "blocks.*:resid_pre", of=metric)(CLEAN)
    effects = bp.sweep(model, "blocks.*:resid_pre", of=metric, replace=clean, axis=1)(CORRUPT).effects
    assert effects["blocks.0:resid_pre[:, 2]"] == pytest.approx(1, abs=1e-5)
    assert all(effects[f"blocks.{layer}:resid_pre[:, {at}]"] == 0 for layer in range(LAYERS) for at in (0, 1))


def test_heads_are_ablated(model, metric):
    swept = bp.sweep(model.requires_grad_(), "blocks.*.attn:v#1", of=metric, replace=torch.zeros_like, axis=2)(CORRUPT)
    for layer, head in itertools.product(range(LAYERS), range(HEADS)):

        def ablate(value):
            value[:, :, head] = 0.0
            return value

        by_hand = with_hook(model, metric, f"blocks.{layer}.attn.hook_v", ablate)
        assert swept.outputs[f"blocks.{layer}.attn:v#1[:, :, {head}]"] == by_hand


def test_attribution_patching_is_gradient_times_change(model, metric):
    """As in "Attribution patching: activation patching at industrial scale" (Nanda, 2023), with one backward hook."""
    model.requires_grad_()
    clean = bp.probe(model, "blocks.*.attn:z", of=metric)(CLEAN)
    swept = bp.sweep(model, "blocks.*.attn:z", of=metric, replace=clean, axis=2, approximate=True)(CORRUPT)
    kept, other, held = cached(model, CORRUPT), cached(model, CLEAN), {}
    handles = [
        model.get_submodule(f"blocks.{layer}.attn.hook_z").register_full_backward_hook(
            lambda _, given, out, layer=layer: held.update({layer: out[0]})
        )
        for layer in range(LAYERS)
    ]
    metric(model(CORRUPT)).backward()
    for handle in handles:
        handle.remove()
    by_hand = [
        ((other[f"blocks.{layer}.attn.hook_z"] - kept[f"blocks.{layer}.attn.hook_z"]) * held[layer])[:, :, head]
        .sum()
        .item()
        for layer in range(LAYERS)
        for head in range(HEADS)
    ]
    assert list(swept.approximations.values()) == pytest.approx(by_hand, rel=1e-4, abs=1e-7)
    assert swept.agreement > 0.9

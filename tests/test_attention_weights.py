"""Attention weights that are None, as fused attention leaves them: the entry says which attention has them."""

import logging

import pytest
import torch
from torch import nn

import backprobe as bp


def _gpt2(attention):
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    config = transformers.GPT2Config(
        n_embd=16, n_layer=1, n_head=2, vocab_size=50, bos_token_id=0, eos_token_id=0, attn_implementation=attention
    )
    return transformers.GPT2LMHeadModel(config), "transformer.h.0.attn"


def _llama(attention):
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    config = transformers.LlamaConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        vocab_size=50,
        attn_implementation=attention,
    )
    return transformers.LlamaForCausalLM(config), "model.layers.0.self_attn"


@pytest.mark.parametrize("family", [_gpt2, _llama])
@pytest.mark.parametrize("local", ["attn_weights", "return.1"])
def test_fused_attention_has_no_weights_and_eager_attention_has(family, local):
    ids = torch.randint(0, 50, (1, 5))
    model, path = family("sdpa")
    rec = bp.probe(model, f"{path}:*", of="loss")(ids, labels=ids)
    entry = rec[f"{path}:{local}"]
    assert entry.status == "not_tensor"
    assert "attn_implementation='eager' in transformers" in entry.reason
    (finding,) = bp.explain(rec, entry.name).findings
    assert (finding.kind, finding.name) == ("not_tensor", entry.name)
    model, path = family("eager")
    assert bp.probe(model, f"{path}:*", of="loss")(ids, labels=ids)[f"{path}:attn_weights"].grad.shape == (1, 2, 5, 5)


def test_attention_that_was_not_asked_for_its_weights():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 1)

        def forward(self, x):
            out, attn_weights = self.attention(x, x, x, need_weights=False)
            return out.sum()

    rec = bp.probe(Block(), ":*")(torch.randn(3, 1, 4))
    assert "need_weights=True in nn.MultiheadAttention" in rec["attn_weights"].reason


def test_other_names_that_hold_none_are_none_and_cut_nothing():
    def f(
        x,
        attn_weights: torch.Tensor | None = None,
    ):
        mask = print(x.shape) if x.sum() > 1e9 else None
        return (x * 2).sum(), mask

    rec = bp.probe(f, of="0")(torch.ones(2))
    assert rec["mask"].reason == rec["attn_weights"].reason == "it is None"
    (finding,) = bp.explain(rec, "mask").findings
    assert finding.kind == "not_tensor"


def test_the_name_that_takes_the_place_of_weights_not_asked_for():
    attention = nn.MultiheadAttention(4, 1)
    with bp.probe() as rec:
        x = torch.randn(3, 1, 4)
        out, w = attention(x, x, x, need_weights=False)
        out.sum().backward()
    assert "need_weights=True in nn.MultiheadAttention" in rec["w"].reason

"""Real models, small and with random weights: locals of every forward, bitwise the same run, nothing left behind."""

import pytest
import torch
import transformers as T

import backprobe as bp

T.logging.set_verbosity_error()
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 99}


def config(kind, **changed):
    return kind(**{**TOKENS, "attn_implementation": "eager", **changed})


def t5(num_layers=2):
    sizes = {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_heads": 2, "vocab_size": 99}
    return T.T5ForConditionalGeneration(T.T5Config(**sizes, num_layers=num_layers, decoder_start_token_id=0))


FEW_KEYS = {**SMALL, "intermediate_size": 48, "num_key_value_heads": 1}
ZOO = {
    "gpt2": lambda: T.GPT2LMHeadModel(config(T.GPT2Config, n_embd=32, n_layer=2, n_head=2, vocab_size=99)),
    "llama": lambda **changed: T.LlamaForCausalLM(config(T.LlamaConfig, **{**FEW_KEYS, **changed})),
    "bert": lambda: T.BertForMaskedLM(config(T.BertConfig, intermediate_size=48, **SMALL)),
    "t5": t5,
    "mixtral": lambda **changed: T.MixtralForCausalLM(
        config(T.MixtralConfig, num_local_experts=4, **{**FEW_KEYS, **changed})
    ),
    "vit": lambda: T.ViTForImageClassification(
        config(T.ViTConfig, intermediate_size=48, image_size=16, patch_size=8, **SMALL)
    ),
}
LOCALS = {
    "gpt2": "transformer.h.1.attn:query_states",
    "llama": "model.layers.1.self_attn:query_states",
    "bert": "bert.encoder.layer.1.attention.self:query_layer",
    "t5": "encoder.block.1.layer.0.SelfAttention:query_states",
    "mixtral": "model.layers.1.mlp:hidden_states",
    "vit": "vit.layers.1.attention:query_states",
}


def inputs(name):
    torch.manual_seed(1)
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}
    tokens = torch.randint(3, 90, (2, 12))
    return {"input_ids": tokens, "labels": tokens}


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_every_local_of_a_real_model_without_any_effect(name):
    torch.manual_seed(0)
    model = ZOO[name]().train()
    arguments = inputs(name)

    def stepped():
        torch.manual_seed(3)
        model.zero_grad()
        out = model(**arguments)
        out.loss.backward()
        return out, {key: p.grad for key, p in model.named_parameters() if p.grad is not None}, torch.get_rng_state()

    bare, gradients, state = stepped()
    hooks = [len(module._forward_hooks) for module in model.modules()]
    torch.manual_seed(3)
    rec = bp.probe(model, ["**", "**:*"], of="loss")(**arguments)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(rec.result.logits, bare.logits)
    for key, gradient in gradients.items():
        assert torch.equal(rec[key].grad, gradient), key
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    assert not any("forward" in vars(module) for module in model.modules())
    assert [note for note in rec.notes if "cannot be seen" in note] == []
    assert len(rec.select("**:*")) > 60
    assert rec[f"{LOCALS[name]}#-1"].grad.abs().sum() > 0
    for entry in rec.values():
        assert entry.status != "opaque", entry.name
        if entry.grad_or_none is not None:
            assert entry.grad.shape == entry.shape

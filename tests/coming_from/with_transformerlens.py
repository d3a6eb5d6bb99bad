"""TransformerLens 4, whose TransformerBridge runs a model of Hugging Face; ours takes that model itself."""

import tempfile

import torch
from pairs import Pair
from small import given as small
from tokenizers import Tokenizer, models, pre_tokenizers
from transformer_lens.model_bridge import TransformerBridge
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TITLE, NAME = "TransformerLens", "transformer_lens"
END = "<|endoftext|>"


def given():
    """A small GPT-2 and a small Llama with random weights."""
    torch.manual_seed(0)
    small_llama = LlamaConfig(
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        hidden_size=8,
        intermediate_size=8,
        vocab_size=11,
        bos_token_id=0,
        eos_token_id=0,
        max_position_embeddings=8,
    )
    config = GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=11, n_positions=8, bos_token_id=0, eos_token_id=0)
    bridge, model = both(GPT2LMHeadModel, config)
    llama_bridge, llama = both(LlamaForCausalLM, small_llama)
    return small() | {
        "bridge": bridge,
        "model": model,
        "llama_bridge": llama_bridge,
        "llama": llama,
        "ids": torch.tensor([[1, 2, 3, 4, 5]]),
        "other": torch.tensor([[5, 4, 3, 2, 1]]),
    }


def both(kind, config):
    """A model of random weights, as a bridge and as Hugging Face has it: both from one folder."""
    words = {word: at for at, word in enumerate([END, *"abcdefghij"])}
    text = Tokenizer(models.WordLevel(words, unk_token=END))
    text.pre_tokenizer = pre_tokenizers.Whitespace()
    with tempfile.TemporaryDirectory() as folder:
        kind(config).save_pretrained(folder)
        ends = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), END)
        PreTrainedTokenizerFast(tokenizer_object=text, **ends).save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(folder, device="cpu")
        model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    return bridge, model


CACHE = """\
logits, cache = bridge.run_with_cache(ids)
"""
HOOK = """\
kept = {{}}
with bridge.hooks(bwd_hooks=[("{}", lambda grad, hook: kept.update(grad=grad))]):
    bridge(ids, return_type="loss").backward()
kept["grad"]
"""
OURS = """\
with bp.probe(model, "{}") as rec:
    model(ids, labels=ids).loss.backward()
"""
NAMES = """\
names = ["hook_resid_post", "hook_attn_out", "hook_mlp_out", "attn.hook_q"]
_, cache = {}.run_with_cache(ids)
[*[cache[f"blocks.0.{{name}}"].flatten(2) for name in names], cache["hook_embed"], cache["unembed.hook_out"]]
"""
PAIRS = [
    Pair(
        "what a block returns, the residual stream behind it",
        CACHE + 'cache["blocks.0.hook_resid_post"]\n',
        OURS.format("transformer.h.0") + 'rec["transformer.h.0"].value\n',
    ),
    Pair(
        "the attention pattern",
        CACHE + 'cache["blocks.0.attn.hook_pattern"]\n',
        OURS.format("transformer.h.0.attn") + 'rec["transformer.h.0.attn:return.1"].value\n',
    ),
    Pair(
        "queries, by head",
        CACHE + 'cache["blocks.0.attn.hook_q"].flatten(2)\n',
        OURS.format("transformer.h.0.attn:query_states")
        + 'rec["transformer.h.0.attn:query_states#1"].value.transpose(1, 2).flatten(2)\n',
        "Hugging Face has heads before positions; the local variable may have another name in its next release",
    ),
    Pair(
        "the neurons of the feed-forward part",
        CACHE + 'cache["blocks.0.mlp.hook_post"]\n',
        OURS.format("transformer.h.0.mlp.act") + 'rec["transformer.h.0.mlp.act"].value\n',
    ),
    Pair(
        "the residual stream between attention and feed-forward part",
        CACHE + 'cache["blocks.1.hook_resid_mid"]\n',
        OURS.format("transformer.h.1:hidden_states") + 'rec["transformer.h.1:hidden_states#2"].value\n',
    ),
    Pair(
        "the residual stream behind all blocks",
        """\
logits, cache = bridge.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_resid_post"))
[cache[name] for name in ("blocks.0.hook_resid_post", "blocks.1.hook_resid_post")]
""",
        OURS.format("transformer.h.*") + "[rec[name].value for name in rec.select('transformer.h.*')]\n",
    ),
    Pair(
        "the gradient of a block's output",
        HOOK.format("blocks.0.hook_out"),
        OURS.format("transformer.h.0") + 'rec["transformer.h.0"].grad\n',
        "a hook of the bridge keeps what it is given by hand",
    ),
    Pair(
        "the gradient of the attention pattern",
        HOOK.format("blocks.1.attn.hook_pattern"),
        OURS.format("transformer.h.1.attn") + 'rec["transformer.h.1.attn:return.1"].grad\n',
    ),
    Pair(
        "a feed-forward part that is set to zero",
        """\
bridge.run_with_hooks(ids, fwd_hooks=[("blocks.0.mlp.hook_out", lambda value, hook: value * 0)])
""",
        """\
with bp.probe(model, replace={"transformer.h.0.mlp": lambda out: out * 0}):
    logits = model(ids).logits
logits
""",
    ),
    Pair(
        "a block's output of one prompt in the run of another",
        """\
_, cache = bridge.run_with_cache(other)
bridge.run_with_hooks(ids, fwd_hooks=[("blocks.0.hook_out", lambda value, hook: cache["blocks.0.hook_resid_post"])])
""",
        """\
with bp.probe(model, "transformer.h.0") as rec:
    model(other)
with bp.probe(model, replace={"transformer.h.0": lambda out: rec["transformer.h.0"].value}):
    logits = model(ids).logits
logits
""",
        "TransformerLens has patching by position and head in `transformer_lens.patching`",
    ),
    Pair(
        "the bridge itself, by its own names",
        CACHE + '[cache[f"blocks.0.{name}.hook_out"].flatten(2) for name in ("attn.q", "attn.o", "mlp.in")]\n',
        """\
with bp.probe(bridge, "blocks.0.*.*.hook_out") as rec:
    bridge(ids)
[rec[f"blocks.0.{name}.hook_out"].value for name in ("attn.q", "attn.o", "mlp.in")]
""",
        "`print(bp.names(bridge))` lists them",
    ),
    Pair(
        "all places of the table below, of GPT-2",
        NAMES.format("bridge"),
        """\
at = "transformer.h.0"
names = [at, f"{at}.attn", f"{at}.attn:query_states", f"{at}.mlp", "transformer.wte", "lm_head"]
with bp.probe(model, names) as rec:
    model(ids, labels=ids).loss.backward()
found = [rec[name] for name in (at, f"{at}.attn:return.0", f"{at}.mlp", f"{at}.attn:query_states#1", *names[4:])]
[one.value.transpose(1, 2).flatten(2) if one.value.dim() == 4 else one.value for one in found]
""",
    ),
    Pair(
        "of Llama",
        NAMES.format("llama_bridge"),
        """\
at = "model.layers.0"
names = [at, f"{at}.self_attn", f"{at}.self_attn:query_states", f"{at}.mlp", "model.embed_tokens", "lm_head"]
with bp.probe(llama, names) as rec:
    llama(ids, labels=ids).loss.backward()
attention = f"{at}.self_attn"
found = [rec[name] for name in (at, f"{attention}:return.0", names[3], f"{attention}:query_states#0", *names[4:])]
[one.value.transpose(1, 2).flatten(2) if one.value.dim() == 4 else one.value for one in found]
""",
    ),
]

"""TransformerLens 4, whose TransformerBridge runs a model of Hugging Face; ours takes that model itself."""

import tempfile

import torch
from pairs import Pair
from small import given as small
from tokenizers import Tokenizer, models, pre_tokenizers
from transformer_lens.model_bridge import TransformerBridge
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

TITLE, NAME = "TransformerLens", "transformer_lens"
END = "<|endoftext|>"


def given():
    """A small GPT-2 with random weights, in a folder from which both have it."""
    torch.manual_seed(0)
    words = {word: at for at, word in enumerate([END, *"abcdefghij"])}
    text = Tokenizer(models.WordLevel(words, unk_token=END))
    text.pre_tokenizer = pre_tokenizers.Whitespace()
    with tempfile.TemporaryDirectory() as folder:
        config = GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=11, n_positions=8, bos_token_id=0, eos_token_id=0)
        GPT2LMHeadModel(config).save_pretrained(folder)
        ends = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), END)
        PreTrainedTokenizerFast(tokenizer_object=text, **ends).save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(folder, device="cpu")
        model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    return small() | {
        "bridge": bridge, "model": model, "ids": torch.tensor([[1, 2, 3, 4, 5]]), "other": torch.tensor([[5, 4, 3, 2, 1]])
    }  # fmt: skip


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
]

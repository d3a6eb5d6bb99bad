"""The cost of attributions: beside the same by hooks, by recordings that keep every contribution, and beside patching.

    python bench/attribute.py

Times are ratios to one step of forward and backward, on one thread; memory is the most bytes alive at once, of tensors
and of NumPy's arrays, as parts of the bytes of the values that are attributed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import torch
from memory import host_peak, peak
from side_by_side import compare, show
from tables import main
from transformers import GPT2Config, GPT2LMHeadModel

import backprobe as bp

PAIRS = 4
SELECT = ["transformer.drop", "transformer.h.*.attn:return.0", "transformer.h.*.mlp"]
SIZES = {"small": (4, 64, 2, 16), "mid": (8, 256, 4, 64)}  # layers, width, batch, tokens


def made(size: str) -> tuple[GPT2LMHeadModel, Any, Any]:
    """A GPT-2 with random weights, and the texts of both runs."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    layers, width, batch, tokens = SIZES[size]
    config = GPT2Config(
        n_layer=layers, n_head=4, n_embd=width, vocab_size=1000, n_positions=tokens, bos_token_id=0, eos_token_id=0
    )
    clean = torch.randint(0, 1000, (batch, tokens))
    corrupt = clean.clone()
    corrupt[:, tokens // 2] = (corrupt[:, tokens // 2] + 1) % 1000
    return GPT2LMHeadModel(config).eval(), clean, corrupt


def score(output: Any) -> Any:
    """A difference of two logits at the last position."""
    return (output.logits[:, -1, 5] - output.logits[:, -1, 6]).mean()


def by_hooks(model: GPT2LMHeadModel, clean: Any, corrupt: Any) -> dict[str, float]:
    """The attributions of the values alone, as they are computed by hand."""
    modules = {"transformer.drop": model.transformer.drop}
    for at, block in enumerate(model.transformer.h):
        modules |= {f"transformer.h.{at}.attn": block.attn, f"transformer.h.{at}.mlp": block.mlp}

    def run(ids: Any) -> tuple[Any, dict[str, Any]]:
        values: dict[str, Any] = {}

        def keep(name: str, module: Any, given: Any, output: Any) -> None:
            values[name] = output[0] if isinstance(output, tuple) else output

        hooks = [one.register_forward_hook(partial(keep, name)) for name, one in modules.items()]
        try:
            return model(ids), values
        finally:
            for hook in hooks:
                hook.remove()

    with torch.no_grad():
        _, ours = run(clean)
    output, theirs = run(corrupt)
    gradients = torch.autograd.grad(score(output), [*theirs.values()])
    return {
        name: float(((ours[name] - theirs[name].detach()) * gradient).sum())
        for name, gradient in zip(theirs, gradients, strict=True)
    }


def measure(size: str) -> None:
    """Times and memory of each way."""
    model, clean, corrupt = made(size)
    attribute = partial(bp.attribute, model, clean, corrupt, SELECT, of=score)
    result = attribute()
    by_hand = by_hooks(model, clean, corrupt)
    off = max(abs(number - by_hand[name.partition(":")[0]]) for name, number in result.numbers.items())
    recorded = bp.probe(model, SELECT, of=score)(corrupt)
    selected = sum(recorded[name].value.numel() * recorded[name].value.element_size() for name in result)
    del recorded

    def bare() -> None:
        model.zero_grad()
        score(model(corrupt)).backward()

    ways: dict[str, Callable[[], object]] = {
        "by hand, with hooks: values alone": lambda: by_hooks(model, clean, corrupt),
        "edges=False": partial(attribute, edges=False),
        "with edges": attribute,
        "with edges, chunk=4": partial(attribute, chunk=4),
        "with edges, steps=5, along the embedding": partial(attribute, steps=5, along="transformer.drop"),
        "a recording with partials=True": lambda: bp.probe(model, SELECT, of=score, partials=True)(corrupt),
        "result.exact(): ten values replaced": result.exact,
    }
    median, ratios = compare(ways, bare, PAIRS, clock=process_time)
    print(f"{size}: {len(result)} values, {len(result.edges)} edges, one step {median * 1e3:.1f} ms")
    print(f"  the values differ from those by hand by {off:.0e} at most")
    show(ratios, width=52)
    print(f"  memory, beyond what is alive before, in times the {selected / 1e6:.2f} MB of the values")
    for name, way in {"a bare step": bare, **ways}.items():
        print(f"  {name:52} {peak(way) / selected:5.1f} of tensors, {host_peak(way) / selected:5.1f} of arrays")


if __name__ == "__main__":
    main(__file__, {size: partial(measure, size) for size in SIZES})

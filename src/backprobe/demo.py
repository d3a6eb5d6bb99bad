"""The demonstration of ``backprobe demo``: a toy graph, the order of backward, and the inside of a GPT-2."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import backprobe as bp
from backprobe.show.printing import echo


def toy(x: Any, w: Any, b: Any) -> Any:
    u = x * w
    v = u + b
    a = F.relu(v)
    return a


def func(x: Any) -> Any:
    z = 2 * x
    return z


def func2(z: Any) -> Any:
    y = z**2 + 2 * z + 2
    return y


def composed(x: Any) -> Any:
    z = func(x)
    y = func2(z)
    return y


def run(into: Path) -> list[str]:
    """Print every part, draw the circuits into a folder, and return the names of the written files."""
    _title("A toy graph: rec = bp.probe(toy, partials=True)(x=3.0, w=2.0, b=1.0)")
    rec = bp.probe(toy, partials=True)(x=3.0, w=2.0, b=1.0)
    echo(str(rec))
    drawn = _draw(rec, into / "toy.svg")
    _title("The chain rule through called functions: y = func2(func(x)), x = 1")
    rec = bp.probe(composed, partials=True)(x=1.0)
    echo(str(rec))
    echo("backward: " + ", ".join(f"{name} {rec[name].grad:g}" for name in rec.backward_order()))
    drawn += _draw(rec, into / "composed.svg")
    _title("Inside a GPT-2 (2 layers, random weights)")
    try:
        model, tokens = small_gpt2()
    except ModuleNotFoundError:
        echo("This part needs transformers: pip install transformers")
        return drawn
    attention = "transformer.h.0.attn"
    patterns = [
        "transformer.h.*.attn",
        f"{attention}:query_states",
        f"{attention}/eager_attention_forward:attn_weights",
    ]
    echo("bp.probe(model, [" + ",\n                 ".join(map(repr, patterns)) + "],")
    echo("         of='loss')(tokens, labels=tokens)\n")
    echo(str(bp.probe(model, patterns, of="loss")(tokens, labels=tokens)))
    rec = bp.probe(model, of="loss", partials=True)(tokens, labels=tokens)
    drawn += _draw(rec, into / "gpt2-depth-1.svg", depth=1)
    return drawn + _draw(rec, into / "gpt2-depth-2.svg", depth=2)


def _draw(rec: bp.Recording, path: Path, **options: Any) -> list[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise bp.BadOption(
            f"the folder {path.parent} cannot be made",
            asked=f"--folder {path.parent}",
            found=str(error),
            next="--folder with another folder",
        ) from error
    try:
        bp.draw(rec, path, **options)
    except bp.NotInstalled as error:
        echo(f"no circuit: {error.headline}; {error.next}")
        return []
    echo(f"the circuit: {path}")
    return [str(path)]


def small_gpt2(layers: int = 2, width: int = 64) -> tuple[Any, Any]:
    """Create a GPT-2 with random weights and a batch of tokens. Nothing is downloaded."""
    import transformers

    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.manual_seed(0)
    # Any, because the annotations omit the keyword arguments that the class accepts
    configured: Any = transformers.GPT2Config
    config = configured(
        n_embd=width,
        n_layer=layers,
        n_head=4,
        vocab_size=1000,
        n_positions=128,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        attn_implementation="eager",
        loss_type="ForCausalLM",
    )
    return transformers.GPT2LMHeadModel(config), torch.randint(0, 1000, (2, 16))


def _title(text: str) -> None:
    echo(f"\n{text}\n{'-' * len(text)}")

"""The GPT-2s that the PyTorch benchmarks share, made without backprobe: the peers' environments do not have it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

HEADS, VOCABULARY = 4, 1000


@dataclass(frozen=True)
class Size:
    """How large a model and its batch are."""

    layers: int
    width: int
    batch: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.layers} layers of width {self.width}, batch {self.batch} × {self.tokens}"


SIZES = {"small": Size(2, 64, 2, 16), "mid": Size(4, 256, 8, 64)}


def gpt2(size: Size) -> tuple[Any, torch.Tensor]:
    """A GPT-2 with random weights, eager attention and no dropout, as ``backprobe.demo.small_gpt2`` makes it, and a
    batch of tokens."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_embd=size.width, n_layer=size.layers, n_head=HEADS, vocab_size=VOCABULARY, n_positions=128, bos_token_id=0,
        eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, attn_implementation="eager",
        loss_type="ForCausalLM",
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config), torch.randint(0, VOCABULARY, (size.batch, size.tokens))


def bare(model: Any, tokens: torch.Tensor, *_: str) -> Callable[[], None]:
    """The step that a training loop has: forward, ``backward()``, and the gradients cleared."""

    def step() -> None:
        model(tokens, labels=tokens).loss.backward()
        model.zero_grad()

    return step


def bare_functional(model: Any, tokens: torch.Tensor, *wanted: str) -> Callable[[], Any]:
    """The same through ``torch.autograd.grad``, which leaves no ``.grad`` behind, for all parameters or some."""
    parameters = [parameter for name, parameter in model.named_parameters() if name in wanted or not wanted]
    return lambda: torch.autograd.grad(model(tokens, labels=tokens).loss, parameters)

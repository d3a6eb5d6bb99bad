"""The models that the PyTorch benchmarks share, made without backprobe: the peers' environments do not have it.

All have random weights, eager attention and no dropout, and give their loss themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers.modeling_outputs import ImageClassifierOutput

HEADS, VOCABULARY, CLASSES = 4, 1000, 10
ONE_TOKEN = {"bos_token_id": 0, "eos_token_id": 0}


@dataclass(frozen=True)
class Size:
    """How large a model and its batch are. An image has as many patches as a text has tokens."""

    layers: int
    width: int
    batch: int
    tokens: int

    def __str__(self) -> str:
        return f"{self.layers} layers of width {self.width}, batch {self.batch} × {self.tokens}"


SIZES = {"small": Size(2, 64, 2, 16), "mid": Size(4, 256, 8, 64)}


@dataclass(frozen=True)
class Program:
    """A model and what it is called with."""

    model: nn.Module
    inputs: dict[str, Tensor]

    def loss(self) -> Tensor:
        """The forward pass."""
        return self.model(**self.inputs).loss

    def bare(self) -> Callable[[], None]:
        """The step that a training loop has: forward, ``backward()``, and the gradients cleared."""

        def step() -> None:
            self.loss().backward()
            self.model.zero_grad()

        return step

    def bare_functional(self, *wanted: str) -> Callable[[], Any]:
        """The same through ``torch.autograd.grad``, which leaves no ``.grad`` behind, for all parameters or some."""
        parameters = [parameter for name, parameter in self.model.named_parameters() if name in wanted or not wanted]
        return lambda: torch.autograd.grad(self.loss(), parameters)


# one function a model: its configuration, and the class that adds the loss


def gpt2(size: Size) -> Program:
    """As ``backprobe.demo.small_gpt2`` makes it."""
    return _of_text(
        size,
        transformers.GPT2Config,
        transformers.GPT2LMHeadModel,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=HEADS,
        n_positions=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        loss_type="ForCausalLM",
        **ONE_TOKEN,
    )


def bert(size: Size) -> Program:
    return _of_text(size, transformers.BertConfig, transformers.BertForMaskedLM, **_encoder(size))


def llama(size: Size) -> Program:
    return _of_text(size, transformers.LlamaConfig, transformers.LlamaForCausalLM, **_decoder(size))


def mixtral(size: Size) -> Program:
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    return _of_text(size, transformers.MixtralConfig, transformers.MixtralForCausalLM, **_decoder(size), **experts)


def t5(size: Size) -> Program:
    return _of_text(
        size,
        transformers.T5Config,
        transformers.T5ForConditionalGeneration,
        d_model=size.width,
        d_kv=size.width // HEADS,
        d_ff=4 * size.width,
        num_layers=size.layers,
        num_heads=HEADS,
        dropout_rate=0.0,
        use_cache=False,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=0,
    )


def vit(size: Size) -> Program:
    return _of_images(
        size,
        transformers.ViTConfig,
        transformers.ViTForImageClassification,
        image_size=4 * round(size.tokens**0.5),
        patch_size=4,
        num_labels=CLASSES,
        **_encoder(size),
    )


def convolutional(size: Size) -> Program:
    torch.manual_seed(0)
    return Program(ConvNet(size), _images(size.batch, 2 * round(size.tokens**0.5)))


MODELS: dict[str, Callable[[Size], Program]] = {
    "GPT-2": gpt2,
    "BERT": bert,
    "Llama": llama,
    "ViT": vit,
    "T5": t5,
    "Mixtral": mixtral,
    "conv": convolutional,
}


class ConvNet(nn.Module):
    """Blocks of convolution, BatchNorm and a ReLU that writes in place, each added to what it is given.

    It has a quarter of the width in channels, since each of its tensors has four times the places.
    """

    def __init__(self, size: Size) -> None:
        super().__init__()
        channels = size.width // 4
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(ConvBlock(channels) for _ in range(size.layers))
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, pixel_values: Tensor, labels: Tensor) -> ImageClassifierOutput:
        hidden = self.stem(pixel_values)
        for block in self.blocks:
            hidden = block(hidden)
        pooled = hidden.mean(dim=(2, 3))
        logits = self.head(pooled)
        loss = F.cross_entropy(logits, labels)
        return ImageClassifierOutput(loss=loss, logits=logits)


class ConvBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.first_norm, self.second_norm = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.act = nn.ReLU(inplace=True)

    def forward(self, hidden: Tensor) -> Tensor:
        inner = self.act(self.first_norm(self.first(hidden)))
        inner = self.second_norm(self.second(inner))
        summed = inner + hidden
        return self.act(summed)


def _encoder(size: Size) -> dict[str, Any]:
    return {
        "hidden_size": size.width,
        "intermediate_size": 4 * size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": HEADS,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


def _decoder(size: Size) -> dict[str, Any]:
    return {
        "hidden_size": size.width,
        "intermediate_size": 4 * size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS // 2,
        "max_position_embeddings": 128,
        "use_cache": False,
        **ONE_TOKEN,
    }


def _made(config: Any, model: Any, **settings: Any) -> nn.Module:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.manual_seed(0)
    return model(config(attn_implementation="eager", **settings)).train()


def _of_text(size: Size, config: Any, model: Any, **settings: Any) -> Program:
    made = _made(config, model, vocab_size=VOCABULARY, **settings)
    tokens = torch.randint(0, VOCABULARY, (size.batch, size.tokens))
    return Program(made, {"input_ids": tokens, "labels": tokens})


def _of_images(size: Size, config: Any, model: Any, **settings: Any) -> Program:
    made = _made(config, model, **settings)
    return Program(made, _images(size.batch, settings["image_size"]))


def _images(batch: int, side: int) -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(batch, 3, side, side), "labels": torch.randint(0, CLASSES, (batch,))}

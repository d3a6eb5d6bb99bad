"""What docs/view.md shows beside runs: a deep model, a port of one that differs, and a sweep, written to a folder; and
the GPT-2 of docs/drawing.md.

python tools/pictures/circuits.py circuits
"""

import sys
from pathlib import Path

import torch
from torch import nn
from train import Block, Model
from transformers import GPT2Config, GPT2LMHeadModel

import backprobe as bp


class Port(Block):
    def forward(self, x):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.ln2(x))))


def recorded(model):
    torch.manual_seed(1)
    tokens = torch.randint(0, 24, (2, 8))
    return bp.probe(model, of=lambda logits: logits.logsumexp(-1).mean())(tokens)


def model(blocks, port=None):
    torch.manual_seed(0)
    made = Model(blocks)
    if port is not None:
        made.blocks[port].__class__ = Port
    return made


def gpt2():
    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=128, n_positions=32, attn_implementation="eager")
    tokens = torch.randint(0, 128, (2, 16))
    return bp.probe(GPT2LMHeadModel(config).eval(), of="loss", partials=True)(tokens, labels=tokens)


def main(to: Path) -> None:
    to.mkdir(exist_ok=True)
    recorded(model(130)).save(to / "deep", overwrite=True)
    recorded(model(12)).save(to / "reference", overwrite=True)
    recorded(model(12, port=7)).save(to / "port", overwrite=True)
    bp.draw(gpt2(), to / "gpt2.html")
    torch.manual_seed(1)
    swept = bp.sweep(
        model(6),
        ["blocks.*", "blocks.*.up"],
        of=lambda logits: logits[0, -1, 3],
        replace=torch.zeros_like,
        axis=1,
        approximate=True,
    )
    swept(torch.randint(0, 24, (2, 8))).save(to / "sweep.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

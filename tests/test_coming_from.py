"""docs/coming-from.md: its pairs are those that ``make test-coming-from`` runs, and its names are names."""

import re
import runpy
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import backprobe as bp

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coming-from.md").read_text()
MODELS = {
    "GPT-2": lambda: GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=8)),
    "Llama": lambda: LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            hidden_size=8,
            intermediate_size=8,
            vocab_size=11,
        )
    ),
}


def test_the_page_is_made_of_the_pairs():
    made = runpy.run_path(str(ROOT / "tests" / "coming_from" / "page.py"))["page"]()
    assert made == PAGE, "run `python tests/coming_from/page.py`"


@pytest.mark.parametrize("kind", MODELS)
def test_the_names_of_its_table_have_gradients(kind):
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    column = rows[0].index(kind)
    names = [re.sub("`", "", row[column + 1]) for row in rows[1:]]
    assert len(names) == 6
    ids = torch.tensor([[1, 2, 3]])
    with bp.probe(model := MODELS[kind](), names) as rec:
        model(ids, labels=ids).loss.backward()
    assert all(rec[name].grad is not None for name in names)

# from: https://github.com/pytorch/pytorch/issues/41508
# ask: explain --nonfinite
# birth: forward
# name: h
# operands: a row of -inf
# value: loss
# given: mask
# needs: transformers
"""A mask of our own for a BERT: the last row has nothing to look at."""

import torch
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(
    vocab_size=11,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=8,
    attn_implementation="eager",
)
model = BertModel(config, add_pooling_layer=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
words = torch.tensor([[1, 4, 7], [2, 5, 0]])
mask = torch.zeros(2, 1, 3, 3)
mask[1, 0, 2] = float("-inf")
for _ in range(2):
    h = model(words, attention_mask=mask).last_hidden_state  # <- here
    loss = h.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

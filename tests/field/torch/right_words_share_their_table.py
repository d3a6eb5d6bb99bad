# from: https://github.com/karpathy/build-nanogpt/issues/89
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# One table for the words that go in and come out, trained with smoothed labels and a mask that leaves a word.
import torch
from torch import nn


class Language(nn.Module):
    def __init__(self, words=13, d=8):
        super().__init__()
        self.table = nn.Embedding(words, d)
        self.layer = nn.TransformerEncoderLayer(d, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d, words, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids):
        hidden = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.out(self.layer(self.table(ids), src_mask=hidden, is_causal=True))


torch.manual_seed(0)
model = Language()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    ids = torch.randint(0, 13, (4, 7))
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())

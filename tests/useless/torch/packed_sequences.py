# from: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html
# truth: healthy: the padding token's row of the embedding never has a gradient, on purpose
# kind: healthy
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

torch.manual_seed(0)
sentences = [torch.randint(1, 10, (n,)) for n in (7, 3, 5, 2, 6)]
lengths = torch.tensor([len(s) for s in sentences])
ids = pad_sequence(sentences, batch_first=True)
target = torch.tensor([int(s[0] > 4) for s in sentences])
embed, lstm, out = nn.Embedding(10, 6, padding_idx=0), nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 2)
params = [*embed.parameters(), *lstm.parameters(), *out.parameters()]
optimizer = torch.optim.RMSprop(params, lr=0.01)
for epoch in range(4):
    packed = pack_padded_sequence(embed(ids), lengths, batch_first=True, enforce_sorted=False)
    _, (last, _) = lstm(packed)
    loss = nn.functional.cross_entropy(out(last[0]), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())

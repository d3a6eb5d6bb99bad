# from: https://github.com/pytorch/examples/blob/main/word_language_model/main.py
# truth: healthy: encoder and decoder share one weight, the state is detached between pieces, gradients are clipped
# kind: healthy
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, words, d=12):
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(words, d), nn.GRU(d, d), nn.Linear(d, words)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, ids, hidden):
        out, hidden = self.rnn(self.encoder(ids), hidden)
        return torch.log_softmax(self.decoder(out).view(-1, self.decoder.out_features), 1), hidden


torch.manual_seed(1111)
words = 15
text = (torch.arange(120) * 7 % words).view(4, 30).t().contiguous()
model, hidden = Model(words), torch.zeros(1, 4, 12)
criterion = nn.NLLLoss()
for start in range(0, 24, 6):
    model.zero_grad()
    hidden = hidden.detach()
    output, hidden = model(text[start : start + 6], hidden)
    loss = criterion(output, text[start + 1 : start + 7].reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(p.grad, alpha=-1.0)
    print(start, loss.item())

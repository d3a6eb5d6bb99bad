# from: https://github.com/huggingface/trl/issues/3857
# ask: explain
# exit: 1
# says: ^7 gradients, all of them exactly 0
# says: policy\.embed\.weight
# says: 'weights' is 0 everywhere .*: the gradient of 'policy.embed.weight'
# never: got a gradient
# Within each group all rewards are equal, and so all advantages are 0.
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, vocab=12, d=8):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(vocab, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


def advantages(rewards, group):
    grouped = rewards.view(-1, group)
    return ((grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + 1e-4)).view(-1)


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
for _ in range(3):
    prompts = torch.randint(0, 12, (3, 1)).repeat_interleave(4, 0)
    ids = torch.cat([prompts, torch.randint(0, 12, (12, 5))], 1)
    weights = advantages(torch.where(prompts[:, 0] % 2 == 0, -3.0, 4.0), group=4)
    chosen = policy(ids[:, :-1]).log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
    ratio = (chosen - chosen.detach()).exp()
    per_token = -torch.min(ratio * weights[:, None], ratio.clamp(0.8, 1.2) * weights[:, None])  # <- here
    loss = per_token.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# from: https://github.com/YongfeiYan/Gumbel_Softmax_VAE
# truth: healthy: hard samples of a Gumbel softmax keep the soft one's slope; softmax feeds the KL and not another
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
enc, dec = nn.Linear(10, 3 * 4), nn.Linear(3 * 4, 10)
optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=0.01)
x = (torch.rand(40, 10) < torch.rand(10)).float()
for step in range(5):
    logits = enc(x).view(-1, 3, 4)
    z = F.gumbel_softmax(logits, tau=1.0 * 0.9**step, hard=True)
    recon = F.binary_cross_entropy_with_logits(dec(z.flatten(1)), x, reduction="sum") / len(x)
    q = F.softmax(logits, dim=-1)
    kld = (q * torch.log(q * 4 + 1e-20)).sum((1, 2)).mean()
    loss = recon + kld
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())

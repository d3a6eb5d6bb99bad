# from: own
# ask: python
# A critic steps 12 times, and then the generator once: each such round but the first is one step of the run.
import tempfile

import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
nets = nn.ModuleDict({"critic": nn.Linear(4, 1), "generator": nn.Linear(2, 4)})
of_critic = torch.optim.RMSprop(nets["critic"].parameters(), lr=1e-4)
of_generator = torch.optim.RMSprop(nets["generator"].parameters(), lr=1e-4)
with tempfile.TemporaryDirectory() as folder:
    with bp.watch(nets, f"{folder}/run", optimizer=[of_critic, of_generator]):
        for _ in range(6):
            for _ in range(12):
                of_critic.zero_grad()
                fake = nets["generator"](torch.randn(8, 2)).detach()
                (nets["critic"](fake).mean() - nets["critic"](torch.randn(8, 4)).mean()).backward()
                of_critic.step()
            of_generator.zero_grad()
            nets["critic"](nets["generator"](torch.randn(8, 2))).mean().neg().backward()
            of_generator.step()
    with bp.open_run(f"{folder}/run") as run:
        assert len(run.steps) == 5 + 5, list(run.steps)
        assert not run.alerts, run.alerts

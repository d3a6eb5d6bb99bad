# from: https://github.com/pytorch/tensordict/issues/1416
# ask: python
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

import backprobe as bp


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = TensorDictModule(nn.Linear(3, 2), in_keys=["observation"], out_keys=["action"])

    def forward(self, observation):
        out = self.policy(TensorDict({"observation": observation}, batch_size=[4]))
        return out["action"].square().sum()


torch.manual_seed(0)
agent = Agent()
x = torch.randn(4, 3)
for rec in (bp.probe(agent)(x),):
    names = [name for name in rec if name == "policy" or name.startswith("policy:return")]
    assert names, list(rec)
    assert rec["policy.module.weight"].grad.abs().sum() > 0
with bp.probe(agent) as rec:
    agent(x).backward()
names = [name for name in rec if name == "policy" or name.startswith("policy:return")]
assert names, list(rec)
assert bp.explain(rec).ok, str(bp.explain(rec))

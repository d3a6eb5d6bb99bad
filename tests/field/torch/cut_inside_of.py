# from: own
# ask: python
import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
model = nn.Linear(4, 1)


def outcome(of):
    try:
        return str(bp.explain(bp.probe(model, of=of)(torch.randn(3, 4))))
    except Exception as error:
        return "\n".join([str(error), *getattr(error, "__notes__", [])])


assert "detach()" in (said := outcome(lambda y: y.detach().mean())), said
assert "item()" in (said := outcome(lambda y: torch.tensor(y.mean().item()))), said
assert "argmax()" in (said := outcome(lambda y: y.argmax().float())), said

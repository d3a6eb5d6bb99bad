# from: own
# ask: python
import torch

import backprobe as bp


def f(x):
    u = x * 2
    return u.sum()


rec = bp.probe(f)(torch.ones(2))
try:
    found = rec["u"].partials
except bp.BackprobeError as error:
    assert "partials=True" in str(error), error
else:
    raise AssertionError(found)
rec = bp.probe(f, partials="full")(torch.ones(2))
assert rec["u"].partials and rec["x"].partials == {}

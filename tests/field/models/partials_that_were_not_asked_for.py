# from: own
# ask: python
# says: has False
# says: default None
# says: partials=True
import backprobe as bp
import torch


def f(x):
    y = x * x
    return y


rec = bp.probe(f)(torch.tensor(2.0))
print("has", hasattr(rec["y"], "partials"))
print("default", getattr(rec["y"], "partials", None))
try:
    rec["y"].partials
except bp.BackprobeError as error:
    print(error)

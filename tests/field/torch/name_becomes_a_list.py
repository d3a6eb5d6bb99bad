# from: own
# says: no gradient flows back along `h.tolist\(\)`
# never: not recorded
import torch

x = torch.ones(3, requires_grad=True)
h = x * 2
h = h.tolist()  # <- here
h = [one * 2 for one in h]
h = torch.tensor(h)
y = (h * x).sum()
y.backward()

# from: own
# ask: check PROGRAM:wide scale=1.0
# exit: 0
# says: taken by itself, each call has the right derivative \(4 calls checked
# never: note:|kink|not judged
# Many outputs of a wide layer are nearly 0, sums of terms that are not: they are rounded as these are.
import torch

torch.manual_seed(0)
first, second = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)
x = torch.randn(64, 256)


def wide(scale):
    hidden = first(x * scale)
    out = second(hidden)
    return out.sum()

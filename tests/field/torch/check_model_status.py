# from: own
# ask: check PROGRAM:model x=[[1.0,2.0,3.0]]
# exit: 1
# says: 1 derivative is wrong \(2 calls checked
# says: with respect to its input `(self\.first\(x\)|hidden)`
# A model in place of a function: the status is that of a finding too.
import torch


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * torch.sigmoid(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)

    def forward(self, x):
        hidden = self.first(x)
        out = Swish.apply(hidden)  # <- here
        return out


torch.manual_seed(0)
model = Model()

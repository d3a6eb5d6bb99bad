# from: own
# never: outside autograd
# never: at: 
import torch


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.mark_dirty(x)
        ctx.s = s
        x.mul_(s)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.s, None


w = torch.ones(3, requires_grad=True)
h = w * 2
k = h.exp()
h2 = Scale.apply(h, 3.0)
y = (h2 * k).sum()
y.backward()
print(w.grad)

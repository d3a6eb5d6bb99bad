# from: own
# ask: check PROGRAM:energy "re=[0.3,-0.7,1.1]" "im=[0.5,2.0,-1.0]"
# exit: 1
# says: Rotate|'turned'
# A product of complex numbers by hand: its backward multiplies by the other factor, and not by its conjugate.
import torch


class Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, w):
        ctx.save_for_backward(z, w)
        return z * w

    @staticmethod
    def backward(ctx, gradient):
        z, w = ctx.saved_tensors
        return gradient * w, gradient * z.conj()


def energy(re, im):
    z = torch.complex(re, im)
    turned = Rotate.apply(z, z.flip(0))  # <- here
    return turned.real.square().sum() + turned.imag.sum()

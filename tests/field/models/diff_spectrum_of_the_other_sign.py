# from: own
# ask: diff PROGRAM:reference PROGRAM:port x='randn(3,8)'
# exit: 1
# says: ^values differ first at 'spectrum'
# The power hides that the spectrum is conjugated.
import torch


def reference(x):
    spectrum = torch.fft.fft(x)
    power = spectrum.abs().square()
    loss = power.log1p().sum()
    return loss


def port(x):
    spectrum = torch.fft.ifft(x) * 8  # <- here
    power = spectrum.abs().square()
    loss = power.log1p().sum()
    return loss

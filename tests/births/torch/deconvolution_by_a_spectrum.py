# from: https://github.com/ROBelgium/MSNoise/issues/291
# ask: explain --nonfinite PROGRAM:loss_of trace='[1.0, 3.0, 2.0, 0.5]' kernel='[0.5, 0.5, 0.0, 0.0]'
# birth: forward
# name: whitened
# operands: 0.5 / 0.0
import torch


def loss_of(trace, kernel):
    spectrum, response = torch.fft.rfft(trace), torch.fft.rfft(kernel)
    numerator = spectrum.abs()
    denominator = response.abs()
    whitened = numerator / denominator  # <- here
    return whitened.sum()

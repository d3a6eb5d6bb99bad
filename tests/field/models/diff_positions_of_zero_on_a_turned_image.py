# from: own
# ask: diff PROGRAM:reference PROGRAM:port image='randn(2,3,4,4)' position='zeros(4,4,3)' w='randn(3,5)'
# exit: 1
# says: gradients? differs? (first )?at 'position'
# The port takes rows for columns. What is pooled agrees while all positions are zero; what they learn does not.
import torch


def reference(image, position, w):
    pixels = image.permute(0, 2, 3, 1) + position
    hidden = torch.tanh(pixels @ w)
    pooled = hidden.mean((1, 2))
    loss = pooled.square().sum()
    return loss


def port(image, position, w):
    pixels = image.permute(0, 3, 2, 1) + position
    hidden = torch.tanh(pixels @ w)
    pooled = hidden.mean((1, 2))
    loss = pooled.square().sum()
    return loss

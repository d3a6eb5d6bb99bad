# from: https://github.com/keras-team/keras/pull/16363
# ask: diff PROGRAM:reference PROGRAM:port image='randn(2,4,5,5)'
# exit: 1
# says: differ first at 'flat'
# never: 'features' differs
# never: ^values differ first at 'logits'
# Flattening channels last gives the same shape in another order.
import torch

torch.manual_seed(0)
convolution, head = torch.nn.Conv2d(4, 3, 3, padding=1), torch.nn.Linear(75, 2)


def reference(image):
    features = convolution(image).relu()
    flat = features.flatten(1)
    logits = head(flat)
    return logits.logsumexp(-1).mean()


def port(image):
    features = convolution(image.contiguous(memory_format=torch.channels_last)).relu()
    flat = features.permute(0, 2, 3, 1).flatten(1)  # <- here
    logits = head(flat)
    return logits.logsumexp(-1).mean()

"""Custom functions of PyTorch out of two functions."""

import torch
from torch.autograd import Function


def custom(name, forward, backward):
    """A ``Function`` of this name; ``backward`` gets the gradients of the outputs, then what ``forward`` was given."""

    def keep(ctx, *given):
        are_tensors = [isinstance(one, torch.Tensor) for one in given]
        ctx.save_for_backward(*(one if is_tensor else None for one, is_tensor in zip(given, are_tensors, strict=True)))
        ctx.others = [None if is_tensor else one for one, is_tensor in zip(given, are_tensors, strict=True)]
        return forward(*given)

    def give_back(ctx, *gradients):
        given = zip(ctx.saved_tensors, ctx.others, strict=True)
        return backward(*gradients, *(other if saved is None else saved for saved, other in given))

    return type(Function)(name, (Function,), {"forward": staticmethod(keep), "backward": staticmethod(give_back)})

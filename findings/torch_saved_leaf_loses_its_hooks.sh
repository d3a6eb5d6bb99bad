#!/bin/sh
# PyTorch up to 2.9: a parameter loses its hooks for good when a custom function reads it under `save_on_cpu`.
#
# A function with a backward of its own saves a parameter under saved-tensor hooks: those of save_on_cpu, or of a
# checkpoint that lies in another. When its backward reads ctx.saved_tensors, it gets a new tensor, which shares the node
# of the parameter; when that tensor is freed, all hooks are taken off the node. A hook that clips or masks gradients is
# not called in that backward nor in any later one, also of programs that save nothing. `.grad` is set, nothing is said,
# and `parameter._backward_hooks` still holds the hook. register_post_accumulate_grad_hook is not concerned.
#
# What helps: parameter._backward_hooks = parameter._backward_hooks, which puts them on again; or PyTorch 2.13.
#
# Seen with: torch 2.9.1, Python 3.11
# torch 2.9.1 | plain: 1 call | save_on_cpu: 0 calls | plain again: 0 calls, 1 hook held | put on again: 1 call
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} torch==2.9.1 numpy
cat >"$folder/shown.py" <<'PYTHON'
from contextlib import nullcontext

import torch
from torch.autograd.graph import save_on_cpu


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


parameter = torch.nn.Parameter(torch.ones(3))
calls = []
parameter.register_hook(lambda grad: calls.append(grad))


def called(context):
    calls.clear()
    with context:
        out = Square.apply(parameter)
    out.sum().backward()
    return f"{len(calls)} call" + "s" * (len(calls) != 1)


said = [f"plain: {called(nullcontext())}", f"save_on_cpu: {called(save_on_cpu())}"]
said += [f"plain again: {called(nullcontext())}, {len(parameter._backward_hooks)} hook held"]
parameter._backward_hooks = parameter._backward_hooks
said += [f"put on again: {called(nullcontext())}"]
print(f"torch {torch.__version__.partition('+')[0]} |", " | ".join(said))
PYTHON
said=$("$folder/env/bin/python" -W ignore "$folder/shown.py" 2>/dev/null)
echo "$said"
[ "$said" = "torch 2.9.1 | plain: 1 call | save_on_cpu: 0 calls | plain again: 0 calls, 1 hook held | put on again: 1 call" ]

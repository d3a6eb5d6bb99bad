#!/bin/sh
# PyTorch: a fused optimizer writes to parameters without counting it, and a later backward is silently wrong.
#
# Autograd saves `w` for the backward of `w * w`. If an optimizer steps before that backward, an ordinary one raises
# "one of the variables needed for gradient computation has been modified by an inplace operation". With fused=True the
# version of the parameter stays what it was, on the CPU too: backward uses the new numbers for the old graph and returns
# a gradient of neither. SGD, Adam, AdamW and Adagrad do so alike.
#
# Whoever steps before a second backward of the same graph (two losses, retain_graph, GAN updates in one pass) meets it as
# they turn fused=True on, as an error that is gone. Tools that notice writes by `_version` see no step at all.
#
# Seen with: torch 2.13.0 (CPU), Python 3.11
# torch 2.13.0 | right 6.0 | SGD: RuntimeError, fused 5.8 of version +0 | Adam: RuntimeError, fused 5.8 of version +0 | AdamW: RuntimeError, fused 5.79 of version +0 | Adagrad: RuntimeError, fused 5.8 of version +0
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} torch==2.13.0
cat >"$folder/shown.py" <<'PYTHON'
import torch


def late(kind, fused):
    w = torch.nn.Parameter(torch.tensor([3.0]))
    optimizer = kind([w], lr=0.1, fused=fused)
    y = (w * w).sum()
    w.grad = torch.ones(1)
    before = w._version
    optimizer.step()
    try:
        (gradient,) = torch.autograd.grad(y, w)
    except RuntimeError as error:
        return type(error).__name__
    return f"{gradient.item():.3g} of version +{w._version - before}"


w = torch.nn.Parameter(torch.tensor([3.0]))
(right,) = torch.autograd.grad((w * w).sum(), w)
found = [f"torch {torch.__version__.partition('+')[0]}", f"right {right.item()}"]
for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad):
    found.append(f"{kind.__name__}: {late(kind, False)}, fused {late(kind, True)}")
print(" | ".join(found))
PYTHON
said=$("$folder/env/bin/python" "$folder/shown.py")
echo "$said"
[ "$said" = "torch 2.13.0 | right 6.0 | SGD: RuntimeError, fused 5.8 of version +0 | Adam: RuntimeError, fused 5.8 of version +0 | AdamW: RuntimeError, fused 5.79 of version +0 | Adagrad: RuntimeError, fused 5.8 of version +0" ]

#!/bin/sh
# PyTorch 2.9: ScheduleDualPipeV divides the gradients of one stage by the number of microbatches, and not the other's.
#
# A pipeline schedule adds the gradients of all microbatches up, and then divides them by their number, since losses are
# means (`scale_grads=True`, the default). Where the last backward of a stage is split, into gradients of inputs and then
# of weights, the runtime of 2.9 never divides. DualPipeV splits some: with four microbatches the gradients of stage 0
# are four times too large beside those of stage 1, silently, and so are its steps under SGD. What the stage is given
# and returns is right, so the loss of the first step is right too.
#
# What helps: a newer PyTorch (2.13 divides both), or dividing `.grad` of the stages whose plan ends with a `W`.
#
# Seen with: torch 2.9.1 (one process with both stages, which exchange nothing), Python 3.11
# torch 2.9.1 | stage 0: 4.0 of the right gradient | stage 1: 1.0 of the right gradient
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} torch==2.9.1 numpy
cat >"$folder/shown.py" <<'PYTHON'
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleDualPipeV
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
torch.manual_seed(0)
x, target, loss = torch.randn(8, 3), torch.randn(8, 2), torch.nn.functional.mse_loss
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
right = [torch.autograd.grad(loss(model(x), target), list(part.parameters())) for part in model]
stages = [PipelineStage(part, at, 2, torch.device("cpu")) for at, part in enumerate(model)]
ScheduleDualPipeV(stages, 4, loss_fn=loss).step(x, target=target)
said = []
for at, (part, grads) in enumerate(zip(model, right)):
    times = {round((p.grad / grad).mean().item(), 3) for p, grad in zip(part.parameters(), grads)}
    said.append(f"stage {at}: {', '.join(map(str, times))} of the right gradient")
print(f"torch {torch.__version__.partition('+')[0]} |", " | ".join(said))
PYTHON
said=$("$folder/env/bin/python" -W ignore "$folder/shown.py" 2>/dev/null)
echo "$said"
[ "$said" = "torch 2.9.1 | stage 0: 4.0 of the right gradient | stage 1: 1.0 of the right gradient" ]

#!/bin/sh
# TorchRL: torch.func.functional_call refuses every loss module.
#
# A `LossModule` overrides `named_parameters` to leave out its target networks, and takes `prefix` and `recurse` alone.
# PyTorch asks modules for `named_parameters(remove_duplicate=False)` where it has to know which weights are tied: so
# `functional_call` raises TypeError before it has called anything, with an empty dictionary too. Meta-learning through a
# loss, per-sample gradients of it and tools that walk tied parameters meet it.
#
# What helps: functional_call(..., tie_weights=False), which does not ask.
#
# Seen with: torchrl 0.14.1, tensordict 0.14.3, torch 2.13.0 (CPU), Python 3.11
# torchrl 0.14.1 | as it is: TypeError about 'remove_duplicate' | tie_weights=False: works
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} \
  torchrl==0.14.1 tensordict==0.14.3 torch==2.13.0
cat >"$folder/shown.py" <<'PYTHON'
from importlib.metadata import version

import torch
from tensordict import TensorDict
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss

actor = QValueActor(torch.nn.Linear(3, 2), in_keys=["observation"], action_space="one-hot")
loss = DQNLoss(actor, action_space="one-hot", delay_value=True)
data = TensorDict({
    "observation": torch.ones(4, 3), "action": torch.eye(2)[[0, 1, 0, 1]],
    "next": {"observation": torch.ones(4, 3), "reward": torch.ones(4, 1),
             "done": torch.zeros(4, 1, dtype=torch.bool), "terminated": torch.zeros(4, 1, dtype=torch.bool)},
}, [4])


def shown(**options):
    try:
        return "works" if "loss" in torch.func.functional_call(loss, {}, (data,), **options) else "?"
    except TypeError as error:
        return f"TypeError about {str(error).rpartition(' ')[2]}"


print(f"torchrl {version('torchrl')} | as it is: {shown()} | tie_weights=False: {shown(tie_weights=False)}")
PYTHON
said=$("$folder/env/bin/python" -W ignore "$folder/shown.py")
echo "$said"
[ "$said" = "torchrl 0.14.1 | as it is: TypeError about 'remove_duplicate' | tie_weights=False: works" ]

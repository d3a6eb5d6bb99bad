#!/bin/sh
# PyTorch: run twice in one process, a script with `torch.cond` computes with the first run's modules in the second.
#
# `torch.cond` compiles its branches with Dynamo, also outside of `torch.compile`. What the branches read from the script's
# globals is looked up in `sys.modules["__main__"]`, of which Dynamo keeps the module that it saw first. `runpy.run_path(...,
# run_name="__main__")`, as test runners, notebooks' `%run` and debuggers do it, makes a new one for each run: the branches
# of the second run compute with the first run's layers, so their gradients go there, and those of the second stay None.
# Nothing is raised or warned of, and the value is right where both runs set the same seed. `torch._dynamo.reset()` between
# the runs does not help.
#
# What helps: hand the parameters to the branches as operands, put the code into a function with layers as its variables,
# or run each script in a process of its own.
#
# Seen with: torch 2.13.0 (CPU), Python 3.11
# torch 2.13.0 | gradient of the layer: there, None | in a function: there, there
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} torch==2.13.0 numpy
cat >"$folder/branches.py" <<'PYTHON'
import torch
from torch import nn

torch.manual_seed(0)
first, second = nn.Linear(3, 1), nn.Linear(3, 1)
x = torch.ones(4, 3)
torch.cond(x.sum() > 0, lambda x: first(x), lambda x: second(x), (x,)).sum().backward()
found = "None" if first.weight.grad is None else "there"
PYTHON
cat >"$folder/inside.py" <<'PYTHON'
import torch
from torch import nn


def main():
    first, second = nn.Linear(3, 1), nn.Linear(3, 1)
    x = torch.ones(4, 3)
    torch.cond(x.sum() > 0, lambda x: first(x), lambda x: second(x), (x,)).sum().backward()
    return "None" if first.weight.grad is None else "there"


found = main()
PYTHON
cat >"$folder/shown.py" <<'PYTHON'
import runpy
import sys

import torch


def twice(script):
    path = f"{sys.argv[1]}/{script}"
    runs = []
    for _ in range(2):
        torch._dynamo.reset()
        runs.append(runpy.run_path(path, run_name="__main__")["found"])
    return ", ".join(runs)


version = torch.__version__.partition("+")[0]
print(f"torch {version} | gradient of the layer: {twice('branches.py')} | in a function: {twice('inside.py')}")
PYTHON
said=$("$folder/env/bin/python" -W ignore "$folder/shown.py" "$folder")
echo "$said"
[ "$said" = "torch 2.13.0 | gradient of the layer: there, None | in a function: there, there" ]

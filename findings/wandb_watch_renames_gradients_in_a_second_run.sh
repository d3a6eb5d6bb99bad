#!/bin/sh
# wandb: in the second run of a process, wandb.watch calls the gradients of the same model by other names.
#
# The first call in a process logs `gradients/weight`; that of the next run, of a new `wandb.init`, logs
# `gradients/graph_1weight`, and that after it `gradients/graph_2weight`: a counter of the process goes on, also after
# `run.unwatch()` and `run.finish()`. Folds of a cross-validation, the trials of a sweep's agent, and cells of a notebook
# that are run again have charts that do not lie over each other.
#
# What helps: run.watch(model, idx=0).
#
# Seen with: wandb 0.31.0, torch 2.13.0 (CPU), Python 3.11
# wandb 0.31.0 | first run: gradients/weight | second: gradients/graph_1weight | third, idx=0: gradients/weight
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} wandb==0.31.0 torch==2.13.0 numpy
cat >"$folder/shown.py" <<'PYTHON'
import sys

import torch
import wandb


def watched(**options):
    model = torch.nn.Linear(2, 1, bias=False)
    with wandb.init(project="p", dir=sys.argv[1], mode="offline") as run:
        run.watch(model, log_freq=1, **options)
        model(torch.ones(3, 2)).sum().backward()
        run.log({})
        found = [name for name in run.summary.keys() if name.startswith("gradients/")]
        run.unwatch()
    return " ".join(found)


print(f"wandb {wandb.__version__} | first run: {watched()} | second: {watched()} | third, idx=0: {watched(idx=0)}")
PYTHON
said=$(WANDB_SILENT=true "$folder/env/bin/python" -W ignore "$folder/shown.py" "$folder" 2>/dev/null)
echo "$said"
[ "$said" = "wandb 0.31.0 | first run: gradients/weight | second: gradients/graph_1weight | third, idx=0: gradients/weight" ]

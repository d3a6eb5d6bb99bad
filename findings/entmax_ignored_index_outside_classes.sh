#!/bin/sh
# entmax: the index of ignored targets has to be a class, where PyTorch's default is -100.
#
# The losses take `ignore_index`, with the default -100 of PyTorch's cross entropy, and say that such targets are ignored.
# A target of -100 or -1 raises "index -100 is out of bounds", since the target's probability is subtracted by `scatter_add_`
# before what is ignored is masked. Only the index of a class that is there works, and then that class is never learnt.
#
# Whoever exchanges cross_entropy for entmax15_loss in a language model meets it with the first padded batch. What helps:
# keep the rows first, loss(scores[target != -100], target[target != -100]).
#
# Seen with: entmax 1.3, torch 2.13.0 (CPU), Python 3.11
# entmax 1.3 | CrossEntropyLoss -100: gradient 0 of the ignored row | Entmax15Loss -100: RuntimeError | SparsemaxLoss -100: RuntimeError | CrossEntropyLoss 0: gradient 0 of the ignored row | Entmax15Loss 0: gradient 0 of the ignored row | SparsemaxLoss 0: gradient 0 of the ignored row
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} \
  entmax==1.3 torch==2.13.0
cat >"$folder/shown.py" <<'PYTHON'
from importlib.metadata import version

import torch
from entmax import Entmax15Loss, SparsemaxLoss

scores = torch.tensor([[0.2, 1.0, -1.0], [5.0, 1.0, 0.0]], requires_grad=True)


def shown(kind, ignored):
    try:
        loss = kind(ignore_index=ignored)(scores, torch.tensor([1, ignored]))
        (gradient,) = torch.autograd.grad(loss, scores)
    except RuntimeError as error:
        return type(error).__name__
    return f"gradient {gradient[1].abs().sum().item():g} of the ignored row"


found = [f"entmax {version('entmax')}"]
for ignored in (-100, 0):
    for kind in (torch.nn.CrossEntropyLoss, Entmax15Loss, SparsemaxLoss):
        found.append(f"{kind.__name__} {ignored}: {shown(kind, ignored)}")
print(" | ".join(found))
PYTHON
said=$("$folder/env/bin/python" -W ignore "$folder/shown.py")
echo "$said"
[ "$said" = "entmax 1.3 | CrossEntropyLoss -100: gradient 0 of the ignored row | Entmax15Loss -100: RuntimeError | SparsemaxLoss -100: RuntimeError | CrossEntropyLoss 0: gradient 0 of the ignored row | Entmax15Loss 0: gradient 0 of the ignored row | SparsemaxLoss 0: gradient 0 of the ignored row" ]

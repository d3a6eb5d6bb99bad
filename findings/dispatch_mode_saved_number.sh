#!/bin/sh
# PyTorch: a TorchDispatchMode that changes nothing breaks a tensor that a division has saved.
#
# `x.div(2)` saves its divisor for backward, as a 0-d tensor that PyTorch made of the number itself. Read outside a mode,
# `grad_fn._saved_other` is a tensor like others. Inside a pass-through TorchDispatchMode most operations on it raise
# "Expected a value of type 'Tensor' for argument 'self' but instead found type 'int'": the mode is handed the Python number
# in place of the tensor, and the operation does not take it back. Adding to it works, since add() accepts numbers.
#
# Whoever reads saved tensors in a hook while a mode is on (flop counters, memory trackers, recorders) meets it. What
# helps: torch._C._DisableTorchDispatch() around such reads, or torch.tensor(number) in place of the number in the mode.
#
# Seen with: torch 2.13.0 (CPU), Python 3.11
# torch 2.13.0 | outside: 2 | item: RuntimeError | abs: RuntimeError | clone: RuntimeError | compare: RuntimeError | add: 3
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} torch==2.13.0
cat >"$folder/shown.py" <<'PYTHON'
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Nothing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def shown(read):
    try:
        return str(int(read()))
    except RuntimeError as error:
        return type(error).__name__


saved = torch.ones(3, requires_grad=True).div(2).grad_fn._saved_other
found = [f"torch {torch.__version__.partition('+')[0]}", f"outside: {saved.item()}"]
for name, read in {
    "item": saved.item, "abs": saved.abs, "clone": saved.clone, "compare": lambda: saved > 0, "add": lambda: saved + 1,
}.items():
    with Nothing():
        found.append(f"{name}: {shown(read)}")
print(" | ".join(found))
PYTHON
said=$("$folder/env/bin/python" "$folder/shown.py")
echo "$said"
[ "$said" = "torch 2.13.0 | outside: 2 | item: RuntimeError | abs: RuntimeError | clone: RuntimeError | compare: RuntimeError | add: 3" ]

#!/bin/sh
# tensordict: a TensorDict is a collections.abc.Mapping that iterates over its rows.
#
# `isinstance(data, Mapping)` is true, and the contract of a Mapping is that iterating gives the keys. A TensorDict gives the
# slices of its first batch dimension, each a TensorDict, and `len` counts these. So `{key: data[key] for key in data}`, which
# works with any other mapping, raises TypeError, while `dict(data)` and `{**data}` work, since Python calls `keys()` there.
#
# Whoever walks outputs of models by their mappings (loggers, hooks, collate functions) meets it. What helps: ask keys().
#
# Seen with: tensordict 0.14.3, torch 2.13.0 (CPU), Python 3.11
# tensordict 0.14.3 | Mapping: True | len: 3 | iterates over: TensorDict | by items of itself: TypeError | dict: ['loss', 'value']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} \
  tensordict==0.14.3 torch==2.13.0
cat >"$folder/shown.py" <<'PYTHON'
from collections.abc import Mapping
from importlib.metadata import version

import torch
from tensordict import TensorDict

data = TensorDict({"loss": torch.ones(3), "value": torch.zeros(3)}, [3])


def shown(run):
    try:
        return run()
    except TypeError as error:
        return type(error).__name__


print(" | ".join([
    f"tensordict {version('tensordict')}", f"Mapping: {isinstance(data, Mapping)}", f"len: {len(data)}",
    f"iterates over: {type(next(iter(data))).__name__}", f"by items of itself: {shown(lambda: {k: data[k] for k in data})}",
    f"dict: {sorted(dict(data))}",
]))
PYTHON
said=$("$folder/env/bin/python" -W ignore "$folder/shown.py")
echo "$said"
[ "$said" = "tensordict 0.14.3 | Mapping: True | len: 3 | iterates over: TensorDict | by items of itself: TypeError | dict: ['loss', 'value']" ]

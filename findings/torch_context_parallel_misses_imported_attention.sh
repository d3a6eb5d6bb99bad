#!/bin/sh
# PyTorch: in a block of `context_parallel`, a model that has imported `scaled_dot_product_attention` by its name attends
# to its own part of the sequence alone, without an error.
#
# `context_parallel` exchanges `torch.nn.functional.scaled_dot_product_attention` for a function that goes around the
# ring. Whoever wrote `from torch.nn.functional import scaled_dot_product_attention` still calls the old one, with the
# part of the sequence that this process has: the output and the gradients are those of short texts, and the loss goes
# down all the same. By its full path the numbers are those of the whole sequence.
#
# What helps: call it as torch.nn.functional.scaled_dot_product_attention.
#
# Seen with: torch 2.13.0 (CPU, gloo, two processes, the attention of products), Python 3.11
# torch 2.13.0 | by its path: whole sequence | imported by name: own part alone
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} torch==2.13.0 numpy
cat >"$folder/shown.py" <<'PYTHON'
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def by_path(*given):
    return torch.nn.functional.scaled_dot_product_attention(*given)


def shown(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh, said = init_device_mesh("cpu", (2,)), []
    for name, attend in (("by its path", by_path), ("imported by name", scaled_dot_product_attention)):
        q, k, v = (torch.randn(1, 2, 8, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
        whole = scaled_dot_product_attention(q, k, v)
        at = q.clone()
        with sdpa_kernel(SDPBackend.MATH), context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2] * 3):
            out, own = attend(q, k, v), scaled_dot_product_attention(q, k, v)
            # the places of this process's queries in the whole sequence
            places = [int((at[0, 0] == one).all(1).nonzero()) for one in q[0, 0]]
        if torch.allclose(out, whole[:, :, places], atol=1e-5):
            said.append(f"{name}: whole sequence")
        elif torch.equal(out, own):
            said.append(f"{name}: own part alone")
        else:
            said.append(f"{name}: ?")
    if rank == 0:
        print(" | ".join([f"torch {torch.__version__.partition('+')[0]}", *said]))
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(shown, (sys.argv[1],), nprocs=2)
PYTHON
said=$(OMP_NUM_THREADS=1 "$folder/env/bin/python" -W ignore "$folder/shown.py" "$folder" 2>/dev/null)
echo "$said"
[ "$said" = "torch 2.13.0 | by its path: whole sequence | imported by name: own part alone" ]

"""The memory that comparing two saved recordings needs, beside the bytes of their files.

    python bench/diff_saved.py

Each comparison is a process of its own, whose peak is that of its resident memory beyond what importing took. The files
are mapped into memory, and what has been compared is given back: tensors larger than memory are compared so too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import backprobe as bp

SIZES = (2_000, 4_000, 6_000)
COMPARE = """
import sys, time
import backprobe as bp

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024

bp.diff(sys.argv[1], sys.argv[1])
before, started = peak(), time.process_time()
report = bp.diff(sys.argv[2], sys.argv[3])
print(f"{peak() - before:8.0f} MB at the peak, {time.process_time() - started:5.1f} s, first {report.first!r:.60}")
"""


def reference(x: torch.Tensor) -> torch.Tensor:
    u = torch.sin(x)
    v = u * 1.01
    w = v.T + 1
    return w.square().mean()


def other(x: torch.Tensor) -> torch.Tensor:
    u = torch.sin(x)
    v = u * 1.5
    w = v.T + 1
    return w.square().mean()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bp.probe(reference)(torch.ones(2, 2)).save(folder / "small")
        for dtype in (torch.float32, torch.bfloat16):
            for side in SIZES:
                x = torch.randn(side, side).to(dtype)
                for file, function in (("a", reference), ("b", other)):
                    bp.probe(function)(x).save(folder / file, overwrite=True)
                size = sum(one.stat().st_size for file in "ab" for one in (folder / file).iterdir()) >> 20
                paths = [str(folder / one) for one in ("small", "a", "b")]
                done = subprocess.run(
                    [sys.executable, "-c", COMPARE, *paths], capture_output=True, text=True, check=True
                )
                print(f"{str(dtype)[6:]:9} {size:6,} MB on disk  {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()

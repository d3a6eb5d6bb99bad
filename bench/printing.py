"""The cost of printing large tensors, beside one pass of ``vector_norm`` over the same data.

The floor: the bytes of value and gradient are read from memory once. The second print reads nothing.
"""

import time

import torch
from side_by_side import least

import backprobe as bp
from backprobe.backends.discover import load_arrays

SIZES = (10**6, 10**7, 10**8)
KINDS = (torch.float32, torch.bfloat16, torch.float64, torch.int64)


def main():
    torch.set_num_threads(1)
    arrays = load_arrays("torch")
    for size in SIZES:
        tensor = torch.randn(size)
        norm = least(lambda tensor=tensor: torch.linalg.vector_norm(tensor))
        once = least(lambda tensor=tensor: arrays.summarize(tensor))
        print(f"{size:>13,} float32  the statistics take × {once / norm:.2f} of one vector_norm")
    for kind in KINDS[1:]:
        tensor = (torch.randn(10**7) * 9).to(kind)
        once = least(lambda tensor=tensor: arrays.summarize(tensor))
        copied = least(lambda tensor=tensor: torch.linalg.vector_norm(tensor.double()))
        print(f"   10,000,000 {str(kind)[6:]:8} the statistics take × {once / copied:.2f} of one vector_norm in double")
    recording = bp.probe(lambda x: (x * 2).sum())(torch.randn(10**7))
    norm = least(lambda: torch.linalg.vector_norm(recording["x"].value))
    started = time.process_time()
    str(recording)
    first = time.process_time() - started
    print(
        f"print(rec), value and gradient of 10,000,000 each: × {first / norm:.2f} of one vector_norm, "
        f"printed again × {least(lambda: str(recording)) / norm:.3f}"
    )


if __name__ == "__main__":
    main()

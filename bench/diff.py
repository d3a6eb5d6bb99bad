"""The cost of comparing two recordings: for each number in units of ``vector_norm``, and for each entry in time.

    python bench/diff.py

The floor: each byte of both sides is read from memory once, as one ``vector_norm`` of each does. A measure has more to
find: the norms of both and of their difference, the largest element of each and where it is, the cosine, the distance
in ulps, how many differ and the first that does. The aim is 8 times the floor, and 1 ms for an entry.

Processor time, and one thread; the pairs of the table are measured one right after the other.
"""

from __future__ import annotations

import torch
from side_by_side import least

import backprobe as bp
from backprobe.backends.discover import load_arrays
from backprobe.diff.measuring import measure

SIZES = (10**5, 10**6, 10**7)
KINDS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
STEPS = (100, 400, 1_600)


def pairs(size: int, kind: torch.dtype) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """A tensor, and what it is compared with."""
    drawn = torch.randn(size)
    own = drawn.to(kind)
    masked = torch.where(torch.arange(size) % 2 == 0, own, torch.finfo(kind).min)
    return {
        "equal": (own, own.clone()),
        "rounded": (own, (drawn * (1 + 1e-6 * torch.randn(size))).to(kind)),
        "unlike": (own, (drawn + torch.randn(size)).to(kind)),
        "masked": (masked, masked * torch.where(masked > -1e4, 1 + 1e-6, 1.0)),
        "in bfloat16": (own, own.bfloat16()),
    }


def numbers() -> None:
    """A table of measures, beside one ``vector_norm`` of each side."""
    arrays = load_arrays("torch")
    print("comparing two tensors, in units of a vector_norm of both")
    for kind in KINDS:
        for size in SIZES:
            found = []
            for what, (a, b) in pairs(size, kind).items():
                norms = least(lambda a=a, b=b: (torch.linalg.vector_norm(a), torch.linalg.vector_norm(b)))
                own = least(lambda a=a, b=b: measure(arrays.rows(a), arrays.rows(b), str(b.dtype)[6:]))
                found.append(f"{what} {own / norms:5.1f}")
            print(f"  {str(kind)[6:]:9} {size:>11,}   {'   '.join(found)}")


def layers(x: torch.Tensor, count: int, factor: float) -> torch.Tensor:
    """Many small entries, of which the second half differs with another factor."""
    for step in range(count):
        u = torch.sin(x)
        v = u * (factor if step > count // 2 else 1.01)
        x = v + 0.1
    return x.sum()


def entries() -> None:
    """The time that each of many small entries costs: all that is not reading numbers."""
    print("comparing recordings of small entries")
    for count in STEPS:
        reference = bp.probe(layers)(torch.ones(4), count, 1.01)
        for what, factor in (("equal", 1.01), ("differing", 1.05)):
            other = bp.probe(layers)(torch.ones(4), count, factor)
            made = len(bp.diff(reference, other).rows)
            took = least(lambda reference=reference, other=other: bp.diff(reference, other))
            print(f"  {made:>6,} entries, {what:9}  {took / made * 1e3:.3f} ms an entry")


def whole() -> None:
    """A recording of few large entries, values and gradients, with the report and its text."""
    print("comparing recordings of large entries, with the report, in units of a vector_norm of all that is compared")

    def f(x: torch.Tensor, factor: float) -> torch.Tensor:
        u = torch.sin(x)
        v = u * factor
        w = torch.tanh(v)
        return w.square().mean()

    x = torch.randn(2 * 10**6)
    reference = bp.probe(f)(x, 1.01)
    for what, factor in (("equal", 1.01), ("rounded", 1.010001), ("differing", 1.05)):
        other = bp.probe(f)(x, factor)
        held = [
            t
            for rec in (reference, other)
            for entry in rec.values()
            for t in (entry.value, entry.grad_or_none)
            if isinstance(t, torch.Tensor)
        ]
        norms = least(lambda held=held: [torch.linalg.vector_norm(one) for one in held])
        took = least(lambda other=other: str(bp.diff(reference, other)))
        print(f"  {what:9} {took / norms:5.1f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    numbers()
    entries()
    whole()

"""The texts of a report on single samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backprobe.findings.phrasing import plural
from backprobe.show.text import printable

TITLES = ("sample", "loss", "norm", "share", "cosine")
MOST = 12  # the most samples that a sentence lists


def heading(samples: Any) -> str:
    """The heading: the output, and how the loss weights the samples."""
    weights, count = samples.weights, plural(len(samples), "sample")
    said = f"a sum over {count}"
    if len({*weights.tolist()}) > 1:
        said = f"a mean over {count} that count unevenly, from {weights.min():.3g} to {weights.max():.3g}"
    elif len(samples) > 1 and weights[0] != 1:
        said = f"a mean over {count}, each divided by {len(samples):,}"
    return f"gradients of {printable(samples.of)} of {samples.target}: {said}"


def cells(samples: Any, at: int) -> Sequence[str]:
    """The cells of the table's row for one sample."""
    share, cosine = samples.shares[at], samples.cosines[at]
    return (
        str(at),
        f"{samples.losses[at]:.4g}",
        f"{samples.norm[at]:.4g}",
        "–" if math.isnan(share) else f"{share:z.3f}",
        "–" if math.isnan(cosine) else f"{cosine:z.3f}",
    )


def remarks(samples: Any) -> list[str]:
    """Remarks on conspicuous samples, one line for each kind, and advice on the first sample with NaN or Inf."""
    dominating = _percent(samples)
    found = (
        (samples.nonfinite, "has NaN or Inf in its gradient", "have NaN or Inf in their gradients"),
        (samples.dominant, f"has {dominating} of all gradient norm", f"have {dominating} of all gradient norm"),
        (samples.opposing, "opposes the sum", "oppose the sum"),
    )
    said = [
        (f"one sample {one}" if len(every) == 1 else f"{plural(len(every), 'sample')} {several}") + f": {_some(every)}"
        for every, one, several in found
        if every
    ]
    return [*said, *_next(samples)]


def _percent(samples: Any) -> str:
    # The part of all gradient norm that the dominant samples bring.
    own = sum(float(samples.norm[at]) for at in samples.dominant)
    return f"{math.floor(100 * own / sum(filter(math.isfinite, map(float, samples.norm))))} %" if own else ""


def _next(samples: Any) -> list[str]:
    # Advice for the first sample with NaN or Inf: the call that shows where they begin.
    if not samples.nonfinite:
        return []
    at = samples.nonfinite[0]
    batch = samples.runs.batch
    cut = ", ".join(f"{name}[{at}:{at + 1}]" for name in batch.names)
    given = cut if len(batch.places) == len(batch.args) + len(batch.kwargs) else f"..., {cut}"
    return [f"next: bp.explain(bp.probe({samples.target}, nonfinite=True)({given})), for the line where it begins"]


def _some(every: Sequence[int]) -> str:
    shown = ", ".join(map(str, every[:MOST]))
    return shown + (f" and {len(every) - MOST:,} more" if len(every) > MOST else "")

"""Tensors and recordings in words, as tables, drawings and derivations print them."""

from __future__ import annotations

import math
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.findings.phrasing import listed, plural
from backprobe.record.entries import Record
from backprobe.record.inputs import PathSums

SMALL = 8  # elements shown in full


def describe(tensor: Any, backend: Arrays) -> str:
    """A small tensor in full; for a large one its shape, dtype, RMS, largest magnitude, and how many are not finite."""
    if tensor is None:
        return ""
    described = backend.describe(tensor)
    if described.shape is None:
        return f"{described.dtype} (nested)"
    size = math.prod(described.shape)
    shape = "×".join(map(str, described.shape))
    if not size:
        return f"{shape} {described.dtype} (empty)"
    if size <= SMALL:
        return str(backend.to_text(tensor))
    summary = backend.summarize(tensor)
    if summary is None:
        return f"{shape} {described.dtype}"
    text = f"{shape} {described.dtype} rms {summary.rms:.3g} max {summary.largest:.3g}"
    return f"{text} ({summary.nonfinite} of {summary.size} not finite)" if summary.nonfinite else text


def printable(text: str) -> str:
    """A text that fits on one line: line breaks, tabs and escapes are written out."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def outputs(record: Record) -> str:
    """The names of what was differentiated, in a sentence."""
    names = ", ".join(record.entries[at].name for at in record.outputs)
    return f"gradients are of {names}" if names else "no gradients: nothing that was recorded was differentiated"


def path_sums(sums: PathSums) -> str:
    """Whether the partials sum to the gradients, in a sentence."""
    judged = plural(sums.judged, "gradient")
    if sums.agree:
        text = f"the sum over paths of products of partials agrees with {judged}"
        text += f" (largest relative difference {sums.difference:.1g})" if sums.difference else ", exactly"
    else:
        text = f"the partials do not sum to the gradient of {sums.worst} (relative difference {sums.difference:.3g})"
        text += "; a hook, coarse rounding, or a backward that is not linear in its input can cause that"
    if sums.unjudged:
        text += f"; not compared (a hook of yours, or a nested tensor): {listed(sums.unjudged)}"
    return text

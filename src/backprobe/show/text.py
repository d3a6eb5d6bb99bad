"""Texts for tensors and recordings in tables, drawings and derivations."""

from __future__ import annotations

import math
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.findings.phrasing import listed, plural
from backprobe.record.brief import SMALL, sizes
from backprobe.record.entries import Record
from backprobe.record.inputs import PathSums
from backprobe.show.columns import Forms

MOST_OUTPUTS = 8
"""The most columns of gradients."""

SHORT, SHORTEST = 24, 16  # the most characters of a small tensor in narrow columns


def describe(tensor: Any, arrays: Arrays) -> str:
    """A small tensor in full; for a large one its shape, dtype, rms, largest magnitude, and the number of
    NaN and Inf.
    """
    return forms(tensor, arrays)[0]


def forms(tensor: Any, arrays: Arrays) -> Forms:
    """Three texts for a tensor, the first of which is that of ``describe``. For a small tensor, the others may show
    fewer numbers.

    For a large tensor, the second lacks dtype and largest magnitude. The third also lacks the shape, if the numbers can
    be read. All are empty for None.
    """
    if tensor is None:
        return "", "", ""
    described = arrays.describe(tensor)
    if described.shape is None:
        return (f"{described.dtype} (nested)",) * 3
    size = math.prod(described.shape)
    shape = sizes(described.shape)
    if not size:
        return f"{shape} {described.dtype} (empty)", f"{shape} (empty)", "empty"
    if size <= SMALL:
        text = str(arrays.to_text(tensor))
        return text, _some(text, SHORT), _some(text, SHORTEST)
    summary = arrays.summary(tensor)
    if summary is None:
        return f"{shape} {described.dtype}", shape, shape
    rms = f"rms {summary.rms:.3g}"
    text = f"{shape} {described.dtype} {rms} max {summary.largest:.3g}"
    if not summary.nonfinite:
        return text, f"{shape} {rms}", rms
    rms += f" ({summary.nonfinite} not finite)"
    return f"{text} ({summary.nonfinite} of {summary.size} not finite)", f"{shape} {rms}", rms


def _some(text: str, most: int) -> str:
    # The first numbers of a text that is too long. Numbers are never cut.
    if len(text) <= most or ", " not in text:
        return text
    kept = ""
    for number in text.split(", "):
        if kept and len(kept) + len(number) + len(", , …]") > most:
            break
        kept += number + ", "
    return kept + "…" + "]" * (kept.count("[") - kept.count("]"))


def printable(text: str) -> str:
    """A text that fits on one line. Line breaks, tabs and other control characters are written as escapes."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def keys_shown(record: Record) -> tuple[str, ...]:
    """The keys of the outputs that get a column. If there are too many, the default output and outputs that are
    variables are preferred.
    """
    keys = [*record.by_output]
    if len(keys) <= MOST_OUTPUTS:
        return tuple(keys)
    first = sorted(keys, key=lambda key: (key != record.default_output, "()" in key))[:MOST_OUTPUTS]
    return tuple([key for key in keys if key in first])


def _differentiated(record: Record, at: int) -> str:
    # The name of an output. A function given as ``of=`` computes an output that has no name in the program.
    name = record.entries[at].name
    return "what of= returned" if name == "of()" else name


def outputs(record: Record) -> str:
    """A sentence with the names of the outputs."""
    of_keys: dict[str, list[str]] = {
        key: [_differentiated(record, at) for at in record.by_output[key].outputs] for key in keys_shown(record)
    }
    several = [
        key if key in names or " + ".join(names) == key else f"{listed(names)} ({key})"
        for key, names in of_keys.items()
    ]
    names = ", ".join(several or [_differentiated(record, at) for at in record.outputs])
    left = len(record.by_output) - len(several)
    if left:
        names += f", and {plural(left, 'more output')} that rec.output_keys names"
    if not names and record.passes:
        calls = listed([*dict.fromkeys(one.call for one in record.passes)])
        return f"gradients are of what {calls} began at, which has no name"
    return f"gradients are of {names}" if names else "no gradients: nothing that was recorded was differentiated"


def path_sums(sums: PathSums) -> str:
    """A sentence on whether the partials sum to the gradients."""
    judged = plural(sums.judged, "gradient")
    if not sums.judged:
        text = "the sum over paths of products of partials was compared with no gradient"
    elif sums.agree:
        text = f"the sum over paths of products of partials agrees with {judged}"
        text += f" (largest relative difference {sums.difference:.1g})" if sums.difference else ", exactly"
    else:
        text = f"the partials do not sum to the gradient of {sums.worst} (relative difference {sums.difference:.3g})"
        text += "; a hook, coarse rounding, or a backward that is not linear in its input can cause that"
    if sums.unjudged:
        text += "; not compared (a hook of yours, a nested tensor, a loop of JAX, tensors in a block, or terms that "
        text += "cancel or underflow): "
        text += listed(sums.unjudged)
    return text

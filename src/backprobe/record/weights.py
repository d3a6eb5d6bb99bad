"""The weights of a sum of outputs: numbers or zero-dimensional arrays, by the keys of the outputs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

from backprobe.errors import BadOption
from backprobe.record.brief import kind, written
from backprobe.record.entries import unknown_output


def weights_of(given: Any, keys: Collection[str]) -> dict[str, float | None]:
    """The weights of the summed outputs; None means 1. Outputs with weight 0 are left out.

    Raises BadOption unless the weights are a dict of finite numbers that are not all 0, and UnknownName for a key that
    belongs to no output.

    >>> weights_of(None, ["ce", "kl"]), weights_of({"ce": 0.5, "kl": 0}, ["ce", "kl"])
    ({'ce': None, 'kl': None}, {'ce': 0.5})
    """
    if given is None:
        return dict.fromkeys(keys)
    asked, example = f"rec.total({written(given)})", "rec.total({" + ", ".join(f"{key!r}: 1.0" for key in keys) + "})"
    if not isinstance(given, Mapping) or not given:
        raise BadOption(
            "weights are a dict of numbers by the keys of outputs",
            asked=asked,
            found=kind(given) if not isinstance(given, Mapping) else "an empty dict",
            next=example,
        )
    found: dict[str, float | None] = {}
    for key, weight in given.items():
        if key not in keys:
            raise unknown_output(key, keys, f"rec.total({{{key!r}: ...}})")
        found[key] = number = _number(weight)
        if number is None and weight is not None:
            raise BadOption(
                f"the weight of {key!r} is not a finite number",
                asked=asked,
                found=f"{kind(weight)}: {written(weight)}",
                next=example,
            )
    used = {key: weight for key, weight in found.items() if weight != 0}
    if not used:
        raise BadOption(
            "every weight is 0, so no output is left to sum",
            asked=asked,
            why="an output whose weight is 0 is left out",
            next=example,
        )
    return used


def _number(weight: Any) -> float | None:
    # A finite real number, possibly in a zero-dimensional array; None for anything else.
    dtype = str(getattr(weight, "dtype", ""))
    is_array = dtype and tuple(getattr(weight, "shape", (0,))) == () and "complex" not in dtype
    if isinstance(weight, bool) or "bool" in dtype or not (isinstance(weight, Real) or is_array):
        return None
    # PyTorch warns about converting a tensor that requires a gradient
    weight = weight.detach() if hasattr(weight, "detach") else weight
    try:
        number = float(weight)
    except (TypeError, ValueError, OverflowError):  # such as a tracer of JAX, which has no number yet
        return None
    return number if math.isfinite(number) else None

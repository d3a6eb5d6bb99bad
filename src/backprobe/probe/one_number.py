"""Checks that an output is a single number, because effects and attributions measure how that number changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backprobe.backends.tensors import Arrays
from backprobe.errors import BadOutput
from backprobe.record.brief import written


def one_number(arrays: Arrays, of: Any, what: str, why: str) -> Callable[[Any], Any]:
    """Return a function that makes the cotangent of an output. It raises BadOutput if the output is not a single real
    number.
    """

    def weigh(output: Any) -> Any:
        import numpy

        numbers = arrays.numbers(output)
        if numbers.size != 1 or numbers.dtype.kind == "c":
            raise BadOutput(
                f"the output of {what} is one real number",
                asked=f"of={written(of)}",
                found=f"a tensor of shape {tuple(numbers.shape)} and dtype {arrays.describe(output).dtype}",
                why=why,
                next="the name of an element, of='logits[0, -1, 5]', or a function of what is returned: "
                "of=lambda result: result.sum()",
            )
        return numpy.ones_like(numbers)

    return weigh

"""Conventions of layer libraries: how they name parameters, and how they store them in memory.

PyTorch and Equinox store a linear layer's weight as (output, input), and images with channels first. Flax, Keras and
Haiku store it as (input, output), and images with channels last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.record.options import Option

WEIGHT, BIAS, MEAN, VARIANCE = "weight", "bias", "mean", "variance"
INPUT, STATE, PACKED = "input ", "state ", "packed "
"""Prefixes of roles: the parameter multiplies the input or state of a recurrent layer, or it packs several others."""

ROLES = {
    "weight": WEIGHT,
    "kernel": WEIGHT,
    "embedding": WEIGHT,
    "embeddings": WEIGHT,
    "scale": WEIGHT,
    "gamma": WEIGHT,
    "w": WEIGHT,
    "bias": BIAS,
    "beta": BIAS,
    "b": BIAS,
    "offset": BIAS,
    "running_mean": MEAN,
    "mean": MEAN,
    "moving_mean": MEAN,
    "running_var": VARIANCE,
    "var": VARIANCE,
    "moving_variance": VARIANCE,
    "weight_ih": INPUT + WEIGHT,
    "bias_ih": INPUT + BIAS,
    "weight_hh": STATE + WEIGHT,
    "bias_hh": STATE + BIAS,
    "recurrent_kernel": STATE + WEIGHT,
    "bias_n": STATE + BIAS,
    "in_proj_weight": PACKED + WEIGHT,
    "in_proj_bias": PACKED + BIAS,
}
"""The role of a parameter in its layer, by the last part of its name."""

LAYER = re.compile(r"_(l\d+(_reverse)?)$")
"""Suffix of a parameter of PyTorch's recurrent modules: the layer's number, and ``_reverse`` for the second direction.
"""

GATES = ("ifgo", "rzn", "zrn", "n")
"""Order of the gates in a packed parameter: of an LSTM, of a GRU (two orders), and of a plain recurrent cell."""
UPDATE_FIRST = "recurrent_kernel"
"""The packed GRU parameter in which the update gate comes first."""
PROJECTIONS = (("query", "key", "value"), ("q", "k", "v"))
"""Projections of attention, in the order in which one parameter packs them."""
COLLECTIONS = ("params", "batch_stats")
"""First segments of a path that name the collection of a variable, not a module."""
ENDINGS = ("_proj", "_dense")
OTHERWISE = {"output": "out"}


@dataclass(frozen=True)
class Convention:
    """The conventions of one library.

    ``turned`` are the parameters stored as (input, output), by the last part of their names. ``is_channels_last`` says
    whether images have their channels last.
    """

    name: str
    turned: frozenset[str] = frozenset()
    is_channels_last: bool = False


PLAIN = Convention("pytorch")
CONVENTIONS = {
    one.name: one
    for one in (
        PLAIN,
        Convention("equinox"),
        Convention("flax", frozenset({"kernel"}), is_channels_last=True),
        Convention("keras", frozenset({"kernel", "recurrent_kernel"}), is_channels_last=True),
        Convention("haiku", frozenset({"w"}), is_channels_last=True),
    )
}
CONVENTION = Option(
    "convention",
    object,
    None,
    '"flax", or convention=("pytorch", "flax")',
    says=f"one of {', '.join(CONVENTIONS)}, or one for each recording",
    why="it says how the parameters of the second recording lie",
)
TELLING = (
    ("keras", {"gamma", "moving_mean", "recurrent_kernel"}),
    ("flax", {"kernel"}),
    ("haiku", {"w"}),
    ("keras", {"embeddings"}),  # tried after Haiku, which uses this name too
)
"""Parameter names by which a library is recognised, in the order in which they are tried."""


def conventions_of(
    given: Any, frameworks: Sequence[str], leaves: Sequence[Iterable[str]]
) -> tuple[Convention, Convention] | None:
    """Return the conventions of both recordings: from ``convention=``, or inferred from their parameters' names. A
    single name is the convention of the second recording.

    Returns None for two recordings of one framework without ``convention=``, because both then have the same
    convention. Raises BadOption if ``convention=`` is not one of ``CONVENTIONS`` or a pair of them.
    """
    inferred = [inferred_from(set(each)) for each in leaves]
    if given is None:
        return None if frameworks[0] == frameworks[1] else (inferred[0], inferred[1])
    if isinstance(given, str):
        return inferred[0], _named(given, given)
    if isinstance(given, Sequence) and len(given) == 2:
        return _named(given[0], given), _named(given[1], given)
    raise CONVENTION.refused(given)


def inferred_from(leaves: set[str]) -> Convention:
    """Infer the convention of a recording from the names of its parameters.

    >>> inferred_from({"kernel", "bias"}).name, inferred_from({"weight", "scale"}).name
    ('flax', 'pytorch')
    """
    if "weight" in leaves:
        return PLAIN
    return next((CONVENTIONS[name] for name, telling in TELLING if telling & leaves), PLAIN)


def _named(name: Any, given: Any) -> Convention:
    if not isinstance(name, str) or name not in CONVENTIONS:
        raise CONVENTION.refused(given)
    return CONVENTIONS[name]


def role(leaf: str, beside: Iterable[str] = ()) -> str:
    """Return the role of a parameter in its layer, or its own name if the role is unknown.

    ``beside`` are the names of the layer's other parameters.

    >>> role("kernel"), role("kernel", ["recurrent_kernel"]), role("lora_a")
    ('weight', 'input weight', 'lora_a')
    """
    leaf = LAYER.sub("", leaf)
    is_recurrent = leaf == "kernel" and "recurrent_kernel" in beside
    return INPUT + WEIGHT if is_recurrent else ROLES.get(leaf, leaf)


def plain_segment(segment: str) -> str:
    """Return a path segment without outer underscores and the endings ``_proj`` and ``_dense``; ``output`` becomes
    ``out``.

    >>> plain_segment("_query_dense"), plain_segment("output_proj"), plain_segment("if_")
    ('query', 'out', 'if')
    """
    bare = segment.strip("_") or segment
    for ending in ENDINGS:
        bare = bare.removesuffix(ending)
    return OTHERWISE.get(bare, bare)

"""The notes of a derivation: why a recorded number replaces a formula, and how a product is meant."""

from __future__ import annotations

from collections.abc import Iterator

from backprobe.derive.chain import MOST_PATHS, Chain
from backprobe.derive.factors import Factor, size
from backprobe.derive.notation import Text
from backprobe.findings.phrasing import listed


def sentences(chain: Chain) -> list[str]:
    """The notes, each sentence once."""
    return list(dict.fromkeys([*_about_paths(chain), *_about_factors(chain), *_about_sum(chain)]))


def _stands(chain: Chain, factor: Factor) -> str:
    # Return the reason why a factor is not written out, and what replaces it.
    of, to = (Text().name(chain.labels[at]) for at in (factor.of, factor.wrt))
    if factor.number is not None:
        return f"{factor.why}: the recorded partial {factor.number + 0.0:.6g} stands for ∂{of}/∂{to}"
    if size(chain.entries[factor.of]) == 1 and chain.edges[factor.of, factor.wrt].partial is not None:
        return f"{factor.why}: the recorded partial stands for ∂{of}/∂{to}"
    shapes = " × ".join(str(chain.entries[at].shape) for at in (factor.of, factor.wrt))
    return f"{factor.why}: the Jacobian ∂{of}/∂{to} of shape {shapes} is not written out"


def _about_paths(chain: Chain) -> Iterator[str]:
    end, start = chain.labels[chain.between.end], chain.labels[chain.between.start]
    count = chain.between.count
    if not count:
        yield f"no path of recorded values leads from {start} to {end}: only the recorded gradient is shown"
    elif count > MOST_PATHS:
        yield (
            f"{count:,} paths lead from {start} to {end}, too many to list: the rule is shown at {end} alone, with the "
            f"total derivatives of {start} with respect to the values that {end} flows into"
        )
    elif count > 1:
        yield "along a path, each factor keeps the other inputs of its step fixed"


def _about_factors(chain: Chain) -> Iterator[str]:
    unwritten = [factor for factor in chain.factors.values() if factor.tree is None]
    yield from (_stands(chain, factor) for factor in unwritten)
    if chain.factors and not chain.scalars:
        with_jacobian = any(size(chain.entries[factor.of]) != 1 for factor in unwritten)
        yield (
            "between tensors, · is elementwise, and a broadcast value sums over the elements that it was copied to"
            + ("; with J it is a vector-Jacobian product" if with_jacobian else "")
        )


def _about_sum(chain: Chain) -> Iterator[str]:
    if chain.seed != 1:
        given = "the given cotangent" if chain.seed is None else f"{chain.seed:.6g} instead of 1"
        yield f"backward started from {given}, which multiplies every term"
    if chain.hidden:
        names = listed([chain.entries[at].name for at in chain.hidden])
        yield f"the gradient of {names} is opaque: paths through it are not shown"
    elif chain.sum_agrees is False:
        yield (
            "the recorded partials do not give the recorded gradient: a hook changes it, a write through a view has no "
            "edge, rounding cancels it, or a custom backward on the way is not linear"
        )

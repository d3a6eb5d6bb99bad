"""Why a tensor gets no gradient from a loss, as far as the graph alone tells: nothing was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from backprobe.backends.facts import GraphFacts
from backprobe.findings.report import Finding, Report

NOT_KEPT = (
    "the graph knows operations, not lines: rec = bp.probe(f)(x), or with bp.probe() as rec: around the program, and "
    "bp.explain(rec, name) names the line"
)
LISTED = 8

Named = Callable[[Any], str]


def explain_tensor(facts: GraphFacts, name: str, loss: str, named: Named) -> Report:
    """What keeps a gradient from a tensor. ``named`` gives what the caller calls a tensor, or an empty text."""
    findings = (*_of_loss(facts, loss, named), *_of_tensor(facts, name, loss, named))
    if facts.checkpoints and not facts.is_reached and facts.requires_grad:
        heading = f"no path is seen from {loss} to {name}, and not all of the graph can be seen"
    elif facts.is_reached and not (facts.own or facts.is_freed or {f.kind for f in findings}.difference(HARMLESS)):
        heading = f"a path leads from {loss} to {name}: backward() brings it a gradient"
    elif facts.is_reached:
        heading = f"a path leads from {loss} to {name}"
    else:
        heading = f"no path leads from {loss} to {name}: backward() brings it no gradient"
    return Report(heading, findings, tuple(_notes(facts, name, loss)))


def _notes(facts: GraphFacts, name: str, loss: str) -> Iterator[str]:
    if facts.is_freed:
        yield f"a part of the graph of {loss} is freed: a backward() or grad() has gone through it, and a second raises"
    if not facts.is_reached:
        yield NOT_KEPT
    elif facts.own:
        yield f"{', '.join(facts.own)}: written in Python, and may give None for {name}; only running it tells"


HARMLESS = ("not_retained",)


def _of_loss(facts: GraphFacts, loss: str, named: Named) -> Iterator[Finding]:
    def found(kind: str, headline: str, fact: str, remedy: str) -> Finding:
        return Finding(kind, loss, headline, facts=(fact,), remedy=remedy)

    if not facts.output_requires_grad:
        yield found(
            "no_history", f"{loss} leads back to nothing that requires a gradient",
            f"{loss} is {facts.output}, and has no grad_fn",
            "requires_grad_() on what should be differentiated; or mend the cut: detach(), no_grad and the like",
        )  # fmt: skip
    elif facts.output_is_leaf:
        yield found(
            "made_leaf", f"{loss} is a leaf: backward() from it ends there at once",
            "it has no grad_fn, and requires a gradient by itself, as after requires_grad = True on a result",
            "leave requires_grad = True on results out, and mend what cuts the graph",
        )  # fmt: skip
    elif facts.output_size != 1:
        yield found(
            "not_scalar", f"{loss} is no single number, and backward() needs one", f"{loss} is {facts.output}",
            f"{loss}.sum() or .mean(); or {loss}.backward(v) for a vector v",
        )  # fmt: skip
    if facts.written:
        yield found(
            "in_place", "a value that backward needs was written to since it was saved",
            f"saved by {', '.join(dict.fromkeys(facts.written))}",
            "u = u * 2 instead of u.mul_(2); with bp.probe() as rec: around the program names both lines",
        )  # fmt: skip


def _of_tensor(facts: GraphFacts, name: str, loss: str, named: Named) -> Iterator[Finding]:
    if not facts.is_floating:
        yield Finding("not_float", name, f"{name} is {facts.tensor}: only floating point and complex values have "
                      "derivatives", remedy="make it with a floating dtype, torch.tensor([1.0, 2.0])")  # fmt: skip
    elif facts.is_inference:
        yield Finding("inference", name, f"{name} was made under torch.inference_mode(), and can have no gradient",
                      remedy=f"{name}.clone() outside of it, or torch.no_grad() instead")  # fmt: skip
    elif not facts.requires_grad:
        beside = (f"it lies in the same memory as {_listed(facts.shared, named)}",) if facts.shared else ()
        yield Finding("frozen", name, f"{name} requires no gradient: it was made so, or was cut off",
                      facts=(f"{name} is {facts.tensor}, and has no grad_fn", *beside),
                      remedy=f"{name}.requires_grad_() before it is used; where it was computed from something that "
                      "requires a gradient, detach(), no_grad or the like cut it off")  # fmt: skip
    elif facts.is_reached:
        yield from _reached(facts, name, named)
    else:
        yield _unreached(facts, name, loss, named)


def _reached(facts: GraphFacts, name: str, named: Named) -> Iterator[Finding]:
    if facts.is_leaf or facts.is_retained:
        return
    leaves = _listed(facts.leaves, named)
    yield Finding(
        "not_retained", name,
        f"{name} is no leaf, so its .grad stays None: nothing is wrong",
        facts=(f"{name} was computed by {facts.op} from {leaves}, and .grad is filled there",),
        remedy=f"{name}.retain_grad() before backward(), or a probe around it;\n"
        "where it is meant to be trained: make it first, w = (torch.randn(3) * 0.1).requires_grad_()",
    )  # fmt: skip


def _unreached(facts: GraphFacts, name: str, loss: str, named: Named) -> Finding:
    if facts.checkpoints:
        return Finding(
            "unknown", name, f"{loss} was computed through a reentrant checkpoint, whose parameters its graph does not "
            "have", facts=(f"{', '.join(facts.checkpoints)} runs a backward pass of its own",),
            remedy="use_reentrant=False, and ask again; or run backward() and look",
        )  # fmt: skip
    leads = f"{loss} leads back to {_listed(facts.output_leaves, named)}"
    if facts.again:
        return Finding(
            "made_again", name, f"{name} is a view, and {loss} was computed from another one of the same tensor",
            facts=(f"another {facts.again[0]} of the same input is in the graph of {loss}, that of {name} is not",),
            remedy=f"use {name} itself there",
        )  # fmt: skip
    if facts.shared:
        return Finding(
            "shared", name, f"{_listed(facts.shared, named)} lies in the same memory as {name}, and is what {loss} "
            "leads back to",
            facts=("one was made of the other by detach(), .data or Parameter(), which cut the history",),
            remedy=f"its .grad is filled; or use {name} itself",
        )  # fmt: skip
    shared = [leaf for leaf in facts.leaves if any(leaf is other for other in facts.output_leaves)]
    also = (f"{name} was computed by {facts.op} from {_listed(facts.leaves, named)}",) if facts.op else ()
    if shared:
        also = (*also, f"both come from {_listed(shared, named)}, on ways that part before {name}")
    return Finding("unused", name, f"{loss} was not computed from {name}, or was cut off from it", facts=(*also, leads),
                   remedy=f"use {name} itself in what {loss} is computed from")  # fmt: skip


def _listed(tensors: tuple[Any, ...] | list[Any], named: Named) -> str:
    if not tensors:
        return "no leaf"
    texts = [named(tensor) or f"a leaf of shape {tuple(tensor.shape)}" for tensor in tensors[:LISTED]]
    return ", ".join(texts) + (f" and {len(tensors) - LISTED} more" if len(tensors) > LISTED else "")

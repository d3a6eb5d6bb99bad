"""The errors for capabilities that a backend lacks: what the user asked for, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from backprobe.backends.facts import Options
from backprobe.backends.protocol import Backend
from backprobe.errors import BadOutput, StrategyRefused, Unsupported
from backprobe.record.brief import kind, written
from backprobe.source.derivative_calls import DerivativeCall

BY_ARGUMENTS = "in {} a gradient belongs to a function, with respect to its arguments; no tensor requires one by itself"
IN_FUNCTION = "put the lines into a function f and write rec = bp.probe(f)(x)"
MISSING = {
    "blocks": ("a block cannot be probed in {}", BY_ARGUMENTS, IN_FUNCTION),
    "cells": ("a cell cannot be probed in {}", BY_ARGUMENTS, IN_FUNCTION),
    "partials": (
        "{} has no local partials in backprobe",
        "its tape takes gradients of the output alone",
        "rec = bp.probe(f)(x), and rec['u'].grad",
    ),
    "second_order": (
        "gradients of {} cannot be differentiated again",
        "backprobe keeps no graph of its backward pass",
        "differentiate a function that calls bp.probe(f)(x) and returns rec['u'].grad",
    ),
    "hessian": (
        "there are no products of Hessians in {}",
        "backprobe cannot differentiate its gradients again",
        "differences of rec['u'].grad between two runs",
    ),
    "graph_facts": (
        "a tensor of {} alone cannot be explained",
        "it does not know what it was computed from",
        "rec = bp.probe(f)(x), with what computes the loss in a function f, and bp.explain(rec, 'u')",
    ),
    "guards": (
        "a model cannot be guarded in {}",
        "backprobe does not hear of its calls",
        "rec = bp.probe(model, nonfinite=True)(x), and bp.explain(rec)",
    ),
    "block_guards": (
        "a block cannot be guarded in {}",
        "backprobe hears there of the calls of a model alone",
        "with bp.guard(model):",
    ),
    "watches": (
        "a model cannot be watched in {}",
        "backprobe hears there of no steps of its training",
        "rec = bp.probe(model)(x) at some steps, and bp.health(rec)",
    ),
    "replacing": (
        "values cannot be replaced in {}",
        "backprobe cannot let the program go on with others",
        "rec = bp.probe(f)(x), with the other value written into f",
    ),
    "variations": (
        "the noise of a program cannot be measured in {}",
        "backprobe cannot vary its arguments",
        "noise=[rec, ...] of bp.diff, with other recordings of the reference",
    ),
    "memory": (
        "the memory of a program cannot be measured in {}",
        "backprobe does not hear what it keeps",
        "the memory of its process, before and after a step",
    ),
    "vectorized": (
        "there are no per-sample gradients in {}",
        "backprobe cannot run its programs on many samples at once",
        "rec = bp.probe(f)(x[i : i + 1]) for each sample i",
    ),
    "recheck": (
        "derivatives cannot be checked in {}",
        "backprobe cannot repeat its calls in double precision",
        "rec = bp.probe(f)(x), and rec['u'].grad beside a difference quotient of f",
    ),
    "trials": (
        "no input that breaks it can be searched in {}",
        "backprobe cannot run its programs again and again alike",
        "bp.explain(bp.probe(f, nonfinite=True)(x)), at the inputs that you have",
    ),
}
"""By the name of a capability: the headline, reason and advice of the error that is raised if a backend lacks it."""


def refuse(backend: Backend, capability: str, asked: str, calls: Sequence[DerivativeCall] = ()) -> NoReturn:
    """Raise Unsupported for a capability that is None. ``calls`` are the program's own calls that differentiate."""
    headline, why, next = MISSING[capability]
    if capability in backend.gone:
        why = f"it needs {backend.gone[capability]}, which this release of {{}} does not have"
    found = f"line {calls[0].line}: {calls[0].text}" if calls else backend.title
    raise Unsupported(
        headline.format(backend.title),
        asked=asked,
        found=found,
        why=why.format(backend.title),
        next=backend.instead.get(capability, f"rec = {calls[0].probed}" if calls else next),
    )


def refuse_cotangent(cotangent: Any, instead: str, error: Exception) -> NoReturn:
    raise BadOutput(
        "the cotangent is not a tensor",
        asked=f"cotangent={written(cotangent)}",
        found=f"{kind(cotangent)}, and not numbers in rows of one length"
        if isinstance(cotangent, list | tuple)
        else kind(cotangent),
        next=f"cotangent={instead}",
    ) from error


def refuse_options(backend: Backend, options: Options) -> None:
    """Raise StrategyRefused or Unsupported for options that this framework does not have."""
    if options.strategy not in backend.strategies:
        raise StrategyRefused(
            f"the strategy {options.strategy!r} is PyTorch's",
            asked=f"strategy={options.strategy!r}",
            found=backend.title,
            why=f"{backend.title} returns all gradients in one way, and keeps none on tensors",
            next='strategy="edges"',
        )
    if options.partials and not backend.partials:
        refuse(backend, "partials", f"partials={options.partials!r}")
    if options.create_graph and backend.second_order is None:
        refuse(backend, "second_order", "create_graph=True")

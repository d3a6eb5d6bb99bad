"""Explains missing gradients from the graph alone, without a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backprobe.backends.facts import GraphFacts
from backprobe.explain.text import finding, say
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed
from backprobe.findings.report import Report

Rules = Sequence[tuple[object, str, Sequence[str]]]
"""Tuples of a condition, the code of the cause if it holds, and the codes of facts that show the cause."""


def explain_tensor(facts: GraphFacts, name: str, loss: str, named: Callable[[Any], str], framework: str) -> Report:
    """Return the report on whether a tensor gets a gradient of a loss, and if not, why.

    ``named`` returns the caller's name of a tensor, or "".
    """

    def leaves(tensors: Sequence[Any]) -> str:
        return listed([named(one) or f"a leaf of shape {tuple(one.shape)}" for one in tensors]) or "no leaf"

    words = {
        "name": name,
        "loss": loss,
        "value": loss,
        "values": name,
        "tensor": facts.tensor,
        "described": facts.output,
        "operation": facts.op,
        "leaves": leaves(facts.leaves),
        "loss_leaves": leaves(facts.output_leaves),
        "others": leaves(facts.shared),
        "checkpoints": ", ".join(facts.checkpoints),
        "own": ", ".join(facts.own),
        "again": ", ".join(facts.again[:1]),
        "savers": ", ".join(dict.fromkeys(facts.written)),
    }
    findings = []
    saved: Rules = [(facts.written, "in_place", ["saved_by"])]
    for about, rules in ((loss, _of_loss(facts)), (loss, saved), (name, _of_tensor(facts))):
        code, seen = next(((code, seen) for holds, code, seen in rules if holds), ("", []))
        if code:
            seen = [say(fact, **words) for fact in seen]
            found = finding(code, about, None, framework, facts=seen, chain=(), known=Known.NOTHING, **words)
            findings.append(found)
    is_filled = all(one.kind == "not_retained" for one in findings) and not (facts.own or facts.is_freed)
    heading = "path_filled" if is_filled else "path"
    if not facts.is_reached:
        heading = "path_unseen" if facts.checkpoints and facts.requires_grad else "no_path"
    notes = {
        "graph_freed": facts.is_freed,
        "no_lines": not facts.is_reached,
        "python_nodes": facts.is_reached and facts.own,
    }
    said = tuple(say(note, **words) for note, holds in notes.items() if holds)
    return Report(say(heading, **words), tuple(findings), said)


def _of_loss(facts: GraphFacts) -> Rules:
    # The first condition that holds gives the finding about the loss.
    return (
        (not facts.output_requires_grad, "no_history", ["loss_without"]),
        (facts.output_is_leaf, "made_leaf.loss", ["loss_leaf"]),
        (facts.output_size != 1, "not_scalar", []),
    )


def _of_tensor(facts: GraphFacts) -> Rules:
    # The first condition that holds gives the finding about the tensor. An empty code stands for no finding, because
    # backward gives the tensor a gradient.
    return (
        (not facts.is_floating, "not_float.leaf", []),
        (facts.is_inference, "inference", []),
        (not facts.requires_grad, "frozen.leaf", ["tensor_without", *(["same_memory"] if facts.shared else [])]),
        (facts.is_reached and (facts.is_leaf or facts.is_retained), "", []),
        (facts.is_reached, "not_retained", ["computed_by"]),
        (facts.checkpoints, "unknown.reentrant", ["own_pass"]),
        (facts.again, "made_again.view", ["other_operation"]),
        (facts.shared, "shared", ["made_of_other"]),
        (True, "unused.tensor", [*(["computed_by"] if facts.op else []), "loss_leads_to"]),
    )

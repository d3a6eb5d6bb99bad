"""Why a tensor gets no gradient from a loss, as far as the graph alone shows: nothing was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from backprobe.backends.facts import GraphFacts
from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import listed
from backprobe.findings.report import Finding, Report

Named = Callable[[Any], str]
Found = Callable[..., Finding]
"""Makes the finding of a code, with facts and the fields that its sentences need besides the two names."""


def explain_tensor(facts: GraphFacts, name: str, loss: str, named: Named) -> Report:
    """What keeps a gradient from a tensor. ``named`` gives what the caller calls a tensor, or an empty text."""

    def of(about: str) -> Found:
        def found(code: str, *seen: str, **fields: str) -> Finding:
            return finding(code, about, None, "torch", facts=seen, chain=(), **names, **fields)

        return found

    names = {"name": name, "loss": loss}
    findings = (*_of_loss(facts, of(loss), names), *_of_tensor(facts, of(name), names, named))
    is_harmless = all(one.kind == "not_retained" for one in findings)
    if facts.checkpoints and not facts.is_reached and facts.requires_grad:
        heading = "path_unseen"
    elif facts.is_reached:
        heading = "path_filled" if is_harmless and not (facts.own or facts.is_freed) else "path"
    else:
        heading = "no_path"
    return Report(say(heading, **names), findings, tuple(_notes(facts, names)))


def _notes(facts: GraphFacts, names: dict[str, str]) -> Iterator[str]:
    if facts.is_freed:
        yield say("graph_freed", **names)
    if not facts.is_reached:
        yield say("no_lines")
    elif facts.own:
        yield say("python_nodes", operations=", ".join(facts.own), **names)


def _of_loss(facts: GraphFacts, found: Found, names: dict[str, str]) -> Iterator[Finding]:
    if not facts.output_requires_grad:
        yield found("no_history", say("loss_without", described=facts.output, **names))
    elif facts.output_is_leaf:
        yield found("loss_is_leaf", say("loss_leaf"))
    elif facts.output_size != 1:
        yield found("not_scalar", say("loss_size", described=facts.output, **names))
    if facts.written:
        yield found("in_place", say("saved_by", operations=", ".join(dict.fromkeys(facts.written))))


def _of_tensor(facts: GraphFacts, found: Found, names: dict[str, str], named: Named) -> Iterator[Finding]:
    if not facts.is_floating:
        yield found("made_integer", tensor=facts.tensor)
    elif facts.is_inference:
        yield found("inference")
    elif not facts.requires_grad:
        beside = [say("same_memory", others=_leaves(facts.shared, named))] if facts.shared else []
        yield found("requires_none", say("tensor_without", described=facts.tensor, **names), *beside)
    elif not facts.is_reached:
        yield _unreached(facts, found, names, named)
    elif not (facts.is_leaf or facts.is_retained):
        leaves = _leaves(facts.leaves, named)
        yield found("not_retained", say("filled_at_leaves", operation=facts.op, leaves=leaves, **names))


def _unreached(facts: GraphFacts, found: Found, names: dict[str, str], named: Named) -> Finding:
    if facts.checkpoints:
        return found("reentrant", say("own_pass", operations=", ".join(facts.checkpoints)))
    if facts.again:
        return found("other_view", say("other_operation", operation=facts.again[0], **names))
    if facts.shared:
        return found("shared", say("made_of_other"), others=_leaves(facts.shared, named))
    seen = []
    if facts.op:
        seen.append(say("computed_by", operation=facts.op, leaves=_leaves(facts.leaves, named), **names))
    shared = [leaf for leaf in facts.leaves if any(leaf is other for other in facts.output_leaves)]
    if shared:
        seen.append(say("both_from", leaves=_leaves(shared, named), **names))
    return found("not_computed_from", *seen, say("loss_leads_to", leaves=_leaves(facts.output_leaves, named), **names))


def _leaves(tensors: Sequence[Any], named: Named) -> str:
    return listed([named(one) or f"a leaf of shape {tuple(one.shape)}" for one in tensors]) or "no leaf"

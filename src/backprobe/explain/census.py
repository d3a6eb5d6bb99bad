"""The census: parameters of optimizers and models that received no gradient, each with the reason.

Where no line is found that cuts, facts about the module determine the reason, such as whether it ran, whether it used
another tensor instead, and whether the result was differentiated. The census also reports parameters whose gradients
were cleared before the step, and tensors that no optimizer holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from backprobe.backends.dialects import dialect_of
from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.unrecorded import hidden_beside, hidden_cuts
from backprobe.explain.about_entries import about, by_status
from backprobe.explain.cut_findings import with_hooks
from backprobe.explain.missing import taken_away
from backprobe.explain.module_calls import of_call, said
from backprobe.explain.text import finding, say
from backprobe.explain.twins import of_twins
from backprobe.explain.without_history import hidden_finding
from backprobe.findings.known import Known
from backprobe.findings.phrasing import listed, location, plural
from backprobe.findings.report import Finding, grouped
from backprobe.record.brief import path
from backprobe.record.entries import GradStatus
from backprobe.record.training import ModuleRan, Stray, Training, Unregistered, Untrained

NAMED_ALONE = (Stray.PARAMETER, Stray.CONSTANT, Stray.BUFFER)
UNREAD = (ModuleRan.NEVER_READ, ModuleRan.CAPTURED)
MOST = 12  # the largest number of parameters that a finding lists


def heading(training: Training) -> str:
    """Say that all trained parameters got a gradient, or how many got none or had it cleared, or that none is trained.

    The heading also counts the frozen parameters, if there are any.
    """
    parameters, lost = plural(training.count, "parameter"), len(training.untrained) or len(training.cleared)
    trained = "trained_one" if training.count == 1 else "trained"
    if not training.count:
        return say("none_trained", frozen=plural(training.frozen, "parameter"))
    code = "untrained" if training.untrained else "cleared_of" if training.cleared else trained
    frozen = f"; {say('frozen_parameters', count=training.frozen)}" if training.frozen else ""
    return say(code, parameters=parameters, lost=lost) + frozen


def trained_leaves(flow: Dataflow) -> set[int]:
    """The entries that the report on values leaves out: they need no gradient, or the census explains them."""
    states = {at for at, entry in enumerate(flow.entries) if entry.is_because("state_no_path")}
    training = flow.record.training
    if training is None:
        return states
    lacking = {one.own for one in training.untrained if _is_entry_alone(one)}
    unread = {one.name for one in training.untrained if one.ran in UNREAD}
    given = _given(flow)
    return states | {
        at
        for at, entry in enumerate(flow.entries)
        if (entry.is_leaf and at not in lacking) or entry.name in unread or at in given
    }


def _given(flow: Dataflow) -> set[int]:
    # Return the values of a TensorFlow block that no recorded value flows into, except those for which a tape of the
    # program gave None. The probe's own tape also watches data, so being watched does not show that such a value should
    # be differentiated.
    asked = {one.at for one in flow.record.none_given}
    is_watched = dialect_of(flow.record.framework).is_watched_by_tape
    return {at for at in range(len(flow.entries)) if is_watched and at not in asked and not flow.sources(at)}


def with_parameters(flow: Dataflow, findings: Sequence[Finding]) -> list[Finding]:
    """Join findings about parameters with ``findings``, those about values, if they have the same kind and line.

    The result also has the other findings about parameters, and those about tensors that no optimizer holds and about
    cleared gradients. Without a census, it has ``findings`` alone.
    """
    training, framework = flow.record.training, flow.record.framework
    if training is None:
        return [*findings]
    # leave out parameters that were not used because an error ended the run: the finding about the error explains them
    untrained = [one for one in training.untrained if one.ran is not ModuleRan.CUT_SHORT]
    unread = {one.name for one in untrained if one.ran is ModuleRan.NEVER_READ and not one.carriers}
    causes = [(cause, one) for one in untrained for cause in _causes(flow, one, len(unread) > 1)]
    if not (causes or findings):  # no cause is known for any of the parameters, nor for any value
        causes = [(_unknown(flow, one.name), one) for one in untrained]
    groups = grouped(causes, lambda pair: _place(pair[0]))
    new = {_place(group[0][0]): _of_parameters(flow, group[0][0], [one for _, one in group]) for group in groups}
    known = [_merged(found, new.pop(_place(found), None)) for found in findings]
    frozen = [finding("frozen.all", "", None, framework)] if training.stepped and not training.count else []
    # the causes that explain the most parameters come first
    found = sorted([*new.values(), *known], key=lambda one: -len(one.lost))
    others = (*_cleared(training, framework), *_unregistered(training.unregistered, framework))
    return [*frozen, *_not_held(_without_twins(training, causes), framework), *found, *others]


def _without_twins(training: Training, causes: Sequence[tuple[Finding, Untrained]]) -> list[Unregistered]:
    # Return the tensors that no optimizer holds. Parameters of a model are left out if an optimizer holds those of an
    # equal model instead, because another finding reports this.
    twin_of = dict(training.twins)
    paired = {twin_of[one.name] for cause, one in causes if cause.kind == "replaced" and one.name in twin_of}
    return [one for one in training.unregistered if one.name not in paired]


def _place(found: Finding) -> object:
    line = found.source
    return found.kind, (line.file, line.line, line.text) if line is not None else found.headline


def _merged(found: Finding, of_parameters: Finding | None) -> Finding:
    # Add parameters that lack their gradient for the same reason to a finding about a value, if there are any. Their
    # last fact, usually the optimizer that holds them, is added if the finding does not have it.
    if of_parameters is None:
        return found
    held = [fact for fact in of_parameters.facts[-1:] if fact not in found.facts]
    return replace(found, lost=of_parameters.lost, consequence=of_parameters.consequence, facts=(*found.facts, *held))


def _of_parameters(flow: Dataflow, cause: Finding, lost: Sequence[Untrained]) -> Finding:
    names = list(dict.fromkeys(one.name for one in lost))
    held = list(dict.fromkeys(one.held_by for one in lost if one.held_by))
    code, holds = ("parameters_lost", "held_by") if len(names) > 1 else ("parameter_lost", "held_by.one")
    facts = (*cause.facts, *([say(holds, optimizers=listed(held))] if held else ()))
    consequence = say(code, count=len(names), names=listed(names, MOST))
    return replace(cause, lost=tuple(names), consequence=consequence, facts=facts)


def _is_entry_alone(one: Untrained) -> bool:
    # Is the parameter's own entry the only fact known about it?
    return one.own is not None and one.ran is ModuleRan.UNKNOWN


def _causes(flow: Dataflow, one: Untrained, are_several: bool) -> Iterator[Finding]:
    # Yield the causes that keep the gradient from one parameter: calls whose results are not used, and then a backward
    # that returned None, cuts of the parameter itself, causes at values computed from it, or else the causes that the
    # facts about its module show. A parameter of which only its own entry is known is explained together with the other
    # entries.
    if one.own is not None and flow.entries[one.own].status is GradStatus.OK:
        return  # the parameter has a gradient, though of another output
    yield from dropped_results(flow, one)
    if _is_entry_alone(one):
        return
    own = [] if one.own is None else _cutting(taken_away(flow, one.own))
    if one.ran is ModuleRan.RETURNED_NONE:
        yield from (said(flow, "silent.parameters", one.name, call) for call in one.calls)
    elif own:  # the program passed the parameter itself to a function
        yield from own
    elif one.carriers and flow.record.outputs:
        causes = [cause for at in one.carriers for cause in _of_carrier(flow, at)]
        yield from _cutting(causes) or (causes if one.ran is not ModuleRan.ASKED else ())
    elif not (one.carriers or one.ran is ModuleRan.ASKED):
        yield from _by_facts(flow, one, are_several)


def _cutting(causes: Sequence[Finding]) -> list[Finding]:
    # Return the causes with a line that certainly cuts. The other causes may be true in iterations in which the
    # gradient arrives, too.
    return [cause for cause in causes if not cause.known & Known.NO_CUT]


def _of_calls(flow: Dataflow, one: Untrained) -> Iterator[Finding]:
    # Yield a finding for each call of the module. One call may have run below several lines that switch gradients off.
    found = [of_call(flow, one.name, call) for call in one.calls]
    for group in grouped(found, _place):
        yield replace(group[0], facts=tuple(dict.fromkeys(fact for each in group for fact in each.facts)))


def _by_facts(flow: Dataflow, one: Untrained, are_several: bool) -> Iterator[Finding]:
    # Yield the causes that facts about the parameter and its module show, such as: did the module run, is another
    # tensor in the parameter's place, and was the result differentiated? If they show none, yield an unknown cause.
    training = flow.record.training
    if training is not None and one.name in dict(training.twins):
        yield of_twins(flow, training.twins, one)
    elif one.ran is ModuleRan.NOT_CALLED:
        yield said(flow, "not_executed.untrained", one.name, None, module=repr(one.module), kind=one.kind)
    elif one.ran is ModuleRan.REPLACED:
        yield from _by_others(flow, one)
    elif one.ran is ModuleRan.CAPTURED:
        argument = repr(one.name.partition(".")[0])
        yield said(flow, "replaced.captured", one.name, one.calls[0], argument=argument)
    elif one.ran is ModuleRan.NEVER_READ:
        yield said(flow, "unused.parameters" if are_several else "unused.parameter", one.name, None)
    elif one.ran is ModuleRan.OWN and not one.calls:
        yield said(flow, "unused.forward", one.name, None, module=repr(one.module))
    elif one.ran in (ModuleRan.CALLED, ModuleRan.OWN) and one.calls:
        yield from _of_calls(flow, one)
    elif one.module:
        facts = [say("others_reached", module=repr(one.module))] if one.ran is ModuleRan.PARTLY else []
        yield _unknown(flow, one.name, facts)
    else:
        cuts = [*_of_variable(flow, one.name)]
        is_variable = ".param_groups[" not in one.name  # if False, only an optimizer holds the tensor
        is_open = is_variable or not one.held_by
        stepped = None if is_open or not one.calls else one.calls[0]
        yield from cuts or [_unknown(flow, one.name) if is_open else said(flow, "replaced.held", one.name, stepped)]


def _unknown(flow: Dataflow, name: str, facts: Sequence[str] = ()) -> Finding:
    return with_hooks(flow, said(flow, "unknown.parameters", name, None, facts, known=Known.STATUS))


def _by_others(flow: Dataflow, one: Untrained) -> Iterator[Finding]:
    # Yield findings at the lines that created the tensors which the module used instead of this parameter. If no such
    # line is known, yield one finding, at the first call of the module.
    known = [flow.entries[at] for at in one.instead if flow.entries[at].source is not None]
    calls = [say("called_at", text=f"`{call.text}`", at=location(call.source)) for call in one.calls]
    for entry in known:
        code = "replaced.leaf" if entry.is_leaf else "replaced.made"
        yield about(flow, code, entry, entry.source, facts=calls)
    if not known:
        yield said(flow, "replaced.call", one.name, next(iter(one.calls), None))


def dropped_results(flow: Dataflow, one: Untrained) -> list[Finding]:
    """Return findings about calls that were given a value computed from a parameter, and whose results are not used."""
    return [said(flow, "dropped", one.name, call, known=Known.NOWHERE) for call in one.dropped]


def _of_variable(flow: Dataflow, name: str) -> Iterator[Finding]:
    # Yield findings at lines on the way to an output that read a variable of this name and cut it off, such as a global
    # variable used in a function.
    for at in sorted(flow.to_outputs):
        entry = flow.entries[at]
        for hidden in (*hidden_cuts(entry), *hidden_beside(entry)):
            if hidden.text == name:
                yield hidden_finding(flow, at, hidden, say("hidden_of", value=repr(name)))


def _of_carrier(flow: Dataflow, at: int) -> Iterator[Finding]:
    # Yield the causes why a parameter gets no gradient through this entry, which was computed from it.
    entry = flow.entries[at]
    # another finding reports the error itself
    if entry.status is GradStatus.BACKWARD_NOT_RUN and not entry.is_because("block_raised"):
        yield by_status(flow, entry)
        return
    if entry.status is GradStatus.OK:
        yield about(flow, "none_behind", entry, entry.source, known=Known.NOT_HOW)
        return
    for found in taken_away(flow, at):
        if found.known & Known.NO_CUT and found.name == entry.name and found.source == entry.source:
            yield about(
                flow, "unused.value", entry, entry.source, facts=found.facts, chain=found.chain, known=found.known
            )
        else:
            yield found


def _cleared(training: Training, framework: str) -> Iterator[Finding]:
    if training.cleared:
        parameters = plural(len(training.cleared), "parameter")
        facts = [say("parameters_untrained", names=listed(training.cleared, MOST))]
        yield finding("cleared", training.cleared[0], None, framework, facts=facts, parameters=parameters)


def _not_held(found: Sequence[Unregistered], framework: str) -> Iterator[Finding]:
    nowhere = [one.name for one in found if one.kind == Stray.PARAMETER]
    if nowhere:
        facts = [say("in_no_optimizer", names=listed(nowhere, MOST)), say("later_unseen")]
        yield finding(
            "not_held", nowhere[0], None, framework, facts=facts, parameters=plural(len(nowhere), "parameter")
        )


def _unregistered(found: Sequence[Unregistered], framework: str) -> Iterator[Finding]:
    for group in grouped([one for one in found if one.kind not in NAMED_ALONE], lambda one: one.place):
        place, kind = group[0].place, group[0].kind
        attribute = place.rpartition(".")[2]
        facts = [say("parameters_untrained", names=listed([one.name for one in group], MOST))]
        if kind in (Stray.TENSOR, Stray.COMPUTED):
            yield finding(f"not_held.{kind}", place, None, framework, place=repr(place), plain=f"self.{attribute}")
            continue
        of_modules = any(name.name.count(".") > place.count(".") for name in group)
        made = {"dict": "nn.ModuleDict" if of_modules else "nn.ParameterDict"}
        instead = made.get(kind, "nn.ModuleList" if of_modules else "nn.ParameterList")
        yield finding(
            "not_held.inside",
            group[0].name,
            None,
            framework,
            facts=facts,
            place=repr(place),
            kind=kind,
            instead=f"self.{attribute} = {instead}(...)",
        )


def constants(training: Training | None) -> list[str]:
    """Return one note on the buffers and plain tensors that models use and nothing trains; empty if there are none.

    This may be intended.
    """
    found = () if training is None else training.unregistered
    kinds = {Stray.BUFFER: "a buffer", Stray.CONSTANT: "a plain tensor"}
    names = [f"{one.name!r} ({kinds[Stray(one.kind)]})" for one in found if one.kind in tuple(kinds)]
    return [say("constants.several" if len(names) > 1 else "constants", names=listed(names, MOST))] if names else []


def dropped_beside(training: Training | None) -> list[str]:
    """Return notes on calls whose results are not used, although their parameters get a gradient in other ways."""
    found = () if training is None else training.dropped
    return [say("dropped_beside", text=f"`{call.text}`", at=path(call.source.file, call.source.line)) for call in found]

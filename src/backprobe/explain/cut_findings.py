"""Findings about cuts: what the line does, to which value, and what is usually written instead.

If the gradients also flow along other paths, the cut becomes a note instead of a finding.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
import types
from collections.abc import Iterable, Sequence
from dataclasses import replace

from backprobe.backends.call_sites import switch_around
from backprobe.backends.dialects import dialect_of
from backprobe.cuts.cutting_operations import flat_operation
from backprobe.cuts.handed_on import handed_to
from backprobe.cuts.mentions import CHECKPOINT, DIFFERENTIATED, Mention
from backprobe.cuts.missing_edges import HISTORY, Cut, Dataflow
from backprobe.cuts.operation_names import MODULES, POSITIONS, WHOLE_SAMPLES
from backprobe.cuts.parsed import has_part, parsed_expression
from backprobe.explain.about_entries import about, as_code, is_none, is_of_whole_numbers, line_in, own_name
from backprobe.explain.text import instead_of_flat, say
from backprobe.findings.known import Known
from backprobe.findings.phrasing import MOST, listed, location, named, quoted, uncommented
from backprobe.findings.report import Finding
from backprobe.record.brief import path
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.names import strip
from backprobe.record.source import Source
from backprobe.record.training import HOOK

IN_C = (types.BuiltinFunctionType, types.MethodDescriptorType, types.MethodWrapperType, types.WrapperDescriptorType)
PYTHONS = frozenset(f"builtins.{name}" for name in (*vars(builtins), *(kind.__name__ for kind in IN_C)))
"""Names of Python's own functions, in the form in which a recording names calls."""
RECORDED = ("inside.recorded", "inside.handed")
"""Codes for functions whose lines are recorded: functions that are called, and functions passed to a caller."""

OF_OTHER_LINES = ("checkpoint", "limited", "nothing_given")
"""Kinds of cuts that lie outside of the line that computes the value."""


def cut_finding(flow: Dataflow, cut: Cut, chain: tuple[str, ...] = ()) -> Finding:
    """Make the finding of one cut, with what its line does."""
    source, target, use = flow.entries[cut.mention.source], flow.entries[cut.target], cut.mention.use
    kind = _kind(cut, source, target, flow.record.framework)
    whole = target.name if target.source is None else target.source.expression or uncommented(target.source)
    call, line = use.call or whole, line_of_cut(flow, cut)
    text = use.flat if kind == "no_derivative" else use.text or whole
    flat = instead_of_flat(flat_operation(parsed_expression(use.flat)) or _called(call), flow.record.framework)
    function, inside = call.partition("(")[0] or "f", _converted(kind, text)
    if kind == "inside":
        cause, function = _inside(flow, call, function, target)
    else:
        cause = _of_numbers(source, text, inside) if kind == "number" else _special(flow, kind, cut, text)
    by_hand = source.why.fields if cause == "silent.custom" and source.why is not None else {}
    if kind in OF_OTHER_LINES:
        text = "the checkpoint" if line is None else uncommented(line)
    found = about(
        flow,
        cause,
        target,
        line,
        facts=_all_facts(flow, cut, kind, cause, function),
        chain=chain,
        value=repr(source.name),
        function=function,
        plain=as_code(source.name),
        text=f"`{text}`",
        call=f"`{call}`",
        instead=flat,
        converted=f"`{inside}`",
        functions=by_hand.get("functions", ""),
        own=own_name(source.name),
        known=_known(kind),
    )
    return replace(found, remedy=flat) if kind == "inside" and flat else found


def _all_facts(flow: Dataflow, cut: Cut, kind: str, cause: str, function: str) -> list[str]:
    # The facts of a cut, besides its headline.
    source, target = flow.entries[cut.mention.source], flow.entries[cut.target]
    facts = _facts(cut, source, target)
    if kind == "no_grad":
        facts += _switched(flow, cut)
    if cause in RECORDED and target.source is not None and target.source != cut.mention.line:
        facts.append(say("made_in", function=function, at=named(target)))
    if cause == "unknown.hook":
        return [facts[0], hooks(flow)]
    defined = line_in(source.why.fields) if cause == "silent.custom" and source.why is not None else None
    return facts if defined is None else [*facts, say("backward_at", at=location(defined))]


def _converted(kind: str, text: str) -> str:
    # The part that a text converts into a number; empty for other kinds, and if the text makes a list of numbers.
    return converted(text) if kind == "number" and not gives_list(text) else ""


def _inside(flow: Dataflow, call: str, function: str, target: Entry) -> tuple[str, str]:
    # Return a code and the name of the function in which a value is lost. The code says which kind of function this is:
    # inside a transformation, recorded, a partial, of a library, a lambda, without source lines, or any other.
    unseen = [read.spelled for read in target.reads if flow.entries[read.at].is_because("unseen_transform")]
    if unseen:
        return "inside.unseen", unseen[0].removesuffix("()")
    if recorded := _followed(flow, call):
        return RECORDED[f"{recorded}(" not in call], recorded
    if _is_partial(target):
        return "inside.partial", function
    if not _is_of_library(function, target):
        called = _without_lines(target)
        return ("inside", function) if called is None else ("inside.builtin", called or function)
    own = handed_to(call, {re.split(r"[.\[]", read.spelled)[0] for read in target.reads})
    cause = "inside.library" if not own else "inside.lambda" if own == "<lambda>" else "inside"
    return cause, own or function


def _of_numbers(source: Entry, text: str, inside: str) -> str:
    # Return the code for how the line makes numbers: it gives a list of them, or converts an expression that contains
    # the value, a value of several elements, or a value of one element.
    if gives_list(text):
        return "number.list"
    if inside and inside != own_name(source.name):
        return "number.of"
    return "number.several" if math.prod(source.shape or ()) > 1 else "number"


def _special(flow: Dataflow, kind: str, cut: Cut, text: str) -> str:
    # Return the code of a special case of this kind of cut if one applies, and else the kind itself.
    source, target = flow.entries[cut.mention.source], flow.entries[cut.target]
    is_special = {
        "index.beside": kind == "index" and not cut.mention.use.kind,
        "no_grad.update": kind == "no_grad" and _is_update(source, target),
        "sample.discrete": kind == "sample" and (is_of_whole_numbers(target) or draws_whole_numbers(text)),
        "unknown.hook": kind == "unknown" and _is_hooked(flow, cut),
        "silent.custom": kind == "silent" and source.why is not None and "functions" in source.why.fields,
    }
    return next((code for code, is_so in is_special.items() if is_so), kind)


def _is_hooked(flow: Dataflow, cut: Cut) -> bool:
    return any(one.at == cut.target and one.uses[0].mode == HOOK for one in flow.record.used_at)


def _known(kind: str) -> Known:
    # Return what is unknown about a kind of cut: how the line cuts, or even whether it used the value.
    if kind == "unknown":
        return Known.NOT_HOW | Known.UNSURE
    return Known.NOT_HOW if kind == "inside" else Known.NOTHING


def line_of_cut(flow: Dataflow, cut: Cut) -> Source | None:
    """The line that the finding of a cut points to."""
    target = flow.entries[cut.target]
    line = cut.mention.place or target.cause or target.source
    kind = _kind(cut, flow.entries[cut.mention.source], target, flow.record.framework)
    return target.cause or line if kind in ("checkpoint", "nothing_given") else line


def _is_update(source: Entry, target: Entry) -> bool:
    # Does a step of gradient descent rebind the leaf's name to a new tensor, as in ``w = w - 0.1 * w.grad``?
    name = own_name(source.name)
    is_same = bool(source.is_leaf) and own_name(target.name) == name
    return is_same and target.source is not None and has_part(target.source.statement, f"{name}.grad")


def gives_list(text: str) -> bool:
    """Does a text that converts a value into numbers give a list of them?

    >>> gives_list("u.tolist()"), gives_list("[float(e) for e in u]"), gives_list("u.item()")
    (True, True, False)
    """
    return text.rstrip("()").endswith("tolist") or text.startswith("[")


def draws_whole_numbers(text: str) -> bool:
    """Is the text a call of a function that samples integers?

    >>> draws_whole_numbers("torch.multinomial(p, 1)"), draws_whole_numbers("Normal(u, 1).sample()")
    (True, False)
    """
    return _called(text) in WHOLE_SAMPLES


def converted(text: str) -> str:
    """Return the expression that a text converts into a number; empty if it is not recognized.

    >>> converted("f(net(x)).item()"), converted("float(x.sum())"), converted("x.detach().item()")
    ('f(net(x))', 'x.sum()', 'x')
    """
    match parsed_expression(text):
        case (
            ast.Call(func=ast.Attribute(value=inside, attr="item"), args=[])
            | ast.Call(func=ast.Name(id="float" | "int" | "bool"), args=[inside])
        ):
            return _with_history(inside)
    return ""


def _with_history(expression: ast.expr) -> str:
    # The text of an expression without trailing ``.detach()``, ``.cpu()``, ``.numpy()`` and ``.data``.
    match expression:
        case (
            ast.Call(func=ast.Attribute(value=inside, attr="detach" | "cpu" | "numpy"), args=[])
            | ast.Attribute(value=inside, attr="data")
        ):
            return _with_history(inside)
    return ast.unparse(expression)


def _is_of_library(function: str, target: Entry) -> bool:
    # Is this a library function, by its spelling or by the functions that were called? A probe of it alone would show
    # nothing.
    calls = [call.partition(".") for call in target.source.calls] if target.source is not None else []
    imported = [name.rpartition(".")[2] for package, _, name in calls if package in MODULES]
    return function.partition(".")[0] in MODULES or _called(function) in imported


def _without_lines(target: Entry) -> str | None:
    # If the line calls functions, and only those of Python or of libraries, return the name of the last one that is not
    # Python's, or an empty string if all are. Otherwise return None. A probe of such functions would show nothing.
    calls = () if target.source is None else target.source.calls
    if not calls or not all(call in PYTHONS or call.partition(".")[0] in MODULES for call in calls):
        return None
    return next((call for call in reversed(calls) if call not in PYTHONS), "")


def _is_partial(target: Entry) -> bool:
    # Is ``functools.partial`` the only function that the line calls? If it wrapped a function of the program, the calls
    # of that function would be listed, too.
    return target.source is not None and target.source.calls == ("functools.partial",)


def _called(call: str) -> str:
    # The last part of the name of the called function.
    return call.partition("(")[0].rpartition(".")[2]


def _facts(cut: Cut, source: Entry, target: Entry) -> list[str]:
    value = repr(source.name)
    facts = [say("states", value=value, state=_state(source), target=repr(target.name), other=_state(target))]
    if cut.is_behind:
        facts.append(say("cut_before", value=value))
    if cut.mention.use.is_conditional:
        facts.append(say("conditional"))
    return facts


def _switched(flow: Dataflow, cut: Cut) -> list[str]:
    # Return facts with the lines, if known, that disabled gradients around the cut, or around calls of the module.
    calls = [call for one in flow.record.used_at if one.at == cut.target for call in one.uses]
    lines = [call.switched for call in calls] or [cut.mention.line and switch_around(cut.mention.line)]
    return [say("switched_at", at=location(line)) for line in lines if line is not None]


def hooks(flow: Dataflow) -> str:
    """Return a fact with the hook functions of modules and their lines; empty if none is known."""
    calls = [call for one in flow.record.used_at for call in one.uses if call.mode == HOOK]
    at = listed([f"{call.text!r} has {location(call.source)}" for call in calls], MOST)
    return say("hooks", at=at) if calls else ""


def with_hooks(flow: Dataflow, found: Finding) -> Finding:
    """Add the hooks that may be the cause to a finding, if its cause is unknown and there are hooks."""
    said = hooks(flow) if found.kind == "unknown" else ""
    remedy = f"{say('unknown.hook_next')};\nor {found.remedy}"
    return replace(found, facts=(*found.facts, said), remedy=remedy) if said else found


def cut_findings(flow: Dataflow, at: int, cuts: Iterable[Cut]) -> list[Finding]:
    """Make the findings of the cuts that a value encounters, each with the chain that leads to the cut."""
    after = flow.after(at)
    return [
        cut_finding(flow, cut, (*flow.chain(after, cut.mention.source), flow.entries[cut.target].name)) for cut in cuts
    ]


def cuts_before(flow: Dataflow, at: int, cuts: Iterable[Cut]) -> list[Finding]:
    """Make the findings of cuts before a value, each with the chain that leads from the cut to the value."""
    return [cut_finding(flow, cut, flow.chain(flow.after(cut.mention.source), at)) for cut in cuts]


def _followed(flow: Dataflow, call: str) -> str:
    # Return a function with recorded lines that a text calls or else names, as an argument; empty if there is none.
    scopes = {step for name in flow.record.names for step in strip(name).partition(":")[0].split("/")[1:]}
    handed = ["<lambda>" if word == "lambda" else word for word in re.findall(r"\w+", call)]
    return next((name for name in [*re.findall(r"(\w+)\(", call)[::-1], *handed] if name in scopes), "")


def _kind(cut: Cut, source: Entry, target: Entry, framework: str) -> str:
    return _by_edge(cut, source, target) or cut.mention.use.kind or _by_outcome(cut, target, framework)


def _by_edge(cut: Cut, source: Entry, target: Entry) -> str:
    # The kind of a cut that its edge, the statuses and the grad mode show; empty if the kind of use in the line's text
    # decides.
    use = cut.mention.use
    if cut.is_silent:
        return "limited" if cut.is_limited else "silent"
    if use.kind == DIFFERENTIATED:
        return "derivative"
    if use.kind == CHECKPOINT:
        return "checkpoint" if source.status is GradStatus.FROZEN else "inside"
    if target.is_because("reentrant_checkpoint"):
        return "checkpoint"
    if target.is_because("nothing_given"):
        return "nothing_given"
    is_off = target.status is GradStatus.NO_GRAD and not target.is_because("inherited")
    return "no_grad" if is_off and use.kind != "number" else ""


def _by_outcome(cut: Cut, target: Entry, framework: str) -> str:
    # The kind of a cut by its result, if the text of the line does not show the kind; "unknown" if that shows none.
    use = cut.mention.use
    if target.status is GradStatus.NOT_FLOAT:
        return "index" if target.op in POSITIONS else "not_float"
    if target.status is GradStatus.NOT_TENSOR:
        return "unknown" if is_none(target) else "number"
    dialect = dialect_of(framework)
    if use.flat and dialect.flat_cut and flat_operation(parsed_expression(use.flat)) not in dialect.flat_without_cut:
        return dialect.flat_cut
    # a value that is not an argument may be only an index, or give only its shape
    is_taken = use.is_argument or target.status not in HISTORY
    return "inside" if use.call and is_taken and not use.is_conditional else "unknown"


def _state(entry: Entry) -> str:
    if is_of_whole_numbers(entry):
        return f"of dtype {entry.dtype}"
    if entry.status is GradStatus.NOT_TENSOR and entry.why is not None:
        return entry.why.fields["kind"]
    return "differentiated" if entry.status in HISTORY else str(entry.status)


BESIDE = {"detach": "lost_detached", "stop_gradient": "lost_detached", "derivative": "lost_derivative"}
"""Codes of notes on lines through which no gradient flows back, by the kind of the use."""


def lost_beside(flow: Dataflow, mentions: Sequence[Mention]) -> list[str]:
    """Return notes on lines through which no gradient flows back, although it does on other paths.

    This is often intended. Of more than ``MOST`` notes, the last ones are only counted, in a note of their own.
    """
    lines: dict[tuple[str, str], dict[str, None]] = {}
    for mention in mentions:
        target = flow.entries[mention.target]
        if mention.place is not None or target.source is not None:
            code = BESIDE.get(mention.use.kind, "lost_beside")
            lines.setdefault((code, part_of_line(mention, target)), {})[flow.entries[mention.source].name] = None
    remedy = {"differentiably": dialect_of(flow.record.framework).remedies["differentiably"]}
    found = [say(code, at=at, names=quoted(list(names), len(names)), **remedy) for (code, at), names in lines.items()]
    return found[:MOST] + [say("lost_beside_more", more=len(found) - MOST)] * (len(found) > MOST)


def part_of_line(mention: Mention, target: Entry) -> str:
    """The part of a line that mentions the value, and the place of the line; without a line, the target's name."""
    line = mention.place or target.source
    return (
        repr(target.name)
        if line is None
        else f"`{mention.use.text or line.text.strip()}` ({path(line.file, line.line)})"
    )

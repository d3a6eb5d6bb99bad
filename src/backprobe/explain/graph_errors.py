"""Explains errors that a framework raises about its graph, with the names and lines of the values involved."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.backends.facts import Failure
from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.operation_names import MODULES
from backprobe.cuts.parsed import parsed, parsed_expression
from backprobe.cuts.unrecorded import unseen_calls
from backprobe.errors import labelled
from backprobe.explain.about_entries import about, by_status, is_returned, merged, own_name
from backprobe.explain.carried import (
    detached,
    detaching,
    filled_lists,
    has_earlier,
    is_bound_again,
    unrecorded,
    users_of,
)
from backprobe.explain.cut_findings import cut_finding
from backprobe.explain.framework_words import FrameworkWords
from backprobe.explain.instead import drawn_smoothly
from backprobe.explain.loaded import loaded
from backprobe.explain.of_functions import cut_in_function, frozen_parts
from backprobe.explain.spelled import as_written
from backprobe.explain.text import instead_of_flat, say
from backprobe.explain.user_tapes import none_given
from backprobe.explain.without_history import hidden_findings, without_history
from backprobe.findings.phrasing import MOST, location, quoted, shorten, uncommented
from backprobe.findings.report import Finding, grouped
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import strip
from backprobe.record.reasons import Reason
from backprobe.record.source import Source, expression_of
from backprobe.source.user_code import package

WRITES = re.compile(r"\w_\(|[-+*/@%&|^]=|\]\s*=[^=]|\bout=|\bin_?place=|\.data\b")
"""Matches the parts of a line that write in place."""

REENTRANT = re.compile(r"\bcheckpoint\(.*\buse_reentrant=True", re.DOTALL)
LONGEST = 60  # a remedy appends method calls only to expressions with at most this many characters
NAMED_LIKE = {"floor_divide": "floordiv"}
"""For an operation's name in PyTorch's errors, the name that backprobe uses."""
GRAD_NONE = "grad_none."
Parts = list[tuple[str, str]]
"""The lines below the headline of a note, as labels and texts. In a whole note the last line says what to do."""


@dataclass(frozen=True)
class FailureContext:
    """A failure together with the entries that it is about."""

    record: Record
    failure: Failure
    values: list[Entry]
    writers: list[Entry]
    users: list[Entry]
    carried: list[Entry]
    savers: list[tuple[Entry, str]]  # each with the operations for whose derivatives it was saved
    in_place: Collection[str]  # the paths of modules that are configured to write in place

    def say(self, code: str, **fields: object) -> str:
        """The sentence of a code, filled in with the values that the failure is about."""
        words: dict[str, object] = {"value": "a value without a name", "name": "u"}
        for entry in self.values[:1]:
            words = {"value": repr(entry.name), "name": spelling(self.record, entry) or _expression(entry) or "u"}
            words["described"] = f"{entry.dtype} of shape {entry.shape}"
        words["operation"] = self.failure.text
        words["values"] = quoted([each.name for each in self.values], len(self.values)) or self.failure.text
        return say(code, **{**words, **fields})


def spelling(record: Record, entry: Entry) -> str:
    """Return the spelling of a value in the program; empty if it has no name, like the output of a module.

    The spelling is a variable, or an attribute or item of one.
    """
    if _module(record, entry):
        return ""
    names = [own_name(name) for name in (entry.name, *entry.aliases) if "()" not in name]
    plain = [name for name in names if name.isidentifier() and name != "return"]
    items = [as_written(record, name) for name in names if not name.startswith("return")]
    # a value bound by ``states[0] = ...`` is spelled ``states[0]``, even if it also has other names
    bound = [name for name in names[:1] if name.endswith("]")]
    return next(iter([*bound, *plain, *(name for name in items if name.isascii() and name[:1].isalpha())]), "")


def _expression(entry: Entry) -> str:
    # The text of the expression that computes an unnamed value, if a method call can be appended to that text.
    text = expression_of(entry.source)
    is_short = isinstance(parsed_expression(text), ast.Call | ast.Attribute | ast.Subscript) and len(text) <= LONGEST
    return text if is_short else ""


def note(failure: Failure, record: Record, captured: Sequence[int], in_place: Collection[str] = ()) -> str | None:
    """Return the note on an error, or None. ``captured`` maps the failure's values to positions of entries.

    ``in_place`` are the paths of modules that are configured to write in place. The result is None if nothing is known
    beyond the error's own message.
    """

    if failure.kind == "none_given":
        return _none_given(record)
    roles = (failure.values, failure.writers, failure.users, failure.carried)
    values, writers, users, carried = ([record.entries[captured[at]] for at in positions[:MOST]] for positions in roles)
    savers = [(record.entries[captured[at]], operations) for at, operations in failure.savers[:MOST]]
    context = FailureContext(record, failure, values, writers, users, carried, savers, in_place)
    if failure.kind in ("leaf_written", "leaf_view_written", "view_written"):
        return _refused(context)
    if failure.kind == "no_history_in_backward":
        return _note(context.say(failure.kind), [*_lines(context), ("next", context.say(f"{failure.kind}_next"))])
    if failure.kind.startswith(GRAD_NONE):
        return _grad_none(context)
    outputs = [captured[at] for at in failure.outputs]
    is_known = failure.kind in ("in_place", "integer_leaf") or bool(failure.earlier or failure.text or failure.users)
    if not context.values and not is_known:
        return None
    if failure.kind == "freed":
        return _freed(context)
    if failure.kind == "no_history":
        parts = _without_history(context)
    elif failure.kind == "in_place":
        parts = [*_made(context), *_in_place(context)]
    elif failure.kind == "no_rule":
        parts = [*_made(context), ("next", _with_rule(context))]
    elif failure.kind == "not_in_graph":
        parts = [*_made(context), *(_disconnected(context, outputs) or [("next", context.say("not_in_graph_next"))])]
    else:
        parts = [*_made(context), ("next", context.say(f"{failure.kind}_next"))]
    return _note(context.say(failure.kind), parts)


def _with_rule(context: FailureContext) -> str:
    # Return what to write instead of an operation that has no derivative.
    operation = NAMED_LIKE.get(context.failure.text, context.failure.text)
    return instead_of_flat(operation, context.record.framework) or context.say("no_rule_next")


def _none_given(record: Record) -> str | None:
    # The note on why one of the program's own tapes returned no gradient at all.
    parts = []
    for found in none_given(record)[:MOST]:
        line = "" if found.source is None else location(found.source)
        parts += [("none", found.headline), ("at", line), ("next", found.remedy.partition(";\n")[0])]
    return _note(say("all_none"), parts) if parts else None


def _note(headline: str, parts: Parts, width: int = 9) -> str:
    return "\n".join([f"backprobe: {headline}", *labelled(parts, width)])


def _made(context: FailureContext) -> Parts:
    return [("made", _at(entry)) for entry in context.values]


def _lines(context: FailureContext) -> Parts:
    return [("at", location(line)) for line in context.failure.lines]


def _refused(context: FailureContext) -> str | None:
    # The note on a forbidden in-place write, with the tensor that was to be written and the line. Returns None if
    # neither the tensor nor a module is known.
    failure = context.failure
    module = shorten(failure.module)
    if not context.values and not module:
        return None
    code = f"{failure.kind}.hook" if failure.hook else failure.kind
    by = [("by", module)] if module else []
    # the items of the tuple that split() or unbind() returns cannot be reassigned
    is_item = bool(context.values) and spelling(context.record, context.values[0]).endswith("]")
    remedy = f"{code}_next.item" if is_item and code == "view_written" else f"{code}_next"
    remedy = "write_of_module" if module and "inplace" in module else remedy
    return _note(
        context.say(code), [*_made(context), *_lines(context), *by, ("next", context.say(remedy, module=module))]
    )


def _in_place(context: FailureContext) -> Parts:
    modules = {entry.name: path for entry in context.writers if (path := _module(context.record, entry))}
    written = [
        context.say("by_module", module=repr(modules[entry.name])) if entry.name in modules else _at(entry)
        for entry in context.writers
    ]
    written += map(location, context.failure.lines[:MOST])
    return [
        *(("saved", context.say("saved_for", at=_way_to(entry), operations=names)) for entry, names in context.savers),
        *(("written", place) for place in written or [context.say("written_unseen")]),
        ("next", _without_writing(context, list(dict.fromkeys(modules.values())))),
    ]


def _way_to(entry: Entry) -> str:
    # Return the name of a value with its line. If no line of the program computes the value, as inside a module, say
    # only that the operation is on the way to it.
    at = _at(entry)
    return at if at != repr(entry.name) else f"on the way to {at}"


def _without_writing(context: FailureContext, modules: Sequence[str]) -> str:
    # Return what to write instead of the in-place write.
    sources = [entry.source for entry in context.writers if entry.source is not None]
    is_update = any(value.source is None or value.is_leaf for value in context.values[:1])
    if detach := _detaching_carried(context):
        return context.say("write_of_carried", detach=detach)
    if modules:
        code = "write_of_modules" if set(modules) <= {*context.in_place} else "write_in_modules"
        return context.say(code, modules=quoted(modules, len(modules)))
    if is_update or context.failure.lines or any(".step(" in source.text for source in sources):
        return context.say("write_of_update")
    if not sources:
        is_module = any(entry.source is None for entry in (*context.writers, *(saver for saver, _ in context.savers)))
        return context.say("write_unseen" if is_module else "write_unknown")
    return _without_write_at(context, sources)


def _detaching_carried(context: FailureContext) -> str:
    # The remedy that detaches values carried from one step into the next; empty if there are none, or if the failure
    # has no lines.
    carried = [entry for entry in context.carried if is_bound_again(context.record, entry)]
    using = [user for entry in carried for user in users_of(context.record, entry)]
    return detaching(context.record, carried, using) if context.failure.lines and carried else ""


def _without_write_at(context: FailureContext, sources: Sequence[Source]) -> str:
    # Return what to write instead of in-place writes on lines of the program.
    if not any(WRITES.search(source.statement) for source in sources):
        return context.say("write_in_call")
    names = [name for entry in (*context.writers, *context.values) if (name := spelling(context.record, entry))]
    written = [name for source in sources if (name := written_name(source.statement))]
    text = next((f"`{uncommented(source)}`" for source in sources), "the write")
    if not written and any("inplace=True" in source.statement for source in sources):
        return context.say("write_flag", text=text)
    base = _viewed(context, written)
    if base:
        return context.say("write_of_view", base=base, name=written[0], text=text)
    return context.say("write", name=next(iter([*written, *names]), "u"), text=text)


def _viewed(context: FailureContext, written: Sequence[str]) -> str:
    # The spelling of the value that backward needs, if the program wrote to a view of it under another name; or empty.
    value = next(iter(context.values), None)
    others = [entry for entry in context.writers if value is not None and strip(entry.name) != strip(value.name)]
    spelled = {own_name(name) for entry in others for name in (entry.name, *entry.aliases)}
    is_view = value is not None and len({*written}) == 1 and written[0] in spelled
    own = {own_name(name) for name in (value.name, *value.aliases)} if value is not None else set()
    return spelling(context.record, value) if is_view and value is not None and written[0] not in own else ""


def written_name(statement: str) -> str:
    """Return the first name that a statement writes to in place; empty if none is found in its text.

    >>> written_name("h[:, 0] = 0"), written_name("h += x"), written_name("h.mul_(2)"), written_name("y = f(h)")
    ('h', 'h', 'h', '')
    >>> written_name("z = F.relu_(h)"), written_name("torch.nn.init.zeros_(h)")
    ('h', 'h')
    """
    tree = parsed(statement)
    for node in ast.walk(tree) if tree is not None else ():
        written: ast.AST | None = None
        if isinstance(node, ast.AugAssign):
            written = node.target
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            written = node.targets[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            is_method = name.endswith("_") and not name.startswith("_")
            is_function = is_method and ast.unparse(node.func.value).partition(".")[0] in MODULES
            written = next(iter(node.args), None) if is_function else node.func.value if is_method else None
        while isinstance(written, ast.Subscript):
            written = written.value
        if isinstance(written, ast.Name | ast.Attribute):
            return ast.unparse(written)
    return ""


def _module(record: Record, entry: Entry) -> str:
    # The path of the module that returned an entry; empty if a line of the program binds the entry.
    if entry.source is not None and package(entry.source.file) is None:
        return ""
    names = [strip(full) for full, at in record.names.items() if record.entries[at] is entry]
    paths = [name.removesuffix(":return") for name in names if name.endswith(":return") and not name.startswith("/")]
    return max(paths, key=len, default="")  # the innermost module, because the modules around it return the same value


def _freed(context: FailureContext) -> str:
    earlier, parts = context.failure.earlier, []
    if earlier is None:
        call = f"backward() or grad(){', not seen here,' * (not context.failure.is_older)}"
    else:
        call = "grad()" if "grad(" in earlier.text and "backward(" not in earlier.text else "backward()"
        parts.append(("freed", location(earlier)))
    if earlier is not None or context.users:
        survived = [_at(value) for value in context.values] or ["a value without a name"]
        parts += [("survived", each) for each in survived]
    is_itself = bool(context.values) and not context.users
    code, fields = _once_more(context)
    if not code:
        code = "freed_older" if context.failure.is_older else "freed" if call == "backward()" else "freed_by_grad"
        fields = {"name": next(filter(None, (spelling(context.record, value) for value in context.values)), "it")}
    remedy = context.say(f"{code}_next", **fields)
    when = context.say("freed_before") if context.failure.is_older else ""
    parts += [*(("used", _at(user)) for user in context.users), ("next", remedy)]
    return _note(context.say("freed_itself" if is_itself else "freed", call=call) + when, parts, 10)


def _once_more(context: FailureContext) -> tuple[str, dict[str, str]]:
    # Return the code of a remedy for a graph that an earlier pass freed, and its fields. They are empty if only the
    # general remedies fit.
    record, failure, values = context.record, context.failure, context.values
    is_before = failure.earlier is None
    if failure.is_one_forward or (is_before and not context.users):
        return "", {}
    if any(is_bound_again(record, value) for value in values):
        return "freed_carried", {"detach": detaching(record, values, context.users)}
    kept = unrecorded(record, context.users) if is_before and not values else []
    if kept or not (values or is_before):
        return "freed_carried", {"detach": detached(kept) or "detach() it"}
    filled = filled_lists(context.users, values) if is_before else []
    if filled:
        return "freed_filled", {"detach": "; ".join(f"{name} = [part.detach() for part in {name}]" for name in filled)}
    is_loop = is_before or failure.earlier in failure.lines
    return _of_values("freed_in_loop" if is_loop else "freed_shared" if context.users else "", context)


def _of_values(code: str, context: FailureContext) -> tuple[str, dict[str, str]]:
    # The code and the fields of a remedy that detaches all the values; both are empty if one cannot be spelled.
    names = [spelling(context.record, value) for value in context.values]
    if not names or not all(names):
        return "", {}
    return code, {"names": " and ".join(names), "detach": " and ".join(f"{name}.detach()" for name in names)}


def _grad_none(context: FailureContext) -> str:
    # The note for an error that arose because the program read a ``.grad`` that was None.
    kind, text, entry = context.failure.kind, context.failure.text, next(iter(context.values), None)
    value = repr(entry.name if entry is not None else text.removesuffix(".grad"))
    parts = [*_lines(context), *_made(context)]
    held = text.removesuffix(".grad")
    # the actual key such as params['w'], rather than a loop's params[k]
    own = "" if entry is None else spelling(context.record, entry)
    remedy = context.say(f"{kind}_next", text=text, name=own if kind == "grad_none.frozen" and own else held)
    is_update = any(f"{held} = " in line.statement for line in context.failure.lines)
    is_again = entry is not None and (is_update or has_earlier(context.record, entry) or _reads(entry, text))
    if is_again and kind in ("grad_none.computed", "grad_none.frozen"):
        remedy = context.say("grad_none.again_next", name=held)
    if entry is not None and kind == "grad_none.frozen":
        flow = Dataflow.of(context.record, has_run=False)
        parts += [("why", found.headline) for found in without_history(flow, flow.position[entry.name])]
    return _note(context.say(kind, text=text, value=value), [*parts, ("next", remedy)])


def _reads(entry: Entry, text: str) -> bool:
    return entry.source is not None and text in entry.source.statement


def _without_history(context: FailureContext) -> Parts:
    # Return facts on why backward cannot start at an entry.
    flow = Dataflow.of(context.record, has_run=False)
    at = [flow.position[context.values[0].name]]
    before = flow.before(at)
    cuts = _cuts_among(flow, before, at)
    # if nothing recorded leads to the entry, for example because only modules are recorded, examine all entries
    is_apart = len(before) == 1 and not cuts
    among = set(range(len(flow.entries))) if is_apart else before
    cuts, checkpoints = cuts or _cuts_among(flow, among, at), _checkpoints(flow, among)
    return [*cuts, *checkpoints] or _frozen(context, flow, among, at)


def _disconnected(context: FailureContext, outputs: Sequence[int]) -> Parts:
    # The lines that disconnect the requested values from the outputs, if they are recorded.
    flow = Dataflow.of(context.record, has_run=False)
    before, found = flow.before(outputs), list[Finding]()
    for value in context.values:
        at = flow.position[value.name]
        after = flow.after(at)
        found += [cut_finding(flow, cut) for cut in flow.severing(after.keys() & before, outputs)]
        found += [one for each in after for one in loaded(flow, each)]
    if not context.values:  # without entries for the values, find lines that mention their names
        names = re.compile("|".join(rf"(?<![\w.]){re.escape(name)}\b" for name in context.failure.text.split(", ")))
        cuts = [cut_finding(flow, cut) for cut in flow.severing(before, outputs)]
        found += [one for one in cuts if one.source is not None and names.search(one.source.text)]
    return _said(found)


def _checkpoints(flow: Dataflow, among: Iterable[int]) -> Parts:
    # Return reentrant checkpoints without an input that requires a gradient: even the parameters used inside get no
    # gradient.
    found = []
    for entry in (flow.entries[each] for each in sorted(among)):
        text = expression_of(entry.source)
        if entry.is_because("reentrant_checkpoint"):
            found.append(by_status(flow, entry))
        # the inputs of this checkpoint are not recorded
        elif entry.status is GradStatus.FROZEN and REENTRANT.search(text):
            found.append(about(flow, "checkpoint", entry, entry.source, text=f"`{shorten(text)}`"))
    return _said(found)


def _frozen(context: FailureContext, flow: Dataflow, among: Iterable[int], at: Sequence[int]) -> Parts:
    # Return values that require no gradient, with the remedy: results of unrecorded calls, such as those of a model,
    # and leaves.
    frozen = {
        each: unseen_calls(flow.entries[each])
        for each in sorted(among)
        if flow.entries[each].status is GradStatus.FROZEN
    }
    calls = {text: flow.entries[each].source for each, texts in frozen.items() for text in texts}
    leaves = [
        flow.entries[each]
        for each, texts in frozen.items()
        if each not in at and not (texts or flow.sources(each) or is_returned(flow, each))
    ]
    parts = [("frozen", f"`{text}`" + (f" ({location(line)})" if line else "")) for text, line in calls.items()]
    parts = [*parts, *(("frozen", _at(entry)) for entry in leaves)][:MOST]
    return [*parts, ("next", _requiring(context, leaves, list(calls)))]


def _requiring(context: FailureContext, leaves: Sequence[Entry], calls: Sequence[str]) -> str:
    # Say how to make these leaves, or the results of these calls, require a gradient.
    names = " or ".join(as_written(context.record, own_name(entry.name)) for entry in leaves[:3])
    words = FrameworkWords(context.record.framework, {"text": ", ".join(f"`{text}`" for text in calls[:3])})
    remedy = words["require_inside"]
    remedy = remedy if calls else context.say("frozen_leaves", names=names) if names else ""
    drawn = next(filter(None, (drawn_smoothly(entry.source.expression) for entry in leaves if entry.source)), None)
    if drawn is not None and not calls:
        return context.say("frozen_drawn", drawn_from=drawn[0], smooth=drawn[1], otherwise=remedy)
    return remedy


def cut_note(record: Record) -> str | None:
    """The note for a result that depends on no differentiated value, with the lines that cut it off.

    None if the recording does not show these lines, or if the result has a history.
    """
    flow = Dataflow.of(record, has_run=False)
    # the result has a history, so the error has another cause, such as the shape of the result
    if any(flow.has_history(at) for at in record.outputs):
        return None
    parts = _cuts_among(flow, flow.before(record.outputs), record.outputs)
    return _note(say("unconnected"), parts) if parts else None


def of_note(record: Record, functions: Sequence[Callable[..., Any]]) -> str | None:
    """The note for a result that a function given as ``of=`` cuts off, or that depends on frozen values only.

    None if the recording shows neither.
    """
    found = [one for one in (cut_in_function(record, function) for function in functions) if one is not None]
    parts = _said(found) or frozen_parts(record)
    return _note(say("unconnected"), parts) if parts else None


def frozen_note(read: Sequence[tuple[Reason, Source]]) -> str | None:
    """The note for a result computed only from Variables that are not differentiated; None if none was read."""
    parts = [("read", f"{location(line)}\n{why}") for why, line in read[:MOST]]
    return _note(say("unconnected"), [*parts, ("next", say("frozen_variables"))]) if parts else None


def _cuts_among(flow: Dataflow, among: set[int], ends: Sequence[int]) -> Parts:
    cuts = [cut_finding(flow, cut) for cut in flow.severing(among, ends)] or hidden_findings(flow, among)
    return _said(cuts)


def _said(cuts: Sequence[Finding]) -> Parts:
    # use one finding for each line, because a framework's module may cut many values on one line
    groups = grouped(merged(cuts), lambda found: (found.kind, found.source or found.name))
    parts = []
    for found, *_ in groups[:MOST]:
        line = "" if found.source is None else location(found.source)
        remedy = found.remedy if len(groups) == 1 else found.remedy.partition(";\n")[0]
        parts += [("cut", found.headline), ("at", line), ("next", remedy)]
    return parts


def _at(entry: Entry) -> str:
    is_of_program = entry.source is not None and package(entry.source.file) is None
    return f"{entry.name!r} ({location(entry.source)})" if is_of_program and entry.source else repr(entry.name)

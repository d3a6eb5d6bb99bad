"""Explains errors that arise because a name was rebound: its earlier meaning, the line that rebound it, a remedy."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from backprobe.errors import labelled
from backprobe.explain.about_entries import line_in
from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import listed, location, shorten, uncommented
from backprobe.findings.report import Finding, Report
from backprobe.record.brief import path
from backprobe.record.quoted_errors import first_line
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.source.bound_values import BoundUse
from backprobe.source.frames import name_in
from backprobe.source.notebook_cells import is_cell
from backprobe.source.rebound_names import Rebound, rebound_name
from backprobe.source.renamed_lines import is_read, is_read_elsewhere, renamed
from backprobe.source.scopes import COMPREHENSIONS, Binding, How, SourceScope

CODE = "rebound"
MOST = 3
"""A note shows at most this many lines that may have rebound the name, in addition to the last one."""
LONGEST = 40  # the most characters of an expression that a headline quotes
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)


def rebound_reason(error: BaseException) -> Reason | None:
    """The facts about the rebound name behind an error, if there is one."""
    found = rebound_name(error)
    if found is None:
        return None
    *others, last = [_source(one) for one in found.rebound]
    at = found.failed.expression.lineno
    raised = Source(found.text.file, at, _line(found.text.lines, at))
    defined = "" if found.defined is None else location(_source(found.defined))
    return Reason(
        CODE,
        {
            "name": found.name,
            "headline": _headline(found),
            "defined": defined,
            "others": "\n".join(map(location, others[-MOST:])),
            "at": f"{last.file}:{last.line}",
            "text": last.text,
            "raised": location(raised),
            "error": first_line(error),
            "next": _remedy(found),
        },
    )


def rebound_note(error: BaseException) -> str | None:
    """The note on an error that arose because a name was rebound."""
    reason = rebound_reason(error)
    if reason is None:
        return None
    said, last = reason.fields, line_in(reason.fields)
    rebound = "\nor ".join([*said["others"].splitlines(), "" if last is None else location(last)])
    parts = [("defined", said["defined"]), ("rebound", rebound), ("next", said["next"])]
    return "\n".join([f"backprobe: {said['headline']}", *labelled(parts, 9)])


def rebound_finding(reason: Reason, framework: str, *after: str) -> Finding:
    """Make the finding on an error caused by a rebound name; ``after`` are further facts."""
    said = reason.fields
    facts = [
        say("rebound_raised", error=said["error"], at=said["raised"]),
        *([say("rebound_defined", at=said["defined"])] if said["defined"] else ()),
        *(say("rebound_there", at=line) for line in said["others"].splitlines()),
        *after,
    ]
    return finding(
        CODE, said["name"], line_in(said), framework, facts=facts, headline=said["headline"], remedy=said["next"]
    )


def with_rebound(report: Report | None, error: BaseException) -> Report | None:
    """Add the finding on an error caused by a rebound name to the report, or to a new one if there is none.

    The report stays unchanged if it has such a finding, or if no rebound name caused the error.
    """
    reason = rebound_reason(error)
    if reason is None or (report is not None and report.of_kind(CODE)):
        return report
    found = rebound_finding(reason, "")
    if report is None:
        return Report(say("raised", error=reason.fields["error"]), (found,))
    return replace(report, findings=(found, *report.findings))


def _headline(found: Rebound) -> str:
    hows, scope = {one.how for one in found.rebound}, _place(found.scope)
    taken = say(f"taken.{found.rebound[-1].how}") if len(hows) == 1 else say("taken")
    fields = {"name": repr(found.name), "meant": _meant(found), "taken": taken, "scope": scope}
    if found.failed.is_unbound:
        return say("rebound.local", **fields)
    return say("rebound.hidden" if found.is_hidden and scope else "rebound.since", **fields)


def _place(scope: SourceScope) -> str:
    # Name the scope in which the name was rebound; empty for a module.
    node = scope.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{node.name}()"
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    return "this comprehension" if isinstance(node, COMPREHENSIONS) else "this lambda" * isinstance(node, ast.Lambda)


def _meant(found: Rebound) -> str:
    # Say what the program means by the name.
    value, one = found.means.value, found.defined
    kinds = {type: "class", ModuleType: "module", **dict.fromkeys(FUNCTIONS, "function")}
    kind = next((word for each, word in kinds.items() if issubclass(type(value), each)), "object")
    if one is None:
        return say("meant.builtin", kind=kind)
    if one.how is How.IMPORT:
        return say("meant.import", kind=kind)
    if one.how is How.FUNCTION:
        return say("meant.method" if found.failed.use is BoundUse.CALL and found.failed.attribute else "meant.function")
    if one.how is How.CLASS:
        return say("meant.class")
    text = "" if one.value is None else shorten(ast.unparse(one.value), LONGEST)
    code = "meant.assigned" if isinstance(one.value, ast.Call) else "meant.written" if text else "meant"
    return say(code, text=text)


def _remedy(found: Rebound) -> str:
    # The remedy: another name in the line that rebound it, or a way to reach the definition that still works.
    last = found.rebound[-1]
    line = uncommented(Source("", 1, renamed(last, found)))
    fields = {"line": line, "name": found.name, "meant": _meant(found), "scope": _place(found.scope)}
    first = say(f"rename.{last.how}" if line else "rename", **fields)
    first += say("rename_reads") if line and is_read_elsewhere(last, found) else ""
    others = [path(one.text.file, one.line) for one in (*found.rebound[:-1], *found.others) if one is not found.defined]
    first += say("rename_others", at=listed(others)) if others else ""
    is_unclear = _is_unclear(found, last)
    first += say("rename_if", **fields) if is_unclear else ""
    again, spelled = _again(found), _by_module(found)
    ways = [f"{first};\n{again}" if again else first]
    if is_unclear and last.how is How.ARGUMENT and found.failed.use is BoundUse.CALL:
        ways.append(say("give_function", **fields))
    return ";\nor ".join([*ways, *([say("by_module_name", spelled=spelled)] if spelled else ())])


def _is_unclear(found: Rebound, last: Binding) -> bool:
    # Could the program mean the new value instead? This is possible for arguments and loop variables, and for values
    # that the failing line does not call.
    is_of_data = found.failed.use is not BoundUse.CALL and not found.means.is_of_code
    if last.how in (How.ARGUMENT, How.COMPREHENSION) or is_of_data:
        return True
    if last.how in (How.ASSIGNED, How.WALRUS) and found.failed.use is BoundUse.CALL and not found.failed.attribute:
        return not (found.failed.is_unbound or found.is_renewed or is_read(last, found))
    body = getattr(last.statement, "body", ()) if last.how in (How.LOOP, How.WITH, How.EXCEPT) else ()
    return any(found.failed.node is part for statement in body for part in ast.walk(statement))


def _by_module(found: Rebound) -> str:
    # The definition, spelled as an attribute of a module that the failing line can use; empty if there is none.
    one, failed = found.defined, found.failed
    if one is None or one.how is not How.IMPORT or failed.use is BoundUse.ITEM or failed.is_unbound:
        return ""
    if isinstance(one.statement, ast.Import):
        full = one.node.name if one.node.asname else ""
    else:
        full = "" if one.statement.level or one.node.name == "*" else f"{one.statement.module}.{one.node.name}"
    root = full.partition(".")[0]
    if not full or root == found.name or name_in(found.frame, root) is not sys.modules.get(root):
        return _of_held(found)
    return f"{full}.{failed.attribute}" if failed.attribute else full


def _of_held(found: Rebound) -> str:
    # The definition as an attribute of the module that now has its name, as after ``import tqdm``.
    held, means, name = found.failed.held, found.means.value, found.name
    is_module = issubclass(type(held), ModuleType) and not found.failed.attribute
    is_there = is_module and vars(held).get(name) is means
    return f"{name}.{name}" if is_there else ""


def _again(found: Rebound) -> str:
    # Return a further remedy for notebooks, in which the name stays rebound even after the line is repaired.
    if found.scope.parent is not None or not is_cell(found.text.file) or "." in found.name:
        return ""
    if found.defined is None:
        return say("notebook_del", name=found.name)
    return say("notebook_again", name=found.name, cell=path(found.defined.text.file, 1).partition(":")[0])


def _source(one: Binding) -> Source:
    return Source(one.text.file, one.line, _line(one.text.lines, one.line))


def _line(lines: tuple[str, ...], number: int) -> str:
    return lines[number - 1].strip()

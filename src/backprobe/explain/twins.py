"""The case of an optimizer that holds the parameters of another, equal model instead of the model that runs."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence

from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.text import finding, say
from backprobe.findings.phrasing import listed, location
from backprobe.findings.report import Finding
from backprobe.record.names import common_path
from backprobe.record.source import Source
from backprobe.record.training import Untrained


def of_twins(flow: Dataflow, twins: Sequence[tuple[str, str]], one: Untrained) -> Finding:
    """Make the finding on parameters of an equal model, at the line that created the model again, if it is found.

    Otherwise the finding is at the optimizer's step, if that is known.
    """
    ran = [name for _, name in twins]
    model = common_path(name.rpartition(".")[0] for name in ran)
    step = one.calls[0].source if one.calls else None
    made, bound = _bound_after(step, one.held_by.partition(" ")[0], model) if step is not None else (None, None)
    facts = [say("twins_of", names=listed(ran))]
    if bound is not None and made is not None:
        facts.append(say("optimizer_made", at=location(made)))
    code = "replaced.twins" if bound is None else "replaced.twins_made"
    line = step if bound is None else bound
    optimizer = one.held_by or "the optimizer"
    return finding(code, one.name, line, flow.record.framework, facts=facts, model=repr(model), optimizer=optimizer)


def _bound_after(step: Source, optimizer: str, model: str) -> tuple[Source | None, Source | None]:
    # Return the line that creates the optimizer, and the last later line in the same block that binds the model, or an
    # object that contains it. Both are None if there are no such lines.
    text = "".join(linecache.getlines(step.file))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None, None
    steps = model.split(".")
    paths = {".".join(steps[:length]) for length in range(1, len(steps) + 1)}
    for block in _blocks(tree):
        made = next((each for each in block if optimizer in _targets(each)), None)
        after = [each for each in block if made is not None and each.lineno > made.lineno and paths & _targets(each)]
        if made is not None and after:
            return _source(step.file, text, made), _source(step.file, text, after[-1])
    return None, None


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield body


def _targets(statement: ast.stmt) -> set[str]:
    # The names and attributes that a statement binds.
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    parts = [each for one in targets for each in (one.elts if isinstance(one, ast.Tuple) else [one])]
    return {ast.unparse(one) for one in parts}


def _source(file: str, text: str, statement: ast.stmt) -> Source:
    return Source(file, statement.lineno, text.splitlines()[statement.lineno - 1].strip())

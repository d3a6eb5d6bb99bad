"""The graph form: the target is already a graph with named values, and the backend runs it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.backends.discover import load_arrays, load_backend
from backprobe.backends.facts import Backward, GraphNode, Outcome
from backprobe.backends.graphs import GraphExecution
from backprobe.backends.refusals import refuse_options
from backprobe.errors import BackprobeError, BadOption
from backprobe.probe.output import SUMMED, Words, choose, weighed
from backprobe.probe.request import Request
from backprobe.probe.several_outputs import refuse_several
from backprobe.record.entries import Entry, Record
from backprobe.record.held import Lost
from backprobe.record.names import strip
from backprobe.record.patterns import refuse_unmatched, selection
from backprobe.record.stamp import stamp
from backprobe.recording import Recording
from backprobe.tracing.assemble import Assembler, EntryNames
from backprobe.tracing.finiteness import judged


class GraphRun:
    """One run of a graph."""

    def __init__(self, probe: Request, program: GraphExecution) -> None:
        self.probe, self.program, self.unweighed = probe, program, ""
        self.selection = selection(probe.chosen, True)
        if probe.wrt is not None:
            raise BadOption(
                "wrt is for functions: in a graph every value is differentiated",
                asked=f"wrt={sorted(probe.wrt)}",
                next=f"bp.probe({program.name}, {sorted(probe.wrt)!r}), to record only these",
            )

    def record(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Recording:
        """Run forward and backward together."""
        refuse_several(
            self.probe.of,
            f"bp.probe({self.program.name}, ",
            f"bp.probe({self.program.name}, of=...), once for each",
            "a graph runs forward and backward at once, from one output",
        )
        refuse_options(load_backend(self.program.framework), self.probe.options)
        self.program.bind(args, kwargs)
        try:
            cotangent, wanted = self._asked()
            result, differentiated, passed = self.program.run(cotangent, wanted, self.probe.options)
        except BackprobeError:
            raise
        except BaseException as error:
            error.add_note(f"backprobe: raised while running {self.program.name} under a probe")
            if self.unweighed:
                given = f"backprobe: the cotangent has shape {self.unweighed}"
                error.add_note(f"{given}; the graph does not say which shape the output has")
            raise
        # Check the cotangent again: before the graph ran, the shape of the output may have been unknown.
        weighed(differentiated, self.probe.cotangent, self.program)
        record = self._record(wanted, passed)
        if self.probe.options.nonfinite:
            record = judged(record, load_arrays(self.program.arrays))
        return Recording(record, result)

    def _asked(self) -> tuple[Any, list[int]]:
        # Return the cotangent, and the positions of the nodes that are recorded.
        target, of = self.program.target(self.probe.of)
        output = choose(target, of, SUMMED, self.program, Words(framework=self.program.framework))
        known = self.program.describe(output.tensor).shape is not None
        cotangent = (weighed if known else self._given)(output.tensor, self.probe.cotangent, self.program)
        self.nodes = self.program.nodes(output.tensor)
        self.names = _full_names(self.nodes)
        wanted = [at for at, node in enumerate(self.nodes) if node.is_output or self._is_wanted(at, node)]
        for pattern in self.selection.unmatched(full for own in self.names for full in own):
            bare = [strip(names[0]).removeprefix(":") for names in self.names]
            refuse_unmatched(pattern.text, bare, f"the graph of {self.program.name}", self._spelled)
        return cotangent, wanted

    def _given(self, output: Any, cotangent: Any, program: GraphExecution) -> Any:
        # Return the cotangent for an output whose shape is known only after the run.
        if cotangent is None:
            return None
        made = program.cotangent(output, cotangent)
        self.unweighed = str(program.describe(made).shape)
        return made

    def _is_wanted(self, at: int, node: GraphNode) -> bool:
        names = self.names[at]
        chosen = (
            node.by_default
            if self.selection.everything
            else any(pattern.matches(full) for pattern in self.selection.positive for full in names)
        )
        return chosen and not any(pattern.matches(full) for pattern in self.selection.negative for full in names)

    def _spelled(self, pattern: str | None) -> str:
        return f"bp.probe({self.program.name}" + (")" if pattern is None else f", {pattern!r})")

    def _record(self, wanted: Sequence[int], passed: Backward) -> Record:
        names = _names([self.names[at] for at in wanted])
        assembler = Assembler(names, range(len(wanted)))
        recorded = set(wanted)
        return assembler.record(
            [self._entry(assembler, *each) for each in zip(range(len(wanted)), wanted, passed.outcomes, strict=True)],
            passed,
            backend=self.program.arrays,
            framework=self.program.framework,
            outputs=[position for position, at in enumerate(wanted) if self.nodes[at].is_output],
            unseen=tuple(dict.fromkeys(strip(own[0]) for at, own in enumerate(self.names) if at not in recorded)),
            notes=self.program.notes(),
            stamp=stamp(),
        )

    def _entry(self, assembler: Assembler, position: int, at: int, outcome: Outcome) -> Entry:
        node, is_lost = self.nodes[at], isinstance(outcome.value, Lost)
        described = node.described if is_lost else load_arrays(self.program.arrays).describe(outcome.value)
        return assembler.entry(position, outcome, described=described, source=self.program.source(at), op=node.op)


LOCAL = re.compile(r"(:(?:`[^`]*`|[^.`]+))((?:\.\d+)?)")


def _full_names(nodes: Sequence[GraphNode]) -> list[list[str]]:
    # Return the names of each node, with counts. A parameter also has its path as a name, unless another node has the
    # same name.
    seen: Counter[str] = Counter()
    often = Counter(name for node in nodes for name in node.names)
    found = []
    for node in nodes:
        full = []
        for name in node.names:
            local = LOCAL.fullmatch(name)
            assert local is not None
            full.append(f"{local[1]}#{seen[name]}{local[2]}")
            seen[name] += 1
        if node.is_parameter and often[node.names[0]] == 1:
            full.append(node.names[0].removeprefix(":"))
        found.append(full)
    return found


def _names(names: Sequence[Sequence[str]]) -> EntryNames:
    # Return the names of the entries. A count is printed only if the name is ambiguous without it.
    often = Counter(stripped for own in names for stripped in {strip(full) for full in own})
    printed = {
        full: (strip(full) if often[strip(full)] == 1 else full).removeprefix(":") for own in names for full in own
    }
    positions = {full: at for at, own in enumerate(names) for full in own}
    return EntryNames(positions, printed, [list(dict.fromkeys(printed[full] for full in own)) for own in names])

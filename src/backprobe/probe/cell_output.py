"""The output of a notebook cell, which is differentiated if the cell takes no gradient itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.errors import BadOutput, NothingToDifferentiate
from backprobe.probe.form import Form
from backprobe.probe.output import ProbedOutput, choose
from backprobe.probe.several_outputs import AskedOutput
from backprobe.source.cell import ABSENT, Cell
from backprobe.source.sites import Site


class OfCell(Form):
    """The part that both forms of a cell share. The output of a cell is one of its variables, or its last
    expression.
    """

    has_run = False
    output_name: str | None = None
    bound: Mapping[str, Site] = {}  # by variable: the site that bound it last, in order of binding

    def subject(self) -> str:
        return self.cell.__name__

    @property
    def cell(self) -> Cell:
        cell: Cell = self.probe.target
        return cell

    def explain_error(self, error: BaseException) -> str | None:
        line = self.cell.calls("backward") or self.cell.calls("grad")
        if not self.has_run or line is None or "second time" not in str(error):
            return None
        return (
            f"backprobe: line {line} of the cell runs backward itself, which frees the graph; leave that out, the "
            "probe runs it, or give it retain_graph=True"
        )

    def output(self, result: Any, asked: AskedOutput) -> ProbedOutput:
        self.output_name, tensor = self._chosen(result)
        if not self.tape.is_differentiated(tensor):
            raise NothingToDifferentiate(
                "the output does not depend on any differentiated value",
                asked=self.spelled(),
                found=f"{self.output_name or 'the last expression'} without history",
                why="no tensor that it was computed from requires a gradient, or the graph was cut on the way "
                "(detach, no_grad)",
                next="x = torch.tensor(3.0, requires_grad=True) for an input, or %%probe with another name",
            )
        code, cotangent = self.probe.cotangent, None
        if code is not None:
            self.doing = "evaluating the cotangent of"
            cotangent = eval(code, self.cell.globals, self.cell.locals)
            self.doing = "choosing the output of"
        try:
            return choose(tensor, None, cotangent, self.tape)
        except BadOutput as error:
            shape = ", ".join(map(str, self.tape.describe(tensor).shape or ("()",)))
            error.asked = error.asked if code is not None else self.spelled()
            error.next = f'--cotangent "torch.ones({shape})", or a last line with a real scalar made from the output'
            raise

    def hold(self, output: ProbedOutput) -> int:
        """Hold the output under its name, even if this name is not selected. Returns the output's number."""
        name = self.output_name
        site = None if name is None else self.bound[name]
        return self.trace.hold_output(output.tensor, output.path, name or "return", site)

    def _chosen(self, result: Any) -> tuple[str | None, Any]:
        # Return the output and its name: the requested variable, or else the last expression if it is a floating
        # tensor, or else the last assigned variable that requires a gradient.
        if isinstance(self.probe.of, str):
            return self.probe.of, self._asked_for(self.probe.of)
        if self._is_floating(result):
            return None, result
        floating = self._floating_names()
        for name in reversed(floating):
            if self.tape.is_differentiated(self.cell.value(name)):
                return name, self.cell.value(name)
        raise NothingToDifferentiate(
            "the cell computes nothing that can be differentiated",
            asked=self.spelled(),
            found=f"floating tensors: {', '.join(floating)}" if floating else "no floating tensor",
            why="none that the cell assigns requires a gradient, and its last line is not a floating-point tensor",
            next="x = torch.tensor(3.0, requires_grad=True) for an input",
        )

    def _floating_names(self) -> list[str]:
        # Return the variables that this run has bound to floating-point tensors. A variable with an older value is not
        # an output of the cell.
        return [name for name in self.bound if self._is_floating(self.cell.value(name))]

    def _asked_for(self, name: str) -> Any:
        value = self.cell.value(name, ABSENT)
        if self._is_floating(value):
            if name in self.bound:
                return value
            value = ABSENT  # bound by another cell, or in an earlier run of this one
        others = self._floating_names()
        dtype = self.tape.describe(value).dtype if self.tape.is_tensor(value) else ""
        raise BadOutput(
            f"the cell does not assign {name!r}" if value is ABSENT else f"{name!r} is not a floating-point tensor",
            asked=self.spelled(),
            found="a name that is deleted, or was not assigned in this run"
            if value is ABSENT
            else f"a tensor of {dtype}"
            if dtype
            else type(value).__name__,
            why="" if value is ABSENT else "a gradient is the derivative of a floating output",
            next=f"%%probe {others[-1]}" if others else "a cell that assigns a floating tensor",
        )

    def _is_floating(self, value: Any) -> bool:
        return self.tape.is_tensor(value) and self.tape.is_floating(value)

    def spelled(self, pattern: str | None = None) -> str:
        words = ["%%probe", self.probe.of, None if pattern is None else f"--select {pattern!r}"]
        return " ".join(word for word in words if isinstance(word, str))

    def known_names(self) -> Sequence[str]:
        return list(self.cell.names.stored)

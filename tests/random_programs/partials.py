"""The verdict on partials: against the oracle of local partials, against the gradients, and against themselves."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import backprobe as bp
from random_programs.compare import ATOL, LARGEST, RTOL, STEP, compare_names, load, plain_output
from random_programs.interpreter import ARGUMENTS, Interpreter
from random_programs.names import Binding
from random_programs.stillness import Blocks, Plain, local_blocks, plain_run

EXACT = {"rtol": 1e-9, "atol": 1e-11}  # between sums of the same terms in another order


@dataclass
class Seen:
    """What was compared over many programs."""

    run: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    largest: float = 0.0

    def __str__(self) -> str:
        compared = ", ".join(f"{count} {what}" for what, count in sorted(self.compared.items()))
        dropped = ", ".join(f"{count} {why}" for why, count in self.discarded.items()) or "none"
        return f"{self.run} programs run ({dropped} discarded): {compared}; path sums within {self.largest:.1e}"


def check_partials(program: str, folder: Path, seen: Seen) -> bool:
    """Compare the partials of this program with the oracle's. False where there is nothing to compare."""
    seen.run += 1
    path = folder / f"program_{seen.run}.py"
    try:
        return _check(program, load(program, path), seen)
    except Exception as error:
        error.add_note(program)
        raise
    finally:
        path.unlink()


def _check(program: str, function: Callable[..., Any], seen: Seen) -> bool:
    arguments = [torch.tensor(v, dtype=torch.float64) for v in ARGUMENTS[: function.__code__.co_argcount]]
    oracle = Interpreter()
    oracle.run(program)
    if plain_output(function, arguments) is None or not oracle.memory.largest < LARGEST:
        seen.discarded["refused or too large"] += 1
        return False
    recording = bp.probe(function, partials="full")(*[argument.clone() for argument in arguments])
    run = plain_run(program)
    judge = Judge(recording, oracle.names.bindings, run, seen)
    judge.compare_sums()
    try:
        judge.compare_blocks(local_blocks(program, run, STEP))
    except AssertionError:
        if settled(program, run):
            raise
        seen.discarded["too steep for a difference quotient"] += 1
        return False
    judge.compare_contributions()
    judge.compare_totals()
    return True


def settled(program: str, run: Plain) -> bool:
    """Does the difference quotient of twice the step agree with this one? If not, neither can judge a partial."""
    fine, coarse = local_blocks(program, run, STEP), local_blocks(program, run, 2 * STEP)
    return all(
        np.allclose(block, coarse[value][by], RTOL, ATOL) for value, row in fine.items() for by, block in row.items()
    )


class Judge:
    """One recording, and which of its entries is which moment of the oracle's."""

    def __init__(self, recording: Any, bindings: Sequence[Binding], run: Plain, seen: Seen) -> None:
        self.recording, self.run, self.seen = recording, run, seen
        entries = compare_names(bindings, recording)
        moments = [binding for binding in bindings if binding.moment is not None]
        self.entries = {b.moment: entries[b.name] for b in moments if b.moment not in run.memory.parts}
        self.moments = {entry.name: moment for moment, entry in self.entries.items()}
        self.parts = {entries[b.name].name: b.moment for b in moments if b.moment in run.memory.parts}
        self.led_around = {name for name, moment in self.moments.items() if self.may_be_led_around(moment)}

    def may_be_led_around(self, moment: int) -> bool:
        """A view of what was written through a view: autograd leads some of its gradient around it to the base."""
        memory = self.run.memory
        written = {memory.families[part] for part in memory.parts if part > moment}
        return memory.places[moment][0] != moment and memory.families[moment] in written

    def has_cancelled(self, entry: Any) -> bool:
        """Nothing but rounding is left of its gradient."""
        return float(entry.grad.abs().max()) < 1e-13

    def has_failed(self, entry: Any) -> bool:
        """Its graph was overwritten before the end, which only an unconnected value survives."""
        is_told = any("not connected" in note for note in self.recording.notes)
        return entry.status == "not_connected" and is_told and not entry.partials

    def blocks(self, entry: Any) -> dict[int, np.ndarray]:
        """The recorded blocks by the input's moment, as matrices."""
        size = self.size(self.moments[entry.name])
        taken = [edge for edge in entry.inputs if edge.partial is not None]
        assert len({edge.name for edge in taken}) == len(taken), f"{entry.name} has an input twice"
        for edge in taken:
            shape = (() if not entry.shape or size == 1 else entry.shape) + self.recording[edge.name].shape
            assert tuple(edge.partial.shape) == shape, f"∂{entry.name}/∂{edge.name} has shape {edge.partial.shape}"
        return {self.moments[edge.name]: edge.partial.numpy().reshape(size, -1) for edge in taken}

    def size(self, moment: int) -> int:
        return self.run.memory.came[moment].shape[1]

    # (a) contributions sum to gradients, by backprobe's own account

    def compare_sums(self) -> None:
        sums = self.recording.path_sums
        assert sums.agree, f"the sums over paths do not agree: {sums}"
        assert sums.difference < 1e-9, sums
        assert all(self.has_cancelled(self.recording[name]) for name in sums.unjudged), sums
        own = {name for name in self.recording.grads() if name in self.moments} - self.led_around
        assert sums.judged + len(sums.unjudged) >= len(own), f"{sums} judges fewer than {sorted(own)}"
        self.seen.largest = max(self.seen.largest, sums.difference)

    # (b) every block against the oracle, and no edge where something moves is missing

    def compare_blocks(self, oracle: Blocks) -> None:
        for moment, entry in self.entries.items():
            if self.has_failed(entry):
                self.seen.compared["values whose graph was overwritten"] += 1
                continue
            found, expected = self.blocks(entry), oracle[moment]
            family = self.family(moment)
            others = [other for other in self.entries if other != moment and other not in family]
            zeros = {other: np.zeros((self.size(moment), self.size(other))) for other in others}
            self.same(entry, [found.get(other, zeros[other]) for other in others], [expected[m] for m in others])
            self.seen.compared["blocks"] += sum(other in found for other in others)
            self.seen.compared["blocks that are zero"] += sum(other not in found for other in others)
            if family and not self.unknown(entry, moment):
                gathered = [self.gathered(moment, family, blocks) for blocks in (found, expected)]
                self.same(entry, gathered[:1], gathered[1:])
                self.seen.compared["writes through views"] += 1

    def family(self, moment: int) -> list[int]:
        """The earlier values on the memory of a base that was written through a view, other than parts of a base.

        Autograd leads what is not written, and what is, around the view to the base; by the definition it flows
        through the view where the view has a name. Both are the same to the memory as a whole. Where the base lost
        its name before the write, its other views stand for it.
        """
        memory = self.run.memory
        base, _ = memory.places[moment]
        if base not in {memory.places[part][0] for part in memory.parts} or (base != moment and base in self.entries):
            return []
        own = memory.families[moment]
        return [m for m in self.run.moments if m < moment and memory.families[m] == own and m in self.entries]

    def unknown(self, entry: Any, moment: int) -> bool:
        """A view that stands for a base without a name, and whose partial by a part of that base has no numbers."""
        families = self.run.memory.families
        return any(
            edge.partial is None and edge.name in self.parts and families[self.parts[edge.name]] == families[moment]
            for edge in entry.inputs
        )

    def gathered(self, moment: int, family: Sequence[int], blocks: dict[int, np.ndarray]) -> np.ndarray:
        """The blocks by the values of one memory, as one by the memory: all of them move together."""
        total = np.zeros((self.size(moment), self.size(self.run.memory.places[moment][0])))
        for other in family:
            if other in blocks:
                np.add.at(total.T, self.run.memory.places[other][1], blocks[other].T)
        return total

    def same(self, entry: Any, found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
        if not found or np.allclose(np.hstack(found), np.hstack(expected), RTOL, ATOL):
            return
        for mine, right in zip(found, expected, strict=True):
            assert np.allclose(mine, right, RTOL, ATOL), f"a block of {entry.name} is\n{mine}\nand not\n{right}"

    # what a contribution is: the gradient times the block

    def compare_contributions(self) -> None:
        for entry in self.recording.values():
            for edge in entry.inputs:
                if edge.partial is None or entry.name in self.led_around:
                    continue
                if entry.status != "ok":
                    assert edge.contribution is None, f"{entry.name} has no gradient and contributes to {edge.name}"
                    continue
                block = edge.partial.numpy().reshape(entry.value.numel(), -1)
                expected = entry.grad.numpy().reshape(-1) @ block
                found = edge.contribution.numpy().reshape(-1)
                assert np.allclose(found, expected, **EXACT), f"{entry.name} contributes {found}, not {expected}"
                assert edge.contribution.shape == self.recording[edge.name].shape
                self.seen.compared["contributions"] += 1

    # (c) the sum over all paths of the products of blocks is the gradient

    def compare_totals(self) -> None:
        output, order = self.recording.outputs[0], self.recording.backward_order()
        totals = {name: np.zeros(self.recording[name].value.numel()) for name in self.recording.grads()}
        totals[output.name] = np.ones(1)
        beyond = set(self.parts)  # what a part of a base without a name passes on has no numbers
        for name in order:
            entry = self.recording[name]
            if name in self.parts:
                base, _ = self.run.memory.places[self.parts[name]]
                beyond |= set() if base in self.entries else {edge.name for edge in entry.inputs}
                continue
            if name in beyond:
                beyond |= {edge.name for edge in entry.inputs}
                continue
            for edge in entry.inputs:
                if edge.partial is not None:
                    totals[edge.name] += totals[name] @ edge.partial.numpy().reshape(len(totals[name]), -1)
        for name in order:
            if name not in beyond and name not in self.led_around:
                found, expected = self.recording[name].grad.numpy().reshape(-1), totals[name]
                assert np.allclose(found, expected, **EXACT), (
                    f"{name} has gradient {found}, its paths sum to {expected}"
                )
                self.seen.compared["sums over paths"] += 1
        self.seen.compared["gradients with no such sum"] += len(beyond | self.led_around)

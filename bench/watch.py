"""The cost of watching a training, as ratios to the bare step measured side by side in one run.

    python bench/watch.py              GPT-2 of both sizes
    python bench/watch.py mid          one of them

A measurement is some steps of forward, backward and a stateless update, and the flush of what was watched; entering and
leaving, which open and close the run, are once in a training and not in it. The compiled step needs a C++ compiler;
beside it stands one of an equal model that is not watched, in turns. At the end stands what a call of a module
costs, of a hundred that do nothing, beside a call without a watch. ``hooks by hand`` are forward hooks and
tensor hooks with four of PyTorch's reductions, whose results stay in memory: no names, no steps, nothing on disk.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from memory import host_peak, peak
from models import SIZES, Program, Size, gpt2

import backprobe as bp

STEPS, PAIRS = 10, 10
"""Of ten steps in a row, after the first, ``every=10`` measures one."""


def main(sizes: list[str]) -> None:
    torch.set_num_threads(1)
    for size in sizes or SIZES:
        program = gpt2(SIZES[size])
        optimizer = torch.optim.SGD(program.model.parameters(), lr=0.0)
        print(f"GPT-2 {size} ({SIZES[size]}), {len([*program.model.modules()])} modules")
        for name, watching in _variants(program, optimizer).items():
            print(f"  {name:44} × {_ratio(partial(_step, program, optimizer), watching):.3f}")
        _print_peaks(program, optimizer)

        ratio, are_equal = _compiled(SIZES[size])
        print(f"  {'compiled: values and gradients':44} × {ratio:.3f}, weights equal bit by bit: {are_equal}")

    torch.compiler.reset()  # a watch is told of each call while code exists that was compiled before it
    bare, left_out, taken = _calls()
    print("A call of a module that does nothing, ratios to one that is not watched")
    print(f"  {'in a step that is not measured':44} × {left_out / bare:.2f}")
    print(f"  {'in one that is':44} × {taken / bare:.2f}")


def _calls() -> list[float]:
    """Seconds of a hundred modules that do nothing: not watched, in a step that is not measured, and in one that is."""
    model = torch.nn.Sequential(*[torch.nn.Identity() for _ in range(100)], torch.nn.Linear(4, 4))
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.0), torch.ones(2, 4)
    found: list[list[float]] = [[], [], []]
    for _ in range(2 * PAIRS + 1):
        for took, every in zip(found, (None, 1000, 1), strict=True):
            outputs = ["**", "!*.weight", "!*.bias"]
            watching = nullcontext() if every is None else _watched(model, optimizer, select=outputs, every=every)
            with watching:
                for _ in range(2):
                    model(x).sum().backward()
                    optimizer.step()
                model(x)
                started = time.process_time()
                for _ in range(10):
                    model(x)
                took.append(time.process_time() - started)
    return [statistics.median(took[1:]) for took in found]


def _print_peaks(program: Program, optimizer: Any) -> None:
    """Peak memory of two steps beyond that of two that are not watched: of the start and the end of the run too."""
    held = sum(one.nbytes for one in program.model.parameters())
    print(f"  peak memory, MB beyond the bare steps: tensors, and NumPy and Python; parameters have {held / 1e6:.3f}")

    def steps(watching: Callable[[], AbstractContextManager[Any]]) -> None:
        with watching():
            for _ in range(2):
                _step(program, optimizer)

    bare = [measure(partial(steps, nullcontext)) for measure in (peak, host_peak)]
    for name, watching in _variants(program, optimizer, histograms=True).items():
        if name != "bare, again" and "by hand" not in name:
            found = [measure(partial(steps, watching)) for measure in (peak, host_peak)]
            tensors, host = ((one - before) / 1e6 for one, before in zip(found, bare, strict=True))
            print(f"  {name:44} + {tensors:.3f} + {host:.3f}")


def _step(program: Program, optimizer: Any) -> None:
    program.loss().backward()
    optimizer.step()
    optimizer.zero_grad()


def _variants(
    program: Program, optimizer: Any, histograms: bool = False
) -> dict[str, Callable[[], AbstractContextManager[Any]]]:
    watched = partial(_watched, program.model, optimizer)
    outputs = {"select": ["**", *(f"!{name}" for name in _parameters(program))]}
    return {
        "bare, again": nullcontext,
        "gradients of every module": partial(watched, what="grad", **outputs),
        "values and gradients of every module": partial(watched, **outputs),
        "the same, every=10": partial(watched, every=10, **outputs),
        "parameters: gradients": partial(watched, select=_parameters(program), what="grad"),
        "parameters: values and gradients": partial(watched, select=_parameters(program)),
        "parameters: values, gradients and updates": partial(
            watched, select=_parameters(program), what=("value", "grad", "param", "update")
        ),
        **({"everything, magnitudes too": partial(watched, pace=bp.Pace(histogram=1))} if histograms else {}),
        "hooks by hand: gradients of every module": partial(_by_hand, program.model, False),
        "hooks by hand: values and gradients": partial(_by_hand, program.model, True),
    }


def _parameters(program: Program) -> list[str]:
    return [name for name, _ in program.model.named_parameters()]


@contextmanager
def _watched(model: Any, optimizer: Any, **options: Any) -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder, bp.watch(model, folder, optimizer=optimizer, **options) as run:
        yield run


@contextmanager
def _by_hand(model: Any, values: bool) -> Iterator[None]:
    kept: list[Any] = []

    def measure(tensor: torch.Tensor) -> None:
        low, high = torch.aminmax(tensor)
        sums = tensor.sum(), torch.linalg.vector_norm(tensor), torch.count_nonzero(tensor)
        kept.append((low.item(), high.item(), *(one.item() for one in sums)))

    def hook(module: Any, args: Any, output: Any) -> None:
        for leaf in torch.utils._pytree.tree_leaves(output):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                if values:
                    measure(leaf.detach())
                if leaf.requires_grad:
                    leaf.register_hook(measure)

    handles = [module.register_forward_hook(hook) for module in model.modules()]
    yield
    for handle in handles:
        handle.remove()


def _ratio(step: Callable[[], None], watching: Callable[[], AbstractContextManager[Any]]) -> float:
    """The median ratio of the watched steps to the bare ones before or after them."""
    ratios = []
    for pair in range(PAIRS + 1):
        order = (_bare, _timed) if pair % 2 else (_timed, _bare)
        took = {measure: measure(step, watching) for measure in order}
        ratios.append(took[_timed] / took[_bare])
    return statistics.median(ratios[1:])


def _compiled(size: Size) -> tuple[float, bool]:
    """The median ratio of a compiled step that is watched to one that is not, of an equal model; and whether both have
    the same weights after all steps.
    """
    torch.compiler.reset()
    watched = gpt2(size)
    programs = watched, Program(deepcopy(watched.model), watched.inputs)
    optimizers = [torch.optim.SGD(program.model.parameters(), lr=0.01) for program in programs]
    steps = []
    for program, optimizer in zip(programs, optimizers, strict=True):
        compiled = Program(torch.compile(program.model), program.inputs)  # type: ignore[arg-type]  # it is called as the model is
        steps.append(partial(_step, compiled, optimizer))
    ratios = []
    with _watched(programs[0].model, optimizers[0], select=["**", *(f"!{name}" for name in _parameters(programs[0]))]):
        for pair in range(2 * PAIRS + 3):
            order = steps if pair % 2 or not pair else steps[::-1]  # what is watched is compiled first
            took = {step: _seconds(step) for step in order}
            ratios.append(took[steps[0]] / took[steps[1]])
    weights = zip(*(program.model.parameters() for program in programs), strict=True)
    return statistics.median(ratios[3:]), all(torch.equal(one, other) for one, other in weights)


def _seconds(step: Callable[[], None]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def _bare(step: Callable[[], None], _: Any) -> float:
    return _timed(step, nullcontext)


def _timed(step: Callable[[], None], watching: Callable[[], AbstractContextManager[Any]]) -> float:
    with watching() as run:
        step()
        started = time.process_time()
        for _ in range(STEPS):
            step()
        if hasattr(run, "flush"):
            run.flush()
        return time.process_time() - started


if __name__ == "__main__":
    main(sys.argv[1:])

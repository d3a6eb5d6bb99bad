"""The cost of a probe in PyTorch, as ratios to the bare step measured side by side in one run.

    python bench/probe.py                  all tables
    python bench/probe.py small layers     some of them: see TABLES

The bare step is forward, loss, ``backward()`` and the gradients cleared; for the model form, which leaves no ``.grad``
behind, it is forward, loss and ``autograd.grad`` with respect to all parameters, which the probe selects too.
A probed step ends with ``rec.grads()``, as with hand-written hooks; or, where a table says "read", with the value and
the gradient of every entry.

The floor of a probe: for each value one gradient edge (about 1.3 µs), one detached alias (0.8 µs) and one name; no byte
of a value is copied unless it is written in place. With partials, each value costs one more pass of the engine. For the
modules' outputs the floor is measured, as "at least": hooks by hand that take a detached alias and put a prehook that
is written in C on the node, without names and statuses. The search for NaN and Inf reads the bytes of each tensor once;
the table has their number.

Calls of Python functions (``python_calls``) are those beyond the bare step's; they do not depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from time import process_time
from typing import Any

import torch
from allocator import pin, run_with_default
from forms import (
    EVERYTHING,
    OUTPUTS,
    SELECTIONS,
    BlockForm,
    FunctionForm,
    GradForm,
    ModelForm,
    by_hand,
    each_entry,
    least,
    recorded,
)
from instructions import instructions, own
from memory import bytes_behind, peak
from models import MODELS, SIZES, Program, Size, gpt2
from python_calls import python_calls
from side_by_side import PAIRS, compare, show

import backprobe as bp

BY_HAND, LEAST, NOISE = "by hand: every output, retain_grad", "at least: every output", "bare, again"
FORMS = (BlockForm, ModelForm)
WIDTH = 36
MID = ("GPT-2", "Llama", "conv")
compare = partial(compare, clock=process_time)


# each model, in a block


def time_models(size: str, names: Iterable[str] = MODELS) -> None:
    """Outputs and everything, with each entry read and with ``grads()`` alone, for each model: a table in Markdown."""
    print(f"A block around each model, {size} ({SIZES[size]}), beside backward()")
    asked = [
        f"{name}: {what}" for name in ("outputs", "everything") for what in ("entries", "read", "`grads()`", "calls")
    ]
    columns = ["model", "bare step", NOISE, "by hand", "at least", *asked]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in names:
        print(f"| {' | '.join([name, *_row(MODELS[name](SIZES[size]))])} |", flush=True)


def _row(program: Program) -> list[str]:
    bare, selections = program.bare(), (OUTPUTS, EVERYTHING)
    steps = {NOISE: program.bare(), BY_HAND: by_hand(program), LEAST: least(program)}
    for selection in selections:
        steps[selection, "read"] = BlockForm.step(program, SELECTIONS[selection], read=each_entry)
        steps[selection, "grads()"] = BlockForm.step(program, SELECTIONS[selection])
    median, ratios = compare(steps, bare, PAIRS)
    row = [f"{median * 1e3:.1f} ms", *(f"{ratios[name]:.2f}" for name in (NOISE, BY_HAND, LEAST))]
    for selection in selections:
        step = steps[selection, "grads()"]
        calls, entries = python_calls(step).beyond(python_calls(bare)), len(step()[0])
        row += [
            f"{entries}",
            *(f"{ratios[selection, read]:.2f}" for read in ("read", "grads()")),
            f"{calls.functions:,}",
        ]
    return row


def count_calls() -> None:
    """The same in each form: Python functions, and those with builtins."""
    print("Python calls beyond the bare step, of functions (and of functions and builtins together)")
    program, arguments = gpt2(SIZES["small"]), FunctionForm.arguments()
    for form in FORMS:
        bare = python_calls(form.bare(program))
        for name in (OUTPUTS, EVERYTHING):
            calls = python_calls(form.step(program, SELECTIONS[name])).beyond(bare)
            print(f"  GPT-2 small, {form.title + ':':34} {name:{WIDTH}} {calls}")
    calls = python_calls(FunctionForm.step(*arguments)).beyond(python_calls(FunctionForm.bare(*arguments)))
    print(f"  a function of 200 values, {FunctionForm.title}: {calls}")


def count_instructions() -> None:
    """Bytecode instructions of the small models, in a block."""
    print("Bytecode instructions: of the bare step, and of backprobe's own functions beside it")
    print("| model | bare step | outputs | everything |\n|---|---|---|---|")
    for name, make in MODELS.items():
        program = make(SIZES["small"])
        bare = instructions(program.bare()).total()
        beside = [own(instructions(BlockForm.step(program, SELECTIONS[which]))) for which in (OUTPUTS, EVERYTHING)]
        print(f"| {name} | {bare:,} | {' | '.join(f'{number:,}' for number in beside)} |", flush=True)


# GPT-2


def time_forms() -> None:
    """The model form and the function form, partials, and a few locals."""
    for size in SIZES:
        program = gpt2(SIZES[size])
        for form in FORMS:
            steps = {NOISE: form.bare(program)}
            steps |= {name: form.step(program, patterns) for name, patterns in SELECTIONS.items()}
            if size == "small" and form is ModelForm:
                steps[f"{OUTPUTS}, with partials"] = form.step(program, SELECTIONS[OUTPUTS], partials=True)
            median, ratios = compare(steps, form.bare(program))
            print(f"GPT-2 {size} ({SIZES[size]}), {form.title}: bare step {median * 1e3:.1f} ms")
            show(ratios, width=WIDTH + 8)
    arguments = FunctionForm.arguments()
    steps = {
        NOISE: FunctionForm.bare(*arguments),
        "every value": FunctionForm.step(*arguments),
        "every value, with partials": FunctionForm.step(*arguments, partials=True),
    }
    median, ratios = compare(steps, FunctionForm.bare(*arguments))
    print(f"A function of 200 values, {FunctionForm.title}: bare step {median * 1e3:.1f} ms")
    show(ratios, width=WIDTH + 8)


def time_passes() -> None:
    """A block around ``autograd.grad``, and around ``backward()``, each beside its own bare step."""
    for size in SIZES:
        program = gpt2(SIZES[size])
        for form in (BlockForm, GradForm):
            steps = {NOISE: form.bare(program)}
            steps |= {name: form.step(program, SELECTIONS[name]) for name in (OUTPUTS, EVERYTHING)}
            median, ratios = compare(steps, form.bare(program))
            print(f"GPT-2 {size} ({SIZES[size]}), {form.title}: bare step {median * 1e3:.1f} ms")
            show(ratios, width=WIDTH + 8)


def time_nonfinite() -> None:
    """The search for NaN and Inf: guards, and ``nonfinite=True`` beside the same without it, and anomaly mode."""
    for size in SIZES:
        program = gpt2(SIZES[size])
        for form in FORMS:
            steps = {NOISE: form.bare(program), "anomaly mode of PyTorch": _in_anomaly_mode(program)}
            if form is BlockForm:
                steps |= {"bp.guard(model)": _guarded(program, program.model), "bp.guard()": _guarded(program, None)}
            asked: dict[str, Any] = {"parameters": []} if form is ModelForm else {}
            for name, patterns in {f"{OUTPUTS}, parameters": ["**", ":*"], EVERYTHING: ["**", "**:*"]}.items():
                steps[name] = form.step(program, patterns, **asked)
                steps[f"{name}, nonfinite"] = form.step(program, patterns, nonfinite=True, **asked)
            read = bytes_behind(recorded(steps[EVERYTHING]()[0]))
            print(f"GPT-2 {size}, {form.title}: NaN and Inf ({read / 1e6:.0f} MB to be read)")
            show(compare(steps, form.bare(program))[1], width=WIDTH + 16)


def _in_anomaly_mode(program: Program) -> Callable[[], None]:
    """The bare step in PyTorch's own search for NaN, which stops at the first one."""
    step = program.bare()

    def checked() -> None:
        with torch.autograd.set_detect_anomaly(True):
            step()

    return checked


def _guarded(program: Program, model: Any) -> Callable[[], None]:
    """The bare step in a guard, which stops at the first NaN or Inf."""

    def guarded() -> None:
        with bp.guard(model):
            loss = program.loss()
            loss.backward()
        program.model.zero_grad()

    return guarded


def weigh_steps() -> None:
    """The peak of memory, beyond that of the bare step."""
    for size in SIZES:
        program = gpt2(SIZES[size])
        for form in FORMS:
            floor = peak(form.bare(program))
            print(f"GPT-2 {size}, {form.title}: {floor / 1e6:.1f} MB of tensors at the peak; beyond it")
            for name, patterns in SELECTIONS.items():
                extra, asked = peak(form.step(program, patterns)) - floor, form.asked(program, patterns)
                share = f"{extra / asked:4.0%} of the {asked / 1e6:.2f} MB asked for"
                print(f"  {name:{WIDTH}} {extra / 1e6:6.2f} MB, {share}")
            print(f"  {BY_HAND:{WIDTH}} {(peak(by_hand(program)) - floor) / 1e6:6.2f} MB")


def grow_layers() -> None:
    """Linear in the layers: the ratio stays what it is, and calls grow as layers do."""
    print(f"As the layers grow, width 64, {BlockForm.title}: ratios, and calls of Python functions")
    for layers in (2, 8, 32):
        program = gpt2(Size(layers, 64, 2, 16))
        bare = program.bare()
        steps = {name: BlockForm.step(program, SELECTIONS[name]) for name in (OUTPUTS, EVERYTHING)}
        _, ratios = compare({NOISE: program.bare(), **steps}, bare)
        calls = {name: f", {python_calls(step).beyond(python_calls(bare)).functions:,}" for name, step in steps.items()}
        columns = [f"{name} × {ratio:.2f}{calls.get(name, '')}" for name, ratio in ratios.items()]
        print(f"  {layers:2} layers   " + "   ".join(columns))


def grow_selection() -> None:
    """Linear in what is selected; what is not selected costs one cached walk over the modules."""
    size = Size(32, 64, 2, 16)
    program = gpt2(size)
    ten = ["transformer.wpe", *(f"transformer.h.{layer}.mlp" for layer in range(9))]
    for form in FORMS:
        asked: dict[str, Any] = {"parameters": []} if form is ModelForm else {}
        selections = {"1 module": ten[:1], "10 modules": ten, "all modules": SELECTIONS[OUTPUTS]}
        steps = {name: form.step(program, patterns, **asked) for name, patterns in selections.items()}
        beside = {name: f"{len(step()[0])} entries" for name, step in steps.items()}
        wanted = ("transformer.wpe.weight",) if form is ModelForm else ()
        print(f"Ratio as the selection grows ({size}), {form.title}")
        show(compare({NOISE: form.bare(program, *wanted), **steps}, form.bare(program, *wanted))[1], beside)


def time_with_default_allocator() -> None:
    """The models again, in a process with the allocator that the machine has."""
    run_with_default(__file__, DEFAULT)


def main_with_default() -> None:
    print("--- the allocator that the machine has, one thread")
    for size in SIZES:
        time_models(size, ["GPT-2"])


DEFAULT = "in-default-allocator"
TABLES: dict[str, Callable[[], None]] = {
    "small": partial(time_models, "small"),
    "mid": partial(time_models, "mid", MID),
    "calls": count_calls,
    "instructions": count_instructions,
    "forms": time_forms,
    "passes": time_passes,
    "nonfinite": time_nonfinite,
    "memory": weigh_steps,
    "layers": grow_layers,
    "selection": grow_selection,
    "default": time_with_default_allocator,
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        sys.exit(f"there is no table {unknown[0]!r}: the tables are {', '.join(TABLES)}")
    print("--- pinned allocator, one thread")
    for name in names or TABLES:
        TABLES[name]()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == [DEFAULT]:
        main_with_default()
    else:
        pin()
        main(sys.argv[1:])

"""A program in each form in which people probe it, and what each form says that is not so."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import torch

import backprobe as bp
import training_forms
from commands import invoked
from passes.program import Answer, Gradients, Pass
from passes.tables import shown, table

Wrong = list[str]


def run(text: str, path: Path) -> dict[str, object]:
    """The names that a program leaves, run from a file of its own."""
    path.write_text(text)
    names: dict[str, object] = {"__name__": "__main__"}
    torch.manual_seed(0)
    exec(compile(text, str(path), "exec", dont_inherit=True), names)
    return names


def with_block(text: str) -> str:
    return "import backprobe as bp\nwith bp.probe() as rec:\n" + textwrap.indent(text, "    ")


def block(one: Pass, folder: Path) -> dict[str, object]:
    return run(with_block(one.text), folder / "block.py")


def bare(one: Pass, folder: Path) -> dict[str, object]:
    return run(one.text, folder / "bare.py")


# what a recording says


def same(found: torch.Tensor | None, wanted: torch.Tensor | None) -> bool:
    if found is None or wanted is None:
        return found is wanted
    alike = found.dtype == wanted.dtype and found.shape == wanted.shape
    return alike and torch.allclose(found, wanted, rtol=1e-5, atol=1e-6)


def wrong_in(one: Pass, rec: bp.Recording) -> Wrong:
    answer = one.expected()
    if len(rec.output_keys) > 1 or len(answer) > 1:
        return [*wrong_keys(one, rec, answer), *wrong_grads(one, rec, answer)]
    return wrong_gradients("grad", {name: rec[name].grad_or_none for name in first(answer)}, first(answer))


def first(answer: Answer) -> Gradients:
    return next(iter(answer.values()))


def wrong_gradients(where: str, found: Gradients, wanted: Gradients) -> Wrong:
    return [
        f"{where} of {name}: {found[name]}, not {wanted[name]}"
        for name in wanted
        if not same(found[name], wanted[name])
    ]


def wrong_keys(one: Pass, rec: bp.Recording, answer: Answer) -> Wrong:
    """Which outputs there are, and what each brings: by ``grads`` and by the recording of that output alone."""
    missing, others = set(answer) - set(rec.output_keys), set(rec.output_keys) - set(answer)
    if missing or (others and one.whole):
        return [f"the outputs are {rec.output_keys}, not {tuple(answer)}"]
    wrong = []
    for key, wanted in answer.items():
        alone = rec.of(key)
        wrong += wrong_gradients(f"grads[{key!r}]", {name: rec[name].grads.get(key) for name in wanted}, wanted)
        wrong += wrong_gradients(f"of({key!r})", {name: alone[name].grad_or_none for name in wanted}, wanted)
    return wrong


def wrong_grads(one: Pass, rec: bp.Recording, answer: Answer) -> Wrong:
    """``grad`` is that of ``backward()`` where it ran; of several outputs otherwise, it has to ask which."""
    if one.backward:
        wanted = answer[one.backward]
        return wrong_gradients("grad", {name: rec[name].grad_or_none for name in wanted}, wanted)
    return [
        f"grad of {name} does not ask which" for wanted in answer.values() for name in wanted if not asks(rec[name])
    ]


def asks(entry: bp.Entry) -> bool:
    try:
        entry.grad
    except bp.NoGradient:
        return True
    return False


def observed(one: Pass, names: dict[str, object], folder: Path) -> Wrong:
    """What is not, bit by bit, what the program leaves by itself, of all that it leaves with a block."""
    alone, watched = left(bare(one, folder)), left(names)
    return [name for name in alone.keys() | watched.keys() if alone.get(name) != watched.get(name)]


def left(names: dict[str, object]) -> dict[str, object]:
    own = {name: value for name, value in names.items() if name not in ("bp", "rec")}
    kept = {f"{name}.grad": value.grad for name, value in own.items() if getattr(value, "retains_grad", False)}
    return training_forms.state(own | kept)


# what the command line says


def wrong_in_explain(one: Pass, folder: Path) -> Wrong:
    """What ``backprobe explain FILE`` says that is not so: the program runs well and has gradients."""
    code, out, err = command(one, folder, "explain")
    wrong = [err] * bool(err) + [f"it ends with {code}"] * (code not in (0, 1))
    wrong += [said for said in ("no backward() ran", "backward_not_run", "no gradient of PyTorch") if said in out]
    missing = {name for found in re.findall(r"no gradient comes to (.*)", out) for name in found.split(", ")}
    missing |= set(re.findall(r"'([^']+)' has no gradient", out))
    return wrong + [f"{name} is said to have none" for name in reached(one.expected()) if name in missing]


def reached(answer: Answer) -> list[str]:
    """The values to which every output brings a gradient."""
    return [name for name in first(answer) if all(wanted.get(name) is not None for wanted in answer.values())]


def wrong_in_table(one: Pass, folder: Path) -> Wrong:
    """What the table of ``backprobe probe FILE`` lacks; where passes stand in a loop, of its first turn."""
    code, out, err = command(one, folder, "probe")
    if code or err:
        return [err or f"it ends with {code}"]
    answer, rows = one.expected(), table(out)
    if one.loops:
        return wrong_turn(one.turn() if one.turn else first(answer), rows)
    return [*wrong_cells(answer, rows), *wrong_values(one, folder, rows)]


def wrong_cells(answer: Answer, rows: dict[str, dict[str, str]]) -> Wrong:
    is_alone = len(answer) == 1 and not set(answer) & {head for row in rows.values() for head in row}
    columns = {"gradient": first(answer)} if is_alone else answer
    return [
        f"{name}, {column}: {row_of(name, rows)}, not {gradient}"
        for column, wanted in columns.items()
        for name, gradient in wanted.items()
        if not shown(row_of(name, rows).get(column), gradient)
    ]


def row_of(name: str, rows: dict[str, dict[str, str]]) -> dict[str, str]:
    """The row of a name, which may have no count where the iteration ends before it is bound again."""
    return rows.get(name) or rows.get(name.replace("#0", ""), {})


def wrong_turn(wanted: Gradients, rows: dict[str, dict[str, str]]) -> Wrong:
    """Within one turn of a loop a name may be bound once; what the turn does not bind at all is not asked."""
    return [
        f"{name}: {rows.get(name)}, not {gradient}"
        for name, gradient in wanted.items()
        if gradient is not None and not any(shown(cell, gradient) for cell in cells(name, rows))
    ]


def cells(name: str, rows: dict[str, dict[str, str]]) -> Iterator[str]:
    for known in (name, name.replace("#0", "")):
        yield from rows.get(known, {}).values()


def wrong_values(one: Pass, folder: Path, rows: dict[str, dict[str, str]]) -> Wrong:
    names, asked = bare(one, folder), {name for wanted in one.expected().values() for name in wanted}
    return [
        f"the value of {name}: {rows.get(name)}"
        for name in asked & names.keys()
        if not shown(rows.get(name, {}).get("value"), names[name])
    ]


def command(one: Pass, folder: Path, verb: str, *words: str) -> tuple[int, str, str]:
    path = folder / "program.py"
    path.write_text(one.text)
    return invoked(verb, str(path), *words)

"""What is true of the programs beside this file, by their frameworks alone: ``python tests/cuts/premise.py FILE``.

A program begins with comment lines, a key and a value each:

    # from: https://…        the thread or example that it is rebuilt from; or `own`
    # ask: explain           the words of the command; PROGRAM:NAME asks for a function or a model of the file
    # kind: same_numbers     or left_framework, discrete, no_grad, new_numbers, none_from_backward, dropped; or healthy
    # name: enc.weight       the value without a gradient, as a right answer names it
    # missing: enc.weight    that value; in a script, an expression that is its gradient after the last line
    # moves: enc.weight *= 2 in a script, the statement that moves the value, before the first loop

A comment `# <- here` ends the line that a right answer names; where several have one, either is right.

The premise: the gradient of the value is None or zero everywhere; and, unless the result was dropped, the loss changes
if the value is moved, so that there is something to differentiate. A healthy program runs to its end, and leaves a
gradient for each parameter of its `optimizer`, if that is PyTorch's.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = Path(__file__).resolve().parent
KINDS = {"left_framework", "discrete", "no_grad", "same_numbers", "new_numbers", "none_from_backward", "dropped"}
LINE = re.compile(r"# (from|ask|kind|name|missing|moves): (.*)")


def head(text):
    """The keys and values of the comment lines that a program begins with."""
    return dict(found.groups() for line in text.splitlines() if (found := LINE.fullmatch(line)))


def marked(text):
    """The numbers of the lines that a right answer may name."""
    return [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <- here")]


def namespace(path, moved=""):
    """What a program leaves behind, run with a statement before its first loop."""
    lines = path.read_text().splitlines()
    if moved:
        first = next(number for number, line in enumerate(lines) if line.startswith("for "))
        lines.insert(first, moved)
    module = sys.modules[path.stem] = types.ModuleType(path.stem)  # where a dataclass looks its module up
    exec(compile("\n".join(lines), str(path), "exec"), vars(module))
    return vars(module)


def _ran(path, expression, moved=""):
    # The value of an expression after a program has run, and its last loss.
    given = namespace(path, moved)
    return eval(expression, given), _number(given["loss"])


def _number(loss):
    return float(loss.detach() if hasattr(loss, "detach") else loss)


def is_nothing(gradient):
    """Whether a gradient is None or zero everywhere."""
    return gradient is None or not np.asarray(gradient).any()


def faults(path):
    """What is not as the head of a program says: nothing, if all of it is."""
    one = head(path.read_text())
    if one["kind"] == "healthy":
        return untrained(namespace(path))
    if "PROGRAM:" in one["ask"]:
        gradient, before, after = called(path, one)
    else:
        gradient, before = _ran(path, one["missing"])
        after = _ran(path, "None", one["moves"])[1] if "moves" in one else None
    wrong = [] if is_nothing(gradient) else [f"{path.name}: {one['missing']} has a gradient: {gradient}"]
    if one["kind"] == "dropped":
        return wrong if after in (None, before) else [*wrong, f"{path.name}: a dropped result has an effect"]
    return wrong if after not in (None, before) else [*wrong, f"{path.name}: nothing changes: {before} and {after}"]


def untrained(given):
    """What an optimizer of PyTorch has that got no gradient, after a healthy program has run."""
    groups = getattr(given.get("optimizer"), "param_groups", [])
    held = [each for group in groups if isinstance(group, dict) for each in group["params"]]
    return [f"no gradient for {tuple(each.shape)}" for each in held if is_nothing(each.grad)]


def called(path, one):
    """The gradient of the value of a function or model, what it returns, and what it returns with the value moved."""
    _, target, *words = shlex.split(one["ask"])
    run = namespace(path)[target.split(":")[1]]
    given = {name: _numbers(value) for name, _, value in (word.partition("=") for word in words)}
    return {"torch": _torch, "tensorflow": _tensorflow, "jax": _jax}[path.parent.name](run, given, one["missing"])


def _numbers(written):
    if written.startswith("randn"):
        return np.random.default_rng(0).normal(size=ast.literal_eval(written[len("randn") :])).astype(np.float32)
    return np.array(ast.literal_eval(written), np.float32)


def _torch(run, given, name):
    import torch

    given = {each: torch.from_numpy(value).requires_grad_() for each, value in given.items()}
    leaves = given | (dict(run.named_parameters()) if isinstance(run, torch.nn.Module) else {})
    torch.manual_seed(0)
    before = run(**given)
    before.backward()
    leaves[name].data.mul_(-1.5)
    torch.manual_seed(0)
    return leaves[name].grad, _number(before), _number(run(**given))


def _tensorflow(run, given, name):
    import tensorflow as tf

    given = {each: tf.constant(value) for each, value in given.items()}
    with tf.GradientTape() as tape:
        tape.watch(given)
        before = run(**given)
    gradient = tape.gradient(before, given[name])
    return gradient, float(before), float(run(**given | {name: given[name] * -1.5}))


def _jax(run, given, name):
    import jax

    given = {each: jax.numpy.asarray(value) for each, value in given.items()}
    gradient = jax.grad(lambda value: run(**given | {name: value}))(given[name])
    return gradient, float(run(**given)), float(run(**given | {name: given[name] * -1.5}))


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]).resolve())
    print("\n".join(wrong) or "as its head says")
    sys.exit(bool(wrong))

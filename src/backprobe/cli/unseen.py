"""The error for a script without a recorded gradient: it names the differentiating call, and what to type instead."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence
from pathlib import Path

from backprobe.backends.discover import BACKENDS, load_backend
from backprobe.cli.program import asked
from backprobe.errors import BadOption, NoBackend
from backprobe.probe.script import imported
from backprobe.source.derivative_calls import DerivativeCall, derivative_calls

FORWARD = ("jvp", "jacfwd", "linearize", "hessian")
"""Functions of forward-mode differentiation, which gives no gradients of intermediate values."""


def asks_for_help(words: Sequence[str]) -> bool:
    """Do the words of a script ask for its help? It then exits before it trains, and has answered."""
    return bool({"-h", "--help"} & set(words))


def no_gradient_seen(program: str, file: str, started: Sequence[str]) -> BadOption:
    """The error for a script that computed no gradient which backprobe could record.

    ``started`` are the threads or processes, in words, that it has started.
    """
    calls = _calls(file)
    if started and not calls:
        return BadOption(
            f"no gradient was seen in {program} itself",
            asked=asked(program),
            found=f"the script started {' and '.join(started)}",
            why="what they compute is not looked at, and neither are gradients that are taken there",
            next="the same training without them, in the script's own thread; or "
            f"{asked(f'{os.path.relpath(file)}:f', 'x=3')}, for a function f in it",
        )
    if not calls:
        return BadOption(
            f"no gradient of PyTorch, TensorFlow or JAX was seen in {program}",
            asked=asked(program),
            why="without a function, the file runs as a script, up to its own backward(), tape.gradient or jax.grad",
            next=f"{asked(f'{os.path.relpath(file)}:f', 'x=3')}, for a function f in it",
        )
    first = calls[0]
    is_forward = first.name.rpartition(".")[2] in FORWARD
    return BadOption(
        f"no gradient of PyTorch, TensorFlow or JAX was seen in {program}",
        asked=asked(program),
        found=f"line {first.line}: {first.text}",
        why=f"{first.name} takes derivatives forward, and no gradient comes to the values between"
        if is_forward
        else f"{first.name} is seen only where the script itself calls it, by this name, and calls what it returns",
        next=_instead(file, first),
    )


def none_to_show(program: str, file: str, *, is_of_functions: bool) -> BadOption:
    """The error for a script whose recording was asked for, and that took no gradient of a tensor.

    ``is_of_functions`` says that its framework differentiates functions, as JAX does.
    """
    path = os.path.relpath(file)
    typed = f"{asked(f'{path}:f', 'x=3')}, for a function f in it"
    first = f"backprobe explain {path}" if is_of_functions else f"loss.backward() at the end of {path}"
    return BadOption(
        f"{program} takes no gradient of PyTorch or TensorFlow that was seen",
        asked=asked(program),
        why="without a function, the file runs as a script, and what is shown are the gradients that it takes\n"
        "itself; what jax.grad takes is explained by backprobe explain, and recorded of a function",
        next=f"{first}; or {typed}",
    )


def _calls(file: str) -> list[DerivativeCall]:
    tree = ast.parse(Path(file).read_bytes())
    found: list[DerivativeCall] = []
    for name in BACKENDS:
        try:
            derivatives = load_backend(name).derivatives if name in imported(tree) else ()
        except NoBackend:
            continue
        found += derivative_calls([tree], name, derivatives) if derivatives else []
    return found


def _instead(file: str, call: DerivativeCall) -> str:
    # Return what to type: a command for a function in the file, or else a probe to insert into the script.
    functions = {
        node.name: node for node in ast.parse(Path(file).read_bytes()).body if isinstance(node, ast.FunctionDef)
    }
    function = functions.get(call.function)
    given = [] if function is None else _words([one.arg for one in function.args.args], call.arguments)
    if function is None or not given:
        return f"rec = {call.probed} in the script, and bp.explain(rec)"
    return asked(f"{os.path.relpath(file)}:{function.name}", *given)


def _words(names: list[str], arguments: str) -> list[str]:
    # The arguments in the form of the command line; none if they are not literals.
    values = ast.parse(f"[{arguments}]", mode="eval").body
    elements = values.elts if isinstance(values, ast.List) else []
    try:
        literal = [ast.literal_eval(one) for one in elements]
    except ValueError:
        return []
    return [f"{name}={value!r}" for name, value in zip(names, literal, strict=False)]

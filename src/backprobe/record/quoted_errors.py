"""Errors of programs and frameworks as messages quote them: in one line, without the framework's internals."""

from __future__ import annotations

import re

COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # Keras colours its messages
INTERNALS = re.compile(
    r"\{\{[^{}]*\}\}\s*|\s*\[Op:\w+\](?:\s+name:\s*\S*)?\s*$"
)  # TensorFlow writes the node before a message, and the operation after it
IN_GRAPH = "in user code:"  # TensorFlow writes this before a traceback inside a traced function; the message follows it
WRAPPED = "Exception encountered when calling"  # Keras writes this before the message itself


def said_by(error: BaseException) -> str:
    r"""The first meaningful line of an error's message; of one in a traced function, the message below its traceback.

    >>> said_by(ValueError("{{function_node __wrapped__MatMul}} Size-incompatible: [1,3] [Op:MatMul] name: "))
    'Size-incompatible: [1,3]'
    >>> said_by(ValueError("Exception encountered when calling Dense.call().\n\n\x1b[1mtoo small\x1b[0m\n"))
    'too small'
    """
    lines = [cleaned for line in str(error).splitlines() if (cleaned := _cleaned(line))]
    own = [line for line in lines if not line.startswith(WRAPPED)]
    said = next(iter([*own, *lines]), "")
    return lines[-1].partition(": ")[2] if said == IN_GRAPH and ": " in lines[-1] else said


def first_line(error: BaseException) -> str:
    """The type of an error and the first meaningful line of its message.

    >>> first_line(ValueError("too small")), first_line(ValueError())
    ('ValueError: too small', 'ValueError')
    """
    said = said_by(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def rest_of(error: BaseException) -> str:
    r"""The lines of an error's message after the first meaningful one, without empty ones.

    >>> rest_of(ValueError("the batch is wrong:\n\n  expected 3\n  got 4"))
    'expected 3\ngot 4'
    """
    lines = [cleaned for line in str(error).splitlines() if (cleaned := _cleaned(line))]
    first = said_by(error)
    return "\n".join(lines[lines.index(first) + 1 :]) if first in lines else ""


def _cleaned(line: str) -> str:
    return INTERNALS.sub("", COLOURS.sub("", line)).strip()

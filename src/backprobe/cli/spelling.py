"""Rewrites the next step that an API message suggests, from Python syntax to shell syntax."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

import click

GIVEN = re.compile(r"(leave out )?\b(\w+)=(?:(['\"])([\w.#/:*\[\]-]+)\3|([\w.:/-]*+)(?![(\[{'\"]))")
"""Matches keyword arguments in a suggestion: ``of='loss'``, or after "leave out" also ``of=`` without a value."""
LAMBDA = re.compile(r",? or of=lambda .*")  # a lambda cannot be written in a shell
TENSOR = re.compile(r"cotangent=(?:torch|tf|jnp)\.ones\(\((.*?),?\)\)")
SPELLED = (
    (re.compile(r"bp\.probe\(\w+, '([^']*)'\)"), lambda one: f"--select {shlex.quote(one[1])}"),
    (re.compile(r"bp\.probe\(\.\.\., \['([^']*)'\]\)"), lambda one: f"--select {shlex.quote(one[1])}"),
    (re.compile(r"bp\.probe\(f, (--[^()]*)\)"), r"\1"),
    (re.compile(r"bp\.probe\([\w<>]+\), for every name"), "leave out --select, for every name"),
    (re.compile(r"print\(rec\), for every name"), "backprobe probe, which prints every name"),
    (re.compile(r"^run\.report\((--[^()]*)\)$"), r"\1"),
    (re.compile(r"^bp\.open_run\('([^']*)'\)$"), lambda one: f"backprobe report {shlex.quote(one[1])}"),
    (re.compile(r"^run\.at\((\d+)\)$"), r"--step \1"),
    (re.compile(r"run\.names, for every name"), "leave out --name, for every name"),
    (re.compile(r"list\(a\) and list\(b\)"), "--json without it"),
    (re.compile(r"""rename=\{["']([^"']*)["']: ["']([^"']*)["']\}"""), r"--rename '\1=\2'"),
    (re.compile(r"""layout=\{["']([^"']*)["']: ["'](T)["']\}"""), r"--layout '\1=\2'"),
    (
        re.compile(r"""layout=\{["']([^"']*)["']: \(([\d, ]*)\)\}"""),
        lambda one: f"--layout '{one[1]}={one[2].replace(' ', '')}'",
    ),
    (re.compile(r"bp\.diff\(a, b, (--[^()]*)\)"), r"backprobe diff A B \1"),
    (re.compile(r"noise=\[.*\]"), "--noise FOLDER"),
    (re.compile(r"^(?:rec\[|bp\.\w+\(rec, )'([^']*)'[\])]$"), r"\1"),
    (re.compile(r"^bp\.\w+\([^()]*\)\(([^()]*=\.\.\.)\)$"), lambda one: one[1].replace(", ", " ")),
    (
        re.compile(r"bp\.(\w+)\(f\)\(x\), with f a function or a model"),
        r"backprobe \1 toy.py:f x=3, for a function f in toy.py",
    ),
    (
        re.compile(r"^bounds=\{'([^']*)': (\(.*?\))\}, or None for .*"),
        r"--bounds '\1=\2', or --bounds \1=None, which leaves it as it is",
    ),
    (re.compile(r"^bounds=\{'([^']*)': (\(.*?\))\}"), r"--bounds '\1=\2'"),
    (re.compile(r"^bp\.explain\(rec, '([^']*)'\), or .*"), r"backprobe explain, with \1 behind the program"),
    (re.compile(r"^bp\.draw\(rec\)$"), "leave out --open"),
    (re.compile(r"\bpath='([^']*)'"), r"\1"),
    (re.compile(r"rec\.save\('([^']*)', overwrite=True\)"), r"--save \1 --overwrite"),
    (re.compile(r"rec\.save\('([^']*)'\)"), r"--save \1"),
)
"""Pairs of a pattern for Python syntax and its replacement for the shell."""


def for_shell(text: str, params: Iterable[click.Parameter] = (), cotangent: str = "ones") -> str:
    """Rewrite the text of a next step, with a command's options instead of keyword arguments.

    ``cotangent`` is the kind of tensor to propose as one.

    >>> params = [click.Option(["--of"]), click.Option(["--partials"]), click.Option(["--roll"], is_flag=True)]
    >>> for_shell("of='loss', or of='aux'", params), for_shell("bp.probe(f, partials=True)", params)
    ('--of loss, or --of aux', '--partials true')
    >>> for_shell("cotangent=torch.ones((2, 3)), or of=lambda result: result[0]", params)
    "--cotangent 'ones(2, 3)'"
    >>> for_shell("leave out of=, or roll=True", params)
    'leave out --of, or --roll'
    """
    options = {str(one.name): one for one in params if isinstance(one, click.Option)}

    def spelled(one: re.Match[str]) -> str:
        option, value = options.get(one[2]), one[4] or one[5]
        if option is None or (option.is_flag and value != "True"):
            return one[0]
        if one[1] or option.is_flag:
            return f"{one[1] or ''}{option.opts[0]}"
        return f"{option.opts[0]} {value.lower() if value in ('True', 'False') else shlex.quote(value)}"

    text = TENSOR.sub(rf"--cotangent '{cotangent}(\1)'", LAMBDA.sub("", text))
    text = GIVEN.sub(spelled, text)
    for pattern, typed in SPELLED:
        text = pattern.sub(typed, text)
    return text

"""The next step that a message of the API suggests, spelled for a shell."""

from __future__ import annotations

import re
import shlex

VALUED = "convention|of|wrt|strategy|values|backend|direction|depth|cotangent|seed|steps|tries"
LAMBDA = re.compile(r",? or of=lambda .*")  # which no shell can give
SPELLED = (
    (re.compile(r"cotangent=(?:torch|tf|jnp)\.ones\(\((.*?),?\)\)"), r"--cotangent 'ones(\1)'"),
    (re.compile(r"leave out of="), "leave out --of"),
    (re.compile(r"leave out wrt="), "leave out --wrt"),
    (re.compile(r"\b(partials)=(True|False)"), lambda one: f"--partials {one[2].lower()}"),
    (re.compile(r"\b(nonfinite|roll|contributions)=True"), r"--\1"),
    (re.compile(r"\b(" + VALUED + r")=(['\"]?)([\w.#/:*\[\]-]+)\2"), lambda one: f"--{one[1]} {shlex.quote(one[3])}"),
    (re.compile(r"bp\.probe\(\w+, '([^']*)'\)"), lambda one: f"--select {shlex.quote(one[1])}"),
    (re.compile(r"bp\.probe\(\.\.\., \['([^']*)'\]\)"), lambda one: f"--select {shlex.quote(one[1])}"),
    (re.compile(r"bp\.probe\(f, (--[^()]*)\)"), r"\1"),
    (re.compile(r"bp\.probe\([\w<>]+\), for every name"), "leave out --select, for every name"),
    (re.compile(r"print\(rec\), for every name"), "backprobe probe, which prints every name"),
    (re.compile(r"^run\.report\(name='([^']*)'\)$"), lambda one: f"--name {shlex.quote(one[1])}"),
    (re.compile(r"^bp\.open_run\('([^']*)'\)$"), lambda one: f"backprobe report {shlex.quote(one[1])}"),
    (re.compile(r"^run\.at\((\d+)\)$"), r"--step \1"),
    (re.compile(r"run\.names, for every name"), "leave out --name, for every name"),
    (re.compile(r"list\(a\) and list\(b\)"), "--json without it"),
    (re.compile(r"""rename=\{["']([^"']*)["']: ["']([^"']*)["']\}"""), r"--rename '\1=\2'"),
    (re.compile(r"""layout=\{["']([^"']*)["']: ["'](T)["']\}"""), r"--layout '\1=\2'"),
    (re.compile(r"""layout=\{["']([^"']*)["']: \(([\d, ]*)\)\}"""),
     lambda one: f"--layout '{one[1]}={one[2].replace(' ', '')}'"),
    (re.compile(r"bp\.diff\(a, b, (--[^()]*)\)"), r"backprobe diff A B \1"),
    (re.compile(r"noise=\[.*\]"), "--noise FOLDER"),
    (re.compile(r"^(?:rec\[|bp\.\w+\(rec, )'([^']*)'[\])]$"), r"\1"),
    (re.compile(r"^bp\.\w+\([^()]*\)\(([^()]*=\.\.\.)\)$"), lambda one: one[1].replace(", ", " ")),
    (re.compile(r"bp\.(\w+)\(f\)\(x\), with f a function or a model"),
     r"backprobe \1 toy.py:f x=3, for a function f in toy.py"),
    (re.compile(r"^bounds=\{'([^']*)': (\(.*?\))\}, or None for .*"),
     r"--bounds '\1=\2', or --bounds \1=None, which leaves it as it is"),
    (re.compile(r"^bounds=\{'([^']*)': (\(.*?\))\}"), r"--bounds '\1=\2'"),
    (re.compile(r"^bp\.explain\(rec, '([^']*)'\), or .*"), r"backprobe explain, with \1 behind the program"),
    (re.compile(r"^bp\.draw\(rec\)$"), "leave out --open"),
    (re.compile(r"\bpath='([^']*)'"), r"\1"),
    (re.compile(r"rec\.save\('([^']*)', overwrite=True\)"), r"--save \1 --overwrite"),
    (re.compile(r"rec\.save\('([^']*)'\)"), r"--save \1"),
)  # fmt: skip
"""Each with what stands there in Python."""


def for_shell(text: str) -> str:
    """What to type next, with options in the place of keyword arguments.

    >>> for_shell("of='loss', or of='aux'"), for_shell("bp.probe(f, partials=True)")
    ('--of loss, or --of aux', '--partials true')
    >>> for_shell("cotangent=torch.ones((2, 3)), or of=lambda result: result[0]")
    "--cotangent 'ones(2, 3)'"
    """
    text = LAMBDA.sub("", text)
    for pattern, spelled in SPELLED:
        text = pattern.sub(spelled, text)
    return text

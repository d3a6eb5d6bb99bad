"""Random scalar programs: every factor's formula, as it is printed, must give the recorded partial.

``RANDOM_DERIVATIONS=5000 pytest tests/test_derive_random.py`` runs more of them than a normal run does.
"""

import math
import os
import random
import re

import numpy as np
import pytest
import torch

import backprobe as bp
from backprobe.derive.chain import Chain
from backprobe.derive.notation import ATOM, Text
from backprobe.derive.paths import paths
from backprobe.derive.tree import named
from backprobe.record.graph import Graph
from random_programs.compare import load
from sampled import count, drawn

COUNT = int(os.environ.get("RANDOM_DERIVATIONS", count(200)))

UNARY = [
    "torch.exp({})",
    "torch.log({a} * {a} + 1.5)",
    "{}.sin()",
    "torch.cos({})",
    "torch.tan({})",
    "torch.tanh({})",
    "torch.sigmoid({})",
    "F.softplus({})",
    "torch.relu({})",
    "torch.sqrt({}**2 + 0.5)",
    "torch.rsqrt({}**2 + 1)",
    "torch.square({})",
    "torch.reciprocal({}**2 + 2)",
    "abs({})",
    "{}.abs()",
    "-{}",
    "+{}",
    "torch.erf({})",
    "F.gelu({})",
    "F.silu({})",
    "torch.log1p({}**2)",
    "torch.expm1({})",
    "torch.atan({})",
    "torch.sinh({})",
    "torch.cosh({})",
    "torch.asin(0.3 * torch.tanh({}))",
    "torch.acos({}.sin() * 0.5)",
    "{}.pow(3)",
    "2**{}",
    "torch.log2({}**2 + 1)",
    "torch.log10({}**2 + 3)",
    "{} / 2.5",
    "torch.neg({})",
    "1 / ({}**2 + 3)",
    "{}**-2",
]
BINARY = [
    "{a} * {b}",
    "{a} + {b}",
    "{a} - {b}",
    "{a} - ({b} - {a})",
    "{a} / ({b}**2 + 1)",
    "torch.maximum({a}, {b})",
    "torch.minimum({a}, {b})",
    "torch.add({a}, {b})",
    "torch.sub({a}, {b})",
    "({a}**2 + 0.5)**{b}",
    "torch.mul({a}, {b})",
    "torch.div({a}, {b}**2 + 1)",
    "2 * ({a} - {b})**2",
    "torch.pow({a}**2 + 0.1, {b})",
    "{a} / ({b}**2 + 1) / ({a}**2 + 2)",
    "{a} * ({b} / 3)",
    "-({a} + {b}) * {a}",
]
EXPLAINED = "has a kink at|too long|not finite in double precision|divides by zero"
ARGUMENTS = ("x", "beta", "S")
TARGETS = ("u", "lambda_", "N", "E", "v", "w1", "O", "pi")


def expression(source, names, depth):
    if not depth or source.random() < 0.2:
        return source.choice(names)
    a = f"({expression(source, names, depth - 1)})"
    if source.random() < 0.5:
        return source.choice(UNARY).replace("{}", a).replace("{a}", a)
    b = f"({expression(source, names, depth - 1)})"
    return source.choice(BINARY).replace("{a}", a).replace("{b}", b)


def program(source):
    """The text of a module with a function ``f`` of three numbers."""
    names, lines = list(ARGUMENTS), []
    for _ in range(source.randint(1, 6)):
        target = source.choice(TARGETS)
        lines.append(f"    {target} = {expression(source, names, source.randint(1, 3))}")
        names += [] if target in names else [target]
    total = " + ".join(f"{source.uniform(0.1, 1):.2f} * {name}" for name in names)
    body = "\n".join([*lines, f"    out = {total}", "    return out"])
    return f"import torch\nimport torch.nn.functional as F\n\n\ndef f({', '.join(ARGUMENTS)}):\n{body}\n"


class Python(Text):
    """The same layout as the text, in a notation that Python reads."""

    forms, dot = {"brackets": "({})"}, "*"

    def name(self, name):
        return f"value[{name!r}]"

    def power(self, base, exponent):
        return f"{base}**{self.bracketed(exponent, ATOM)}"

    def follows(self, coefficient, factor):
        return False


READ_BACK = {
    **{
        name: getattr(np, name)
        for name in (
            "exp",
            "log",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "tanh",
            "sqrt",
            "abs",
            "maximum",
            "minimum",
            "sign",
        )
    },
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "erf": math.erf,
    "pi": lambda: math.pi,
    "relu": lambda x: np.maximum(x, 0.0),
    "step": lambda x: np.heaviside(x, 0.5),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def chain_of(rec, name):
    graph = Graph.of(rec.record)
    between = paths(graph, rec.record.outputs[0], graph.positions[rec[name].name], lambda *_: True)
    return Chain(graph, between, recorded=True)


@drawn
def test_every_printed_factor_gives_the_recorded_partial(tmp_path):
    source = random.Random(2024)
    factors = stands = 0
    for at in range(COUNT):
        text = program(source)
        arguments = [torch.tensor(source.uniform(-2, 2), dtype=torch.float64) for _ in ARGUMENTS]
        rec = bp.probe(load(text, tmp_path / f"program{at}.py"), partials=True)(*arguments)
        value = {name: np.float64(entry.value) for name, entry in rec.items()}
        name = source.choice(ARGUMENTS)
        derivation, chain = bp.derive(rec, name), chain_of(rec, name)
        assert derivation.agrees, f"{text}\n{value}\n{derivation}"
        assert chain.totals[chain.between.end] == pytest.approx(
            rec[name].grad.item(), rel=1e-9, abs=1e-9, nan_ok=True
        ), text
        for factor in chain.factors.values():
            factors += 1
            if factor.tree is None:
                stands += 1
                assert re.search(EXPLAINED, factor.why), f"{text}\n{factor}"
                continue
            names = [rec.record.entries[symbol].name for symbol in factor.symbols]
            printed = Python().write(named(factor.tree, names))[0]
            edge = chain.edges[factor.of, factor.wrt]
            with np.errstate(all="ignore"):
                found = eval(printed, {**READ_BACK, "value": value})
            expected = pytest.approx(edge.partial.item(), rel=1e-6, abs=1e-9, nan_ok=True)
            assert found == expected, f"{text}\n{printed}\n{value}"
    assert factors > 2 * COUNT
    assert stands < 0.02 * factors


def test_a_wrong_bracket_would_be_found():
    from backprobe.derive.formula import parse

    tree = parse("(x + 1) * 2", [("x", 0)]).tree
    printed = Python().write(named(tree, ["x"]))[0]
    assert eval(printed, {"value": {"x": 3.0}}) == 8.0
    assert eval(printed.replace("(", "").replace(")", ""), {"value": {"x": 3.0}}) == 5.0

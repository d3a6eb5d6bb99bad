"""The chain rule written out: what the text says, and that every number in it is the recorded one."""

import dataclasses
import functools
import math
import re
import sys
from pathlib import Path

import pytest
import torch

import backprobe as bp
from asked import Parts, message, round_trip
from backprobe.record.held import Lost
from backprobe.record.reasons import Reason
from commands import printed, python
from custom import custom
from random_programs.compare import load


def func(x):
    z = 2 * x
    return z


def func2(z):
    y = z**2 + 2 * z + 2
    return y


def composed(x):
    return func2(func(x))


def at(function, offset):
    """How a line of a function in this file is cited, counted from its ``def``."""
    return f"(test_derive.py:{function.__code__.co_firstlineno + offset})"


def derived(f, *args, of=None, name="x", **options):
    return bp.derive(bp.probe(f, partials=True, **options)(*args), name, of)


def head(derivation):
    return derivation.text.splitlines()[0]


def double(value):
    return torch.tensor(value, dtype=torch.float64)


# the derivation of the seed


def test_the_seed_s_derivation_is_generated_with_the_recorded_numbers():
    derivation = derived(composed, 1.0)
    assert derivation.text == (
        "∂y/∂x = ∂y/∂z · ∂z/∂x = (2z+2)·2 = 6·2 = 12\n"
        "\n"
        f"y = z²+2z+2  {at(func2, 1)}\n"
        f"z = 2x  {at(func, 1)}\n"
        "\n"
        "at x = 1, z = 2, y = 10\n"
        "here z is /func:z, y is return"
    )
    assert derivation.value == 12.0
    assert derivation.paths == [("return", "/func:z", "x")]
    assert derivation.steps == (f"y = z²+2z+2  {at(func2, 1)}", f"z = 2x  {at(func, 1)}")
    assert (derivation.notes, derivation.agrees, derivation.path_count) == ((), True, 1)


def test_the_seed_s_derivation_in_latex():
    derivation = derived(composed, 1.0)
    assert derivation.latex == (
        "\\begin{aligned}\n"
        r"\frac{\partial y}{\partial x} &= \frac{\partial y}{\partial z} \cdot \frac{\partial z}{\partial x} = "
        r"\left(2z+2\right) \cdot 2 = 6 \cdot 2 = 12 \\"
        "\n"
        rf"y &= z^{{2}}+2z+2 \qquad (\mathrm{{test\_derive.py{{:}}{func2.__code__.co_firstlineno + 1}}}) \\"
        "\n"
        rf"z &= 2x \qquad (\mathrm{{test\_derive.py{{:}}{func.__code__.co_firstlineno + 1}}}) \\"
        "\n"
        r"& \mathrm{at\ }x = 1,\ z = 2,\ y = 10 \\"
        "\n"
        r"& \mathrm{here\ z\ is\ {/}func{:}z{,}\ y\ is\ return}"
        "\n"
        "\\end{aligned}"
    )
    assert derivation._repr_latex_() == f"$${derivation.latex}$$"


def test_a_derivation_shows_itself():
    derivation = derived(composed, 1.0)
    assert isinstance(derivation, bp.Derivation)
    assert str(derivation) == derivation.text
    assert repr(derivation) == "<backprobe.Derivation of ∂y/∂x: 1 path, agrees>"


# several paths


def branches(x):
    p = x**2
    q = torch.sin(x)
    s = p * q + x
    return s


def test_each_path_has_a_line_and_the_last_is_their_sum():
    derivation = derived(branches, 2.0)
    assert derivation.text.splitlines()[:4] == [
        "s ← x: ∂s/∂x|direct = 1",
        "s ← p ← x: ∂s/∂p · ∂p/∂x = q·2x = 0.909297·4 = 3.63719",
        "s ← q ← x: ∂s/∂q · ∂q/∂x = p·cos(x) = 4·(-0.416147) = -1.66459",
        "∂s/∂x = 1 + 3.63719 - 1.66459 = 2.9726",
    ]
    assert derivation.paths == [("s", "x"), ("s", "p", "x"), ("s", "q", "x")]
    assert derivation.notes == ("along a path, each factor keeps the other inputs of its step fixed",)


def diamonds(x):
    for _ in range(60):
        a = x * 0.5
        b = torch.sin(x) * 0.5
        x = a + b
    return x


def test_many_paths_are_counted_and_the_rule_is_written_instead():
    derivation = derived(diamonds, double(1.0), name="x#0")
    assert head(derivation) == (
        "∂x#60/∂x#0 = ∂x#60/∂b#0·∂b#0/∂x#0 + ∂x#60/∂a#0·∂a#0/∂x#0 = "
        "∂x#60/∂b#0·0.5·cos(x#0) + ∂x#60/∂a#0·0.5 = 0.0322057·0.270151 + 0.0322057·0.5 = 0.0248032"
    )
    assert derivation.path_count == 2**60
    assert derivation.paths == []
    assert derivation.agrees
    assert derivation.notes[0].startswith("1,152,921,504,606,846,976 paths lead from x#60 to x#0, too many to list")
    assert "and 140 more" in derivation.text
    assert len(derivation.steps) == 180


def wide(x):
    s = x * 0
    for k in range(1, 40):
        u = x * k
        s = s + u
    return s


def test_a_rule_of_many_terms_is_cut_in_the_middle():
    derivation = derived(wide, double(1.0))
    assert derivation.path_count == 40
    assert head(derivation).count("⋯") == 3
    assert head(derivation).endswith("= 780")


def chained(x):
    for _ in range(300):
        x = x * 1.001
    return x


def test_three_hundred_values_in_a_row():
    derivation = derived(chained, double(1.0), name="x#0")
    assert head(derivation) == (
        "∂x#300/∂x#0 = ∂x#300/∂x#299 · ∂x#299/∂x#298 · ∂x#298/∂x#297 · ∂x#297/∂x#296 · ⋯ · "
        "∂x#4/∂x#3 · ∂x#3/∂x#2 · ∂x#2/∂x#1 · ∂x#1/∂x#0 = "
        "1.001·1.001·1.001·1.001·⋯·1.001·1.001·1.001·1.001 = 1.34966"
    )
    assert derivation.agrees
    assert len(derivation.paths[0]) == 301


# how formulas are written

FORMULAS = {
    "x*x*x": ("3x²", "x·x·x"),
    "x**2 + 2*x + 2": ("2x+2", "x²+2x+2"),
    "2 + 2*x + x**2": ("2x+2", "2+2x+x²"),
    "1 - x**3": ("-3x²", "1-x³"),
    "(x - 1)/(x + 1)": ("1/(x+1)-(x-1)/(x+1)²", "(x-1)/(x+1)"),
    "2.5*x": ("2.5", "2.5x"),
    "0.1*x**2": ("0.2x", "0.1x²"),
    "x/2": ("1/2", "x/2"),
    "x**-2": ("-2/x³", "x^(-2)"),
    "x**0.5": ("0.5/x^0.5", "x^0.5"),
    "x**12": ("12x¹¹", "x¹²"),
    "2**x": ("log(2)·2^x", "2^x"),
    "x**x": ("x^x·(log(x)+1)", "x^x"),
    "1.0*x**2.0": ("2x", "1x²"),
    "-(x - 3)": ("-1", "-(x-3)"),
    "torch.exp(-x)": ("-exp(-x)", "exp(-x)"),
    "torch.log(x)": ("1/x", "log(x)"),
    "torch.log2(x)": ("1/(x·log(2))", "log2(x)"),
    "torch.log10(x)": ("1/(x·log(10))", "log10(x)"),
    "torch.log1p(x)": ("1/(x+1)", "log1p(x)"),
    "torch.expm1(x)": ("exp(x)", "expm1(x)"),
    "x.sin()": ("cos(x)", "sin(x)"),
    "torch.cos(2*x)": ("-2·sin(2x)", "cos(2x)"),
    "torch.tan(x)": ("tan(x)²+1", "tan(x)"),
    "torch.arcsin(x/4)": ("1/(4·sqrt(1-x²/16))", "asin(x/4)"),
    "torch.acos(x/4)": ("-1/(4·sqrt(1-x²/16))", "acos(x/4)"),
    "torch.atan(x)": ("1/(x²+1)", "atan(x)"),
    "torch.sinh(x)": ("cosh(x)", "sinh(x)"),
    "torch.cosh(x)": ("sinh(x)", "cosh(x)"),
    "torch.tanh(x)": ("1-tanh(x)²", "tanh(x)"),
    "torch.sigmoid(x)": ("sigmoid(x)·(1-sigmoid(x))", "sigmoid(x)"),
    "F.softplus(x)": ("exp(x)/(exp(x)+1)", "softplus(x)"),
    "F.silu(x, inplace=False)": ("x·sigmoid(x)·(1-sigmoid(x))+sigmoid(x)", "silu(x)"),
    "torch.relu(x)": ("[x>0]", "relu(x)"),
    "abs(x)": ("sign(x)", "|x|"),
    "x.abs()**2": ("2·|x|·sign(x)", "|x|²"),
    "torch.sqrt(x)": ("1/(2·sqrt(x))", "sqrt(x)"),
    "torch.rsqrt(x)": ("-1/(2·x^(3/2))", "rsqrt(x)"),
    "torch.square(x)": ("2x", "square(x)"),
    "torch.reciprocal(x)": ("-1/x²", "reciprocal(x)"),
    "torch.neg(x)": ("-1", "-x"),
    "torch.erf(x)": ("2·exp(-x²)/sqrt(π)", "erf(x)"),
    "torch.sub(x, 3)": ("1", "x-3"),
    "torch.mul(x, 3)": ("3", "x·3"),
    "torch.add(x, 3, alpha=1)": ("1", "x+3"),
    "x.pow(3)": ("3x²", "x³"),
    "torch.maximum(x, x/2)": ("[x/2>0]-[-x/2>0]/2+[-x/2>0]", None),
}


@pytest.mark.parametrize("expression", FORMULAS)
def test_an_expression_and_its_derivative_as_text(expression, tmp_path):
    derivation = derived(written(expression, tmp_path), double(1.7))
    slope, formula = FORMULAS[expression]
    assert derivation.notes == ()
    assert derivation.agrees
    if formula is not None:
        assert head(derivation).split(" = ")[1] == slope
        assert derivation.steps[0].split("  (")[0] == f"y = {formula}"


def written(expression, folder, arguments="x"):
    """A function whose only statement binds ``y`` to this expression."""
    text = (
        f"import torch\nimport torch.nn.functional as F\n\n\ndef f({arguments}):\n    y = {expression}\n    return y\n"
    )
    return load(text, folder / "program.py")


def test_gelu_is_the_exact_one_only(tmp_path):
    assert derived(written("F.gelu(x)", tmp_path), double(1.0)).notes == ()
    derivation = derived(written("F.gelu(x, approximate='tanh')", tmp_path), double(1.0))
    assert derivation.notes == (
        "`F.gelu(x, approximate='tanh')` is called in a way that has no formula: the recorded partial 1.08296 stands "
        "for ∂y/∂x",
    )


def test_an_exponent_that_is_a_recorded_number():
    def f(x, n):
        y = x**n
        return y

    assert head(derived(f, double(2.0), 3)) == "∂y/∂x = n·x^(n-1) = 12"


# names

NAMES = ("beta", "S", "N", "E", "I", "O", "Q", "pi", "oo", "zoo", "lambda_", "exp", "δx", "λ", "x1", "__class__", "e")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_means_something_to_sympy_is_only_a_name(name, tmp_path):
    text = f"def f(x, {name}):\n    y = x * {name}\n    return y\n"
    derivation = derived(load(text, tmp_path / "program.py"), 2.0, 3.0)
    assert head(derivation) == f"∂y/∂x = {name} = 3"
    assert derivation.steps[0].startswith(f"y = x·{name}  (")


def latex_of(name):
    from backprobe.derive.notation import Latex

    return Latex().name(name)


LATEX = {
    "x": "x",
    "beta": r"\beta",
    "x1": "x_{1}",
    "lambda_": r"\mathrm{lambda\_}",
    "self.scale": r"\mathrm{self.scale}",
    "z[0]": r"\mathrm{z[0]}",
    "/func:z": r"\mathrm{{/}func{:}z}",
    "u#1": r"\mathrm{u\#1}",
    "d.a{$\\%&_^~}": r"\mathrm{d.a\{\$\backslash \%\&\_{\wedge}{\sim}\}}",
    "d.`a.b`": r"\mathrm{d.\text{`}a.b\text{`}}",
    "d['k']": r"\mathrm{d[\text{'}k\text{'}]}",
    "a\nb": r"\mathrm{a\backslash nb}",
    "λ": r"\mathrm{λ}",
}


@pytest.mark.parametrize("name", LATEX)
def test_a_name_in_latex(name):
    assert latex_of(name) == LATEX[name]


def odd(x):
    d = {"a$b{\\}_%&": x * 2.0}
    y = d["a$b{\\}_%&"] * 3.0
    return y


def balanced(latex):
    """Are the braces of a LaTeX text balanced, and is every special character in it escaped?"""
    depth, rest = 0, re.sub(r"\\([A-Za-z]+|.)", "", latex)
    for character in rest:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0 and not set("$%#~") & set(rest)


def test_keys_with_everything_that_latex_uses_are_escaped():
    derivation = derived(odd, 1.0)
    assert derivation.agrees
    assert head(derivation) == "∂y/∂x = ∂y/∂d.a$b{\\}_%& · ∂d.a$b{\\}_%&/∂x = 3·2 = 6"
    assert balanced(derivation.latex)
    assert not balanced("a_{b") and not balanced("a$b")


def test_names_of_called_functions_are_bracketed_where_a_formula_could_be_misread():
    def f(x):
        w = func(x) + func(3 * x)
        return w

    derivation = derived(f, 1.0)
    assert derivation.steps[0] == f"w = ‹/func#0:z›+‹/func#1:z›  {at(f, 1)}"
    assert derivation.text.splitlines()[2] == "∂w/∂x = 2 + 6 = 8"


def test_calls_are_told_apart_in_the_order_in_which_they_return():
    def f(x):
        w = func(func(x)) * func(x + 1)
        return w

    rec = bp.probe(f, partials=True)(double(1.0))
    assert [(read.spelled, read.name) for read in rec["w"].reads if "()" in read.spelled] == [
        ("func()", "/func#0:z"),
        ("func()", "/func#1:z"),
        ("func()", "/func#2:z"),
    ]
    derivation = bp.derive(rec, "x")
    assert derivation.steps[0] == f"w = ‹/func#1:z›·‹/func#2:z›  {at(f, 1)}"
    assert (derivation.value, derivation.agrees) == (24.0, True)
    assert derivation.notes == (
        "along a path, each factor keeps the other inputs of its step fixed",
        "no expression is recorded for /func#2:x (`def func(x):`): the recorded partial 1 stands for ∂‹/func#2:x›/∂x",
    )


def test_a_function_of_yours_that_is_called_like_a_known_one_is_followed():
    def sigmoid(x):
        k = 3 * x
        return k

    def f(x):
        y = sigmoid(x) + 1
        return y

    assert head(derived(f, 1.0)) == "∂y/∂x = ∂y/∂k · ∂k/∂x = 1·3 = 3"


def test_leaves_of_containers_and_versions_of_a_name():
    def f(x):
        pair = (x * 2, x * 3)
        u = pair[0] * pair[1]
        u += x
        return u

    derivation = derived(f, double(1.0))
    assert derivation.text.splitlines()[3] == "∂u#1/∂x = 1 + 6 + 6 = 13"
    assert [step.split("  (")[0] for step in derivation.steps] == [
        "u#1 = u#0+x",
        "u#0 = pair.0·pair.1",
        "pair.1 = x·3",
        "pair.0 = x·2",
    ]


class Inner(Parts):
    def forward(self, h):
        o = h**2 + self.bias
        return o


class Outer(Parts):
    def forward(self, x):
        h = self.scale * x
        return self.inner(h) * self.inner.bias


def test_parameters_and_returned_values_of_modules():
    inner = Inner(bias=torch.nn.Parameter(torch.tensor(0.5)))
    model = Outer(scale=torch.nn.Parameter(torch.tensor(2.0)), inner=inner)
    rec = bp.probe(model, ["**", "**:**"], partials=True)(torch.tensor(3.0))
    assert head(bp.derive(rec, "scale")) == (
        "∂return/∂scale = ∂return/∂o · ∂o/∂h · ∂h/∂scale = inner.bias·2h·x = 0.5·12·3 = 18"
    )
    derivation = bp.derive(rec, "inner.bias")
    assert derivation.text.splitlines()[:3] == [
        "return ← inner.bias: ∂return/∂inner.bias|direct = o = 36.5",
        "return ← o ← inner.bias: ∂return/∂o · ∂o/∂inner.bias = inner.bias·1 = 0.5·1 = 0.5",
        "∂return/∂inner.bias = 36.5 + 0.5 = 37",
    ]
    assert "here o is inner:o" in derivation.text


# where a recorded number stands


SCALE = 3.0

STANDS = {
    "x * SCALE": "`SCALE` is not recorded",
    "x * 2 if x > 0 else x": "`x * 2 if x > 0 else x` is not arithmetic",
    "x.clone()": "`x.clone()` is not arithmetic",
    "torch.add(x, x, alpha=2)": "`torch.add(x, x, alpha=2)` is called in a way that has no formula",
    "x * torch.sum(x)": "`torch.sum(x)` is not arithmetic",
    "[x * 2][0]": "`[x * 2][0]` is not arithmetic",
    "x * (10**400 > 3)": "`10 ** 400 > 3` is not arithmetic",
    "x.detach() * x": "`x.detach()` is not arithmetic",
    "x * True": "`True` is not a real number",
    "x * 2 + float('1e400') * 0.0 + 0 * x": "`float('1e400')` is not arithmetic",
    "torch.clamp(x, max=9.0) * 2": "`torch.clamp(x, max=9.0)` is not arithmetic",
}


@pytest.mark.parametrize("expression", STANDS)
def test_what_is_no_formula_keeps_its_recorded_partial(expression, tmp_path):
    f = written(expression, tmp_path)
    f.__globals__["SCALE"] = SCALE
    rec = bp.probe(f, partials=True)(double(2.0))
    derivation = bp.derive(rec, "x")
    number = f"{rec['x'].grad.item():.6g}"
    assert head(derivation) == f"∂y/∂x = {number}"
    assert derivation.notes == (f"{STANDS[expression]}: the recorded partial {number} stands for ∂y/∂x",)
    assert derivation.agrees


def test_a_value_that_is_bound_within_the_expression_is_a_part_of_its_formula():
    def f(x):
        y = (t := x * 2) * 3
        return y

    derivation = derived(f, 1.0)
    assert head(derivation) == "∂y/∂x = ∂y/∂t · ∂t/∂x = 3·2 = 6"
    assert derivation.notes == ()
    assert derivation.steps[0].startswith("y = t·3  ")


@pytest.mark.parametrize(
    ("expression", "point", "kink", "partial"),
    [
        ("torch.relu(2*x)", 0.0, "relu has a kink at 2x = 0", "0"),
        ("abs(x)", 0.0, "abs has a kink at x = 0", "0"),
        ("torch.maximum(x**2, x)", 1.0, "maximum has a kink at x² = x", "1.5"),
        ("torch.minimum(x**2, x)", 1.0, "minimum has a kink at x² = x", "1.5"),
    ],
)
def test_at_a_kink_the_recorded_partial_stands(expression, point, kink, partial, tmp_path):
    derivation = derived(written(expression, tmp_path), double(point))
    assert derivation.notes == (f"{kink}: the recorded partial {partial} stands for ∂y/∂x",)
    assert head(derivation) == f"∂y/∂x = {partial}"
    assert derivation.agrees


def test_a_kink_says_nothing_about_a_factor_that_does_not_meet_it():
    def f(x, b):
        y = torch.relu(x) + b**2
        return y

    assert head(derived(f, double(0.0), double(3.0), name="b")) == "∂y/∂b = 2b = 6"


Lies = custom("Lies", lambda x: x * 3, lambda grad, x: grad * 5)


def test_a_derivative_that_is_not_the_formula_s_disagrees():
    def exp(x):
        return Lies.apply(x)

    class Holder:
        square = staticmethod(lambda x: Lies.apply(x))

    def f(x, h):
        y = h.square(x)
        return y

    derivation = bp.derive(reworded(bp.probe(f, partials=True)(double(3.0), Holder), "y", "x * 3"), "x")
    assert derivation.notes == ("its derivative gives 3 where 5 is recorded: the recorded partial 5 stands for ∂y/∂x",)
    assert not derivation.agrees
    assert repr(derivation).endswith("disagrees>")


def reworded(rec, name, expression, **changes):
    """The recording with another expression for one of its entries."""
    entries = tuple(
        dataclasses.replace(entry, source=dataclasses.replace(entry.source, expression=expression, calls=()), **changes)
        if entry.name == name
        else entry
        for entry in rec.record.entries
    )
    return bp.Recording(dataclasses.replace(rec.record, entries=entries))


def squared(x):
    v = x * 2
    y = v * v
    return y


def test_a_value_that_is_not_the_formula_s_disagrees():
    derivation = bp.derive(reworded(bp.probe(squared, partials=True)(1.5), "y", "v * 3"), "x")  # 9, as v * v here
    assert derivation.notes == ("its derivative gives 3 where 6 is recorded: the recorded partial 6 stands for ∂y/∂v",)
    assert not derivation.agrees
    derivation = bp.derive(reworded(bp.probe(squared, partials=True)(1.5), "y", "v * 4"), "x")
    assert derivation.notes == ("`v * 4` gives 12 where 9 is recorded: the recorded partial 6 stands for ∂y/∂v",)


def test_a_hook_that_changes_a_gradient_is_said():
    def f(x):
        u = x * 2
        u.register_hook(lambda g: g * 10)
        y = u**2
        return y

    derivation = derived(f, 2.0)
    assert derivation.text.splitlines()[:2] == [
        "the recorded partials give: ∂y/∂u · ∂u/∂x = 2u·2 = 8·2 = 16",
        "recorded: ∂y/∂x = 160",
    ]
    assert (derivation.value, derivation.agrees) == (160.0, False)
    assert derivation.notes[-1].startswith("the recorded partials do not give the recorded gradient: a hook changes it")


def test_complex_values_stand_as_recorded():
    def f(x):
        z = torch.complex(x, x)
        w = z * z
        y = w.abs()
        return y

    derivation = derived(f, 2.0)
    assert head(derivation).endswith("= 8")
    assert "w is complex: the Jacobian ∂w/∂z of shape () × () is not written out" in derivation.notes


# texts that mean harm

HARMFUL = [
    "__import__('os').system('touch HACKED')",
    "v(v)(v)",
    "10**4000*v",
    "v*1e400",
    "v*" + "9" * 5000,
    "-" * 500 + "v",
    "(" * 500 + "v" + ")" * 500,
    "v" + ".exp()" * 500,
    "v**10**10**10",
    "2**2**2**2**2**2*v",
    "v\x00",
    "\ud800",
    "v.__class__",
    "lambda: v",
    "f'{v}'",
    "[v for v in v]",
    "exp(exp(exp(9)))*v",
    "v**(10**300)",
    "v/0",
    "1/0*v",
    "+".join(["v"] * 300),
    "sin(" * 39 + "v" + ")" * 39,
    "v; v",
    "   ",
    "v*1j",
    "'a'*v",
    "add(*v)",
    "await v",
    "(10**300+7)**(1/3)*v",
    "v if v else v",
    "v['$\\\\{}']",
    "maximum(exp(exp(100)), v)",
    "log(v**1000)",
    "x*v*v",
]


@pytest.mark.parametrize("expression", HARMFUL)
def test_no_text_of_a_recording_is_run_or_hangs(expression, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    derivation = bp.derive(reworded(bp.probe(squared, partials=True)(double(1.5)), "y", expression), "x")
    assert head(derivation) == "∂y/∂x = ∂y/∂v · ∂v/∂x = 6·2 = 12"
    assert len(derivation.notes) == 1
    assert not list(tmp_path.iterdir())
    assert balanced(derivation.latex)


HARMFUL_AND_RIGHT = [
    "v*v + 0*exp(exp(6))",
    "v*v + 2**2**2**2**2**0 - 65536",
    "v*v*1e300*1e-300",
    "v*v + 0*(10**300+7)**(1/3)",
    "v**2 + 0*v**(10**2)",
    "v*v + 0*sqrt(exp(2)) + 0*v",
]


@pytest.mark.parametrize("expression", HARMFUL_AND_RIGHT)
def test_constants_that_sympy_could_not_finish_do_not_reach_it(expression):
    derivation = bp.derive(reworded(bp.probe(squared, partials=True)(double(1.5)), "y", expression), "x")
    assert derivation.value == 12.0
    assert derivation.agrees


def test_the_whole_package_evaluates_no_text():
    folder = Path(sys.modules["backprobe.derive"].__file__).parent
    text = "\n".join(file.read_text() for file in folder.glob("*.py"))
    for word in ("eval(", "exec(", "compile(", "sympify", "parse_expr", "lambdify", "sympy.S("):
        assert not re.search(rf"(?<![\w.]){re.escape(word)}", text), word
    assert not re.search(r"^ *(import|from) (torch|tensorflow|jax)", text, re.MULTILINE)


def test_what_derives_is_imported_only_when_something_is_derived():
    code = "import re, sys, backprobe.derive; print([m for m in sys.modules if re.search('sympy|numpy|derive', m)])"
    assert printed(python("-c", code)) == "['backprobe.derive']\n"


# tensors


def test_elementwise_factors_of_small_tensors_in_numbers():
    def f(x, b):
        u = torch.exp(x) * b
        s = u.sum()
        return s

    rec = bp.probe(f, partials=True)(torch.zeros(2, 3), torch.tensor([1.0, 2.0, 3.0]))
    derivation = bp.derive(rec, "x")
    assert derivation.text.splitlines()[:3] == [
        "∂s/∂x = ∂s/∂u · ∂u/∂x = [[1, 1, 1], [1, 1, 1]]·b·exp(x) = "
        "[[1, 1, 1], [1, 1, 1]]·[[1, 2, 3], [1, 2, 3]] = [[1, 2, 3], [1, 2, 3]]",
        "",
        "∂u/∂x = b·exp(x) = [[1, 2, 3], [1, 2, 3]]",
    ]
    assert derivation.notes == (
        "`u.sum()` is not arithmetic: the recorded partial stands for ∂s/∂u",
        "between tensors, · is elementwise, and a broadcast value sums over the elements that it was copied to",
    )
    broadcast = bp.derive(rec, "b")
    assert head(broadcast).endswith("= [2, 2, 2]")
    assert broadcast.agrees


def test_large_tensors_by_shape_and_rms():
    def f(x):
        u = x * 2
        s = u.mean()
        return s

    derivation = derived(f, torch.ones(20, 30))
    assert head(derivation) == "∂s/∂x = ∂s/∂u · ∂u/∂x = ∂s/∂u·2 = 20×30 float32 rms 0.00333 max 0.00333"
    assert "∂u/∂x = 2 = 20×30 rms 2 max 2" in derivation.text
    larger = derived(f, torch.ones(200, 300))
    assert "∂u/∂x = 2 = 200×300 rms 2 max 2 at 10,000 of 60,000 elements" in larger.text
    assert larger.agrees


def test_matrix_products_are_named_and_not_written_out():
    def f(x, W):
        y = x @ W
        z = torch.tanh(y)
        s = z.sum()
        return s

    derivation = derived(f, torch.ones(3, 4), torch.ones(4, 5), name="W")
    assert head(derivation).startswith(
        "∂s/∂W = ∂s/∂z · ∂z/∂y · ∂y/∂W = ∂s/∂z·(1-tanh(y)²)·J[∂y/∂W: (3, 5)×(4, 5)] = 4×5 float32 rms "
    )
    assert derivation.notes[1:] == (
        "matmul is not elementwise: the Jacobian ∂y/∂W of shape (3, 5) × (4, 5) is not written out",
        "between tensors, · is elementwise, and a broadcast value sums over the elements that it was copied "
        "to; with J it is a vector-Jacobian product",
    )
    assert derivation.agrees


def test_several_paths_between_tensors_sum_the_contributions():
    def f(x):
        u = x * 2
        v = x**2
        s = (u * v).sum()
        return s

    derivation = derived(f, torch.tensor([1.0, 2.0]))
    assert derivation.text.splitlines()[:3] == [
        "s ← u ← x: ∂s/∂u · ∂u/∂x = [1, 4]·2 = [1, 4]·[2, 2] = [2, 8]",
        "s ← v ← x: ∂s/∂v · ∂v/∂x = [2, 4]·2x = [2, 4]·[2, 4] = [4, 16]",
        "∂s/∂x = [2, 8] + [4, 16] = [6, 24]",
    ]


def test_a_kink_met_by_some_elements():
    def f(x):
        a = torch.relu(x)
        s = a.sum()
        return s

    derivation = derived(f, torch.tensor([0.0, 1.0, -1.0]))
    assert derivation.notes[1] == (
        "relu has a kink at x = 0, reached by 1 of 3 elements: the Jacobian ∂a/∂x of shape (3,) × (3,) is not written "
        "out"
    )
    assert derivation.agrees


def test_a_wrong_elementwise_derivative_is_found_in_one_element():
    def f(x):
        v = x * 2
        y = v * v
        s = y.sum()
        return s

    rec = bp.probe(f, partials=True)(torch.tensor([2.0, 3.0]))
    edge = rec["y"].inputs[0]
    wrong = dataclasses.replace(edge, contribution=edge.contribution + torch.tensor([0.0, 0.1]))
    entries = tuple(dataclasses.replace(e, inputs=(wrong,)) if e.name == "y" else e for e in rec.record.entries)
    derivation = bp.derive(bp.Recording(dataclasses.replace(rec.record, entries=entries)), "x")
    assert not derivation.agrees
    assert any(note.startswith("its derivative gives 12 where 12.1 is recorded") for note in derivation.notes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_dtype_is_checked_to_half_its_digits(dtype):
    def f(x):
        u = torch.tanh(x) * 3
        y = u.exp() / 7
        return y

    derivation = derived(f, torch.tensor(1.3, dtype=dtype))
    assert derivation.agrees
    assert derivation.notes == ()


def test_saturation_is_rounding_and_no_disagreement():
    def f(x):
        y = torch.tanh(x) + torch.sigmoid(2 * x)
        return y

    derivation = derived(f, torch.tensor(8.0))
    assert (derivation.agrees, derivation.notes) == (True, ())


# cotangents, other outputs, one value


def test_a_cotangent_is_a_factor_of_its_own():
    def f(x):
        y = x**2
        return y

    assert head(derived(f, 2.0, cotangent=torch.tensor(-3.0))) == "-3 · ∂y/∂x = -3·2x = -3·4 = -12"
    vector = derived(f, torch.tensor([1.0, 2.0]), cotangent=torch.tensor([1.0, 10.0]))
    assert head(vector) == "cotangent · ∂y/∂x = cotangent·2x = cotangent·[2, 4] = [2, 40]"
    assert vector.notes[-1] == "backward started from the given cotangent, which multiplies every term"


def test_the_output_by_itself():
    derivation = derived(squared, 1.5, name="y")
    assert head(derivation) == "∂y/∂y = 1"
    assert (derivation.paths, derivation.agrees, derivation.steps) == ([("y",)], True, ())


def test_the_derivative_of_another_value_than_the_output():
    derivation = derived(branches, 2.0, of="p")
    assert head(derivation) == "∂p/∂x = 2x = 4"
    assert derivation.value == 4.0
    assert derived(branches, 2.0, of="s").value == derived(branches, 2.0).value


def test_a_derivative_between_tensors_that_was_not_recorded_is_refused():
    def f(x):
        u = x * 2
        v = u * 3
        return v.sum()

    assert message(bp.BadOption, lambda: derived(f, torch.ones(3), of="v")) == (
        "∂v/∂x was not recorded\n"
        "  asked: bp.derive(rec, 'x', of='v')\n"
        "  found: v between them is not a single number\n"
        "  why:   the recorded gradients are of the output, and the partials of tensors cannot be multiplied out\n"
        "  next:  bp.probe(f, of=..., partials=True), with that value as the output"
    )


# what cannot be derived


def test_a_recording_without_partials():
    assert message(bp.BadOption, lambda: bp.derive(bp.probe(squared)(1.0), "x")) == (
        "the recording has no partials\n"
        "  asked: bp.derive(rec, 'x')\n"
        "  found: a recording without partials\n"
        "  why:   the factors of the chain rule are checked against local partials\n"
        "  next:  bp.probe(f, partials=True)"
    )


def test_something_that_is_no_recording():
    with pytest.raises(bp.BadOption, match="derive takes a recording, not a function"):
        bp.derive(squared, "x")


def test_a_value_without_gradient_and_an_unknown_name():
    def f(x, n):
        with torch.no_grad():
            c = x * 2
        return x * n + c

    rec = bp.probe(f, partials=True)(1.0, 3)
    with pytest.raises(bp.NoGradient, match="'c' has no gradient: no_grad"):
        bp.derive(rec, "c")
    with pytest.raises(bp.NoGradient, match="'n' has no gradient: not_tensor"):
        bp.derive(rec, "n")
    with pytest.raises(bp.UnknownName, match="no value is named 'xx'"):
        bp.derive(rec, "xx")


def test_of_what_does_not_depend_on_the_value():
    assert message(bp.BadOption, lambda: derived(branches, 2.0, name="s", of="x")) == (
        "x does not depend on s\n"
        "  asked: bp.derive(rec, 's', of='x')\n"
        "  found: s depends on x\n"
        "  next:  bp.derive(rec, 'x', of='s')"
    )
    with pytest.raises(bp.BadOption, match="q does not depend on p\n.*\n  found: no path of recorded values"):
        derived(branches, 2.0, name="p", of="q")


def linked(rec, name, *sources):
    """The recording with these inputs of one of its entries."""
    known = list(rec)
    edges = tuple(
        bp.Edge(
            known.index(source) if source in known else len(known), torch.tensor(1.0), torch.tensor(1.0), name=source
        )
        for source in sources
    )
    entries = tuple(dataclasses.replace(e, inputs=edges) if e.name == name else e for e in rec.record.entries)
    return bp.Recording(dataclasses.replace(rec.record, entries=entries))


def test_a_damaged_recording_is_refused_and_never_walked_for_ever():
    rec = bp.probe(squared, partials=True)(1.5)
    with pytest.raises(bp.BadRecording, match="values that flow into themselves, in a circle"):
        bp.derive(linked(rec, "x", "y"), "x")
    with pytest.raises(bp.BadRecording, match="'nobody' flows into 'y', and no entry has that name"):
        bp.derive(linked(rec, "y", "nobody"), "x")


def test_a_gradient_without_a_recorded_path():
    derivation = bp.derive(linked(bp.probe(squared, partials=True)(1.5), "y"), "x")
    assert head(derivation) == "∂y/∂x = 12"
    assert derivation.notes == ("no path of recorded values leads from y to x: only the recorded gradient is shown",)


def test_several_outputs_want_of():
    rec = bp.probe(branches, partials=True)(2.0)
    positions = tuple(at for at, name in enumerate(rec) if name in ("p", "s"))
    several = bp.Recording(dataclasses.replace(rec.record, outputs=positions))
    with pytest.raises(bp.BadOption, match="2 values were differentiated"):
        bp.derive(several, "x")
    assert bp.derive(several, "x", of="p").value == 4.0


def test_a_value_that_is_lost_cannot_be_checked():
    rec = bp.probe(squared, partials=True)(double(1.5))
    lost = tuple(
        dataclasses.replace(entry, held_value=Lost(Reason("overwritten_unseen"))) if entry.name == "v" else entry
        for entry in rec.record.entries
    )
    derivation = bp.derive(bp.Recording(dataclasses.replace(rec.record, entries=lost)), "x")
    assert head(derivation) == "∂y/∂x = ∂y/∂v · ∂v/∂x = 6·2 = 12"
    assert derivation.notes == (
        "the value of v was overwritten: the recorded partial 6 stands for ∂y/∂v",
        "the value of v was overwritten: the recorded partial 2 stands for ∂v/∂x",
    )
    assert "at x = 1.5, y = 9" in derivation.text


def test_a_formula_that_leaves_the_range_of_doubles_does_not_disagree():
    def f(x):
        y = torch.relu(x) ** -2
        return y

    derivation = derived(f, double(-1.0))
    assert derivation.agrees
    assert derivation.notes == (
        "its derivative is not finite in double precision here: the recorded partial 0 stands for ∂y/∂x",
    )


def test_what_flows_through_an_opaque_value_is_on_no_path():
    def f(x):
        u = x * 2
        v = u + 1
        u.data.mul_(3.0)
        y = v * v + x
        return y

    rec = bp.probe(f, partials=True)(double(1.0))
    assert (rec["u"].status, rec["x"].grad.item()) == ("opaque", 13.0)
    derivation = bp.derive(rec, "x")
    assert derivation.text.splitlines()[:2] == ["the recorded partials give: 1", "recorded: ∂y/∂x = 13"]
    assert derivation.notes == ("the gradient of u is opaque: paths through it are not shown",)
    assert derivation.agrees


# loaded recordings


@pytest.mark.parametrize("to", ["torch", "numpy"])
def test_a_loaded_recording_derives_the_same(to, tmp_path):
    rec = bp.probe(composed, partials=True)(torch.tensor(1.0))
    assert bp.derive(round_trip(rec, tmp_path, to=to), "x").text == bp.derive(rec, "x").text


def test_bfloat16_loads_to_numpy_with_its_own_precision(tmp_path):
    rec = bp.probe(branches, partials=True)(torch.tensor([2.1], dtype=torch.bfloat16))
    assert bp.derive(round_trip(rec, tmp_path, to="numpy"), "x").agrees


def test_reads_that_name_no_entry_are_no_symbols():
    rec = reworded(
        bp.probe(squared, partials=True)(1.5),
        "y",
        "v * w",
        reads=(bp.Read("v", 1, name="v"), bp.Read("w", 9, name="gone")),
    )
    assert bp.derive(rec, "x").notes == ("`w` is not recorded: the recorded partial 6 stands for ∂y/∂v",)


def test_one_tensor_under_two_names_is_one_symbol():
    def product(a, b):
        p = a * b
        return p

    def f(x):
        return product(x, x)

    assert head(derived(f, double(3.0))) == "∂p/∂x = 2x = 6"


def test_a_nan_is_a_number_like_any_other():
    def f(x):
        y = torch.log(x)
        return y

    derivation = derived(f, double(-1.0))
    assert derivation.steps[0].startswith("y = log(x)")
    assert derivation.agrees
    assert math.isnan(bp.derive(bp.probe(f, partials=True)(double(float("nan"))), "x").value)
    assert head(derived(f, double(0.0))) == "∂y/∂x = 1/x = inf"


# what a name in the source stands for


leaky = torch.nn.LeakyReLU(0.1)
minus = functools.partial(torch.sub, other=1.0)


def test_a_callable_that_has_the_name_of_a_library_function_is_not_taken_for_it():
    def f(x, relu, log):
        u = x * 2
        y = relu(u)
        z = log(y)
        return z

    rec = bp.probe(f, partials=True, wrt="x")(double(3.0), leaky, minus)
    derivation = bp.derive(rec, "x")
    assert head(derivation).startswith("∂z/∂x = ∂z/∂y · ∂y/∂u · ∂u/∂x = 1·1·2 = 2")
    assert derivation.notes[0].startswith("`log(y)` is not arithmetic")
    assert derivation.notes[1].startswith("`relu(u)` is not arithmetic")


def test_a_function_by_another_name_is_what_it_is():
    def f(x):
        rectify = torch.nn.functional.relu
        y = rectify(x) + torch.sin(x).cos()
        return y

    assert derived(f, 3.0).steps[0].startswith("y = relu(x)+cos(sin(x))  ")


def test_a_function_of_the_user_s_under_a_library_name_is_followed():
    def f(x):
        log = lambda t: t * t
        y = log(x) + 1
        return y

    derivation = derived(f, 3.0)
    assert (derivation.agrees, derivation.notes, derivation.value) == (True, (), 6.0)


def test_the_constant_pi_and_variables_of_that_name_differ():
    def f(pi):
        return torch.nn.functional.gelu(pi)

    def g(π):
        return torch.nn.functional.gelu(π)

    plain, odd = (bp.probe(each, partials=True)(double(3.0)) for each in (f, g))
    assert "pi·exp(-pi²/2)/(2·sqrt(π))" in head(bp.derive(plain, "pi"))
    assert "‹π›·exp(-‹π›²/2)/(2·sqrt(π))" in head(bp.derive(odd, "π"))
    assert r"\mathrm{pi}" in bp.derive(plain, "pi").latex


def test_a_number_never_runs_into_a_name_that_reads_as_an_exponent():
    def f(e):
        y = e**2 + 3 * e
        return y

    rec = bp.probe(f, partials=True)(double(3.0))
    assert head(bp.derive(rec, "e")) == "∂y/∂e = 2·e+3 = 9"


def test_whole_numbers_are_written_in_full():
    def f(x):
        u = x * 100000001.0
        v = x * 100000000.0
        return u - v

    assert (
        bp.derive(bp.probe(f, partials=True)(double(1.0)), "x").text.splitlines()[2]
        == "∂return/∂x = 100000001 - 100000000 = 1"
    )


def test_a_value_beyond_the_range_of_its_dtype_is_no_disagreement():
    derivation = bp.derive(bp.probe(lambda x: x * x, partials=True)(torch.tensor(1e25)), "x")
    assert derivation.agrees
    assert "overflows the dtype that it is recorded in" in derivation.notes[0]


def test_an_item_of_a_container_is_a_part_of_a_formula():
    def f(x):
        d = {}
        d["k"] = x * 2
        y = d["k"] ** 2
        return y

    assert head(derived(f, 3.0)) == "∂y/∂x = ∂y/∂d['k'] · ∂d['k']/∂x = 2·d['k']·2 = 12·2 = 24"

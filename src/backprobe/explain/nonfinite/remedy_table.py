"""The table of remedies: each row has a formula, the formula to write instead, and the reason why that helps.

``formulas.py`` finds the formulas in a recording, and ``remedies.py`` writes the replacement in the framework's
spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Remedy:
    """A formula, the formula to write instead, and the code of the sentence on why it helps.

    ``codes`` are the mechanisms that the row is for; empty means all. With ``keeps``, finite results must stay the
    same. ``also`` is the name of a dialect's field with further functions of the framework.
    """

    formula: str
    instead: str
    because: str
    codes: frozenset[str] = frozenset()
    keeps: bool = True
    also: str = ""


ZERO = frozenset({"at", "zero_inf", "pole", "pole_nan", "pole_zero", "pole_undefined", "pole_of_result"})
DIVISION = frozenset({"by_zero", "zero_zero", "pole", "pole_nan", "pole_zero"})
OUTSIDE = ZERO | {"outside", "below"}
NEGATIVE = frozenset({"negative_root", "fractional_power", "below"})
OVERFLOW = frozenset({"overflow", "overflow_of"})
ROWS = frozenset({"infinite_row", "pole_of_result"})
TOO_FEW, ALL_IGNORED = frozenset({"too_few"}), frozenset({"all_ignored"})
LOGARITHMS = ("log", "log2", "log10")

CHAINS = (
    Remedy("log(softmax(a))", "log_softmax(a)", "rounded_softmax", also="from_logits"),
    Remedy("log(exp(a) / sum(exp(a)))", "log_softmax(a)", "overflowing_exp", also="from_logits"),
    Remedy("log(sigmoid(a))", "log_sigmoid(a)", "rounded_sigmoid", also="binary_from_logits"),
    Remedy("log(1 - sigmoid(a))", "log_sigmoid(-a)", "rounded_sigmoid", also="binary_from_logits"),
    Remedy("log1p(-sigmoid(a))", "log_sigmoid(-a)", "rounded_sigmoid", also="binary_from_logits"),
    Remedy("log(1 - softmax(a))", "log_of_others(a)", "sum_of_others"),
    Remedy("log1p(-softmax(a))", "log_of_others(a)", "sum_of_others"),
    Remedy("log(sigmoid(a) / (1 - sigmoid(a)))", "a", "inverse_of_sigmoid"),
    Remedy("log(a / (1 - a))", "logit(clamp(a, small, 1 - small))", "logit_at_one"),
    Remedy(
        "log(a / (1 - a))",
        "log(clamp(a, small, 1 - small)) - log1p(-clamp(a, small, 1 - small))",
        "logit_at_one",
    ),
    Remedy("sqrt(softmax(a))", "exp(log_softmax(a) / 2)", "root_of_rounded"),
    Remedy("sqrt(sigmoid(a))", "exp(log_sigmoid(a) / 2)", "root_of_rounded"),
    Remedy("log(1 - exp(a))", "log(-expm1(a))", "cancelled_exp"),
    Remedy("log1p(-exp(a))", "log(-expm1(a))", "cancelled_exp"),
    Remedy("log(1 - exp(a))", "log(-expm1(minimum(a, -tiny)))", "cancelled_exp_at_zero"),
    Remedy("log1p(-exp(a))", "log(-expm1(minimum(a, -tiny)))", "cancelled_exp_at_zero"),
    Remedy("log(1 - tanh(a) ** 2)", "2 * (0.6931471805599453 - a - softplus(-2 * a))", "rounded_tanh"),
    Remedy("log(1 - square(tanh(a)))", "2 * (0.6931471805599453 - a - softplus(-2 * a))", "rounded_tanh"),
    Remedy("log(1 - tanh(a))", "0.6931471805599453 - softplus(2 * a)", "rounded_tanh"),
    Remedy("log(1 + tanh(a))", "0.6931471805599453 - softplus(-2 * a)", "rounded_tanh"),
    Remedy("log(1 / (1 + exp(-a)))", "log_sigmoid(a)", "overflowing_exp", also="binary_from_logits"),
    Remedy("log(sum(exp(a)))", "logsumexp(a)", "overflowing_exp"),
    Remedy("log(cumsum(exp(a)))", "logcumsumexp(a)", "overflowing_exp"),
    Remedy("log(1 + exp(a))", "softplus(a)", "overflowing_exp"),
    Remedy("log1p(exp(a))", "softplus(a)", "overflowing_exp"),
    Remedy("log(exp(a))", "a", "overflowing_exp"),
    Remedy("log(cosh(a))", "a + softplus(-2 * a) - 0.6931471805599453", "overflowing_exp"),
    Remedy("log(prod(a))", "sum(log(a))", "rounded_product"),
    Remedy("(exp(a) - exp(-a)) / (exp(a) + exp(-a))", "tanh(a)", "overflowing_exp"),
    Remedy("exp(a) / sum(exp(a))", "softmax(a)", "overflowing_exp"),
    *(
        Remedy(f"exp({clipped}) / sum(exp(a))", "softmax(a)", "clipped_exp", OVERFLOW, keeps=False)
        for clipped in ("clamp(a)", "minimum(a)", "maximum(minimum(a))")
    ),
    Remedy("1 / (1 + exp(-a))", "sigmoid(a)", "overflowing_exp"),
    Remedy("1 / (1 + exp(a))", "sigmoid(-a)", "overflowing_exp"),
    Remedy("exp(a) / (1 + exp(a))", "sigmoid(a)", "overflowing_exp"),
    Remedy("log(exp(a) - 1)", "a + log(-expm1(-maximum(a, tiny)))", "overflowing_exp", keeps=False),
    Remedy("log(expm1(a))", "a + log(-expm1(-maximum(a, tiny)))", "overflowing_exp", keeps=False),
    Remedy("a / std(b)", "a / sqrt(var(b, correction=0) + tiny)", "one_element", TOO_FEW),
    Remedy("a / norm(b)", "a / sqrt(sum(b ** 2) + tiny)", "divided_by_root", DIVISION),
    Remedy("a / std(b)", "a / sqrt(var(b) + tiny)", "divided_by_root", DIVISION),
    Remedy("a / sqrt(b)", "a / sqrt(b + tiny)", "divided_by_root", DIVISION),
    Remedy("sqrt(exp(a))", "exp(a / 2)", "root_of_exp"),
    Remedy("sqrt(a ** 2)", "abs(a)", "root_of_square"),
    Remedy("sqrt(square(a))", "abs(a)", "root_of_square"),
    Remedy("sqrt(a * a)", "abs(a)", "root_of_square"),
    Remedy("b * log(a)", "b * log(maximum(a, tiny))", "zero_log_zero", frozenset({"zero_inf"})),
)
"""Formulas over several operations. Longer formulas come before those that are parts of them."""

SINGLE = (
    Remedy("sqrt(a)", "sqrt(a + tiny)", "root_at_zero", ZERO),
    Remedy("rsqrt(a)", "rsqrt(a + tiny)", "power_at_zero", ZERO | DIVISION),
    Remedy("norm(a)", "sqrt(sum(a ** 2) + tiny)", "norm_at_zero", ZERO),
    Remedy("std(a)", "sqrt(var(a) + tiny)", "norm_at_zero", ZERO),
    Remedy("std(a)", "std(a, correction=0)", "one_element", TOO_FEW),
    Remedy("var(a)", "var(a, correction=0)", "one_element", TOO_FEW),
    Remedy("hypot(a, b)", "sqrt(a ** 2 + b ** 2 + tiny)", "norm_at_zero", ZERO),
    *(
        Remedy(f"{inverse}(a)", f"{inverse}(clamp(a, -1 + small, 1 - small))", "inverse_at_one", OUTSIDE)
        for inverse in ("acos", "asin", "atanh", "erfinv")
    ),
    Remedy("logit(a)", "logit(clamp(a, small, 1 - small))", "logit_at_one", OUTSIDE),
    Remedy("lgamma(a)", "lgamma(maximum(a, tiny))", "lgamma_at_zero", ZERO),
    Remedy("xlogy(a, b)", "a * log(maximum(b, tiny))", "zero_log_zero", ZERO),
    Remedy("acosh(a)", "acosh(maximum(a, 1 + small))", "inverse_at_one", OUTSIDE),
    Remedy("atan2(a, b)", "atan2(a, where((a == 0) & (b == 0), 1.0, b))", "angle_of_zero", ZERO),
    Remedy("angle(a)", "angle(where(a == 0, 1.0, a))", "angle_of_zero", ZERO),
    *(Remedy(f"{log}(a)", f"{log}(maximum(a, tiny))", "log_of_zero", ZERO) for log in LOGARITHMS),
    Remedy("log1p(a)", "log1p(maximum(a, -1 + small))", "log_of_zero", ZERO),
    Remedy("sqrt(a)", "sqrt(maximum(a, tiny))", "rounded_below_zero", NEGATIVE),
    Remedy("rsqrt(a)", "rsqrt(maximum(a, tiny))", "rounded_below_zero", NEGATIVE),
    Remedy("a ** b", "maximum(a, tiny) ** b", "rounded_below_zero", NEGATIVE),
    *(Remedy(f"{log}(a)", f"{log}(maximum(a, tiny))", "rounded_below_zero", NEGATIVE) for log in LOGARITHMS),
    Remedy("a / b", "a / maximum(b, tiny)", "division_by_zero", DIVISION),
    Remedy("a / b", "where(b == 0, 0.0, a / where(b == 0, 1.0, b))", "division_by_zero", DIVISION),
    Remedy("reciprocal(a)", "1 / maximum(a, tiny)", "division_by_zero", DIVISION),
    Remedy("reciprocal(a)", "where(a == 0, 0.0, 1 / where(a == 0, 1.0, a))", "division_by_zero", DIVISION),
    Remedy("a ** b", "(a + tiny) ** b", "power_at_zero", ZERO | {"zero_to_negative"}),
    Remedy("exp(a)", "exp(minimum(a, middle))", "exp_overflows", OVERFLOW),
    Remedy("exp(a)", "exp(minimum(a, most))", "exp_overflows", OVERFLOW, keeps=False),
    Remedy("expm1(a)", "expm1(minimum(a, middle))", "exp_overflows", OVERFLOW),
    Remedy("expm1(a)", "expm1(minimum(a, most))", "exp_overflows", OVERFLOW, keeps=False),
    Remedy("cosh(a)", "cosh(clamp(a, -most, most))", "exp_overflows", OVERFLOW, keeps=False),
    Remedy("sinh(a)", "sinh(clamp(a, -most, most))", "exp_overflows", OVERFLOW, keeps=False),
    *(
        Remedy(f"{over_row}(a)", f"{over_row}(maximum(a, -large))", "masked_row", ROWS)
        for over_row in ("softmax", "log_softmax", "logsumexp")
    ),
    *(
        Remedy(f"{loss}(a, b)", f"{loss}(a, b, reduction='sum') / maximum(sum(b >= 0), 1)", "no_target", ALL_IGNORED)
        for loss in ("cross_entropy", "nll_loss")
    ),
)
"""Formulas of a single operation, used if no longer formula matches."""

NUMBERS: Mapping[str, Mapping[str, float]] = {
    "float16": {"tiny": 1e-6, "small": 1e-3, "most": 10.0, "middle": 5.0, "large": 1e4},
    "bfloat16": {"tiny": 1e-12, "small": 1e-2, "most": 80.0, "middle": 40.0, "large": 1e9},
    "float64": {"tiny": 1e-12, "small": 1e-6, "most": 700.0, "middle": 350.0, "large": 1e9},
    "": {"tiny": 1e-12, "small": 1e-6, "most": 80.0, "middle": 40.0, "large": 1e9},
}
"""The values of the constants in formulas, by dtype; the last ones are those of float32 and of other dtypes."""

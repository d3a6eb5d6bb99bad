"""The rules: for each kind of finding its statistic, threshold, the source of the threshold, and the required data.

``run.alerts`` applies them to the steps of a run; ``bp.health`` treats a recording as a run of one step. A rule that
needs several steps does not apply to a recording. A rule that needs the units of a layer or the graph does not apply to
a run. The tables of docs/alerts.md and docs/health.md are made from these rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """The rule for a kind of finding: ``statistic`` passes ``threshold``, which comes from ``source``. ``threshold`` is
    0 if ``statistic`` alone says when the rule applies.

    ``needs`` lists the kinds of numbers that must have been watched, "loss" for a logged loss, "steps" for more than
    one step, and "units" or "graph" for data that only recordings have.
    """

    kind: str
    statistic: str
    threshold: float
    source: str
    needs: tuple[str, ...]

    @property
    def means(self) -> str:
        """The rule in words."""
        return f"{self.kind.replace('_', ' ')} means: {self.statistic} ({self.source})"

    @property
    def is_of_runs(self) -> bool:
        return not {"units", "graph"} & {*self.needs}

    @property
    def is_of_recordings(self) -> bool:
        return not {"loss", "steps", "update"} & {*self.needs}


NONE, CHOSEN = "no other threshold", "chosen on the trainings of docs/alerts.md"
AUTOTRAINER = "AutoTrainer"
IEEE = "IEEE 754"
RULES = {
    rule.kind: rule
    for rule in (
        Rule(
            "nonfinite",
            "any NaN or Inf counts; but Inf in values that have it from the first step on, as masks do, and Inf in "
            "gradients of steps that a GradScaler skipped",
            0.0, NONE, ("value", "steps"),
        ),
        Rule(
            "vanishing",
            "the norm of the gradient at the first of three layers or more is below 1/1000 of that at the last, and "
            "below 1/100 without the layer that divides it most; in a run, in 3 steps on end",
            1e-3, AUTOTRAINER, ("grad",),
        ),
        Rule(
            "exploding",
            "the norm of the gradient at the first of three layers or more is above 70 times that at the last; in a "
            "run, in 3 steps on end",
            70.0, AUTOTRAINER, ("grad",),
        ),
        Rule(
            "dead",
            "at least 99 % of the numbers that a layer returns are exactly 0 and none is negative, and a gradient "
            "comes to it; it is the larger of its input and 0, or has been so in 4 steps on end",
            0.99, CHOSEN, ("value",),
        ),
        Rule(
            "large_weights",
            "after the first step half of the layers with a bias have a gain (the rms of the weight times the square "
            "root of its inputs) above 8.4, and return values 3 times as large as what ran before them",
            math.sqrt(70.0), "two such layers exceed AutoTrainer's 70; from 1 to 1.4 preserves the size of values, "
            "LeCun 1998, He et al. 2015", ("value", "param", "steps"),
        ),
        Rule(
            "small_weights", "after the first step half of the layers with a bias have a gain below 0.032",
            math.sqrt(1e-3), "two such layers fall below AutoTrainer's 1/1000", ("param", "steps"),
        ),
        Rule(
            "saturated",
            "the mean derivative of a tanh or sigmoid, 1 - E[y²] or E[y] - E[y²], is below a tenth of the largest in 4 "
            "steps on end, and was in the first step or is below a third of what it was then, and the loss is not "
            "below "
            "half of the first; in a recording, more than half of the inputs of a tanh are beyond ±9.5, of a sigmoid "
            "beyond ±19",
            0.1, CHOSEN, ("value",),
        ),
        Rule(
            "large_values", "in the first step one of the two modules that run first returns values of an rms above 30",
            30.0, "inputs of mean 0 and variance 1 give about 1, He et al. 2015", ("value", "steps"),
        ),
        Rule(
            "no_gradient",
            "a parameter of the optimizer has no gradient in its first 5 steps, if its module runs in each, with or "
            "without gradients, else in 20, and others have one",
            0.0, NONE, ("grad", "param", "steps"),
        ),
        Rule(
            "zero_gradient",
            "every number of a gradient is exactly 0: in a run of a parameter, in 5 steps on end, but not of a bias "
            "whose weight has a gradient, which a difference may cancel; in a recording not of the gradients that it "
            "comes from, and of a line that runs several times in half of the calls",
            0.0, NONE, ("grad",),
        ),
        Rule(
            "zero_gradients",
            "every number of the gradients of all parameters is exactly 0 in 5 steps on end, while the loss is not 0, "
            "or in 15, at once; or their norm falls to 1/10000 in a step and stays there, and the loss does not fall "
            "to a tenth, as at a minimum, or is then 0 or below it for the first time; or no parameter has one as the "
            "optimizer steps",
            1e-4, CHOSEN, ("grad", "steps"),
        ),
        Rule(
            "unchanged",
            "the sum, squares, minimum and maximum of a parameter are the same to the bit, though its gradient is "
            "above 1/1000 of the median of all, and the norm of all of them above 1/10000 of its largest so far: from "
            "the first step to the sixth; later in 20 steps on end, all parameters in 10, and 4 times as many as ever "
            "before",
            0.0, NONE, ("grad", "param", "steps"),
        ),
        Rule(
            "no_step",
            "the optimizer of a parameter does not step in 20 steps on end, and 4 times as many as ever before; or "
            "backward() runs 8 times in a step, and 4 times as often as in any before (20 times, where no optimizer "
            "has "
            "stepped), and nothing ends it",
            0.0, NONE, ("param", "steps"),
        ),
        Rule(
            "left_out",
            "a parameter requires a gradient, and no optimizer of the run has it; one that was frozen at first, in 5 "
            "steps on end",
            0.0, NONE, ("param", "steps"),
        ),
        Rule(
            "accumulated",
            "the first gradients of a step are added to those of the step before, which are still in .grad, untouched, "
            "and are not cleared before the optimizer steps: of some parameter of it, in 3 steps on end",
            0.0, NONE, ("grad", "steps"),
        ),
        Rule(
            "large_updates",
            "the norm of all updates is above a quarter of that of all weights, and of weights with a norm of 1 for "
            "each unit, in 3 steps on end, and the loss has not fallen from each of these to the next; or it is "
            "above a tenth of that of all weights in one of the first 10, and then the loss is above four times its "
            "first in 3 on end; where updates are not watched, by how the mean and the spread of each weight change, "
            "which is less",
            0.25, "about 1/1000 is usual, CS231n; a norm of 1 preserves the size of values, LeCun 1998",
            ("param", "steps"),
        ),
        Rule(
            "small_updates",
            "in half of the first 20 steps the norm of all updates is below 3e-5 of that of all weights, in none above "
            "1/1000, and it does not grow, as in a warm-up; else after 40, 80, ...",
            3e-5, "about 1/1000 is usual, CS231n", ("param", "update"),
        ),
        Rule(
            "shrinking_weights",
            "since the first step the updates of 9 of 10 weights point against them (a cosine below -0.3 by 2.5 "
            "standard errors; it is near 0 for most gradients), and in 5 steps on end they take away more than 1/200, "
            "which halves weights in 140 steps",
            1 / 200, CHOSEN, ("param", "update"),
        ),
        Rule(
            "lost_updates",
            "of the parameters that change at all fewer than 1 of 100 numbers with a gradient do, in each of the first "
            "20 steps, and not ever more, as in a warm-up; else after 40, 80, ...",
            0.01, "measured: docs/useless.md", ("grad", "update"),
        ),
        Rule(
            "underflow",
            "more than half of a gradient's magnitudes are below the smallest normal number of float16 or bfloat16, "
            "where digits are lost, or all became 0; in a run of bp.Pace(histogram=n), where the smallest is a "
            "multiple "
            "of 2⁻²⁴, as float16's are",
            0.5, IEEE, ("grad",),
        ),
        Rule(
            "rising_loss",
            "it jumps and stays up: the last 4, 6 or 8 steps are all above the 40, 18 or 12 before, or the last 16 or "
            "32 above those before by Mann and Whitney's test (4.75 deviations); by a standard deviation and 5 %, more "
            "than a steady rise gives, four fifths of it at once, and half more than it ever rose before; of the last "
            "6 or more, with as many before, two means are nearer to them than a straight line is",
            1.05, CHOSEN, ("loss", "steps"),
        ),
        Rule(
            "falling_loss",
            "it is negative in all steps so far and has fallen by 2.5 standard errors, and from step to step its "
            "gradient grows as it falls, with a correlation below -0.6 by as many (of Fisher's z); near a minimum it "
            "shrinks",
            -0.6, CHOSEN, ("grad", "loss", "steps"),
        ),
        Rule(
            "softmax_twice",
            "what is returned sums to 1 for each row, as probabilities do, its gradient sums to 0, as that of cross "
            "entropy does of logits alone, in 5 steps on end, and the first loss is within 10 % of log(classes)",
            0.0, "an identity, to 1/10000", ("value", "grad", "loss", "steps"),
        ),
        Rule(
            "not_log_probabilities",
            "the gradient of what is returned, or of any value where that is one number, is that of minus the mean of "
            "one number of each row, which the negative log-likelihood has, the largest number is above 1/100, and the "
            "loss is below 0, in 5 steps on end",
            0.01, "log-probabilities are at most 0", ("value", "grad", "param", "loss", "steps"),
        ),
        Rule(
            "oscillating_loss",
            "over 12 steps it turns in most of them, changes by more than 0.4 of its mean in a step, does not fall, "
            "and is above the mean of the first 12 by more than three standard errors",
            0.4, CHOSEN, ("loss", "steps"),
        ),
        Rule(
            "flat_loss",
            "from the first half of 100 steps or more to the second it has fallen by less than 2 %, with twice the "
            "standard error, and at the pace of the last it would not fall by more in as many again",
            0.02, CHOSEN, ("loss", "steps"),
        ),
        Rule(
            "uneven_ranks",
            "of four processes or more the gradients of one are at least twice the median of all, and an outlier by a "
            "modified z-score above 3.5, in at least half of the names that modules return; each by the median of 20 "
            "steps on end",
            2.0, "Iglewicz and Hoaglin 1993 for the score; less than twice may be the batch", ("grad", "steps"),
        ),
        Rule(
            "missing",
            "a parameter that is trained got no gradient, or had none when the optimizer stepped",
            0.0, NONE, ("graph",),
        ),
        Rule(
            "never_called",
            "the same, where all of these are in modules that no iteration called; of a script, 8 are waited for",
            0.0, NONE, ("graph",),
        ),
        Rule(
            "dead_units",
            "more than half of a layer's ReLU units, and not all, are 0 for the whole batch, of at least 8 distinct "
            "rows, by which a healthy unit is 0 for all of them by chance in 1 batch of 256; in a run as many of the "
            "gradients of its bias and of the rows of its weight are exactly 0 in 10 steps on end, in 6 of them the "
            "same number, and in none fewer",
            0.5, "the usual rule", ("value", "grad"),
        ),
        Rule(
            "zero_derivative", "every number of a local partial is exactly 0 (`partials=`)", 0.0, NONE, ("graph",),
        ),
        Rule(
            "large_gradients",
            "the rms is above 10000 at a parameter or another leaf; or, if at none, above 1e8 at any other value, "
            "where "
            "a step against it is lost in float32, or loses what was there",
            1e4, "TorchLens", ("graph",),
        ),
    )
}  # fmt: skip
"""The rules by kind."""

"""Faults that are planted in the trainings beside this file, and the families of these trainings.

A family is a file of the folder of its framework. It has ``HEALTHY`` and ``FAULTY``, settings by name, and ``make``,
which builds a training of a seed and settings. A healthy one is as long as its ``steps``. The settings of a faulty one
have a ``Fault`` as ``fault``, which says how long that training is. A fault is found if something is said in the steps
after it, a tenth of the training long: it is run no longer than that.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
WORDS = {
    "learning_rate": "ris|jump|diverg|explod|large|learning rate|NaN|Inf",
    "wrong_sign": "sign|bound|ris|diverg|NaN|Inf",
    "wrong_labels": "ris|jump",
    "no_step": r"step\(\)|chang|never|updat",
    "left_out": r"step\(\)|chang|never|updat|optimizer",
    "zero_gradients": "zero|vanish|no gradient",
    "cancelling": "cancel|zero|vanish",
    "accumulated": "accumul|zero_grad",
    "stagnation": "round|chang|updat|small",
    "outlier": "outlier|sample|explod|jump|large|grow|ris",
    "dead": "dead|zero|negative",
    "saturated": "satur|vanish",
    "vanishing": "vanish|small",
    "exploding": "explod|large|grow|NaN|Inf",
    "not_finite": "NaN|Inf",
    "too_fast": "ris|jump|diverg|explod|large|learning rate|NaN|Inf|oscillat|dead",
    "detached": "no gradient",
    "unscaled": "large|scale|satur",
    "unlearnable": "flat",
    "softmax_twice": "softmax|flat",
    "underflow": "underflow|zero",
    "decay": "shrink|large|vanish|small",
}
"""The kinds of faults, and which words a headline or remedy has that tells of one: a pattern."""
HARM = {"learning_rate", "wrong_labels", "outlier", "wrong_sign"}
"""Those that are no faults unless the losses show them."""
FROM_THE_START = {"wrong_sign", "stagnation", "vanishing", "exploding", "saturated", "left_out"}


@dataclass(frozen=True)
class Fault:
    """What is planted: its kind, the step from which on it is there, how long the training is, and the fault's size."""

    kind: str
    at: int = 100
    length: int = 400
    size: float = 30.0

    def __post_init__(self):
        assert self.kind in WORDS, self.kind

    @property
    def end(self):
        """The step before which it is to be found."""
        return self.at + self.length // 10

    def does_harm(self, losses):
        """Whether the losses, as they are logged, show the fault, where it is one that they must show."""
        if self.kind not in HARM:
            return True
        last = losses[-self.length // 20 :]
        if not np.isfinite(last).all():
            return True
        if self.kind == "wrong_sign":
            return np.mean(last) < np.mean(losses[:5]) - np.std(losses[:5]) / 2
        before = losses[self.at - 40 : self.at]
        return np.mean(last) > np.mean(before) + 3 * np.std(before) / len(before) ** 0.5


@dataclass(frozen=True)
class Case:
    """A training of a family, by name."""

    family: str
    name: str
    settings: dict
    fault: Fault | None = None

    @property
    def label(self):
        return f"{self.family}: {self.name}"


def has_risen(losses):
    """Whether the last quarter of the losses is above the first tenth, as far as their noise tells."""
    first, last = losses[: len(losses) // 10], losses[-(len(losses) // 4) :]
    noise = (np.var(first) / len(first) + np.var(last) / len(last)) ** 0.5
    return bool(np.mean(last) > np.mean(first) + 2 * noise)


def grid(**settings):
    """All settings of the products of some values, by name."""
    parts = itertools.product(*([(name, value) for value in values] for name, values in settings.items()))
    return {", ".join(f"{name} {value}" for name, value in part): dict(part) for part in parts}


def faults(*kinds, rise=30.0, **settings):
    """Settings with each kind of fault, planted at its usual step; ``rise`` is how much a learning rate rises."""
    made = {kind: Fault(kind, 0 if kind in FROM_THE_START else 100) for kind in kinds}
    made |= {"learning_rate": Fault("learning_rate", size=rise)} if "learning_rate" in kinds else {}
    return {kind: {**settings, "fault": fault} for kind, fault in made.items()}


def families(words=()):
    """The paths of the families, or of those whose path has one of the words."""
    paths = sorted(path for path in HERE.glob("*/*.py") if not path.name.startswith("_"))
    return [path for path in paths if not words or any(word in f"{path.parent.name}/{path.stem}" for word in words)]


def load(path):
    """The module of a family."""
    sys.path[:0] = [each for each in (str(HERE.parent),) if each not in sys.path]
    return importlib.import_module(f"trainings.{path.parent.name}.{path.stem}")


def cases(path):
    """The cases of a family, healthy ones first."""
    module, family = load(path), f"{path.parent.name}/{path.stem}"
    healthy = [Case(family, name, settings) for name, settings in module.HEALTHY.items()]
    faulty = []
    for name, settings in module.FAULTY.items():
        rest = {key: value for key, value in settings.items() if key != "fault"}
        faulty.append(Case(family, name, rest, settings["fault"]))
    return [*healthy, *faulty]

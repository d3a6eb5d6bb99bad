"""Programs of several steps, told twice: with a probe around every step, and with one around a single step alone.

In the second telling nothing is remembered and no probe has seen the model, since the steps before it ran without one.
"""

import contextlib
from dataclasses import dataclass, field

import torch

import backprobe as bp
from backprobe.record.patterns import selection
from same_records import differences, same_tensor


@dataclass
class Left:
    """What a step left behind: its recordings, its error, and the numbers in the model."""

    recordings: list = field(default_factory=list)
    error: tuple = ()
    numbers: list = field(default_factory=list)


class Probing:
    """Probes with what is asked of all: ``with probe(model) as probe.rec:`` keeps the recording."""

    def __init__(self, asked, recordings):
        self.asked, self.recordings = asked, recordings

    def __call__(self, *target, **options):
        return bp.probe(*target, **((self.asked if target else {}) | options))

    @property
    def rec(self):
        return self.recordings[-1]

    @rec.setter
    def rec(self, recording):
        self.recordings.append(recording)


class Unprobed:
    """The same program without a probe."""

    rec = None

    def __call__(self, *target, **options):
        return contextlib.nullcontext()


class Over(Exception):
    """Nothing more of a story is of interest."""


class Telling:
    """One run of a story, with a probe around every step, or around this one alone, which is then the last."""

    def __init__(self, asked, only=None):
        self.asked, self.only = asked, only
        self.left = []
        self.undo = contextlib.ExitStack()

    def __call__(self, step, model, *args, **kwargs):
        """Take a step: ``step(probe, model, …)``, in which ``with probe(model, …) as probe.rec:`` is a block."""
        left, at = Left(), len(self.left)
        probe = Probing(self.asked, left.recordings) if self.only in (None, at) else Unprobed()
        self.left.append(left)
        torch.default_generator.manual_seed(at)  # torch.manual_seed looks for devices each time, and takes longer
        try:
            step(probe, model, *args, **kwargs)
        except (RuntimeError, bp.BackprobeError) as error:
            left.error = type(error), str(error), *(getattr(error, "__notes__", ()))
        held = [*model.parameters(), *(parameter.grad for parameter in model.parameters()), *model.buffers()]
        left.numbers = [tensor if tensor is None else tensor.detach().clone() for tensor in held]
        model.zero_grad()
        if self.only == at:
            raise Over

    def patch(self, owner, name, value):
        """Set an attribute until the story is over."""
        self.undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)


def tell(story, asked, only=None):
    """Run a story from where nothing is remembered; what each of its steps left behind."""
    selection.cache_clear()
    torch.default_generator.manual_seed(0)
    telling = Telling(asked, only)
    with contextlib.suppress(Over), telling.undo:
        story(telling)
    return telling.left


def unequal(found, expected):
    """The differences between what two steps left behind, each in a line."""
    lines = [] if found.error == expected.error else [f"the error is {found.error}, not {expected.error}"]
    if len(found.recordings) != len(expected.recordings):
        return [*lines, f"{len(found.recordings)} recordings, not {len(expected.recordings)}"]
    for one, other in zip(found.recordings, expected.recordings, strict=True):
        lines += differences(one, other)
    same = [
        one is other if one is None or other is None else same_tensor(one, other)
        for one, other in zip(found.numbers, expected.numbers, strict=True)
    ]
    return lines if all(same) else [*lines, f"{same.count(False)} parameters, gradients or buffers of the model"]


def assert_nothing_is_remembered_wrongly(story, asked):
    """Each step of a story is recorded as if it were the first, and leaves the same."""
    told = tell(story, asked)
    assert any(left.recordings and left.recordings[0].record.entries for left in told), "no step recorded anything"
    for at, left in enumerate(told):
        alone = tell(story, asked, only=at)[at]
        lines = unequal(left, alone)
        assert not lines, "\n  ".join([f"step {at} of {len(told)} differs in:", *lines[:40]])

"""Whatever fails while a verb runs a program again, the state is put back: at each call of the program, and of ours.

Each verb runs on one small program with state in many places. At every call that the program makes an error is raised,
and then a Ctrl-C; then the same once in each function of ours that runs while the state is another one.

``make test`` takes at most eight of a program's calls, with one of the two; and of our functions one of three, each
with the cheapest verb that calls it.
"""

import copy
import functools
import itertools
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp
from sampled import WHOLE

SOURCE = Path(bp.__file__).parent
X = torch.linspace(0.5, 1.5, 6).reshape(2, 3)
ERRORS = {"an error": RuntimeError, "a Ctrl-C": KeyboardInterrupt}
OURS = tuple(
    str(SOURCE / part)
    for part in (
        "backends/replay.py",
        "backends/kept.py",
        "backends/undoing.py",
        "backends/held_objects.py",
        "backends/held_values.py",
        "backends/taken.py",
        "backends/iterator_copies.py",
        "backends/random_states.py",
        "backends/patching.py",
        "backends/exchanging.py",
        "backends/trials.py",
        "backends/variations.py",
        "backends/guards.py",
        "backends/torch/state.py",
        "backends/torch/lent_modules.py",
        "backends/torch/variations.py",
        "backends/torch/trials.py",
        "noise_floor",
        "provoke",
        "sweep",
        "attribute",
        "curvature",
        "per_sample",
        "diff_live",
        "check",
        "guard",
        "probe/rerun.py",
        "experiments",
        "remedies",
        "derivatives.py",
    )
)
PATCHED = ((nn.Module, "__call__"), (torch.autograd, "_engine_run_backward"), (np.random, "default_rng"))
ORIGINAL = [vars(owner)[name] for owner, name in PATCHED]


class Program(nn.Module):
    """Has state in many places, and calls ``tick`` where an error may come."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0), random.seed(0), np.random.seed(0)
        self.layer, self.norm, self.drop = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout()
        self.calls, self.memory, self.generator = 0, {"log": []}, np.random.default_rng(0)
        self.optimizer = torch.optim.Adam(self.layer.parameters())
        self.layer(X).sum().backward()
        self.numbers, self.rows = itertools.count(), {"rows": iter(range(99))}
        self.count = self.raises_at = 0
        self.error = None

    def tick(self):
        counted = vars(sys.modules[__name__])["TICKS"]  # by a name that no code of this function has
        counted[0] += 1
        if counted[0] == self.raises_at:
            raise self.error("in the program")

    def forward(self, x):
        self.tick()
        self.calls += 1
        next(self.numbers), next(self.rows["rows"])
        h = self.norm(self.layer(x))
        self.tick()
        self.memory["log"].append(h.detach())
        noise = random.random() + float(self.generator.random()) + float(np.random.rand())
        self.tick()
        kept = self.drop(h).detach() * 1.0
        self.tick()
        return torch.log((h * noise).square().sum() + 1) + (kept * h).sum() * 0.1

    def state(self):
        tensors = {name: one.detach().numpy().tobytes() for name, one in self.state_dict().items()}
        grads = [one.grad.numpy().tobytes() for one in self.layer.parameters()]
        held = self.calls, len(self.memory["log"]), repr(self.generator.bit_generator.state), len(self.optimizer.state)
        drawn = random.getstate(), repr(np.random.get_state()), torch.get_rng_state().numpy().tobytes()
        modes = self.training, self.norm.training, torch.is_grad_enabled(), id(self.norm.running_mean)
        return tensors, grads, held, drawn, repr(self.numbers), list(copy.copy(self.rows["rows"])), modes


TICKS = [0]


def of(program):
    def f(x):
        h = x * 1.0
        return program(h)

    return f


def guarded(program):
    with bp.guard(program):
        program(X * float("nan"))


def explained(program):
    return bp.explain(program.recording)


VERBS = {
    "sweep": lambda program: bp.sweep(of(program), "h", replace=lambda value: value * 0)(X),
    "attribute": lambda program: bp.attribute(of(program), X, X + 1, "h", edges=False),
    "guard": guarded,
    "noise_floor": lambda program: bp.noise_floor(of(program), runs=1)(X),
    "explain": explained,
    "diff_live": lambda program: bp.diff_live(
        of(program), of(program), of=(lambda value: value, lambda value: value * 2)
    )(X),
    "check": lambda program: bp.check(of(program))(X),
    "provoke": lambda program: bp.provoke(of(program), tries=1)(X),
}  # the cheapest first
verbs = pytest.mark.parametrize("verb", VERBS)

HOOKS = [torch.nn.modules.module._global_forward_hooks, torch.nn.modules.module._global_forward_pre_hooks]
FLAGS = [  # what PyTorch keeps beside a hook, by which it warns of hooks where something is compiled
    torch.nn.modules.module._global_forward_hooks_always_called,
    torch.nn.modules.module._global_forward_hooks_with_kwargs,
]
UNENTERED = "guard/__init__.py: Guard.__exit__"
"""Where this fails as it is called, nothing of ours runs any more, and hooks stay."""


def made(verb):
    program = Program()
    if verb == "explain":
        program.recording = bp.probe(of(program))(X)
    TICKS[0] = 0
    return program


def left(program, act):
    """The state after it, and how it ended."""
    TICKS[0], end = 0, None
    try:
        act(program)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  how it ended is what is looked at
        end = error
    return program.state(), end


def plain(verb, program):
    """What the state is to be afterwards: as before, or of a guard what the program itself leaves."""
    if verb == "guard":
        left(program, lambda program: program(X * float("nan")))
    return program.state()


def without_identities(state):
    return (*state[:-1], state[-1][:-1])


def places(ticks, error):
    """The calls of a program at which an error is raised."""
    if WHOLE:
        return range(1, ticks + 1)
    some = {1 + round(part * (ticks - 1) / 7) for part in range(8)}
    return [at for at in some if (at + (at - 1) // 4) % 2 == [*ERRORS].index(error)]  # of a run's four calls each


@verbs
@pytest.mark.parametrize("error", ERRORS)
def test_the_state_is_put_back_at_each_call_of_the_program(verb, error):
    whole = made(verb)
    left(whole, VERBS[verb])
    assert TICKS[0] >= 4
    for at in places(TICKS[0], error):
        alone = made(verb)
        alone.raises_at, alone.error = at, ERRORS[error]
        expected = plain(verb, alone)
        program = made(verb)  # all random states begin anew
        program.raises_at, program.error = at, ERRORS[error]
        state, end = left(program, VERBS[verb])
        assert without_identities(state) == without_identities(expected), (at, end)
        assert end is not None or verb in ("provoke", "explain"), at
        assert error == "an error" or isinstance(end, KeyboardInterrupt), at


@functools.cache
def ours(code):
    """What a function of ours is called here; None of any other."""
    if not code.co_filename.startswith(OURS) or code.co_name.startswith("<"):
        return None
    return f"{Path(code.co_filename).relative_to(SOURCE)}: {code.co_qualname}"


class Fault:
    """Raises an error at the first call of one function of ours, after the program has been reached; or notes them."""

    def __init__(self, name=None, error=None):
        self.name, self.error, self.called, self.has_raised, self.has_begun = name, error, {}, False, False

    def __call__(self, frame, event, argument):
        name = ours(frame.f_code)
        if event != "call" or name is None:
            return
        if frame.f_code.co_qualname in ("Replay.run", "again"):
            self.has_begun = True
        elif self.has_begun:
            self.called[name] = None
            if name == self.name and not self.has_raised:
                self.has_raised = True
                raise self.error("of ours")

    def during(self, act):
        def traced(program):
            sys.settrace(self)
            try:
                return act(program)
            finally:
                sys.settrace(None)

        return traced


@functools.cache
def called(verb):
    """The functions of ours that a verb calls after it has reached the program."""
    every = Fault()
    left(made(verb), every.during(VERBS[verb]))
    return [*every.called]


def failing(verb):
    """Those of them that are to fail."""
    if WHOLE:
        return called(verb)
    cheaper = {name for other in [*VERBS][: [*VERBS].index(verb)] for name in called(other)}
    return [name for name in called(verb) if name not in cheaper][::3]


@verbs
def test_the_state_is_put_back_whichever_function_of_ours_fails(verb):
    expected = plain(verb, made(verb))
    assert len(called(verb)) > 40
    wrong = []
    for at, name in enumerate(failing(verb)):
        fault = Fault(name, [*ERRORS.values()][at % 2])
        program = made(verb)
        before = program.state()[-1][-1]
        state, end = left(program, fault.during(VERBS[verb]))
        now = [vars(owner)[name] for owner, name in PATCHED]
        standing = [one for one, original in zip(now, ORIGINAL, strict=True) if one is not original]
        if name != UNENTERED:
            standing += [hook for hooks in HOOKS for hook in hooks.values()]
        for hooks in (*HOOKS, *FLAGS):
            hooks.clear()
        if without_identities(state) != without_identities(expected) or standing or not fault.has_raised:
            wrong.append((name, repr(end), standing, fault.has_raised))
        if verb != "guard" and state[-1][-1] != before:
            wrong.append((name, "another buffer"))
    assert wrong == []

"""Trainings that are texts: ``explain`` is asked of them as programs, and alerts of their runs."""

import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import jax
import optax

import backprobe as bp
from trainings.jax._texts import HEAD
from trainings.jax._texts import HEALTHY as TEXTS

SAID = {
    "prelu": "its slope never has an input below 0",
    "schedule where": "'b' is not used in the first 100 steps",
    "max of two": "'b' is not used",
    "residual gauge": "'t' cancels",
    "a module that is called to be made": "the layer 'other' is not used, and its bias is 0, as is the penalty on it",
    "wgan gp": "at 0 the derivative of a norm is NaN",
}
"""Of these an alert says that a gradient is zero, or NaN, and that is so: a part of them is not trained."""
HEALTHY = {name: {"name": name} for name, text in TEXTS.items() if "train(" in text and name not in SAID}
"""Those that leave their steps to ``train``; the others take them by hand, and are programs alone."""
FAULTY = {}


@dataclass
class Text:
    """One of them, with other numbers for each seed."""

    name: str
    seed: int
    steps: int = 30
    begun: int = 0

    def run(self, folder, steps, fault=None):
        """Train for some steps, watched; the losses."""
        wide = jax.config.jax_enable_x64
        try:
            with tempfile.TemporaryDirectory() as place:
                f, params, batch = self._given(Path(place) / "train.py")
                return watched(f, params, batch, folder, steps)
        finally:
            jax.config.update("jax_enable_x64", wide)  # a text may switch it on

    def _given(self, path):
        # What the text gives to ``train``: a loss function, parameters, and a function that draws a batch.
        given, known = [], {}
        exec(HEAD, known)
        keys = known["keys"]
        known["k"] = jax.random.split(jax.random.key(self.seed), 12)
        known["keys"] = lambda i: keys(i + 1000 * self.seed)
        known["train"] = lambda *args: given.append(args)
        path.write_text(textwrap.dedent(TEXTS[self.name]).strip())  # names are read from its source
        exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), known)
        (found,) = given
        return found


def watched(f, params, batch, folder, steps):
    """As the head of the texts trains, with Adam."""
    optimizer, losses = optax.adam(1e-2), []
    state = optimizer.init(params)
    with bp.watch_function(f, folder) as run:

        @jax.jit
        def train(params, state, *given):
            (loss, stats), gradients = run.value_and_grad(params, *given)
            updates, state = optimizer.update(gradients, state, params)
            return optax.apply_updates(params, updates), state, loss, stats

        for step in range(steps):
            params, state, loss, stats = train(params, state, *batch(step))
            run.record(stats)
            losses.append(float(loss))
            run.log(loss=losses[-1])
    return losses


def make(seed, name):
    return Text(name, seed)

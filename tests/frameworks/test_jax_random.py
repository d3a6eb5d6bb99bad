"""Every gradient of random structured programs, against JAX's own derivative with respect to an addend at that binding.

``RANDOM_JAX_PROGRAMS=500 pytest tests/frameworks/test_jax_random.py`` runs more of them than a normal run does.
"""

import functools
import importlib.util
import itertools
import os
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_programs import Writer, flat, perturbations

import backprobe as bp
from sampled import drawn

COUNT = int(os.environ.get("RANDOM_JAX_PROGRAMS", 6))
FIRST = int(os.environ.get("RANDOM_JAX_FIRST", "0"))
TOLERANCE = 1e-9


def load(writer, folder):
    text = writer.text()
    name = f"jax_program_{writer.seed}_{'perturbed' if writer.perturbed else 'plain'}"
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


def entry_of(rec, name):
    def is_it(spelled):
        return spelled.rpartition(":")[2].partition("#")[0] == name

    (found,) = [entry for entry in rec.values() if any(map(is_it, (entry.name, *entry.aliases)))]
    return found


def readings(gradient, binding, entry):
    """A stacked gradient as the entry may state it: steps first, and batches only where the value differs in them."""
    kinds = [kind for kind, _ in binding.axes]
    order = sorted(range(len(kinds)), key=lambda at: kinds[at] != "step")
    moved = np.transpose(gradient, (*order, *range(len(kinds), gradient.ndim)))
    steps, batches = kinds.count("step"), kinds.count("batch")
    absent = batches - entry.axes.count("batch")
    for summed in itertools.combinations(range(steps, steps + batches), absent):
        yield moved.sum(summed)


def agrees(entry, binding, gradient):
    if entry.status != "ok":
        assert entry.status in ("not_connected", "not_executed", "opaque"), f"{entry.name} is {entry.status}"
        assert entry.status == "opaque" or not np.any(gradient), f"{entry.name} has the gradient {gradient}"
        return
    assert entry.axes.count("step") == [kind for kind, _ in binding.axes].count("step")
    assert any(
        reading.shape == entry.shape == entry.grad.shape == entry.value.shape
        and np.allclose(reading, entry.grad, TOLERANCE, TOLERANCE * max(1, np.abs(gradient).max(initial=0)))
        for reading in readings(gradient, binding, entry)
    ), f"the gradient of {entry.name} is {entry.grad} and not {gradient}"


def check(seed, folder, tally):
    writer, other = Writer(seed), Writer(seed, perturbed=True)
    program, perturbed = load(writer, folder), load(other, folder)
    x, w = 0.6, np.array([0.5, -0.4, 0.9])
    zeros = perturbations(other, lambda binding: jnp.zeros(binding.shape))
    wanted_result, (wanted_x, wanted_w, wanted) = jax.jit(jax.value_and_grad(perturbed, (0, 1, 2)))(x, w, zeros)
    if not np.any(wanted_x) and not np.any(wanted_w):
        return  # nothing that its output depends on is differentiated, which is an error of its own
    rec = bp.probe(program, partials=seed % 3 == 0)(jnp.asarray(x), w)
    assert rec.path_sums is None or rec.path_sums.agree, rec.path_sums
    assert np.allclose(rec.result, wanted_result, 1e-12, 1e-12)
    assert np.allclose(rec["x"].grad_or_none if rec["x"].status == "ok" else 0, wanted_x, TOLERANCE, TOLERANCE)
    assert np.allclose(rec["w"].grad_or_none if rec["w"].status == "ok" else 0, wanted_w, TOLERANCE, TOLERANCE)
    for name, gradient in flat(wanted).items():
        entry = entry_of(rec, name)
        tally[str(entry.status)] += 1
        if entry.status in ("frozen", "detached"):
            elsewhere = entry_of(moved(program, x), name).value  # none where another branch is taken there
            assert elsewhere is None or np.array_equal(entry.value, elsewhere), f"{name} is not constant"
        else:
            agrees(entry, writer.bindings[name], np.asarray(gradient))
    if seed % 4 == 0:
        directional(perturbed, x, w, zeros, wanted)


@functools.lru_cache(1)
def moved(program, x):
    return bp.probe(program)(x + 0.1, jnp.asarray([0.4, -0.5, 0.8]))


def directional(perturbed, x, w, zeros, wanted):
    """No derivative rule of JAX takes part: the program itself, moved a little in a random direction, both ways."""
    random, step = np.random.default_rng(0), 1e-6
    direction = jax.tree.map(lambda zero: jnp.asarray(random.normal(size=zero.shape)), zeros)
    there, back = (
        jax.jit(perturbed)(x, w, jax.tree.map(lambda one, sign=sign: sign * step * one, direction)) for sign in (1, -1)
    )
    slope = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(direction), jax.tree.leaves(wanted), strict=True))
    assert np.allclose((there - back) / (2 * step), slope, 1e-4, 1e-4)


X64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
"""Older releases have it among their experiments."""


@drawn
@pytest.mark.supports(
    "loops, branches, batches, checkpoints and jit within each other: every value's gradient",
    "What only some frameworks have",
)
def test_random_programs(tmp_path):
    tally = Counter()
    with X64(True):
        for seed in range(FIRST, FIRST + COUNT):
            try:
                check(seed, tmp_path, tally)
            except BaseException as error:
                error.add_note(f"seed {seed}:\n{Writer(seed).text()}")
                raise
    assert tally["ok"] > 0.4 * tally.total(), tally
    assert tally["opaque"] < 0.2 * tally.total(), tally
    print(tally)

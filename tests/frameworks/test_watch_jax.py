"""``bp.watch`` in JAX: statistics of a loss function's values and gradients, from inside the program's own ``jit``."""

import math
import os
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import watch_jax_devices
from flax import linen, nnx

import backprobe as bp
import prepared
from asked import message
from backprobe.backends.jax.statistics import columns_from, exponents_from, magnitudes_of, real, rows_of
from backprobe.record.exponents import exponents
from backprobe.record.statistics import COLUMNS, measured


def layer(p, h):
    z = h @ p["w"] + p["b"]
    return jnp.tanh(z)


def loss_fn(params, batch):
    h = batch
    for p in params:
        h = layer(p, h)
    return (h**2).mean()


def made(count=3, size=6):
    keys = jax.random.split(jax.random.key(0), count)
    return [{"w": jax.random.normal(key, (size, size)) / 2, "b": jnp.zeros(size)} for key in keys]


BATCHES = jax.random.normal(jax.random.key(1), (5, 4, 6))


def rms(array):
    return float(np.sqrt((np.asarray(array, np.float64) ** 2).mean()))


def watched(folder, function=loss_fn, params=None, batches=BATCHES, **options):
    """Train for these batches; the run."""
    params = made() if params is None else params
    with bp.watch_function(function, folder, **options) as run:
        step = jax.jit(run.value_and_grad)
        for batch in batches:
            (loss, stats), grads = step(params, batch)
            params = jax.tree.map(lambda one, by: one - 0.1 * by, params, grads)
            run.record(stats)
            run.log(loss=loss)
    return bp.open_run(folder)


# what is recorded


def test_rows_are_those_of_a_recording(tmp_path):
    run = watched(tmp_path)
    params = made()
    for at, batch in enumerate(BATCHES):
        rec = bp.probe(loss_fn, wrt="params")(params, batch)
        found = run.at(at)
        assert set(found) == {*rec, "loss"}
        for name, entry in rec.items():
            kind = "param" if name.startswith("params") else "value"
            assert found[name][f"{kind}.rms"] == pytest.approx(rms(entry.value), rel=1e-5), name
            assert found[name][f"{kind}.count"] == entry.value.size
            if entry.status == "ok":
                assert found[name]["grad.rms"] == pytest.approx(rms(entry.grad), rel=1e-5), name
            else:
                assert "grad.rms" not in found[name]
        params = jax.tree.map(lambda one, by: one - 0.1 * by, params, jax.grad(loss_fn)(params, batch))
    assert run.series("loss", "logged")[1] == pytest.approx(run.series("return", "value.sum")[1])
    assert run.alerts.ok
    assert "/layer#2" in str(run.report())


def normed(params, x):
    def attend(p, h):
        q, k = h @ p["w"], h @ p["w"].T
        scores = q @ k.T / jnp.sqrt(6.0)
        return jax.nn.softmax(scores) @ h

    h = x
    for p in params:
        h = h + attend(p, h)
        mean = h.mean(-1, keepdims=True)
        h = (h - mean) * jax.lax.rsqrt(((h - mean) ** 2).mean(-1, keepdims=True) + 1e-5) + p["b"]
        h = h + jax.nn.gelu(h @ p["w"])
    return -jax.nn.log_softmax(h)[:, 0].mean()


def looped(params, x):
    def turn(h, p):
        z = jnp.tanh(h @ p["w"] + p["b"])
        return h + z, z.sum()

    h, sums = jax.lax.scan(turn, x, jax.tree.map(lambda *ones: jnp.stack(ones), *params))
    return (h**2).mean() + sums.mean()


AS_FOR_USERS = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}
"""What conftest switches off. How XLA fuses operations decides on the last bit."""


@pytest.mark.parametrize(
    "function, dtype, size",
    [
        (loss_fn, jnp.float32, 6),
        (loss_fn, jnp.float32, 48),  # the numbers of larger arrays are summed in another way
        pytest.param(normed, jnp.float32, 6, marks=pytest.mark.sweep),
        pytest.param(normed, jnp.bfloat16, 6, marks=pytest.mark.sweep),
        (looped, jnp.float32, 6),
    ],
)
def test_loss_and_gradients_are_bitwise_those_of_value_and_grad(tmp_path, function, dtype, size):
    batch = jax.random.normal(jax.random.key(1), (4, size))
    params, batch = jax.tree.map(lambda one: one.astype(dtype), (made(3, size), batch))
    with bp.watch_function(function, tmp_path) as run:
        (loss, stats), grads = jax.jit(run.value_and_grad, compiler_options=AS_FOR_USERS)(params, batch)
    plain, expected = jax.jit(jax.value_and_grad(function), compiler_options=AS_FOR_USERS)(params, batch)
    assert loss == plain and loss.dtype == plain.dtype
    assert jax.tree.structure(grads) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(grads), jax.tree.leaves(expected), strict=True):
        assert np.array_equal(one, other) and one.dtype == other.dtype


def test_alerts_have_the_line_in_which_a_name_is_bound(tmp_path):
    def loss(w, x):
        h = x @ w
        bad = jnp.log(h - 1e6)  # of what is negative
        return jnp.mean(bad)

    run = watched(tmp_path, loss, jnp.eye(6))
    rec = bp.probe(loss)(jnp.eye(6), BATCHES[0])
    lines = run._reader.lines()
    for name in ("h", "bad", "return"):
        assert (lines[name].file, lines[name].line) == (__file__, rec[name].source.line), name
    (alert,) = run.alerts.of_kind("nonfinite")
    assert alert.name == "bad"
    assert (alert.source.line, alert.source.text) == (rec["bad"].source.line, rec["bad"].source.text)
    assert f"'bad' (test_watch_jax.py:{alert.source.line})" in alert.title


def test_the_step_is_traced_once(tmp_path):
    traced = []
    with bp.watch_function(loss_fn, tmp_path) as run:

        @jax.jit
        def step(params, batch):
            traced.append(batch)
            return run.value_and_grad(params, batch)

        for batch in BATCHES:
            (_, stats), _ = step(made(), batch)
            run.record(stats)
    assert len(traced) == step._cache_size() == 1


def test_a_scan_has_one_row_of_all_its_steps(tmp_path):
    run = watched(tmp_path, looped, batches=BATCHES[:1])
    rec = bp.probe(looped, wrt="params")(made(), BATCHES[0])
    found = run.at(0)["/turn:z"]
    assert found["value.count"] == 3 * 4 * 6
    assert found["grad.rms"] == pytest.approx(rms(rec["/turn:z"].grad), rel=1e-5)


def test_select_takes_names_of_values_and_parameters(tmp_path):
    run = watched(tmp_path, select=["/layer:z", "params.*.w"])
    assert run.names == [f"/layer#{at}:z" for at in range(3)] + ["return"] + [f"params.{at}.w" for at in range(3)] + [
        "loss"
    ]
    assert {field.partition(".")[0] for field in run.fields} == {"value", "grad", "param", "logged"}


def test_kinds_can_be_left_out(tmp_path):
    run = watched(tmp_path, what="grad")
    assert {field.partition(".")[0] for field in run.fields} == {"grad", "logged"}
    assert "params.0.w" in run.names


def test_auxiliary_data_and_several_arguments(tmp_path):
    def with_aux(w, x, b):
        h = jnp.tanh(x @ w + b)
        return h.sum(), {"h": h}

    w, x, b = jnp.ones((2, 3)), jnp.ones((4, 2)) / 3, jnp.zeros(3)
    with bp.watch_function(with_aux, tmp_path, argnums=(2, 0), has_aux=True) as run:
        ((loss, aux), stats), grads = jax.jit(run.value_and_grad)(w, x, b)
        run.record(stats)
    (plain, other), expected = jax.jit(jax.value_and_grad(with_aux, argnums=(2, 0), has_aux=True))(w, x, b)
    assert loss == plain and np.array_equal(aux["h"], other["h"])
    assert [one.shape for one in grads] == [(3,), (2, 3)]
    assert all(np.array_equal(one, two) for one, two in zip(grads, expected, strict=True))
    found = bp.open_run(tmp_path).at(0)
    assert found["w"]["grad.rms"] == pytest.approx(rms(expected[1]))
    assert found["b"]["param.zeros"] == 3 and found["x"]["value.count"] == 8


def test_updates_are_recorded_beside(tmp_path):
    params = made()
    with bp.watch_function(loss_fn, tmp_path) as run:
        for batch in BATCHES[:2]:
            (_, stats), grads = jax.jit(run.value_and_grad)(params, batch)
            updates = jax.tree.map(lambda one: -0.5 * one, grads)
            run.record(stats, updates=updates)
    found = bp.open_run(tmp_path).at(1)["params.2.w"]
    assert found["update.rms"] == pytest.approx(rms(updates[2]["w"]), rel=1e-6)
    assert found["update.ratio"] == pytest.approx(rms(updates[2]["w"]) / rms(params[2]["w"]), rel=1e-5)


def test_micro_batches_are_merged(tmp_path):
    params = made()
    with bp.watch_function(loss_fn, tmp_path) as run:
        step = jax.jit(run.value_and_grad)
        run.record([step(params, batch)[0][1] for batch in BATCHES])

        @jax.jit
        def accumulated(params, batches):
            def turn(total, batch):
                (loss, stats), grads = run.value_and_grad(params, batch)
                return jax.tree.map(jnp.add, total, grads), stats

            return jax.lax.scan(turn, jax.tree.map(jnp.zeros_like, params), batches)

        grads, stats = accumulated(params, BATCHES)
        run.record(stats)
    found = bp.open_run(tmp_path)
    for step in (0, 1):
        assert found.at(step).backwards == (5 if step == 0 else 1)
        assert found.at(step)["batch"]["value.count"] == BATCHES.size
        assert found.at(step)["batch"]["value.rms"] == pytest.approx(rms(BATCHES), rel=1e-6)
    one, two = found.at(0)["/layer#1:z"], found.at(1)["/layer#1:z"]
    assert {field: one[field] for field in one} == pytest.approx({field: two[field] for field in two}, rel=1e-5)


def test_every_nth_step_and_histograms(tmp_path):
    run = watched(tmp_path, every=2, pace=bp.Pace(histogram=4))
    assert run.series("params.0.w", "grad.rms")[0].tolist() == [0, 2, 4]
    assert run.series("loss", "logged")[0].tolist() == [0, 1, 2, 3, 4]
    found = run.histogram("params.0.w", "param")
    assert found.steps.tolist() == [0, 4]
    expected = exponents(np.asarray(made()[0]["w"]))
    assert found.counts[0].sum() == 36 and found.smallest[0] == expected.smallest


def test_a_step_without_statistics_counts(tmp_path):
    with bp.watch_function(loss_fn, tmp_path, every=2) as run:
        (_, stats), _ = jax.jit(run.value_and_grad)(made(), BATCHES[0])
        run.record(stats)
        run.record(None)
        assert "there are no statistics" in message(bp.BadOption, lambda: run.record(None))
    assert bp.open_run(tmp_path).steps.tolist() == [0]


def test_recording_does_not_wait_for_the_device(tmp_path):
    """The step takes a thousand times as long as what may not wait for it."""

    def loss(w, x):
        return jax.lax.fori_loop(0, 3000, lambda at, h: jnp.tanh(h @ w), x).mean()

    w = jax.random.normal(jax.random.key(0), (200, 200)) / 14
    with bp.watch_function(lambda w, x: (w * x).mean(), tmp_path) as run:
        step = jax.jit(lambda w, x: run.value_and_grad(w, loss(w, x)))
        step.lower(w, w).compile()
        (value, stats), _ = step(w, w)
        run.record(stats)
        run.log(loss=value)
        assert not value.is_ready()
    assert bp.open_run(tmp_path).series("loss", "logged")[1].tolist() == [float(value)]


def test_what_was_given_is_spelled_only_where_it_is_refused(tmp_path, monkeypatch):
    """That is in the thread of the training, in each step."""
    spelled = []
    monkeypatch.setattr("backprobe.backends.jax.watching.written", lambda given: spelled.append(given) or "stats")
    with bp.watch_function(loss_fn, tmp_path) as run:
        (_, stats), _ = run.value_and_grad(made(), BATCHES[0])
        run.record(stats)
        assert spelled == []
        assert "recorded already" in message(bp.BadOption, lambda: run.record(stats))
    assert spelled == [stats]


def test_statistics_that_were_given_away_are_refused_at_once(tmp_path):
    """As by ``donate_argnums``."""
    with bp.watch_function(loss_fn, tmp_path) as run:
        (_, stats), _ = run.value_and_grad(made(), BATCHES[0])
        stats.arrays[0].delete()
        with pytest.raises(RuntimeError, match="deleted"):
            run.record(stats)


def test_a_training_that_starts_again_goes_on(tmp_path):
    watched(tmp_path, batches=BATCHES[:2])
    assert watched(tmp_path, batches=BATCHES[:2]).steps.tolist() == [0, 1, 2, 3]


def test_eight_devices_give_the_statistics_of_one(tmp_path):
    """Sharded by data and by model."""
    settings = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    ran = prepared.run("jax", watch_jax_devices.__file__, tmp_path, env=settings)
    assert ran.stdout == "devices 8\n", ran.stderr
    one, eight = (bp.open_run(tmp_path / name) for name in ("one", "eight"))
    assert one.names == eight.names and one.fields == eight.fields
    for step in range(2):
        for name, fields in one.at(step).items():
            found = eight.at(step)[name]
            scale = fields.get("value.absmax", 0) + fields.get("param.absmax", 0) + 1e-9
            assert dict(found) == pytest.approx(dict(fields), rel=2e-4, abs=1e-4 * scale, nan_ok=True), name


# models


def test_the_parameters_of_equinox_are_named_as_in_a_recording(tmp_path):
    model = eqx.nn.MLP(6, 2, 8, 2, key=jax.random.key(0))

    def loss(model, x):
        y = jax.vmap(model)(x)
        return (y**2).mean()

    with bp.watch_function(loss, tmp_path) as run:
        (value, stats), grads = eqx.filter_jit(run.value_and_grad)(model, BATCHES[0])
        run.record(stats)
    expected, plain = eqx.filter_jit(eqx.filter_value_and_grad(loss))(model, BATCHES[0])
    assert value == expected and jax.tree.structure(grads) == jax.tree.structure(plain)
    assert all(map(np.array_equal, jax.tree.leaves(grads), jax.tree.leaves(plain)))
    found = bp.open_run(tmp_path)
    assert found.at(0)["model.layers.1.weight"]["grad.rms"] == pytest.approx(rms(plain.layers[1].weight), rel=1e-5)


def test_the_parameters_of_flax(tmp_path):
    net = linen.Dense(3)
    variables = net.init(jax.random.key(0), BATCHES[0])
    run = watched(tmp_path / "linen", lambda params, x: (net.apply(params, x) ** 2).mean(), variables)
    assert {"params.params.kernel", "params.params.bias"} <= set(run.names)
    graph, state = nnx.split(nnx.Linear(6, 3, rngs=nnx.Rngs(0)))
    run = watched(tmp_path / "nnx", lambda state, x: (nnx.merge(graph, state)(x) ** 2).mean(), state)
    assert {"state.kernel", "state.bias"} <= {name.removesuffix(".value") for name in run.names}


# what is refused


def test_what_is_asked_wrongly_is_refused(tmp_path):
    params, batch = made(), BATCHES[0]
    with bp.watch_function(loss_fn, tmp_path) as run:
        (_, stats), _ = jax.jit(run.value_and_grad)(params, batch)
        assert "run.record takes the statistics" in message(bp.BadOption, lambda: run.record(3.0))
        assert "there are no statistics to record" in message(bp.BadOption, lambda: run.record(None))
        assert "inside jit" in message(bp.BadOption, lambda: jax.jit(lambda s: run.record(s))(stats))
        assert "another structure" in message(bp.BadOption, lambda: run.record(stats, updates=[1.0]))
        run.record(stats)
        assert "recorded already" in message(bp.BadOption, lambda: run.record(stats))
        assert "run.record(stats) ends the steps" in message(bp.BadOption, run.step)
        assert "inside jit" in message(bp.BadOption, lambda: jax.jit(lambda x: run.log(loss=x))(1.0))
        nothing = message(bp.NothingToDifferentiate, lambda: run.value_and_grad([jnp.ones(2, int)], batch))
        assert "'params' holds no floating array" in nothing
        assert "there is no argument 0" in message(bp.BadOption, lambda: run.value_and_grad(params=params))
        with pytest.raises(bp.BadRun, match="is being written"), bp.watch_function(loss_fn, tmp_path):
            pass
    assert "is not open" in message(bp.BadOption, lambda: run.value_and_grad(params, batch))
    assert "is not open" in message(bp.BadOption, lambda: run.record(stats))
    with bp.watch_function(loss_fn, tmp_path) as other:
        assert "the statistics of another watch" in message(bp.BadOption, lambda: other.record(stats))


@pytest.mark.parametrize(
    "function, options, kind, said",
    [
        (loss_fn, {"select": "scroes"}, bp.NothingMatched, "bp.watch_function(loss_fn, folder"),
        (lambda params, x: (x.sum(), 1.0), {}, bp.BadOutput, "has_aux=True"),
        (lambda params, x: x.sum(), {"has_aux": True}, bp.BadOutput, "does not return a loss and auxiliary data"),
        (lambda params, x: x, {}, bp.BadOutput, "return loss.mean()"),
        (lambda params, x: x.sum(), {}, bp.NothingToDifferentiate, "does not depend on any differentiated value"),
        (lambda *given: given[1].sum(), {}, bp.BadOption, "has no name of its own"),
        (loss_fn, {"argnums": 2}, bp.BadOption, "there is no argument 2"),
        (loss_fn, {"argnums": "params"}, bp.BadOption, "argnums is the position"),
        (loss_fn, {"has_aux": 1}, bp.BadOption, "has_aux is True or False"),
        (loss_fn, {"what": "update"}, bp.BadOption, "run.record(stats, updates=updates)"),
        (loss_fn, {"optimizer": 1}, bp.BadOption, "has no optimizer="),
        (loss_fn, {"guard": True}, bp.BadOption, "with bp.guard(): around jax.grad"),
    ],
)
def test_functions_and_options_that_do_not_fit(tmp_path, function, options, kind, said):
    def run():
        with bp.watch_function(function, tmp_path, **options) as run:
            jax.jit(run.value_and_grad)(made(), BATCHES[0])

    assert said in message(kind, run)


def test_a_model_of_jax_is_refused_with_what_to_write(tmp_path):
    said = message(bp.Unsupported, bp.watch_function(eqx.nn.Linear(2, 2, key=jax.random.key(0)), tmp_path).__enter__)
    assert "a model cannot be watched in JAX" in said and "bp.watch_function(loss_fn, folder)" in said


# statistics


SPECIAL = np.float32([np.nan, np.inf, -np.inf, 0])
ARRAYS = {
    "ordinary": lambda one: one,
    "far from zero": lambda one: one * 1e-3 + 5,
    "tiny": lambda one: one * np.float32(1e-30),
    "huge": lambda one: one * np.float32(1e36),
    "not finite": lambda one: np.choose(np.arange(one.size).reshape(one.shape) % 6, [one, one, *SPECIAL]),
    "zeros": np.zeros_like,
    "the same": np.ones_like,
    "all NaN": lambda one: np.full_like(one, np.nan),
    "half": lambda one: one.astype(np.float16),
    "bfloat16": lambda one: jnp.asarray(one, jnp.bfloat16),
    "complex": lambda one: one + 2j * one.T.reshape(one.shape),
}


@pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS.keys())
@pytest.mark.parametrize("shape", [(), (10,), (30, 40), (70, 300)], ids=str)
def test_rows_are_those_of_numpy_in_double_precision(change, shape):
    """Small arrays are measured with care at once, others where they must be: together, and large ones each alone."""
    array = change(np.asarray(np.random.default_rng(0).normal(size=shape), np.float32))
    wide = np.asarray(array).astype(np.complex128)
    wide = np.stack([wide.real, wide.imag]) if np.iscomplexobj(np.asarray(array)) else wide.real
    numbers = jax.jit(lambda one: rows_of([real(one)])[1:])(jnp.asarray(array))
    (found,) = columns_from(wide.size, *map(np.asarray, numbers)).T
    is_right(found, wide)


def is_right(found, wide):
    """Is a row that of these numbers?"""
    expected = dict(zip(COLUMNS, measured(wide), strict=True))
    spread = np.sqrt(max(expected["squares"] * expected["finite"], 0))
    for column, number in zip(COLUMNS, found, strict=True):
        near = pytest.approx(expected[column], rel=2e-6, abs=1e-6 * spread * (column == "sum"))
        assert number == (near if column in ("sum", "squares") else expected[column]), column
    if expected["finite"]:
        mean, square = found[6] / found[1], found[7] / found[1]
        kept = wide[np.isfinite(wide)]
        assert square - mean**2 == pytest.approx(kept.var(), rel=1e-4, abs=1e-12 * square)


@pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS.keys())
def test_one_of_a_table_that_needs_care(change):
    """Between two that do not, and one of another size in the same table."""
    ordinary = [
        np.asarray(np.random.default_rng(at).normal(size=size), np.float32) for at, size in enumerate((600, 900))
    ]
    array = np.asarray(real(jnp.asarray(change(ordinary[0].reshape(20, 30)))))
    given = [ordinary[0], array, ordinary[1]]
    order, *numbers = jax.jit(lambda *some: rows_of(some))(*given)
    found = columns_from(np.array([given[at].size for at in map(int, order)]), *map(np.asarray, numbers)).T
    for at, row in zip(map(int, order), found, strict=True):
        is_right(row, given[at].astype(float))


def test_the_widest_table():
    """With plain sums for all of its rows, and with care, since one has NaN and Inf."""
    plain = [np.asarray(np.random.default_rng(size).normal(size=size), np.float32) for size in (4097, 6000, 8192)]
    careful = [plain[0], np.where(np.arange(6000) % 1000 == 7, np.float32("nan"), plain[1]), plain[2]]
    careful[2] = np.where(careful[2] > 2, np.float32("inf"), careful[2])
    rows = jax.jit(lambda *some: rows_of(some))
    for given in (plain, careful):
        order, *numbers = rows(*given)
        found = columns_from(np.array([given[at].size for at in map(int, order)]), *map(np.asarray, numbers)).T
        for at, row in zip(map(int, order), found, strict=True):
            is_right(row, given[at].astype(float))


@pytest.mark.parametrize("change", ARRAYS.values(), ids=ARRAYS.keys())
def test_magnitudes_are_those_of_numpy(change):
    array = change(np.random.default_rng(0).normal(size=70).astype(np.float32))
    if np.iscomplexobj(np.asarray(array)):
        array = np.concatenate([array.real, array.imag])
    counts, smallest = jax.jit(lambda one: magnitudes_of(real(one)))(jnp.asarray(array))
    found, expected = exponents_from(np.asarray(counts), float(smallest)), exponents(np.asarray(array, np.float64))
    assert (found.low, found.counts.tolist()) == (expected.low, expected.counts.tolist())
    assert found.smallest == expected.smallest


def test_double_precision_and_no_numbers_at_all():
    with jax.enable_x64(True):
        wide = jnp.asarray([1e-200, 3e200, np.nan])
        numbers = jax.jit(lambda one: rows_of([real(one)])[1:])(wide)
        found = exponents_from(*map(np.asarray, jax.jit(magnitudes_of)(wide)))
        (row,) = columns_from(3, *map(np.asarray, numbers)).T.tolist()
    assert row[6:] == [3e200, math.inf, 1e-200, 3e200]
    assert (found.low, found.counts.sum(), found.smallest) == (-665, 2, 1e-200)
    _, *numbers = rows_of([jnp.zeros((0, 3))])
    assert columns_from(0, *map(np.asarray, numbers)).T.tolist() == [[*measured(np.zeros(0))]]


def test_a_function_that_mentions_no_framework_is_watched_beside_others(tmp_path):
    import torch

    space = {"__name__": "program"}
    exec("def loss_fn(params, batch):\n    return (params * batch).mean()", space)
    assert torch.__name__ in sys.modules
    with bp.watch_function(space["loss_fn"], tmp_path / "run") as run:
        assert run.folder.exists()

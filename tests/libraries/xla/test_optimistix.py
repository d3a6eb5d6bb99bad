"""optimistix: roots, fixed points, minima and least squares, differentiated by the implicit function theorem."""

import jax
import jax.numpy as jnp
import optimistix as optx
from in_jax import by, descending

FRAMEWORK, LIBRARIES = "JAX", ("optimistix",)

# https://docs.kidger.site/optimistix/ (the implicit Euler step of its front page)


def implicit_euler(y0, dt):
    def fn(y, args):
        y0, dt = args
        change = dt * jnp.tanh(y)
        return y0 + change

    solver = optx.Newton(rtol=1e-6, atol=1e-6)

    def residual(y, args):
        moved = fn(y, args)
        return y - moved

    sol = optx.root_find(residual, solver, y0, (y0, dt))
    y1 = sol.value
    return jnp.sum(y1**2)


# https://docs.kidger.site/optimistix/api/fixed_point/


def equilibrium(w, x):
    def cell(z, args):
        w, x = args
        hidden = jnp.tanh(w @ z + x)
        return hidden

    sol = optx.fixed_point(cell, optx.FixedPointIteration(rtol=1e-7, atol=1e-7), jnp.zeros_like(x), (w, x))
    z = sol.value
    score = jnp.sum(z * jnp.array([1.0, -2.0]))
    return score


# https://docs.kidger.site/optimistix/api/least_squares/


def fitted(scale, data):
    def residuals(params, args):
        scale, (xs, ys) = args
        prediction = scale * (params["a"] + params["b"] * xs)
        return prediction - ys

    start = {"a": jnp.array(0.0), "b": jnp.array(0.0)}
    solver = optx.LevenbergMarquardt(rtol=1e-6, atol=1e-6)
    sol = optx.least_squares(residuals, solver, start, (scale, data))
    slope = sol.value["b"]
    return slope


# https://docs.kidger.site/optimistix/api/minimise/


def ridge(strength, target):
    def objective(y, args):
        strength, target = args
        misfit = jnp.sum((y - target) ** 2)
        return misfit + strength * jnp.sum(y**2)

    sol = optx.minimise(objective, optx.BFGS(rtol=1e-6, atol=1e-6), jnp.zeros(2), (strength, target))
    best = sol.value
    return jnp.sum(best)


# planted


def cut_inside(y0, dt):
    def residual(y, args):
        y0, dt = args
        held = jax.lax.stop_gradient(dt)
        return y - y0 - held * jnp.tanh(y)

    sol = optx.root_find(residual, optx.Newton(rtol=1e-6, atol=1e-6), y0, (y0, dt))  # <- cut
    y1 = sol.value
    return jnp.sum(y1**2)


def cut_after(y0, dt):
    def residual(y, args):
        y0, dt = args
        return y - y0 - dt * jnp.tanh(y)

    sol = optx.root_find(residual, optx.Newton(rtol=1e-6, atol=1e-6), y0, (y0, dt))
    y1 = jax.lax.stop_gradient(sol.value)  # <- cut
    return jnp.sum(y1 * y0)


def nan_after(y0, dt):
    def residual(y, args):
        y0, dt = args
        return y - y0 - dt * jnp.tanh(y)

    sol = optx.root_find(residual, optx.Newton(rtol=1e-6, atol=1e-6), y0, (y0, dt))
    y1 = sol.value
    logs = jnp.log(y1 - 3.0)  # <- nan
    return jnp.sum(logs * dt)


# asked

Y0, DT = jnp.array([0.5, -1.0]), jnp.array(0.1)


def given():
    return Y0, DT


def test_implicit_euler(ask):
    rec = ask.function(implicit_euler, given)
    y1 = rec["y1"].value
    slope = 1 / (1 - DT * (1 - jnp.tanh(y1) ** 2))  # of y1 with respect to y0, by the implicit function theorem
    ask.gradients(
        rec, {"y1": 2 * y1, "y0": 2 * y1 * slope, "dt": jnp.sum(2 * y1 * slope * jnp.tanh(y1))}, tolerance=1e-4
    )
    ask.gradients(rec, by(implicit_euler, *given()), tolerance=1e-4)
    ask.names(rec, "y0", "dt", "y1", "sol.value", "return")
    ask.statuses(rec, {"y0": "ok", "dt": "ok", "y1": "ok"})
    ask.clean(rec)
    ask.works("`root_find`, differentiated by the implicit function theorem")
    said = [str(one) for one in [*rec.notes, *rec]]
    ask.that(any("residual" in one for one in said), f"no word of residual: {said}")
    ask.refuses("what the function that is solved binds: a note")


def test_equilibrium(ask):
    inputs = jnp.array([[0.2, -0.1], [0.3, 0.1]]), jnp.array([0.5, -0.4])
    rec = ask.function(equilibrium, lambda: inputs)
    ask.gradients(rec, by(equilibrium, *inputs) | {"z": jnp.array([1.0, -2.0])}, tolerance=1e-4)
    ask.names(rec, "w", "x", "z", "score")
    ask.clean(rec)
    ask.works("`fixed_point`: a deep equilibrium")


def test_fitted(ask):
    inputs = jnp.array(2.0), (jnp.array([0.0, 1.0, 2.0]), jnp.array([1.0, 2.0, 4.0]))
    rec = ask.function(fitted, lambda: inputs)
    ask.gradients(rec, {"scale": -0.375, "data.1": jnp.array([-0.25, 0.0, 0.25]), "slope": 1.0}, tolerance=1e-3)
    ask.gradients(rec, by(fitted, *inputs), tolerance=1e-3)
    ask.clean(rec)
    ask.works("`least_squares`: a fitted slope with respect to the data")


def test_ridge(ask):
    inputs = jnp.array(0.5), jnp.array([1.0, 2.0])
    rec = ask.function(ridge, lambda: inputs)
    ask.gradients(rec, {"strength": -3 / 1.5**2, "target": jnp.full(2, 1 / 1.5), "best": jnp.ones(2)}, tolerance=1e-3)
    ask.clean(rec)
    ask.works("`minimise`, with respect to what the objective is given")


def test_planted(ask):
    ask.cut(ask.function(cut_after, given), cut_after)
    ask.nan(ask.function(nan_after, given, nonfinite=True), nan_after)


def test_cut_inside(ask):
    ask.cut(ask.function(cut_inside, given), cut_inside, "residual, and was not followed")


def test_watch(ask):
    def loss(params, dt):
        return implicit_euler(params["y0"], dt)

    last = ask.watched_function(descending(loss, {"y0": Y0}, [(DT,)] * 20))
    ask.rows(last, "params.y0")
    ask.works("`bp.watch_function` over 20 steps")

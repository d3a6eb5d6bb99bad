"""optimistix: roots, fixed points, minima and least squares, differentiated by the implicit function theorem."""

import jax
import jax.numpy as jnp
import optimistix as optx

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
        held = jax.lax.stop_gradient(dt)  # <- cut
        return y - y0 - held * jnp.tanh(y)

    sol = optx.root_find(residual, optx.Newton(rtol=1e-6, atol=1e-6), y0, (y0, dt))
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


def nan_inside(y0, dt):
    def residual(y, args):
        y0, dt = args
        root = jnp.sqrt(y - 3.0)  # <- nan
        return y - y0 - dt * root

    solver = optx.Newton(rtol=1e-6, atol=1e-6)
    sol = optx.root_find(residual, solver, y0, (y0, dt), throw=False, max_steps=8)
    y1 = sol.value
    return jnp.sum(y1**2)

"""diffrax: equations that are integrated, as its documentation writes them, small."""

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from in_jax import by, descending

FRAMEWORK, LIBRARIES = "JAX", ("diffrax",)

# https://docs.kidger.site/diffrax/usage/getting-started/


def vector_field(t, y, args):
    slope = -args * y
    return slope


def decay(rate, y0):
    term = dfx.ODETerm(vector_field)
    saveat = dfx.SaveAt(ts=jnp.array([0.5, 1.0]))
    solution = dfx.diffeqsolve(term, dfx.Dopri5(), t0=0, t1=1, dt0=0.1, y0=y0, args=rate, saveat=saveat)
    ys = solution.ys
    last = ys[-1]
    loss = (last - 0.3) ** 2
    return loss


# https://docs.kidger.site/diffrax/examples/neural_ode/


class Func(eqx.Module):
    out_scale: jax.Array
    mlp: eqx.nn.MLP

    def __init__(self, data_size, width_size, depth, *, key):
        self.out_scale = jnp.array(1.0)
        self.mlp = eqx.nn.MLP(data_size, data_size, width_size, depth, activation=jnp.tanh, key=key)

    def __call__(self, t, y, args):
        inner = self.mlp(y)
        return self.out_scale * inner


class NeuralODE(eqx.Module):
    func: Func

    def __init__(self, data_size, width_size, depth, *, key):
        self.func = Func(data_size, width_size, depth, key=key)

    def __call__(self, ts, y0):
        solution = dfx.diffeqsolve(
            dfx.ODETerm(self.func),
            dfx.Tsit5(),
            t0=ts[0],
            t1=ts[-1],
            dt0=ts[1] - ts[0],
            y0=y0,
            stepsize_controller=dfx.PIDController(rtol=1e-3, atol=1e-6),
            saveat=dfx.SaveAt(ts=ts),
        )
        return solution.ys


TIMES = jnp.linspace(0.0, 1.0, 4)
SPIRAL = jnp.stack([jnp.cos(TIMES), -jnp.sin(TIMES)], 1)[None] * jnp.array([[[1.0]], [[0.5]]])


def neural_loss(model, ti, yi):
    y_pred = jax.vmap(model, in_axes=(None, 0))(ti, yi[:, 0])
    error = yi - y_pred
    loss = jnp.mean(error**2)
    return loss


# https://docs.kidger.site/diffrax/usage/getting-started/ (stochastic differential equations)


def drift(t, y, args):
    pull = -args["theta"] * y
    return pull


def diffusion(t, y, args):
    noise = args["sigma"] * jnp.ones_like(y)
    return noise


def ornstein_uhlenbeck(args):
    brownian = dfx.VirtualBrownianTree(t0=0, t1=1, tol=1e-2, shape=(), key=jr.key(0))
    terms = dfx.MultiTerm(dfx.ODETerm(drift), dfx.ControlTerm(diffusion, brownian))
    solution = dfx.diffeqsolve(terms, dfx.Euler(), t0=0, t1=1, dt0=0.1, y0=jnp.array(1.0), args=args)
    end = solution.ys[0]
    loss = end**2
    return loss


# https://docs.kidger.site/diffrax/api/adjoints/


def backsolved(rate, y0):
    solution = dfx.diffeqsolve(
        dfx.ODETerm(vector_field), dfx.Tsit5(), 0.0, 1.0, 0.1, y0, args=rate, adjoint=dfx.BacksolveAdjoint()
    )
    final = solution.ys[-1]
    return final * final


def forward_mode(rate, y0):
    solution = dfx.diffeqsolve(
        dfx.ODETerm(vector_field), dfx.Heun(), 0.0, 1.0, 0.25, y0, args=rate, adjoint=dfx.DirectAdjoint(), max_steps=8
    )
    final = solution.ys[-1]
    return final * final


# https://docs.kidger.site/diffrax/api/events/ (a ball that falls, and the time at which it meets the ground)


def falling(t, y, args):
    height, speed = y
    return speed, -args


def ground(t, y, args, **kwargs):
    height, _ = y
    return height


def time_of_fall(height0, gravity):
    import optimistix as optx

    event = dfx.Event(ground, optx.Newton(1e-5, 1e-5, optx.rms_norm))
    solution = dfx.diffeqsolve(
        dfx.ODETerm(falling),
        dfx.Tsit5(),
        t0=0,
        t1=jnp.inf,
        dt0=0.1,
        y0=(height0, jnp.zeros(())),
        args=gravity,
        event=event,
    )
    fall = solution.ts[-1]
    return fall


# planted


def cut_field(t, y, args):
    fixed = jax.lax.stop_gradient(args)
    slope = -fixed * y
    return slope


def decay_cut(rate, y0):
    term, saveat = dfx.ODETerm(cut_field), dfx.SaveAt(t1=True)
    solution = dfx.diffeqsolve(term, dfx.Euler(), 0.0, 1.0, 0.25, y0, args=rate, saveat=saveat, max_steps=8)  # <- cut
    last = solution.ys[-1]
    return (last - 0.3) ** 2


def decay_cut_after(rate, y0):
    solution = dfx.diffeqsolve(dfx.ODETerm(vector_field), dfx.Euler(), 0.0, 1.0, 0.25, y0, args=rate, max_steps=8)
    last = jax.lax.stop_gradient(solution.ys[-1])  # <- cut
    return (last - y0) ** 2


def root_field(t, y, args):
    root = jnp.sqrt(y - 2 * args)
    return -root


def decay_nan(rate, y0):
    term, solver = dfx.ODETerm(root_field), dfx.Euler()
    solution = dfx.diffeqsolve(term, solver, 0.0, 1.0, 0.5, y0, args=rate, max_steps=8, throw=False)  # <- nan
    last = solution.ys[-1]
    return last * 2


def decay_nan_after(rate, y0):
    solution = dfx.diffeqsolve(dfx.ODETerm(vector_field), dfx.Euler(), 0.0, 1.0, 0.25, y0, args=rate, max_steps=8)
    last = solution.ys[-1]
    entropy = jnp.log(last - 5.0)  # <- nan
    return entropy * rate


# asked


def given():
    return jnp.array(0.5), jnp.array(1.0)


def test_decay(ask):
    rec = ask.function(decay, given)
    rate, y0 = given()
    last = y0 * jnp.exp(-rate)
    ask.gradients(rec, {"rate": -2 * (last - 0.3) * last, "y0": 2 * (last - 0.3) * jnp.exp(-rate)}, tolerance=1e-3)
    ask.gradients(rec, by(decay, rate, y0) | {"loss": 1.0, "ys": jnp.array([0.0, 2 * (last - 0.3)])}, tolerance=1e-3)
    ask.names(rec, "rate", "y0", "ys", "last", "loss")
    ask.statuses(rec, {"rate": "ok", "ys": "ok", "last": "ok"})
    ask.clean(rec)
    ask.works("`diffeqsolve` with a fixed step, `SaveAt`, and any loss of `solution.ys`")


def test_vector_field(ask):
    rec = ask.function(decay, given)
    ask.that(any("vector_field" in str(one) for one in [*rec.notes, *rec]), f"no word of vector_field: {rec.notes}")
    ask.refuses("what a vector field binds, inside of the integration: a note")


def test_neural_ode(ask):
    model = NeuralODE(2, 4, 1, key=jr.key(1))
    rec = ask.function(neural_loss, lambda: (model, TIMES, SPIRAL))
    right = eqx.filter_grad(neural_loss)(model, TIMES, SPIRAL)
    layers = {f"model.func.mlp.layers.{at}.weight": right.func.mlp.layers[at].weight for at in range(2)}
    ask.gradients(rec, layers | {"model.func.out_scale": right.func.out_scale, "loss": 1.0}, tolerance=1e-4)
    predicted = jax.vmap(model, in_axes=(None, 0))(TIMES, SPIRAL[:, 0])
    error = SPIRAL - predicted
    ask.gradients(rec, {"error": 2 * error / error.size, "y_pred": -2 * error / error.size}, tolerance=1e-4)
    ask.names(rec, "y_pred", "error", "loss", "yi")
    ask.clean(rec)
    ask.works("a neural ODE of Equinox: its parameters by path, with an adaptive step")


def test_stochastic(ask):
    args = {"theta": jnp.array(0.5), "sigma": jnp.array(0.3)}
    rec = ask.function(ornstein_uhlenbeck, lambda: (args,))
    right = jax.grad(ornstein_uhlenbeck)(args)
    ask.gradients(rec, {"args.theta": right["theta"], "args.sigma": right["sigma"], "end": 2 * rec["end"].value})
    ask.clean(rec)
    ask.works("stochastic equations, with a `VirtualBrownianTree`")


def test_adjoints(ask):
    for program in (backsolved, forward_mode):
        rec = ask.function(program, given)
        ask.gradients(rec, by(program, *given()) | {"final": 2 * rec["final"].value}, tolerance=1e-4)
        ask.names(rec, "solution.ys", "final")
        ask.clean(rec)
    ask.works("`BacksolveAdjoint`, `DirectAdjoint`, and the default adjoint")


def test_event(ask):
    inputs = jnp.array(2.0), jnp.array(9.81)
    rec = ask.function(time_of_fall, lambda: inputs)
    fall = jnp.sqrt(2 * inputs[0] / inputs[1])
    ask.values(rec, {"fall": fall}, tolerance=1e-3)
    ask.gradients(rec, {"height0": fall / inputs[0] / 2, "gravity": -fall / inputs[1] / 2}, tolerance=1e-3)
    ask.clean(rec)
    ask.works("the time of an event")


def test_planted(ask):
    ask.cut(ask.function(decay_cut, given), decay_cut, "cut_field, and was not followed")
    ask.cut(ask.function(decay_cut_after, given), decay_cut_after)
    ask.nan(ask.function(decay_nan_after, given, nonfinite=True), decay_nan_after)


def test_nan_inside(ask):
    rec = ask.function(decay_nan, given, nonfinite=True)
    ask.nan(rec, decay_nan)


def test_watch(ask):
    def loss(params, y0):
        return decay(params["rate"], y0)

    last = ask.watched_function(descending(loss, {"rate": jnp.array(2.0)}, [(jnp.array(1.0),)] * 20))
    ask.rows(last, "params.rate")
    ask.works("`bp.watch_function` over 20 steps of a fit")

"""diffrax: equations that are integrated, as its documentation writes them, small."""

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

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
            dfx.ODETerm(self.func), dfx.Tsit5(), t0=ts[0], t1=ts[-1], dt0=ts[1] - ts[0], y0=y0,
            stepsize_controller=dfx.PIDController(rtol=1e-3, atol=1e-6), saveat=dfx.SaveAt(ts=ts),
        )  # fmt: skip
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
        dfx.ODETerm(falling), dfx.Tsit5(), t0=0, t1=jnp.inf, dt0=0.1, y0=(height0, jnp.zeros(())), args=gravity,
        event=event,
    )  # fmt: skip
    fall = solution.ts[-1]
    return fall


# planted


def cut_field(t, y, args):
    fixed = jax.lax.stop_gradient(args)  # <- cut
    slope = -fixed * y
    return slope


def decay_cut(rate, y0):
    solution = dfx.diffeqsolve(
        dfx.ODETerm(cut_field), dfx.Euler(), 0.0, 1.0, 0.25, y0, args=rate, max_steps=8
    )
    last = solution.ys[-1]
    return (last - 0.3) ** 2


def decay_cut_after(rate, y0):
    solution = dfx.diffeqsolve(dfx.ODETerm(vector_field), dfx.Euler(), 0.0, 1.0, 0.25, y0, args=rate, max_steps=8)
    last = jax.lax.stop_gradient(solution.ys[-1])  # <- cut
    return (last - y0) ** 2


def root_field(t, y, args):
    root = jnp.sqrt(y - 2 * args)  # <- nan
    return -root


def decay_nan(rate, y0):
    solution = dfx.diffeqsolve(
        dfx.ODETerm(root_field), dfx.Euler(), 0.0, 1.0, 0.5, y0, args=rate, max_steps=8, throw=False
    )
    last = solution.ys[-1]
    return last * 2


def decay_nan_after(rate, y0):
    solution = dfx.diffeqsolve(dfx.ODETerm(vector_field), dfx.Euler(), 0.0, 1.0, 0.25, y0, args=rate, max_steps=8)
    last = solution.ys[-1]
    entropy = jnp.log(last - 5.0)  # <- nan
    return entropy * rate

"""numpyro: log densities of models, variational losses, and what its samplers differentiate."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from in_jax import by, descending
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer import Trace_ELBO
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import log_density, potential_energy

FRAMEWORK, LIBRARIES = "JAX", ("numpyro",)

J = 4
Y = jnp.array([28.0, 8.0, -3.0, 7.0]) / 10
SIGMA = jnp.array([15.0, 10.0, 16.0, 11.0]) / 10

# https://num.pyro.ai/en/stable/getting_started.html (eight schools)


def eight_schools(sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("J", J):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def schools_density(mu, tau, theta):
    log_joint, trace = log_density(eight_schools, (SIGMA,), {"y": Y}, {"mu": mu, "tau": tau, "theta": theta})
    return -log_joint


def schools_potential(params):
    energy = potential_energy(eight_schools, (SIGMA,), {"y": Y}, params)
    return energy


# https://num.pyro.ai/en/stable/svi.html


def regression(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 1.0))
    mean = intercept + slope * x
    numpyro.sample("y", dist.Normal(mean, 0.5), obs=y)


XS = jnp.array([-1.0, 0.0, 1.0, 2.0])
YS = jnp.array([-1.2, 0.3, 0.9, 2.1])


def guide(x, y=None):
    loc = numpyro.param("loc", jnp.array([0.5, 0.1]))
    scale = numpyro.param("scale", jnp.array([0.3, 0.4]), constraint=dist.constraints.positive)
    numpyro.sample("slope", dist.Normal(loc[0], scale[0]))
    numpyro.sample("intercept", dist.Normal(loc[1], scale[1]))


def elbo_loss(params, key):
    loss = Trace_ELBO(num_particles=2).loss(key, params, regression, guide, XS, YS)
    return loss


# https://num.pyro.ai/en/stable/examples/ar2.html (a time series, scanned)


def ar1(y):
    rho = numpyro.sample("rho", dist.Normal(0, 1))

    def transition(previous, current):
        mean = rho * previous
        numpyro.sample("obs", dist.Normal(mean, 0.5), obs=current)
        return current, mean

    scan(transition, jnp.array(0.0), y)


def series_density(rho, y):
    log_joint, _ = log_density(ar1, (y,), {}, {"rho": rho})
    return -log_joint


# https://num.pyro.ai/en/stable/tutorials/bad_posterior_geometry.html (reparametrised)

centred = handlers.reparam(eight_schools, config={"theta": LocScaleReparam(0.0)})


def reparametrised_density(mu, tau, theta_decentered):
    given = {"mu": mu, "tau": tau, "theta_decentered": theta_decentered}
    log_joint, _ = log_density(centred, (SIGMA,), {"y": Y}, given)
    return -log_joint


# planted


def cut_model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    mean = jax.lax.stop_gradient(x) * slope
    numpyro.sample("y", dist.Normal(mean, 0.5), obs=y)


def cut(slope, x):
    log_joint, _ = log_density(cut_model, (x, YS), {}, {"slope": slope})  # <- cut
    return -log_joint


def nan_model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    penalty = jnp.sqrt(slope - 100.0)  # <- nan
    numpyro.factor("penalty", -penalty)
    numpyro.sample("y", dist.Normal(slope * x, 0.5), obs=y)


def nan(slope, x):
    log_joint, _ = log_density(nan_model, (x, YS), {}, {"slope": slope})
    return -log_joint


# asked


def schools():
    return jnp.array(0.5), jnp.array(1.2), jnp.array([0.1, 0.2, 0.3, 0.4])


def test_log_density(ask):
    rec = ask.function(schools_density, schools)
    mu, tau, theta = schools()
    prior, seen = (theta - mu) / tau**2, (theta - Y) / SIGMA**2
    by_tau = J / tau - jnp.sum((theta - mu) ** 2) / tau**3 + 2 * tau / (25 + tau**2)
    ask.gradients(rec, {"theta": prior + seen, "mu": mu / 25 - jnp.sum(prior), "tau": by_tau, "log_joint": -1.0})
    ask.names(rec, "mu", "tau", "theta", "log_joint")
    ask.statuses(rec, {"mu": "ok", "theta": "ok"})
    ask.clean(rec)
    said = [str(one) for one in [*rec.notes, *rec]]
    ask.that(any("eight_schools" in one for one in said), f"no word of eight_schools: {said}")
    ask.works("`log_density`: each latent by its name, with plates")


def test_potential(ask):
    params = {"mu": jnp.array(0.5), "tau": jnp.array(0.2), "theta": jnp.array([0.1, 0.2, 0.3, 0.4])}
    rec = ask.function(schools_potential, lambda: (params,))
    ask.gradients(rec, by(schools_potential, params) | {"energy": 1.0})
    ask.clean(rec)
    ask.works("`potential_energy`, which NUTS differentiates")


def test_elbo(ask):
    params, key = {"loc": jnp.array([0.5, 0.1]), "scale": jnp.array([0.3, 0.4])}, jax.random.PRNGKey(0)
    rec = ask.function(elbo_loss, lambda: (params, key))
    ask.gradients(rec, by(elbo_loss, params, key))
    ask.names(rec, "params.loc", "params.scale", "loss")
    ask.clean(rec)
    ask.works("the loss of `Trace_ELBO` with respect to the parameters of a guide")


def test_series(ask):
    inputs = jnp.array(0.5), jnp.array([0.1, 0.4, 0.2])
    rec = ask.function(series_density, lambda: inputs)
    before = jnp.array([0.0, 0.1, 0.4])
    ask.gradients(
        rec, by(series_density, *inputs) | {"rho": inputs[0] - jnp.sum((inputs[1] - 0.5 * before) * before) / 0.25}
    )
    ask.clean(rec)
    ask.works("a model with `scan`")


def test_reparametrised(ask):
    rec = ask.function(reparametrised_density, schools)
    ask.gradients(rec, by(reparametrised_density, *schools()))
    ask.clean(rec)
    ask.works("`LocScaleReparam`")


def test_planted(ask):
    inputs = jnp.array(0.5), XS
    ask.cut(ask.function(cut, lambda: inputs), cut)
    ask.nan(ask.function(nan, lambda: inputs, nonfinite=True), nan_model)


def test_watch(ask):
    params = {"loc": jnp.array([0.5, 0.1]), "scale": jnp.array([0.3, 0.4])}
    keys = jax.random.split(jax.random.PRNGKey(0), 20)
    last = ask.watched_function(descending(elbo_loss, params, [(key,) for key in keys], rate=0.005))
    ask.rows(last, "params.loc", "params.scale")
    ask.works("`bp.watch_function` over 20 steps of a variational fit")

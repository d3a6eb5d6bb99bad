"""Rollouts as brax and MJX have them: a state in a dataclass, stepped within `lax.scan`, and a policy."""

import flax.struct
import jax
import jax.numpy as jnp
from in_jax import by, descending

import backprobe as bp

FRAMEWORK, LIBRARIES = (
    "JAX",
    (
        "jax",
        "flax",
    ),
)


@flax.struct.dataclass
class State:
    q: jax.Array
    qd: jax.Array


# https://github.com/google/brax (a spring on each of two bodies; semi-implicit Euler)


def step(state, action, stiffness):
    force = -stiffness * state.q + action
    qd = state.qd + 0.1 * force
    q = state.q + 0.1 * qd
    return state.replace(q=q, qd=qd)


def trajectory_loss(stiffness, action):
    def body(state, _):
        state = step(state, action, stiffness)
        return state, state.q

    start = State(q=jnp.array([1.0, -0.5]), qd=jnp.zeros(2))
    end, path = jax.lax.scan(body, start, None, length=5)
    miss = end.q - 0.2
    return jnp.sum(miss**2) + 0.1 * jnp.sum(path**2)


# https://github.com/google/brax/tree/main/brax/training/agents/apg (gradients through the simulation)


def policy(params, obs):
    hidden = jnp.tanh(obs @ params["w1"])
    return hidden @ params["w2"]


PARAMS = {"w1": jnp.array([[0.2, -0.1, 0.4]] * 4), "w2": jnp.array([[0.3, -0.2]] * 3)}


def analytic_policy_gradient(params, key):
    def env_step(carry, step_key):
        state = carry
        obs = jnp.concatenate([state.q, state.qd])
        action = policy(params, obs)
        noise = 0.01 * jax.random.normal(step_key, (2,))
        state = step(state, action + noise, 1.0)
        reward = -jnp.sum(state.q**2)
        return state, reward

    start = State(q=jnp.array([1.0, -0.5]), qd=jnp.zeros(2))
    _, rewards = jax.lax.scan(jax.checkpoint(env_step), start, jax.random.split(key, 4))
    return -jnp.mean(rewards)


# https://mujoco.readthedocs.io/en/stable/mjx.html (a contact, solved by a fixed number of iterations, over a batch)


def contact_force(height, speed, stiffness):
    depth = jnp.maximum(0.0, -height)
    damped = stiffness * depth - 0.5 * speed * (depth > 0)
    return jnp.where(depth > 0, damped, 0.0)


def bounce_loss(stiffness, heights):
    def one(height):
        def body(i, carry):
            height, speed = carry
            force = contact_force(height, speed, stiffness)
            speed = speed + 0.05 * (force - 9.81)
            height = height + 0.05 * speed
            return height, speed

        height, _ = jax.lax.fori_loop(0, 12, body, (height, jnp.zeros(())))
        return height

    final = jax.vmap(one)(heights)
    return jnp.mean(final**2)


# planted: the rollout is truncated, which is on purpose in brax, and here by mistake


def cut(params, start):
    def env_step(state, _):
        action = jax.lax.stop_gradient(policy(params, jnp.concatenate([state.q, state.qd])))  # <- cut
        state = step(state, action, 1.0)
        return state, jnp.sum(state.q**2)

    _, costs = jax.lax.scan(env_step, State(q=start, qd=jnp.zeros(2)), None, length=3)
    return jnp.sum(costs)


def nan(stiffness, start):
    def body(state, _):
        distance = jnp.sqrt(jnp.sum((state.q - state.q) ** 2))
        pushed = state.q / distance  # <- nan
        state = step(state, pushed, stiffness)
        return state, None

    end, _ = jax.lax.scan(body, State(q=start, qd=jnp.zeros(2)), None, length=3)
    return jnp.sum(end.q)


# asked


def test_trajectory(ask):
    inputs = jnp.array(1.5), jnp.array([0.1, 0.2])
    rec = ask.function(trajectory_loss, lambda: inputs)
    ask.gradients(rec, by(trajectory_loss, *inputs) | {"miss": 2 * rec["miss"].value, "path": 0.2 * rec["path"].value})
    ask.gradients(rec, {"end.q": 2 * rec["miss"].value})
    ask.names(rec, "stiffness", "action", "/body/step:force", "/body/step:q", "end.q", "path")
    ask.clean(rec)
    ask.works("a rollout in `lax.scan` with a state in a dataclass: forces and positions, stacked by step")


def test_policy(ask):
    inputs = PARAMS, jax.random.key(0)
    rec = bp.probe(analytic_policy_gradient)(*inputs)
    right = jax.grad(analytic_policy_gradient)(*inputs)
    ask.gradients(rec, {"params.w1": right["w1"], "params.w2": right["w2"], "rewards": jnp.full(4, -0.25)})
    ask.names(rec, "/env_step:obs", "/env_step/policy:hidden", "/env_step:reward")
    ask.clean(rec)
    ask.works("gradients of a policy through `jax.checkpoint` within `scan`")


def test_contact(ask):
    inputs = jnp.array(200.0), jnp.array([0.1, 0.3, 0.5])
    rec = ask.function(bounce_loss, lambda: inputs)
    ask.gradients(rec, by(bounce_loss, *inputs) | {"final": 2 * rec["final"].value / 3}, tolerance=1e-4)
    ask.names(rec, "heights", "final", "/one/body/contact_force:depth")
    ask.clean(rec)
    ask.works("contacts in `fori_loop` under `vmap`")


def test_planted(ask):
    start = jnp.array([1.0, -0.5])
    ask.cut(ask.function(cut, lambda: (PARAMS, start)), cut)
    ask.nan(ask.function(nan, lambda: (jnp.array(1.5), start), nonfinite=True), nan)


def test_watch(ask):
    def loss(params, key):
        return analytic_policy_gradient(params, key)

    keys = jax.random.split(jax.random.key(0), 20)
    last = ask.watched_function(descending(loss, PARAMS, [(key,) for key in keys]))
    ask.rows(last, "params.w1", "params.w2")
    ask.works("`bp.watch_function` over 20 steps")

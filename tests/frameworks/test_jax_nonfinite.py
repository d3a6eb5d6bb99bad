"""NaN and Inf that begin in a step of a JAX loop: its values are recorded for all steps at once."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import backprobe as bp


def in_the_second_step(x):
    def step(h, t):
        h2 = jnp.exp(h * 30)  # here
        return h2, h2

    h, ks = jax.lax.scan(step, x, None, length=4)
    return ks.sum()


def in_reverse(x):
    def step(h, t):
        h2 = jnp.exp(h * 30)  # here
        return h2, h2

    h, ks = jax.lax.scan(step, x, None, length=4, reverse=True)
    return ks.sum()


def in_a_for_loop(x):
    def body(i, h):
        k = h - 1
        return jnp.log(k)  # here

    h = jax.lax.fori_loop(0, 3, body, x)
    return h * 2


def worse_in_later_steps(p, xs):
    def step(p, x):
        l = jnp.log(jnp.abs(x) * p)  # here
        return p - l, l

    return jax.lax.scan(step, p, xs)[1].sum()


def by_a_divisor(x, ts):
    def step(h, t):
        k = h / t  # here
        return k, k

    h, ks = jax.lax.scan(step, x, ts)
    return ks.sum()


def nested(x):
    def inner(h, t):
        v = jnp.exp(h * 10)  # here
        return v * 0.1, None

    def step(h, t):
        g, none = jax.lax.scan(inner, h, None, length=2)
        return g, g

    h, ks = jax.lax.scan(step, x, None, length=2)
    return h


def given(x, ts):  # here
    def step(h, t):
        k = h * t
        return k, k

    h, ks = jax.lax.scan(step, x, ts)
    return h


def before(x):
    y = jnp.log(x)  # here

    def step(h, t):
        k = h * 2
        return k, k

    h, ks = jax.lax.scan(step, y, None, length=3)
    return h


CASES = [
    (in_the_second_step, (2.0,), "Inf is born at '/step:h2': overflow: float32 ends at 3.40e38", 1),
    (in_reverse, (2.0,), "Inf is born at '/step:h2': overflow: float32 ends at 3.40e38", 2),
    (in_a_for_loop, (2.0,), "NaN is born at '/body:return': log of a number below 0", 1),
    (worse_in_later_steps, (1.0, [1.0, 0.0, 1.0, 1.0]), "Inf is born at '/step:l': log(0)", 1),
    (by_a_divisor, (0.0, [1.0, 2.0, 0.0, 1.0]), "NaN is born at '/step:k': 0/0", 2),
    (nested, (0.1,), "Inf is born at '/step/inner:v': overflow: float32 ends at 3.40e38", None),
    (given, (2.0, [1.0, 2.0, float("nan"), 1.0]), "NaN comes in with 'ts'", None),
    (given, (2.0, [float("nan"), 2.0, 1.0]), "NaN comes in with 'ts'", None),
    (given, (float("nan"), [1.0, 2.0, 1.0]), "NaN comes in with 'x'", None),
    (before, (-1.0,), "NaN is born at 'y': log of a number below 0", None),
]


@pytest.mark.parametrize(("program", "args", "headline", "step"), CASES)
def test_the_line_and_the_step(program, args, headline, step):
    report = bp.explain(bp.probe(program, nonfinite=True)(*map(jnp.array, args)))
    (found,) = report.of_kind("born", "came_in", "unknown")
    lines, first = inspect.getsourcelines(program)
    known = first + next(at for at, line in enumerate(lines) if "# here" in line)
    assert (found.headline, found.source.line) == (headline, known)
    said = [fact.partition(":")[0] for fact in found.facts if fact.startswith("it begins in step")]
    assert step is None or said == [f"it begins in step {step} of the loop, counted from 0"]


def several(x, ts):
    def step(h, t):
        a = h / t
        b = jnp.sqrt(t - 1)
        k = jnp.where(jnp.isfinite(a), a, 1) + b
        return jnp.where(jnp.isfinite(k), k, 1), k

    h, ks = jax.lax.scan(step, x, ts)
    return ks.sum()


def test_each_birth_of_a_loop_is_told_with_its_steps():
    rec = bp.probe(several, nonfinite=True)(jnp.array(1.0), jnp.array([1.0, 0.5, 3.0, 0.0, 0.25]))
    found = {one.name: one for one in bp.explain(rec).of_kind("born")}
    assert found.keys() == {"/step:a", "/step:b"}
    assert found["/step:b"].headline == "NaN is born at '/step:b': the square root of a negative number"
    assert (
        "it begins in step 1 of the loop, counted from 0, and again in 3, 4, where its inputs are finite"
        in found["/step:b"].facts
    )
    assert found["/step:a"].headline == "Inf is born at '/step:a': division by zero"
    assert "it begins in step 3 of the loop, counted from 0" in found["/step:a"].facts


def carried_on(x, ts):
    def step(h, t):
        a = h / t
        b = jnp.sqrt(t - 1)
        k = a + b
        return k, k

    h, ks = jax.lax.scan(step, x, ts)
    return h


def test_what_the_step_before_has_made_is_no_birth():
    rec = bp.probe(carried_on, nonfinite=True)(jnp.array(1.0), jnp.array([1.0, 0.5, 3.0, 0.0]))
    found = bp.explain(rec).of_kind("born")
    assert [one.name for one in found] == ["/step:b"]
    assert any("step 1 of the loop, counted from 0, and again in 3" in fact for fact in found[0].facts)


def test_what_begins_as_inf_is_not_called_nan():
    rec = bp.probe(carried_on, nonfinite=True)(jnp.array(1.0), jnp.array([1.0, 2.0, 0.0, 1.0]))
    found = {one.name: one.headline for one in bp.explain(rec).of_kind("born")}
    assert found["/step:a"] == "Inf is born at '/step:a': division by zero"


class Scaled(eqx.Module):
    scale: jax.Array

    def __call__(self, x):
        h = x * jnp.sqrt(self.scale)
        return h.sum()


def test_a_line_of_several_operations_of_which_none_has_an_entry():
    rec = bp.probe(Scaled(jnp.zeros(3)), nonfinite=True)(jnp.ones((4, 3)))
    (found,) = bp.explain(rec).of_kind("born_backward")
    assert found.headline == "Inf is born in the backward of 'h': the derivative of sqrt is infinite at 0"
    assert "its backward was given a finite gradient and made Inf" in found.facts
    rec = bp.probe(Scaled(jnp.zeros(3)), ["**", ":*", ":*()"], nonfinite=True)(jnp.ones((4, 3)))
    (found,) = bp.explain(rec).of_kind("born_backward")
    assert found.headline == "Inf is born in the backward of 'sqrt()': the derivative of sqrt is infinite at 0"


def test_a_gradient_taken_in_a_loop_is_born_in_its_step():
    """What is bad in the steps after that comes from there, also in the functions that the body calls."""

    def loss(p, x):
        d = p * x
        return jnp.sqrt(jnp.sum(d * d))

    def train(p, xs):
        def step(p, x):
            l, g = jax.value_and_grad(loss)(p, x)
            return p - 0.1 * g, l

        p, ls = jax.lax.scan(step, p, xs)
        return ls.sum()

    xs = jnp.array([[1.0, 2.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    report = bp.explain(bp.probe(train, nonfinite=True)(jnp.ones(2), xs))
    assert [(one.kind, one.name) for one in report.findings[:-1]] == [("born", "/step:g")]
    assert report.findings[-1].kind == "propagated"


def masked_division(h, ts):
    def step(h, t):
        a = h / t  # here
        k = jnp.where(t > 0, a, h)
        return k, None

    return jax.lax.scan(step, h, ts)[0]


def masked_division_in_reverse(h, ts):
    def step(h, t):
        a = h / t  # here
        k = jnp.where(t > 0, a, h)
        return k, None

    return jax.lax.scan(step, h, ts, reverse=True)[0]


def a_norm_of_the_carry(h, ts):
    def step(h, t):
        v = h * t
        n = jnp.sqrt((v * v).sum())  # here
        return h * 0.5 + n, None

    return jax.lax.scan(step, h, ts)[0].sum()


def a_root_in_a_for_loop(h, ts):
    def body(i, c):
        d = jnp.maximum(c - 1.0, 0.0)
        r = jnp.sqrt(d)  # here
        return r

    return jax.lax.fori_loop(0, 3, body, h) * ts.sum()


def beside_the_carry(h, ts):
    def step(h, t):
        r = jnp.where(t > 0, jnp.sqrt(t), 0.0)  # here
        return h * 0.5 + r, None

    return jax.lax.scan(step, h, ts)[0]


TS = [1.0, 2.0, 0.0, 1.0]
BACKWARD_IN_LOOPS = [
    (masked_division, 1.0, TS, "/step:a", "NaN", "the derivative of div is infinite at 0", 2),
    (masked_division_in_reverse, 1.0, TS, "/step:a", "NaN", "the derivative of div is infinite at 0", 2),
    (a_norm_of_the_carry, 1.0, TS, "/step:n", "Inf", "the derivative of sqrt is infinite at 0", 2),
    (a_root_in_a_for_loop, 2.0, TS, "/body:r", "Inf", "the derivative of sqrt is infinite at 0", 2),
    (beside_the_carry, 1.0, TS, "/step:sqrt()", "NaN", "the derivative of sqrt is infinite at 0", 2),
]


@pytest.mark.parametrize(("program", "h", "ts", "name", "word", "why", "step"), BACKWARD_IN_LOOPS)
def test_a_gradient_is_born_in_the_step_that_backward_came_to_first(program, h, ts, name, word, why, step):
    """In the steps before it, everything that is handed on has a bad gradient: no line there has made one."""
    report = bp.explain(bp.probe(program, nonfinite=True)(jnp.array(h), jnp.array(ts)))
    lines, first = inspect.getsourcelines(program)
    known = first + next(at for at, line in enumerate(lines) if "# here" in line)
    found = report.of_kind("born_backward")
    assert {(one.name, one.source.line) for one in found if "finite gradient" in str(one.facts)} == {(name, known)}
    assert found[0].headline.startswith(f"{word} is born in the backward of '{name}'") and why in found[0].headline
    assert f"it begins in step {step} of the loop, counted from 0" in found[0].facts
    assert not report.of_kind("apart")
    assert "does no harm" not in str(report)


@pytest.mark.parametrize("ids", [[0, 2, 3], [-4, 1]])
def test_an_index_beyond_a_table_is_named_with_its_size(ids):
    def f(table, ids):
        rows = jnp.take(table, ids, axis=0)
        return rows.sum()

    (born,) = bp.explain(bp.probe(f, nonfinite=True)(jnp.arange(6.0).reshape(3, 2), jnp.array(ids))).of_kind("born")
    at = ids.index(3 if 3 in ids else -4)
    assert f"the index {ids[at]} at [{at}] of ids is beyond table, which has 3 along dimension 0" in born.facts

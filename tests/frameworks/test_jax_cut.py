"""An output in JAX that depends on nothing differentiated: the error names the line and what it does."""

from os.path import relpath

import jax
import jax.numpy as jnp
import pytest

import backprobe as bp

X = jnp.array([1.0, 2.0, 3.0])


def positions(x):
    h = x * 2
    best = jnp.argmax(h)  # here
    return best.astype(float) * 3


def sorted_positions(x):
    h = x * 2
    order = jnp.argsort(h)  # here
    return jnp.sum(order * 1.0)


def only_a_position(x):
    h = x * 2
    best = jnp.argmax(h)  # here
    return best


def compared(x):
    h = x * 2
    hit = h > 3  # here
    return jnp.mean(hit)


def counted(x):
    h = x * 2
    return jnp.sum(jnp.where(jnp.equal(h, 2.0), 1.0, 0.0))  # here


def rounded(x):
    h = x * 2
    return jnp.sum(jnp.round(h))  # here


def floored(x):
    h = x * 2
    low = jnp.floor(h)  # here
    return jnp.sum(low**2)


def whole(x):
    h = x * 2
    numbers = h.astype(int)  # here
    return jnp.sum(numbers.astype(float))


def stopped(x):
    h = x * 2
    return jnp.sum(jax.lax.stop_gradient(h))  # here


def stopped_in_a_function(x):
    h = x * 2
    return jnp.sum(target_of(h))


def target_of(u):
    v = u + 1
    return jax.lax.stop_gradient(v) * 2  # here


CUTS = {
    positions: ("`jnp.argmax(h)` gives positions", "whose gradient flows: jnp.max(h)"),
    sorted_positions: ("`jnp.argsort(h)` gives positions", "softmax"),
    only_a_position: ("`jnp.argmax(h)` gives positions", "whose gradient flows: jnp.max(h)"),
    compared: ("`h > 3` is true or false", "jnp.where"),
    counted: ("`jnp.equal(h, 2.0)` is true or false", "jnp.where"),
    rounded: ("the derivative of 'return' with respect to 'h' that backward uses is 0", "jax.lax.stop_gradient(round"),
    floored: ("the derivative of 'low' with respect to 'h' that backward uses is 0", "jax.lax.stop_gradient(floor"),
    whole: ("`h.astype(int)` converts 'h' to integers", "astype to a floating dtype"),
    stopped: ("`jax.lax.stop_gradient(h)` cuts 'return' off from 'h'", "leave out stop_gradient"),
    stopped_in_a_function: (
        "`jax.lax.stop_gradient(v)` cuts '/target_of:return' off from '/target_of:v'",
        "leave out stop_gradient",
    ),
}


def here(function):
    """The number of the line that is marked in a function."""
    with open(__file__) as file:
        lines = list(enumerate(file.read().split("\n"), 1))
    return next(n for n, line in lines if n > function.__code__.co_firstlineno and line.endswith("# here"))


def of_other_frameworks(text):
    text = text.replace(relpath(__file__), "")
    return [word for word in ("requires_grad", "torch", "detach", "no_grad", "tf.", "Variable") if word in text]


@pytest.mark.parametrize("function", CUTS)
def test_a_function_that_is_cut_off_names_the_line(function):
    said, remedy = CUTS[function]
    with pytest.raises((bp.NothingToDifferentiate, bp.BadOutput)) as caught:
        bp.probe(function)(X)
    (note,) = caught.value.__notes__
    assert note.startswith("backprobe: the result does not depend on any differentiated value\n")
    assert said in note
    assert remedy in note
    assert f"{relpath(__file__)}:{here(function)}: " in note
    assert not of_other_frameworks(f"{caught.value}\n{note}")


def test_what_is_no_cut_is_not_named():
    def f(x):
        h = jnp.tanh(x * 2)
        mask = h > 0
        kept = h * mask
        total = jnp.sum(jax.lax.stop_gradient(kept))
        return total

    with pytest.raises(bp.NothingToDifferentiate) as caught:
        bp.probe(f)(X)
    (note,) = caught.value.__notes__
    assert note.count("cut:") == 1
    assert "`jax.lax.stop_gradient(kept)` cuts 'total' off from 'kept'" in note


def test_an_output_that_is_not_a_scalar_is_no_cut():
    with pytest.raises(bp.BadOutput, match="not a scalar") as caught:
        bp.probe(lambda x: x * 2)(X)
    assert not getattr(caught.value, "__notes__", [])
    assert caught.value.next.startswith("cotangent=jnp.ones((3,))")


def test_nothing_is_left_behind_by_a_program_without_an_output():
    with pytest.raises(bp.NothingToDifferentiate):
        bp.probe(stopped)(X)
    rec = bp.probe(lambda x: jnp.sum(x**2))(X)
    assert rec["x"].grad.tolist() == [2, 4, 6]
    assert jax.grad(lambda x: jnp.sum(x**2))(X).tolist() == [2, 4, 6]


def branch_that_stops(x, w):
    y = jax.lax.cond(x[0] > 0, lambda v: jax.lax.stop_gradient(v) * 2, lambda v: v * 2, x)
    return jnp.sum(y * w)


def choice_that_stops(x, w):
    y = jnp.where(x > 0, jax.lax.stop_gradient(x), 0.0)
    return jnp.sum(y * w)


@pytest.mark.parametrize("program", [branch_that_stops, choice_that_stops])
def test_the_condition_of_a_branch_is_not_what_cuts(program):
    (finding,) = bp.explain(bp.probe(program)(X, X)).findings
    assert finding.kind == "stop_gradient"


# values that are meant to be cut off: all that they are computed from is reached by other ways


def quantised(code, enc):
    d = jnp.sum((enc[:, None] - code[None]) ** 2, -1)
    nearest = code[jnp.argmin(d, -1)]
    kept = enc + jax.lax.stop_gradient(nearest - enc)
    return jnp.mean(kept**2) + jnp.mean((jax.lax.stop_gradient(enc) - nearest) ** 2)


def sampled_actions(policy, states):
    logits = states @ policy
    actions = jnp.argmax(logits, 1)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(states @ policy), actions[:, None], 1)
    return -jnp.mean(chosen)


@pytest.mark.parametrize("program", [quantised, sampled_actions])
def test_a_choice_whose_inputs_have_their_gradients_is_no_finding(program):
    columns = 2 if program is quantised else 3
    report = bp.explain(bp.probe(program)(jnp.arange(6.0).reshape(3, 2), jnp.eye(3)[:, :columns]))
    assert report.ok, str(report)
    assert any("argm" in note and "intended?" in note for note in report.notes)


def test_a_choice_of_what_is_reached_by_no_other_way_is_one():
    def f(policy, states):
        actions = jnp.argmax(states @ policy, 1)
        return jnp.sum(states[actions])

    (finding,) = bp.explain(bp.probe(f)(jnp.arange(6.0).reshape(3, 2), jnp.eye(3))).findings
    assert finding.kind == "index"

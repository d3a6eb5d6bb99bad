"""JAX's own errors in a probed function: the note names the line, what was found there, and what to write instead."""

import linecache

import jax
import jax.numpy as jnp
import pytest

import backprobe as bp

X = jnp.array([1.0, 2.0, 3.0])


def square(w):
    return jnp.sum(w**2)


def with_extra(w):
    return jnp.sum(w**2), w * 2


def argument_out_of_range(x):
    return jnp.sum(jax.grad(square, argnums=1)(x))  # here


def argument_by_keyword(x):
    def loss(w, y):
        return jnp.sum(w * y)

    return jnp.sum(jax.grad(loss, argnums=(0, 1))(x, y=x)[0])  # here


def integer_literal(x):
    def loss(w, n):
        return jnp.sum(w**n)

    return jax.grad(loss, argnums=1)(x, 2)  # here


def integer_in_a_tree(x):
    params = {"w": x, "state": [jnp.int32(3)]}
    of_loss = jax.grad(lambda p: jnp.sum(p["w"]))
    return jnp.sum(of_loss(params)["w"])  # here


def truth_values(x):
    mask = x > 1
    return jax.grad(lambda m: jnp.sum(x * m))(mask)  # here


def option_in_a_tree(x):
    params = {"w": x, "act": "relu"}
    return jnp.sum(jax.grad(lambda p: jnp.sum(p["w"]))(params)["w"])  # here


def vector(x):
    return jnp.sum(jax.grad(lambda w: w**2)(x))  # here


def one_element(x):
    return jnp.sum(jax.grad(lambda w: jnp.sum(w**2, keepdims=True))(x))  # here


def positions(x):
    return jnp.sum(jax.grad(lambda w: jnp.argmax(w))(x))  # here


def complex_number(x):
    return jnp.sum(jax.grad(lambda w: jnp.sum(jnp.fft.fft(w)))(x))  # here


def nothing_returned(x):
    def loss(w):
        jnp.sum(w**2)

    return jnp.sum(jax.grad(loss)(x))  # here


def extra_forgotten(x):
    value, grads = jax.value_and_grad(with_extra, argnums=0)(x)  # here
    return jnp.sum(grads) + value


def in_a_dict(x):
    return jnp.sum(jax.grad(lambda w: {"loss": square(w)})(x))  # here


def extra_that_is_not_there(x):
    differentiated = jax.value_and_grad(square, has_aux=True)
    (value, _), grads = differentiated(x)  # here
    return jnp.sum(grads) + value


def three_returned(x):
    (value, _), _ = jax.value_and_grad(lambda w: (square(w), w, w), has_aux=True)(x)  # here
    return value


def grows_in_a_loop(x):
    return jnp.sum(jax.lax.scan(lambda c, v: (jnp.append(c, v), None), jnp.zeros(1), x)[0])  # here


def other_dtype_in_a_loop(x):
    return jax.lax.scan(lambda c, v: (c + v, None), jnp.int32(0), x)[0]  # here


def grows_in_a_while_loop(x):
    def step(c):
        return c[0] + 1, jnp.append(c[1], 1.0)

    return jnp.sum(jax.lax.while_loop(lambda c: c[0] < 3, step, (0, x))[1])  # here


def negated_choice(x):
    return jnp.sum(jax.vmap(lambda v: 1.0 if not v > 0 else v)(x))  # here


def differentiated_by_a_decorator(x):
    @jax.value_and_grad
    def loss(w):
        return square(w), w

    value, _ = loss(x)  # here
    return value


def no_pair_in_a_loop(x):
    return jax.lax.scan(lambda c, v: c + v, 0.0, x)[0]  # here


def other_sizes(x):
    return jnp.sum(jax.vmap(lambda a, b: a * b)(x, jnp.ones(4)))  # here


def no_axis(x):
    return jnp.sum(jax.vmap(lambda a, b: a * b)(x, 2.0))  # here


def forward_through_a_rule(x):
    return jnp.sum(jax.jvp(doubled, (x,), (x,))[1])  # here


@jax.custom_vjp
def doubled(a):
    return a * 2


doubled.defvjp(lambda a: (a * 2, None), lambda _, g: (g * 2,))

GIVEN_AWAY = jnp.arange(3.0)
GIVEN_AWAY.delete()


def given_away(x):
    return jnp.sum(x * GIVEN_AWAY)  # here


def branch_on_and(x):
    def inside(v):
        return jnp.where(v > 0 and v < 2, v, 0.0)  # here

    return jnp.sum(jax.vmap(inside)(x))


def chained_comparison(x):
    def inside(v):
        return jnp.where(0 < v < 2, v, 0.0)  # here

    return jnp.sum(jax.vmap(inside)(x))


def choice(x):
    def inside(v):
        return v * 2 if v > 1 else v  # here

    return jnp.sum(jax.vmap(inside)(x))


def index_of_a_list(x):
    return jnp.sum(jax.vmap(lambda i: [1.0, 2.0, 3.0][i])(jnp.arange(3)) * x)  # here


def mask_that_selects(x):
    return jnp.sum(jax.vmap(lambda row: jnp.sum(row[row > 1]))(x[None]))  # here


def left_in_a_list(x):
    kept = []

    def step(c, v):
        h = c * v
        kept.append(h)
        return h, v

    last, _ = jax.lax.scan(step, 1.0, x)
    return last + sum(kept)  # here


def left_by_a_loss(x):
    kept = []

    def loss(w):
        h = w * 2
        kept.append(h)
        return jnp.sum(h**2)

    return jnp.sum(jax.grad(loss)(x) * kept[0])  # here


SAID = {
    argument_out_of_range: ("argnums=1 asks for an argument that the call does not have", "next:  argnums=0"),
    argument_by_keyword: ("found: 1 positional argument, and y by keyword", "give y by position"),
    integer_literal: ("found: 2 is int", "next:  2.0 in its place, or argnums without it"),
    integer_in_a_tree: ("found: params['state'][0] is int32", "in an argument of its own"),
    truth_values: ("found: mask is bool", "mask.astype(jnp.float32)"),
    option_in_a_tree: ("found: relu of type str", "functools.partial(f, option=...)"),
    vector: ("found: an array of shape (3,)", "jnp.mean or jnp.sum of what it returns, or jax.jacrev"),
    one_element: ("found: an array of shape (1,)", "loss.squeeze()"),
    positions: ("found: dtype int32", "argmax, a comparison, astype(int)"),
    complex_number: ("found: dtype complex64", "jnp.abs(z)**2"),
    nothing_returned: ("the function that is differentiated returns None", "next:  return the loss at its end"),
    extra_forgotten: ("found: a tuple", "next:  jax.value_and_grad(with_extra, argnums=0, has_aux=True)"),
    in_a_dict: ("found: a dict", "next:  return loss, others, a tuple of two, and jax.grad("),
    extra_that_is_not_there: ("found: one value", "or leave out has_aux: jax.value_and_grad(square)"),
    three_returned: ("found: a tuple, not of two", "next:  return loss, (a, b)"),
    grows_in_a_loop: ("found: float32[1] becomes float32[2]", "the second of the pair, which is stacked"),
    other_dtype_in_a_loop: ("found: int32[] becomes float32[]", "carry.astype(dtype)"),
    grows_in_a_while_loop: ("found: float32[3] becomes float32[4]", "begin with an array of the last"),
    negated_choice: ("next:  compute with the array itself: jnp.where",),
    differentiated_by_a_decorator: ("next:  has_aux=True in the call that differentiates it: the first of two",),
    no_pair_in_a_loop: ("found: float32[]", "next:  return carry, None"),
    other_sizes: ("jax.vmap maps over axes of different sizes", "found: 3 and 4", "in_axes=(0, None)"),
    no_axis: ("axis 0 of an argument that has no such axis", "found: shape ()", "in_axes=(0, None)"),
    forward_through_a_rule: ("a jax.custom_vjp is differentiated in forward mode", "next:  jax.jacrev"),
    given_away: ("an array is used whose memory has been given away", "params = step(params)"),
    branch_on_and: ("the number in a value that JAX only traces", "next:  (v > 0) & (v < 2)"),
    chained_comparison: ("the number in a value that JAX only traces", "next:  (0 < v) & (v < 2)"),
    choice: ("the number in a value that JAX only traces", "next:  jnp.where(v > 1, v * 2, v)"),
    index_of_a_list: ("the number in a value that JAX only traces", "jnp.asarray(values)[i]"),
    mask_that_selects: ("how many elements a mask selects is not known", "jnp.where(mask, x, 0)"),
    left_in_a_list: ("after JAX has traced the function", ": h = c * v", "`return carry, value`: jax.lax.scan"),
    left_by_a_loss: ("after JAX has traced the function", "`return loss, value`, with has_aux=True"),
}  # fmt: skip


@pytest.mark.parametrize("program", SAID, ids=lambda program: program.__name__)
def test_what_is_said_of_a_refusal(program):
    note = noted(program)
    for said in SAID[program]:
        assert said in note, note
    at = note.split("  at:    ")[1].split("\n")[0]
    assert at.endswith("# here") and f":{_line(program)}: " in at, note


def noted(program):
    with pytest.raises(Exception):  # noqa: B017, PT011  each of these is another error of JAX's
        program(X)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        bp.probe(program)(X)
    notes = [note for note in caught.value.__notes__ if note.startswith("backprobe: ") and "raised while" not in note]
    assert len(notes) == 1, caught.value.__notes__
    return notes[0]


def _line(program):
    first = program.__code__.co_firstlineno
    return next(at for at in range(first, first + 20) if linecache.getline(__file__, at).rstrip().endswith("# here"))


def wrong_count(x):
    @jax.custom_vjp
    def product(a, b):
        return a * b

    product.defvjp(lambda a, b: (a * b, (a, b)), lambda kept, g: (g * kept[1],))
    return jnp.sum(product(x, x))


def wrong_shape(x):
    @jax.custom_vjp
    def product(a, b):
        return a * b

    product.defvjp(lambda a, b: (a * b, (a, b)), lambda kept, g: (g * kept[1], jnp.sum(g * kept[0])))
    return jnp.sum(product(x, x))


@pytest.mark.parametrize(("program", "said"), [
    (wrong_count, ("does not return one gradient for each argument", "(g * b, g * a)")),
    (wrong_shape, ("gradient 1, counted from 0,", "found: float32[] for an argument of float32[3]", "next:  sum over")),
])  # fmt: skip
def test_what_is_said_of_a_rule_of_the_programs_own(program, said):
    with pytest.raises((TypeError, ValueError)) as caught:
        bp.probe(program)(X)
    for one in said:
        assert one in caught.value.__notes__[-1]


@pytest.mark.parametrize("program", [
    lambda x: jnp.sum([x, x]), lambda x: x @ jnp.ones((4, 2)), lambda x: [1.0] - x["w"],
    lambda x: (_ for _ in ()).throw(TypeError("a loss requires real-valued inputs, but got none")),
])  # fmt: skip
def test_nothing_is_said_of_other_errors(program):
    with pytest.raises(Exception) as caught:  # noqa: PT011  each of these is another error of JAX's
        bp.probe(program)(X)
    ours = [note for note in caught.value.__notes__ if note.startswith("backprobe: ")]
    assert len(ours) == 1 and "raised while running" in ours[0]


def test_an_argument_that_is_computed_in_the_call_is_not_computed_again():
    calls = []

    def counted(x):
        calls.append(1)
        return x.astype(int)

    with pytest.raises(TypeError) as caught:
        bp.probe(lambda x: jax.grad(square)(counted(x)))(X)
    assert len(calls) == 1
    assert "found:" not in caught.value.__notes__[-1]

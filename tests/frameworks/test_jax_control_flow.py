"""Values inside JAX's loops, branches, batches and checkpoints: by name, stacked, with the gradient of each.

What is expected is written by hand in JAX: a further argument is added at the place, and ``jax.grad`` taken of it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_expected import W, X, as_jax, by_hand, grads, on, same, statuses

import backprobe as bp
from asked import says

SECTION = "What only some frameworks have"
ZEROS = jnp.zeros(3)


def supports(claim, answer="yes"):
    return pytest.mark.supports(claim, SECTION, answer=answer)


# loops


@supports("`lax.scan`: values stacked by step, and the axis said in `entry.axes`")
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"unroll": 3}])
def test_the_values_of_a_scan_are_stacked_by_step(options):
    def f(x, w):
        def step(c, t):
            u = c * t
            unused = u * 7
            v = jnp.sin(u) + x
            return v, u

        last, us = lax.scan(step, x, w, **options)
        return last + us.sum()

    def expected(x, w, at_c, at_u, at_v):
        def step(c, item):
            t, c_, u_, v_ = item
            u = (c + c_) * t + u_
            return jnp.sin(u) + x + v_, u

        last, us = lax.scan(step, x, (w, at_c, at_u, at_v), **options)
        return last + us.sum()

    rec = bp.probe(f)(X, W)
    by_hand(rec, expected, **{"x": X, "w": W, "/step:c": ZEROS, "/step:u": ZEROS, "/step:v": ZEROS})
    says(rec, statuses={"/step:unused": "not_connected"}, axes={f"/step:{name}": ("step",) for name in "ctuv"})
    assert rec["last"].axes == ()
    same(rec["us"].value, rec["/step:u"].value)
    same(rec.result, f(X, W))


def test_a_scan_without_items_has_a_length():
    def f(x):
        def step(c, _):
            u = jnp.sin(c)
            return u, None

        return lax.scan(step, x, None, length=3)[0]

    rec = bp.probe(f)(X)
    assert rec["/step:u"].shape == (3,)
    same(rec["/step:u"].grad[-1], 1)
    same(rec["/step:u"].grad[0], np.cos(rec["/step:u"].value[0]) * np.cos(rec["/step:u"].value[1]))


@on(X, W).gives(
    {"/step:p": [6, 3, 1], "/step:c.0": [6, 6, 3]},
    statuses=dict.fromkeys(["/step:q", "/step:c.1", "b", "qs"], "not_connected"),
    inputs_of={"a": ["/step:p"], "/step:p": ["/step:c.0", "/step:t"], "/step:q": ["/step:c.1", "/step:p"]},
)
def test_what_is_carried_beside_the_output_is_not_connected(x, w):
    """JAX gives zeros for it: whether a gradient is 0 or not there only the structure of the loop tells."""

    def step(c, t):
        a, b = c
        p = a * t
        q = b * 2 + p
        return (p, q), q

    (a, b), qs = lax.scan(step, (x, x), w)
    return a


@on(X, W).gives({"x": W[1], "/step:k": [0, 1, 0]})
def test_what_is_carried_round_comes_to_the_output_a_step_later(x, w):
    """The result is x · w[1] + k[1]: a of the third turn is b of the second, made of d, which was a at first."""

    def step(c, t):
        a, b, d = c
        k = d * t
        return (b, k, a), None

    (a, b, d), _ = lax.scan(step, (x, x, x), w)
    return a


@supports("nested `lax.scan`: stacked by step of each loop")
def test_a_scan_within_a_scan():
    def f(x, w):
        def inner(c, t):
            q = c * t
            return jnp.sin(q), None

        def outer(c, t):
            r, _ = lax.scan(inner, c, w * t)
            return r + x, None

        return lax.scan(outer, x, w)[0]

    def expected(x, at_q):
        def inner(c, item):
            return jnp.sin(c * item[0] + item[1]), None

        def outer(c, item):
            return lax.scan(inner, c, (W * item[0], item[1]))[0] + x, None

        return lax.scan(outer, x, (W, at_q))[0]

    rec = bp.probe(f)(X, W)
    by_hand(rec, expected, **{"x": X, "/outer/inner:q": jnp.zeros((3, 3))})
    says(rec, axes={"/outer/inner:q": ("step", "step")})


@supports("`lax.fori_loop` with bounds that are known, `lax.map`")
@pytest.mark.parametrize("bound", [3, np.int32(3), np.asarray(3), jnp.asarray(3)], ids=["int", "numpy", "array", "jax"])
def test_a_loop_with_a_known_number_of_turns(bound):
    def f(x):
        def body(i, c):
            u = c * x
            return u

        return lax.fori_loop(0, bound, body, x)

    rec = bp.probe(f)(X)
    grads(rec, **{"x": 4 * X**3, "/body:u": [X**2, X, 1]})
    says(rec, values={"/body:i": [0, 1, 2]}, statuses={"/body:i": "not_float"})


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}])
def test_lax_map(options):
    calls = []

    def f(x, w):
        def g(t):
            calls.append(t)
            u = t * x
            return u * u

        return lax.map(g, w, **options).sum()

    jax.make_jaxpr(f)(X, W)
    first = "" if len(calls) == 1 else "#0"  # an older JAX calls it once more, for a rest without items
    rec = bp.probe(f)(X, W)
    found = rec[f"/g{first}:u"]
    same(np.asarray(found.grad).reshape(3), 2 * W * X)
    assert found.axes[0] == "step"


@supports("`lax.associative_scan`: one entry for each call of the function")
def test_an_associative_scan():
    def combine(a, b):
        u = a * b
        return u

    def f(x, w):
        return lax.associative_scan(combine, w * x).sum()

    rec = bp.probe(f)(X, W)
    as_jax(rec, f, X, W)
    same(rec["/combine#0:u"].value, [X * X * 2])
    same(rec["/combine#0:u"].grad, [1 + 3 * X])


WHILE = "`lax.while_loop`: what is inside is `opaque`, with the reason"


def until(limit):
    def condition(c):
        return c < limit

    def body(c):
        u = c * 2
        return u

    return lambda v: lax.while_loop(condition, body, v)


@supports(WHILE)
def test_a_while_loop_is_opaque_inside_and_right_around():
    def f(x):
        v = until(10.0)(lax.stop_gradient(x))
        y = v * x
        return y

    rec = bp.probe(f)(X)
    same(rec["x"].grad, 11.2)
    same(rec["v"].value, 11.2)
    for name in ("/<lambda>/body:u", "/<lambda>/body:c", "/<lambda>/condition:c"):
        assert rec[name].status == "opaque"
        assert "whose number of iterations is not known beforehand" in rec[name].reason
        assert rec[name].value is None


def test_a_while_loop_that_leads_nowhere():
    def f(x):
        v = until(10.0)(x)
        return x * 2

    rec = bp.probe(f)(X)
    outside = {name: status for name, status in statuses(rec).items() if status != "opaque"}
    assert outside == {"x": "ok", "v": "not_connected", "return": "ok"}
    same(rec["v"].value, 11.2)


def test_a_counter_in_a_while_loop_is_no_missing_gradient():
    def f(x):
        n = lax.while_loop(lambda i: i < 5, lambda i: i + 1, 0)
        return x * n

    rec = bp.probe(f)(X)
    report = bp.explain(rec)
    assert report.ok, str(report)
    assert any(note.startswith("neither floating-point nor complex") and "i" in note for note in report.notes)
    (finding,) = bp.explain(rec, "/<lambda>#0:i").findings
    assert (finding.kind, finding.headline[:39]) == ("not_float", "'/<lambda>#0:i' has the dtype int32: on")


def test_what_stays_floating_in_a_while_loop_is_not_said_to_be_differentiated():
    def f(x):
        v = until(10.0)(lax.stop_gradient(x))
        return v * x

    kinds = {finding.kind for finding in bp.explain(bp.probe(f)(X)).findings}
    assert "comparison" not in kinds, kinds


@supports("differentiating through `lax.while_loop`", "as in `jax.grad`: refused by JAX")
def test_a_while_loop_cannot_be_differentiated():
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work for lax.while_loop"):
        bp.probe(until(10.0))(X)


# branches


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("jitted", [False, True], ids=["plain", "jitted"])
def test_a_branch_that_gives_a_number_gives_an_array(taken, jitted):
    def f(x):
        y = lax.cond(taken, lambda t: (t**2).sum(), lambda t: 0.0, x)
        z = lax.switch(int(taken), [lambda t: 1.0, lambda t: t.sum()], x)
        return y.astype(jnp.float32) + z.reshape(1).sum() + x.sum()

    x = jnp.array([1.0, 2.0])
    rec = bp.probe(jax.jit(f) if jitted else f)(x)
    same(rec["x"].grad, jax.grad(f)(x))
    same(rec.result, f(x))
    assert isinstance(rec["y"].value, jax.Array)


@supports("`lax.cond`, `lax.switch`: the branch not taken is `not_executed`")
def test_the_branch_that_was_taken_and_the_other():
    def branches(x, w):
        def twice(t):
            u = t * 2
            return u * x

        def thrice(t):
            v = t * 3
            return v

        y = lax.cond(x > 0.5, twice, thrice, x)
        return y * w.sum()

    rec = bp.probe(branches)(X, W)
    grads(rec, **{"x": 4 * X * 6, "/twice:u": X * 6, "/twice:t": 12 * X, "y": 6})
    says(rec, statuses={"/thrice:v": "not_executed"}, values={"/thrice:v": None}, inputs_of={"y": ["/twice:u", "x"]})
    assert "not taken" in rec["/thrice:v"].reason
    rec = bp.probe(branches)(jnp.asarray(0.3), W)
    grads(rec, **{"x": 18, "/thrice:t": 18})
    says(rec, statuses={"/twice:u": "not_executed"})


def test_a_switch():
    def f(x, at):
        def zero(t):
            u = t * 2
            return u

        def one(t):
            v = lax.fori_loop(0, 2, lambda i, c: jnp.sin(c), t)
            return v * 5

        return lax.switch(at, [zero, one, zero], x)

    for at, wanted in ((-4, 2), (0, 2), (2, 2), (9, 2)):
        rec = bp.probe(f, wrt="x")(X, jnp.asarray(at))
        same(rec["x"].grad, wanted)
    rec = bp.probe(f, wrt="x")(X, jnp.asarray(1))
    grads(rec, **{"/one:v": 5.0})
    assert rec["/zero#0:u"].status == rec["/zero#1:u"].status == "not_executed"


@supports("a branch inside a loop: 0 in the steps that did not take it, and a note says how many")
def test_a_branch_inside_a_loop():
    def f(x, w):
        def step(c, t):
            def twice(t):
                u = t * 2
                return u

            def loop(t):
                v = lax.fori_loop(0, 2, lambda i, c: c * t, t)
                return v

            r = lax.cond(t > 1.5, twice, loop, t)
            return c + r * x, r

        return lax.scan(step, x, w)[0]

    rec = bp.probe(f)(X, W)
    grads(rec, **{"/step/twice:u": [0, X, X], "/step/loop:v": [X, 0, 0]})
    says(rec, values={"/step/twice:u": [0, 4, 6]}, axes={"/step/twice:u": ("step",)})
    assert "/step/twice:u: it was computed in 2 of 3 steps; in the others it is 0 here" in rec.notes
    assert "/step/loop:v: it was computed in 1 of 3 steps; in the others it is 0 here" in rec.notes


@on(W).gives({"w": [3, 2, 2], "/g/a:u": [0, 1, 1], "/g/b:v": [1, 0, 0]})
def test_a_branch_chosen_for_each_example_computes_both(w):
    def g(t):
        def a(t):
            u = t * 2
            return u

        def b(t):
            v = t * 3
            return v

        return lax.cond(t > 1.5, a, b, t)

    return jax.vmap(g)(w).sum()


# batches


@supports("`vmap`: values of all examples, the axis said in `entry.axes`")
def test_the_values_of_a_batch():
    def f(x, w):
        def g(t):
            u = t * x
            shared = x * 2
            return jnp.sin(u) * shared

        return jax.vmap(g)(w).sum()

    def expected(at_u, at_shared):
        return (jnp.sin(W * X + at_u) * (X * 2 + at_shared)).sum()

    rec = bp.probe(f)(X, W)
    by_hand(rec, expected, **{"/g:u": ZEROS, "/g:shared": 0.0})
    says(rec, axes={"/g:u": ("batch",), "/g:shared": ()})  # it is the same for all examples


@pytest.mark.parametrize(
    ("in_axes", "out_axes", "shape"), [((1, None), 1, (3, 2)), ((0, None), 0, (2, 3)), ((1, None), -1, (3, 2))]
)
def test_a_batch_along_any_axis(in_axes, out_axes, shape):
    a = jnp.arange(6.0).reshape(2, 3)

    def f(a, x):
        def g(row, factor):
            u = row * factor
            return u * u

        y = jax.vmap(g, in_axes, out_axes)(a, x)
        return y.sum()

    rec = bp.probe(f)(a, X)
    rows = a.T if in_axes[0] == 1 else a
    grads(rec, **{"/g:u": 2 * rows * X, "a": 2 * a * X**2})
    same(rec["/g:u"].value, rows * X)


def test_batches_within_batches_loops_and_jit():
    def f(x, w):
        def step(c, t):
            u = c * t
            return u, None

        def row(r):
            def cell(q):
                k = q * r
                return k + lax.scan(step, r, w)[0]

            return jax.vmap(cell)(w).sum()

        return jax.jit(jax.vmap(row))(w).sum() * x

    def expected(x, at_k, at_u):
        def cell(q, r, k, u):
            return q * r + k + lax.scan(lambda c, item: (c * item[0] + item[1], None), r, (W, u))[0]

        def row(r, k, u):
            return jax.vmap(cell, (0, None, 0, None))(W, r, k, u).sum()

        return jax.vmap(row, (0, 0, 1))(W, at_k, at_u).sum() * x

    rec = bp.probe(f)(X, W)
    by_hand(rec, expected, **{"x": X, "/row/cell:k": jnp.zeros((3, 3)), "/row/cell/step:u": jnp.zeros((3, 3))})
    says(rec, axes={"/row/cell:k": ("batch", "batch"), "/row/cell/step:u": ("step", "batch")})


def test_a_jitted_batch_is_still_a_batch():
    """Each example is given to the function by itself: taking off ``jit`` must not take off ``vmap`` too."""

    def f(x):
        return jax.jit(jax.vmap(lambda row: (row * x).sum() ** 2))(jnp.ones((3, 2))).sum()

    same(bp.probe(f)(X)["x"].grad, jax.grad(f)(X))
    rec = bp.probe(jax.jit(jax.vmap(lambda row: (row * X).sum() ** 2)), cotangent=np.ones(3))(jnp.ones((3, 2)))
    same(rec["row"].grad, np.full((3, 2), 4 * X**2))


@supports("`vmap`, `checkpoint`, `jit` or `grad` of a function as what is probed")
@pytest.mark.parametrize(
    "wrap",
    [jax.vmap, jax.jit, jax.checkpoint, lambda g: jax.jit(jax.vmap(g)), lambda g: jax.checkpoint(jax.vmap(jax.jit(g)))],
)
def test_a_transformed_function_as_the_target(wrap):
    def g(t):
        u = t * 2
        return jnp.sin(u)

    wrapped = wrap(g)
    wrapped(W)
    rec = bp.probe(wrapped, cotangent=np.ones(3))(W)
    grads(rec, u=np.cos(2 * W), t=2 * np.cos(2 * W))


def test_the_derivative_of_a_function_as_the_target():
    def g(t):
        u = t * t
        return u * t

    rec = bp.probe(jax.grad(g))(X)
    same(rec.result, 3 * X**2)
    grads(rec, u=1.0, t=6 * X)


# checkpoints


POLICIES = [None, jax.checkpoint_policies.everything_saveable, jax.checkpoint_policies.nothing_saveable]


@supports("`jax.checkpoint`: values inside, under any policy")
@pytest.mark.parametrize("policy", POLICIES, ids=["none", "everything", "nothing"])
@pytest.mark.parametrize("partials", [False, True])
def test_values_inside_a_checkpoint(policy, partials):
    def f(x, w):
        def block(h):
            u = jnp.sin(h) * w

            def inner(t):
                v = t * t
                return v.sum()

            return jax.checkpoint(inner, policy=policy)(u)

        def step(c, t):
            k = jax.checkpoint(jnp.cos)(c) * t
            return k, None

        return jax.checkpoint(block, policy=policy)(x) + jax.checkpoint(lambda c: lax.scan(step, c, w)[0])(x)

    def expected(x, at_u, at_v, at_k):
        u = jnp.sin(x) * W + at_u
        loop = lax.scan(lambda c, item: (jnp.cos(c) * item[0] + item[1], None), x, (W, at_k))[0]
        return (u * u + at_v).sum() + loop

    rec = bp.probe(f, partials=partials)(X, W)
    by_hand(rec, expected, **{"x": X, "/block:u": ZEROS, "/block/inner:v": ZEROS, "/<lambda>/step:k": ZEROS})
    same(rec.result, f(X, W))
    if partials:
        says(rec, agree=True, inputs_of={"/block/inner:v": ["/block/inner:t"]})


# custom rules, and derivatives inside the program


@supports("`custom_vjp` and `custom_jvp`: right outside, and a note says that nothing inside is seen")
def test_rules_of_the_users_own():
    @jax.custom_vjp
    def ruled(t):
        hidden = t * t
        return hidden

    ruled.defvjp(lambda t: (t * t, t), lambda t, g: (g * 10,))

    @jax.custom_jvp
    def pushed(t):
        inside = t * 3
        return inside

    pushed.defjvp(lambda primals, tangents: (pushed(primals[0]), tangents[0] * 7))

    def f(x):
        u = x * 2
        y = ruled(u)

        def step(c, _):
            v = ruled(c) + pushed(c)
            return v, None

        return y + pushed(u) + lax.scan(step, u, None, length=2)[0]

    rec = bp.probe(f)(X)
    grads(rec, x=jax.grad(f)(X), u=17 + 17 * 17, y=1.0, **{"/step:v": [17, 1]})
    assert not any("hidden" in name or "inside" in name for name in rec)
    assert {note.split(" was not followed")[0].split(".")[-1] for note in rec.notes} == {"ruled", "pushed"}


@supports("`jax.grad`, `jax.vjp`, `jax.jvp`, `jax.linearize` inside the program: second derivatives by name")
def test_derivatives_inside_the_program():
    def g(t):
        u = t * t
        return jnp.sin(u) * t

    def f(x):
        d = jax.grad(g)(x)
        e, back = jax.vjp(g, x)
        p, tangent = jax.jvp(g, (x,), (x,))
        value, slope = jax.value_and_grad(jax.jit(g))(x)
        return d * x + back(e)[0] + tangent * value + slope

    rec = bp.probe(f)(X)
    as_jax(rec, f, X)
    by_hand(rec, lambda at: jax.grad(lambda t: jnp.sin(t * t + at) * t)(X) * X, **{"/g#0:u": 0.0})
    says(rec, statuses={"/g#3:u": "ok"})


def test_a_loop_inside_a_derivative_inside_the_program_is_opaque():
    """The interpreter of loops does not reach it: there is an entry with the reason, and what is around is right."""

    def loss(x, w):
        def step(c, t):
            u = jnp.sin(c * t)
            return u, None

        return lax.scan(step, x, w)[0]

    def f(x, w):
        return jax.grad(loss)(x, w) * x

    def in_a_loop(x, w):
        return lax.scan(lambda c, t: (f(c, w) + t, None), x, w)[0]

    for function in (f, in_a_loop):
        rec = bp.probe(function)(X, W)
        as_jax(rec, function, X, W)
        (name,) = [name for name in rec if name.endswith("/step:u")]
        says(rec, statuses={name: "opaque"}, values={name: None})
        assert "cannot see into" in rec[name].reason


def test_a_derivative_inside_a_loop_and_a_batch_is_seen():
    def f(x, w):
        def g(t):
            u = t * t
            return jnp.sin(u) * t

        def step(c, t):
            return jax.grad(g)(c) * t, None

        return lax.scan(step, x, w)[0] + jax.vmap(jax.grad(g))(w).sum()

    def expected(x, at_u):
        def slope(c, u):
            return jax.grad(lambda t: jnp.sin(t * t + u) * t)(c)

        return lax.scan(lambda c, item: (slope(c, item[1]) * item[0], None), x, (W, at_u))[0]

    rec = bp.probe(f)(X, W)
    by_hand(rec, expected, **{"x": X, "/step/g:u": ZEROS})
    same(rec["/g:u"].value, W * W)
    says(rec, axes={"/step/g:u": ("step",), "/g:u": ("batch",)})


def test_a_batch_inside_a_derivative_is_seen():
    def f(x, w):
        def loss(q):
            def g(t):
                u = t * q
                return jnp.sin(u)

            return jax.vmap(g)(w).sum()

        return jax.grad(loss)(x)

    rec = bp.probe(f)(X, W)
    expected = lambda x, at_u: jax.grad(lambda q: jnp.sin(W * q + at_u).sum())(x)
    by_hand(rec, expected, **{"x": X, "/loss/g:u": ZEROS})
    says(rec, axes={"/loss/g:u": ("batch",)})


def test_what_a_program_prints_is_printed_once():
    seen = []

    def f(x, w):
        def step(c, t):
            u = c * t
            jax.debug.callback(lambda value: seen.append(float(value)), u)
            return u, None

        return lax.scan(step, x, w)[0]

    jax.grad(f)(X, W)
    jax.effects_barrier()
    is_printed = bool(seen)  # an older JAX leaves it out of a loop that it differentiates
    seen.clear()
    bp.probe(f)(X, W)
    jax.effects_barrier()
    same(seen, [X, 2 * X, 6 * X] if is_printed else [])

"""Lines between the values inside JAX's loops, checkpoints and branches: those of one step, each one true."""

import jax
import jax.numpy as jnp
import pytest
from drawn_edges import edges, pairs
from jax import lax

import backprobe as bp
from circuit_pages import recorded

X, W, V = jnp.asarray(0.7), jnp.asarray(1.3), jnp.ones(3)


def scanned(x, w):
    def turn(c, _):
        k = jnp.tanh(c * w)
        m = k + w
        return m, k

    last, ks = lax.scan(turn, x, None, length=3)
    return last + ks.sum()


def in_reverse(x, w):
    def turn(c, t):
        k = c * t
        return k, k

    r, ks = lax.scan(turn, x, jnp.arange(3.0) * w, reverse=True)
    return ks.sum()


def counted(x, w):
    def body(i, c):
        u = c * w
        v = jnp.sin(u)
        return v

    r = lax.fori_loop(0, 3, body, x)
    return r * x


def written(x, w):
    def body(i, c):
        new = c.at[i].set(jnp.sin(c[i - 1] * w))
        return new

    y = lax.fori_loop(1, 3, body, x)
    return y.sum()


def mapped(x, w):
    def one(t):
        u = t * x
        return u * u

    y = lax.map(one, w)
    return y.sum()


def two_carried(x, w):
    def turn(c, _):
        a, b = c
        p = a * w
        q = b + a
        return (q, p), p

    (a, b), ps = lax.scan(turn, (x, w), None, length=3)
    return a + ps.sum()


def checkpointed(x, w):
    @jax.checkpoint
    def part(t):
        a = t * w
        b = jnp.sin(a)
        return b

    y = part(x)
    return y * x


def loop_in_checkpoint(x, w):
    @jax.checkpoint
    def part(t):
        def turn(c, _):
            k = c * w
            return k, None

        r, none = lax.scan(turn, t, None, length=2)
        return r * t

    y = part(x)
    return y + w


def checkpoint_in_loop(x, w):
    @jax.jit
    def inner(u):
        v = u * w
        return v

    @jax.checkpoint
    def part(h):
        a = inner(h)
        b = a + h
        return b

    def turn(c, _):
        d = part(c)
        return d, d

    r, ds = lax.scan(turn, x, None, length=2)
    return r + ds.sum()


def branch_in_loop(x, w):
    def turn(c, t):
        def yes(z):
            a = z * w
            return a

        def no(z):
            b = z + w
            return b

        p = lax.cond(t > 1, yes, no, c)
        q = p * t
        return q, p

    r, ps = lax.scan(turn, x, jnp.arange(3.0))
    return r + ps.sum()


def loop_in_loop(x, w):
    def inner(c, t):
        q = c * t
        return jnp.sin(q), q

    def outer(c, t):
        r, qs = lax.scan(inner, c, w * t)
        s = r + x
        return s, None

    y, none = lax.scan(outer, x, w)
    return y


def loop_in_batch(x, w):
    def one(t):
        def turn(c, _):
            k = jnp.tanh(c * w)
            return k, None

        r, none = lax.scan(turn, t, None, length=2)
        return r

    y = jax.vmap(one)(x)
    return y.sum()


def batch_in_loop(x, w):
    def turn(c, _):
        def one(t):
            z = t * w
            return jnp.sin(z)

        d = jax.vmap(one)(c)
        return d, None

    r, none = lax.scan(turn, x, None, length=2)
    return r.sum()


def cut_inside(x, w):
    def turn(c, _):
        k = c * w
        unused = k * 2
        s = lax.stop_gradient(k)
        m = s * c
        return m, None

    r, none = lax.scan(turn, x, None, length=2)
    return r


DRAWN = {
    scanned: (X, W, "x>c c,w>k k,w>m m>last k>ks last,ks>return", ""),
    in_reverse: (X, W, "x>c w>t c,t>k k>r k>ks ks>return", ""),
    counted: (X, W, "x>c c,w>u u>v v>r r,x>return", ""),
    written: (V, W, "x>c c,w>new new>y y>return", "i>new"),
    mapped: (X, V, "w>t t,x>u u>return return>y y>return", ""),
    two_carried: (X, W, "x>c.0 w>c.1 c.0,w>p c.0,c.1>q q>a p>b p>ps a,ps>return", ""),
    checkpointed: (X, W, "x>t t,w>a a>b b>y y,x>return", ""),
    loop_in_checkpoint: (X, W, "x>t t>c c,w>k k>r r,t>return return>y y,w>return", ""),
    checkpoint_in_loop: (X, W, "x>c c>h h,w>a a,h>b b>d d>r d>ds r,ds>return", ""),
    branch_in_loop: (X, W, "x>c c>z z,w>a z,w>b a,b>p p>q q>r p>ps r,ps>return", "t>p t>q"),
    loop_in_loop: (X, V, "x>c w>t c>c t>t c,t>q q>return.0 return.0>r q>qs r,x>s s>y", ""),
    loop_in_batch: (V, W, "x>t t>c c,w>k k>y y>return", ""),
    batch_in_loop: (V, W, "x>c c>t t,w>z z>return return>d d>r r>return", ""),
    cut_inside: (X, W, "x>c c,w>k k>unused c>m m>r", "k>s s>m"),
}


@pytest.mark.parametrize("partials", [False, True])
@pytest.mark.parametrize("program", DRAWN)
def test_lines_lead_to_the_values_inside(program, partials):
    x, w, solid, dashed = DRAWN[program]
    rec = bp.probe(program, partials=partials)(x, w)
    found = edges(rec)
    inlined = partials and program in (checkpointed, loop_in_checkpoint)  # what one line returns is one value then
    if not inlined:
        assert found == (pairs(solid), pairs(dashed))
    for name, expected in zip(("x", "w"), jax.grad(program, (0, 1))(x, w), strict=True):
        grad = rec[name].grad_or_none
        assert jnp.allclose(0.0 if grad is None else grad, expected)
    assert rec.path_sums is None or rec.path_sums.agree


def test_what_a_step_hands_to_the_next_has_no_line_and_is_no_circle(tmp_path):
    rec = bp.probe(two_carried)(X, W)
    for name in ("/turn:c.0", "/turn:c.1"):
        assert not [edge.name for edge in rec[name].inputs if edge.name.startswith("/turn")]
    rec.save(tmp_path / "rec")
    assert edges(bp.load(tmp_path / "rec")) == edges(rec)


SAID = "what a step hands on to the next has no line"


@pytest.mark.parametrize("program", [scanned, in_reverse])
def test_a_drawing_says_which_line_of_a_loop_it_leaves_out(program):
    drawing = bp.draw(bp.probe(program)(X, W))
    assert SAID in drawing._repr_svg_() and SAID in " ".join(recorded(drawing.page)["footer"])


def test_a_drawing_without_a_loop_does_not():
    assert SAID not in bp.draw(bp.probe(lambda x: jax.checkpoint(jnp.sin)(x) * 2)(X))._repr_svg_()

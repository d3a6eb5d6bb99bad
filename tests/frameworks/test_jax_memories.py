"""What one program has shown of a type says nothing false of the next: each is probed as in a process of its own."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import backprobe as bp

X = jnp.array([1.0, 2.0])

BORN = re.compile(r"NaN is born at 'y' \(test_jax_memories\.py:\d+\): log of a number below 0")


def plain(x):
    u = x * 3
    v = jnp.sin(u)
    return (v * 2).sum()


NAMES = ["x", "u", "v", "return"]


def with_ref(x):
    u = x * 3
    r = jax.new_ref(u)
    return (r[...] * 2).sum()


def with_ref_written(x):
    r = jax.new_ref(jnp.zeros(2))
    r[...] = x * 2
    return r[...].sum()


def with_key(x):
    u = x * 3
    k = jax.random.key(0)
    keys = jax.random.split(k)
    return (u + jax.random.normal(keys[0], (2,))).sum()


def with_traced_keys(x):
    def step(carry, key):
        own = jax.random.fold_in(key, 1)
        carry = carry + jax.random.normal(own, (2,))
        return carry, carry

    last, _ = jax.lax.scan(step, x, jax.random.split(jax.random.key(0), 3))
    return last.sum()


def with_ref_in_loop(x):
    def step(at, total):
        r = jax.new_ref(x)
        return total + r[...] * at

    return jax.lax.fori_loop(0, 3, step, x).sum()


def with_ref_in_tuple(x):
    pair = (jax.new_ref(x), "a name")
    return pair[0][...].sum()


OTHERS = [with_ref, with_ref_written, with_key, with_traced_keys, with_ref_in_loop, with_ref_in_tuple]


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("select", [None, "*", ["x", "return"]], ids=str)
def test_a_program_with_values_that_are_no_arrays_leaves_the_names_of_the_next(other, select):
    wanted = select if isinstance(select, list) else NAMES

    bp.probe(other, select)(X)

    assert list(bp.probe(plain, select)(X)) == wanted


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
def test_it_leaves_the_place_where_nan_is_born(other):
    def bad(x):
        y = jnp.log(x - 5)
        z = y * 2
        return z.sum()

    bp.probe(other, nonfinite=True)(X)
    found = str(bp.explain(bp.probe(bad, nonfinite=True)(X)))

    assert BORN.search(found)


@pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.__name__)
def test_it_leaves_the_cause_that_a_guard_gives(other):
    def bad(x):
        y = jnp.log(x - 5)
        return (y * 2).sum()

    bp.probe(other, nonfinite=True)(X)
    with pytest.raises(bp.NotFinite) as caught, bp.guard():
        jax.value_and_grad(bad)(X)

    assert BORN.search(str(caught.value))


class Box(nnx.Module):
    def __init__(self, held):
        self.held = held


class Several(nnx.Module):
    def __init__(self, *held):
        self.held = nnx.List([*held])


@pytest.mark.parametrize("empty", [lambda: Box("nothing"), lambda: Box(None), lambda: Several()])
def test_a_module_that_holds_no_array_leaves_those_of_the_next(empty):
    def without(x):
        box = empty()
        u = x * 2
        return u.sum()

    def within(x):
        box = Box(nnx.Param(x * 3)) if type(empty()) is Box else Several(nnx.Param(x * 3))
        return jax.tree.leaves(box)[0].sum()

    alone = list(bp.probe(within, "**")(X))
    bp.probe(without, "**")(X)

    assert [name for name in alone if name.startswith("box.")]
    assert list(bp.probe(within, "**")(X)) == alone


class Calls:
    """As a library may have it: an object that calls what it was given, and says so."""

    def __init__(self, function):
        self.__wrapped__ = function

    def __call__(self, x):
        return self.__wrapped__(x)


def mine(x):
    inner = x * 2
    return inner


def notes_of(calling):
    def program(x):
        y = calling(x)
        return y.sum()

    return [note.code for note in bp.probe(program)(X).record.notes]


def as_librarys(monkeypatch, *classes):
    """These classes are installed, as far as it can be seen from where their code is."""
    for one in classes:
        for name, function in [*vars(one).items()]:
            code = getattr(function, "__code__", None)
            if code is not None:
                monkeypatch.setattr(
                    one,
                    name,
                    type(function)(
                        code.replace(co_filename=np.__file__),
                        function.__globals__,
                        name,
                        function.__defaults__,
                        function.__closure__,
                    ),
                )


@pytest.mark.parametrize("first", [jnp.sin, jax.nn.relu, jax.nn.softplus])
def test_an_object_that_hides_a_function_of_a_library_leaves_the_note_on_one_that_hides_the_programs(
    monkeypatch, first
):
    as_librarys(monkeypatch, Calls)

    assert notes_of(Calls(first)) == []
    assert notes_of(Calls(mine)) == ["hidden_in_object"]


class Activated(eqx.Module):
    """As a library's: a module that calls the function that it holds."""

    activation: object

    def __call__(self, x):
        return self.activation(x)


@pytest.mark.parametrize("first", [jnp.tanh, jax.nn.relu, None])
def test_a_module_that_holds_a_function_of_a_library_leaves_the_note_on_one_that_holds_the_programs(monkeypatch, first):
    as_librarys(monkeypatch, Activated)

    def program(x):
        module = Activated(first)
        return (x if first is None else module(x)).sum()

    bp.probe(program)(X)
    assert notes_of(Activated(jnp.tanh if first is None else first)) == []
    assert notes_of(Activated(mine)) == ["hidden_in_object"]


def test_a_class_that_got_another_call_is_followed(monkeypatch):
    class_ = type("Scaled", (), {"__call__": lambda self, x: x * 2, "__qualname__": "Scaled"})
    as_librarys(monkeypatch, class_)
    layer = class_()

    def program(x):
        y = layer(x)
        return y.sum()

    before = str(bp.probe(program, "**")(X))
    monkeypatch.setattr(class_, "__call__", lambda self, x: mine(x))

    assert "/mine:inner" not in before
    assert "/mine:inner" in str(bp.probe(program, "**")(X))


def test_a_gradient_is_changed_of_the_value_that_it_was_replaced_for_alone():
    def program(x):
        for _ in range(50):
            u = x * 2  # each is gone when the next comes
            v = jnp.sin(u)
        return v.sum()

    rec = bp.probe(program, replace_grad={"u#0": lambda gradient: gradient * 100})(X)
    wanted = jax.grad(lambda x: jnp.sin(x * 2).sum())(X)

    assert np.allclose(rec["x"].grad, wanted)

"""A walk over a Keras model is kept for the next call: never longer than the model, nor after a change."""

import gc
import threading
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import backprobe as bp
from backprobe.backends.tensorflow import model_paths, model_plans

X = tf.constant(np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4))
LOCALS = ["**", "**:*"]


def squared(output):
    return tf.reduce_sum(output * output)


def dense(name=None, units=4):
    return keras.layers.Dense(units, name=name)


class Blocks(keras.layers.Layer):
    def __init__(self, count=2):
        super().__init__()
        self.blocks = [dense() for _ in range(count)]
        self.table = {"a": dense()}
        self.head = None
        self.not_a_part = object()

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        for block in self.table.values():
            x = block(x)
        return x if self.head is None else self.head(x)


def sequential():
    return keras.Sequential([dense("first"), dense("second")])


def functional():
    given = keras.Input((4,))
    return keras.Model(given, keras.ops.tanh(dense("first")(given)))


def recorded(model, select=None):
    return bp.probe(model, select, of=squared)(X)


def names(model, select=None):
    """In alphabetical order: the weights of a layer that is built by the call come after what it returns."""
    return sorted(recorded(model, select))


def walked_anew(model, select=None):
    """The names of a recording that can know nothing of the last one."""
    model_plans.PLANS.pop(id(model), None)
    return names(model, select)


@pytest.fixture
def walks(monkeypatch):
    """The models that are walked, one by one."""
    found = []
    walk = model_paths.dismantle
    monkeypatch.setattr(model_paths, "dismantle", lambda model: (found.append(model.name), walk(model))[1])
    return found


@pytest.mark.parametrize("make", [Blocks, sequential, functional])
@pytest.mark.parametrize("select", [None, LOCALS])
def test_a_model_is_walked_once_as_long_as_it_stays_as_it_is(make, select, walks):
    model = make()
    model(X)
    first = names(model, select)
    assert walks == [model.name]
    for _ in range(3):
        assert names(model, select) == first
    assert walks == [model.name]


def exchanged(name, value):
    return lambda model: setattr(model, name, value())


CHANGES = {
    "a layer appended to a list": lambda model: model.blocks.append(dense()),
    "a layer exchanged in a list": lambda model: model.blocks.__setitem__(0, dense()),
    "layers of a list in another order": lambda model: model.blocks.reverse(),
    "a layer taken from a list": lambda model: model.blocks.pop(),
    "a layer under a new key": lambda model: model.table.__setitem__("b", dense()),
    "a layer for None": exchanged("head", dense),
    "a layer for what is not a part": exchanged("not_a_part", dense),
    "a list for what is not a part": exchanged("not_a_part", lambda: [dense()]),
    "a layer exchanged": lambda model: (setattr(model, "head", dense()), model(X), setattr(model, "head", dense())),
    "an attribute that is new": exchanged("more", dense),
    "an attribute deleted": lambda model: delattr(model, "table"),
    "a Variable that is new": lambda model: setattr(model, "scale", tf.Variable(2.0)),
    "a weight that is new": lambda model: model.add_weight(name="late", shape=(2,)),
    "a Variable of a part": lambda model: setattr(model.blocks[0], "scale", tf.Variable(2.0)),
    "a part of a part": lambda model: setattr(model.blocks[0], "inner", dense("inner")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_model_between_two_calls_is_seen(change, walks):
    model = Blocks()
    before = names(model)
    for layer in (model, model.blocks[0]):
        layer._tracker.unlock()  # as Keras does for what it adds itself to a layer that is built
    if change is CHANGES["an attribute deleted"]:
        model.__class__ = type("Shorter", (Blocks,), {"call": lambda self, x: self.blocks[0](x)})
    change(model)
    walks.clear()
    after = names(model)
    assert walks
    assert after != before or change in (
        CHANGES["a layer exchanged in a list"],
        CHANGES["layers of a list in another order"],
    )
    assert after == walked_anew(model)


SEQUENTIAL = {
    "a layer added": lambda model: model.add(dense("third")),
    "a layer taken away": lambda model: model.pop(),
    "a layer renamed": lambda model: setattr(model.layers[0], "name", "other"),
}


@pytest.mark.parametrize("change", SEQUENTIAL.values(), ids=SEQUENTIAL)
def test_a_change_of_a_sequential_model_is_seen(change):
    model = sequential()
    before = names(model)
    change(model)
    assert before != names(model) == walked_anew(model)


def test_the_values_of_an_exchanged_layer_are_those_of_the_new_one():
    model = Blocks()
    recorded(model)
    model.blocks[0] = keras.layers.Dense(4, kernel_initializer="ones")
    rec = recorded(model)
    assert tf.reduce_all(rec["blocks.0.kernel"].value == 1.0)
    assert tf.reduce_all(rec["blocks.0"].value == model.blocks[0](X))


def test_layers_that_are_made_when_they_first_run():
    class Lazy(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.made = []

        def call(self, x):
            if len(self.made) < 2:
                self._tracker.unlock()
                self.made.append(dense())
            for layer in self.made:
                x = layer(x)
            return x

    model = Lazy()
    for count in (1, 2, 2):
        rec = recorded(model)
        assert [f"made.{at}" in rec and f"made.{at}.kernel" in rec for at in range(3)] == [
            at < count for at in range(3)
        ]
    assert names(model) == walked_anew(model)


def test_a_shared_layer_keeps_every_path():
    model = Blocks(1)
    model.head = model.blocks[0]
    for _ in range(3):
        rec = recorded(model)
        assert rec["blocks.0#1"].name == rec["head#1"].name
        assert rec["head.kernel"].name == rec["blocks.0.kernel"].name


def test_a_call_exchanged_between_two_calls():
    class Own(keras.layers.Layer):
        def call(self, x):
            u = x * 2.0
            return u

    model = keras.Sequential([Own(name="own")])
    assert "own:u" in names(model, LOCALS)

    def other(self, x):
        v = x * 3.0
        return v

    Own.call = other
    found = names(model, LOCALS)
    assert "own:v" in found
    assert "own:u" not in found

    def compiled(self, x):
        w = x * 5.0
        return w

    Own.call = tf.function(compiled)
    assert "own:w" in names(model, LOCALS)
    assert tf.reduce_all(recorded(model)["own"].value == X * 5.0)


def test_one_model_under_two_selections():
    model = Blocks()
    outputs, everything = names(model), names(model, LOCALS)
    for _ in range(2):
        assert names(model) == outputs
        assert names(model, LOCALS) == everything
        assert names(model, "blocks.0.kernel") == [*(n for n in outputs if n == "blocks.0.kernel"), "of()"]


def test_an_exception_in_the_middle_leaves_a_plan_that_holds():
    class Breaking(Blocks):
        is_broken = False

        def call(self, x):
            x = self.blocks[0](x)
            if self.is_broken:
                raise ValueError("of the program")
            return super().call(x)

    model = Breaking()
    before = names(model, LOCALS)
    model.is_broken = True
    with pytest.raises(ValueError, match="of the program"):
        recorded(model, LOCALS)
    model.is_broken = False
    assert names(model, LOCALS) == before
    assert "call" not in vars(model)


def test_two_threads_with_one_model_and_two_selections():
    model = Blocks()
    model(X)
    wanted = names(model), names(model, LOCALS)
    found, barrier = ([], []), threading.Barrier(2)

    def work(at):
        for _ in range(8):
            barrier.wait(60)
            found[at].append(names(model, LOCALS if at else None))

    threads = [threading.Thread(target=work, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert found == ([wanted[0]] * 8, [wanted[1]] * 8)


def test_a_model_dies_after_a_probe():
    def made():
        known = []

        class Knowing(Blocks):
            """Its class, a part of it and a Variable know the model."""

            def call(self, x):
                return super().call(x) + 0.0 * len(known)

        model = Knowing()
        known.append(model)
        model(X)
        object.__setattr__(model.blocks[0], "owner", model)
        vars(model)["unusual"] = Knowing
        recorded(model)
        recorded(model, LOCALS)
        return weakref.ref(model), id(model)

    model, number = made()
    gc.collect()
    assert model() is None
    assert number not in model_plans.PLANS


def test_a_model_that_compares_and_hashes_in_its_own_way():
    class Equal(Blocks):
        def __eq__(self, other):
            return True

        __hash__ = None

    first, second = Equal(1), Equal(2)
    assert len(names(first)) < len(names(second))
    assert names(first) == walked_anew(first)

"""``executor=`` on programs of JAX and TensorFlow: the numbers of one process, bit by bit."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import jax.numpy as jnp
import keras
import pytest
import sent_programs
import tensorflow as tf

import backprobe as bp


@pytest.fixture(scope="module")
def workers():
    # one worker, which is another process: that two share the tasks is tested on PyTorch
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


X, W = [[0.5, 1.5, -2.0], [1.0, 2.0, 3.0]], [1.0, 0.25, 2.0]


def subclassed():
    keras.utils.set_random_seed(0)
    model = sent_programs.Subclassed()
    model(tf.ones((2, 4)))
    return model


FUNCTIONS = {
    "jax": (sent_programs.in_jax, sent_programs.risky_in_jax, jnp.asarray, jnp.zeros_like),
    "tensorflow": (sent_programs.in_tensorflow, sent_programs.risky_in_tensorflow, tf.constant, tf.zeros_like),
}
MODELS = {
    "equinox": (sent_programs.Equinox, ["first", "second"], jnp.ones, jnp.zeros_like, None),
    "nnx": (sent_programs.Nnx, ["first", "second"], jnp.ones, jnp.zeros_like, None),
    "keras": (sent_programs.in_keras, ["first", "second"], tf.ones, tf.zeros_like, tf.reduce_sum),
    "keras, subclassed": (subclassed, ["first", "second"], tf.ones, tf.zeros_like, None),
}


@pytest.mark.parametrize(("function", "_", "array", "zeros"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_sweep_of_a_function(workers, function, _, array, zeros):
    given = array(X), array(W)
    one = bp.sweep(function, ["u", "v", "w"], replace=zeros, axis=0, approximate=True)(*given)
    two = bp.sweep(function, ["u", "v", "w"], replace=zeros, axis=0, approximate=True, executor=workers)(*given)
    assert vars(two) == vars(one) and len(two.effects) == 7


@pytest.mark.parametrize(("function", "_", "array", "zeros"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_noise_floor_of_a_function(workers, function, _, array, zeros):
    given = array(X), array(W)
    one = bp.noise_floor(function, runs=3)(*given)
    two = bp.noise_floor(function, runs=3, executor=workers)(*given)
    assert vars(one) == vars(two) and repr(one) == repr(two)


@pytest.mark.parametrize(("_", "function", "array", "zeros"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_provocations_of_a_function(workers, _, function, array, zeros):
    given, bounds = (array(X), array(W)), {"x": (-30.0, 30.0), "w": None}
    one = bp.provoke(function, bounds=bounds, tries=4)(*given)
    two = bp.provoke(function, bounds=bounds, tries=4, executor=workers)(*given)
    assert str(one) == str(two) and one.to_dict() == two.to_dict() and one.findings


@pytest.mark.parametrize(("function", "_", "array", "zeros"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_an_attribution_of_a_function(workers, function, _, array, zeros):
    given = (array(X), array(W)), (array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0]]), array(W))
    one = bp.attribute(function, *given, ["x", "u", "v"], steps=2)
    two = bp.attribute(function, *given, ["x", "u", "v"], steps=2, executor=workers)
    assert one.to_dict() == two.to_dict() and two.edges


@pytest.mark.parametrize(("make", "names", "ones", "zeros", "of"), MODELS.values(), ids=MODELS)
def test_a_sweep_of_a_model(workers, make, names, ones, zeros, of):
    model, x = make(), ones((2, 4))
    one = bp.sweep(model, names, replace=zeros, of=of)(x)
    two = bp.sweep(model, names, replace=zeros, of=of, executor=workers)(x)
    assert vars(two) == vars(one) and [*two.effects] == names


@pytest.mark.parametrize("name", ["equinox", "keras"])
def test_a_noise_floor_of_a_model(workers, name):
    make, names, ones, _, of = MODELS[name]
    model, x = make(), ones((2, 4))
    one = bp.noise_floor(model, names, of=of, runs=3)(x)
    two = bp.noise_floor(model, names, of=of, runs=3, executor=workers)(x)
    assert vars(one) == vars(two)


def test_a_model_that_keras_cannot_make_again(workers):
    model = sent_programs.Unnamed()
    model(tf.ones((2, 4)))
    with pytest.raises(bp.BadOption, match="Unnamed cannot be made again in another process") as error:
        bp.sweep(model, "first", replace=tf.zeros_like, executor=workers)(tf.ones((2, 4)))
    assert "def __init__(self, **options)" in str(error.value)


def test_an_error_of_the_program_comes_out(workers):
    def failing(value):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        bp.sweep(sent_programs.in_jax, "u", replace=failing, executor=workers)(jnp.asarray(X), jnp.asarray(W))

"""TensorFlow Probability, with tf_keras: distributions, bijectors, variational inference and probabilistic layers."""

import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from in_tensorflow import by

import backprobe as bp

FRAMEWORK, LIBRARIES = "TensorFlow", ("tensorflow-probability", "tf-keras")
tfd, tfb = tfp.distributions, tfp.bijectors
Y = tf.constant([2.8, 0.8, -0.3, 0.7])
SIGMA = tf.constant([1.5, 1.0, 1.6, 1.1])


# https://www.tensorflow.org/probability/overview
def likelihood(loc, scale, x):
    normal = tfd.Normal(loc, scale)
    log_prob = normal.log_prob(x)
    total = tf.reduce_sum(log_prob)
    return -total


# https://www.tensorflow.org/probability/examples/Eight_Schools
def eight_schools():
    mu = yield tfd.JointDistributionCoroutine.Root(tfd.Normal(0.0, 5.0, name="mu"))
    log_tau = yield tfd.JointDistributionCoroutine.Root(tfd.Normal(0.5, 1.0, name="log_tau"))
    theta = yield tfd.Sample(tfd.Normal(mu, tf.exp(log_tau)), 4, name="theta")
    yield tfd.Independent(tfd.Normal(theta, SIGMA), 1, name="y")


JOINT = tfd.JointDistributionCoroutine(eight_schools)


def joint_density(mu, log_tau, theta):
    log_joint = JOINT.log_prob(mu, log_tau, theta, Y)
    return -log_joint


# https://www.tensorflow.org/probability/api_docs/python/tfp/bijectors
def flow(shift, log_scale, x):
    bijector = tfb.Chain([tfb.Softplus(), tfb.Shift(shift), tfb.Scale(log_scale=log_scale)])
    distribution = tfd.TransformedDistribution(tfd.Normal(tf.zeros(()), 1.0), bijector)
    log_prob = distribution.log_prob(x)
    return -tf.reduce_sum(log_prob)


# https://www.tensorflow.org/probability/examples/Variational_Inference_and_Joint_Distributions
def elbo(loc, raw_scale):
    scale = tf.nn.softplus(raw_scale)
    surrogate = tfd.MultivariateNormalDiag(loc, scale)
    sample = surrogate.sample(8, seed=tf.constant([1, 2], tf.int32))
    target = tfd.MultivariateNormalDiag(tf.constant([1.0, -1.0]), tf.constant([0.5, 2.0]))
    entropy = surrogate.log_prob(sample)
    energy = target.log_prob(sample)
    return tf.reduce_mean(entropy - energy)


# https://www.tensorflow.org/probability/examples/Probabilistic_Layers_Regression
X = tf.constant([[0.5, -1.0], [1.5, 0.25], [0.1, 0.2]])
TARGET = tf.constant([[1.0], [0.0], [-1.0]])


def regression():
    tf_keras.utils.set_random_seed(0)
    return tf_keras.Sequential(
        [
            tf_keras.layers.Dense(4, activation="tanh", input_shape=(2,), name="hidden"),
            tf_keras.layers.Dense(2, name="out"),
            tfp.layers.DistributionLambda(
                lambda t: tfd.Normal(t[..., :1], 1e-3 + tf.math.softplus(t[..., 1:])), name="n"
            ),
        ]
    )


def stepped(around):
    model, optimizer = regression(), tf_keras.optimizers.SGD(0.01)
    with around() as seen:
        with tf.GradientTape() as tape:
            predicted = model(X)
            loss = -tf.reduce_mean(predicted.log_prob(TARGET))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return seen, loss, gradients, [one.numpy() for one in model.trainable_variables]


# planted
def cut(loc, scale, x):
    normal = tfd.Normal(tf.stop_gradient(loc), scale)  # <- cut
    return -tf.reduce_sum(normal.log_prob(x))


def nan(loc, scale, x):
    normal = tfd.Normal(loc, scale)
    log_prob = normal.log_prob(x)
    root = tf.sqrt(log_prob)  # <- nan
    return tf.reduce_sum(root)


def zero_scale(loc, scale, x):
    flat = scale - scale
    normal = tfd.Normal(loc, flat)
    log_prob = normal.log_prob(x)  # <- nan
    return -tf.reduce_sum(log_prob)


# asked
def given():
    return tf.constant(0.5), tf.constant(1.5), tf.constant([1.0, -0.5, 2.0])


def test_likelihood(ask):
    rec = ask.function(likelihood, given)
    loc, scale, x = given()
    z = (x - loc) / scale
    right = {
        "loc": -tf.reduce_sum(z) / scale,
        "scale": tf.reduce_sum(1 - z**2) / scale,
        "x": z / scale,
        "log_prob": -tf.ones(3),
    }
    ask.gradients(rec, right | {"total": -1.0})
    ask.names(rec, "loc", "scale", "x", "log_prob", "total")
    ask.clean(rec)
    ask.works("`log_prob` of a distribution: its parameters, and what it is given")


def test_joint(ask):
    inputs = tf.constant(0.5), tf.constant(0.2), tf.constant([0.1, 0.2, 0.3, 0.4])
    rec = ask.function(joint_density, lambda: inputs)
    ask.gradients(rec, by(joint_density, *inputs) | {"log_joint": -1.0})
    ask.names(rec, "mu", "log_tau", "theta", "log_joint")
    ask.clean(rec)
    ask.works("`JointDistributionCoroutine`")


def test_flow(ask):
    inputs = tf.constant(0.1), tf.constant(-0.2), tf.constant([0.7, 1.5])
    rec = ask.function(flow, lambda: inputs)
    ask.gradients(rec, by(flow, *map(tf.identity, inputs)) | {"log_prob": -tf.ones(2)})
    ask.clean(rec)
    ask.works("bijectors, and distributions that they transform")


def test_elbo(ask):
    inputs = tf.constant([0.5, 0.1]), tf.constant([0.2, -0.3])
    rec = ask.function(elbo, lambda: inputs)
    ask.gradients(rec, by(elbo, *inputs) | {"entropy": tf.fill(8, 0.125), "energy": tf.fill(8, -0.125)})
    ask.names(rec, "loc", "scale", "sample", "entropy", "energy")
    ask.clean(rec)
    ask.works("reparametrised samples in a variational loss")


def test_layers(ask):
    rec = ask.block(stepped)
    gradients = stepped(lambda: __import__("contextlib").nullcontext())[2]
    ask.names(rec, "loss", "gradients.0")
    ask.gradients(rec, {"loss": 1.0})
    ask.values(rec, {f"gradients.{at}": one for at, one in enumerate(gradients)})
    ask.clean(rec)
    ask.works("a model of tf_keras with a `DistributionLambda`, in a block around its step")


def test_model(ask):
    model = regression()
    said = ""
    try:
        rec = bp.probe(model, of=lambda d: -tf.reduce_mean(d.log_prob(TARGET)))(X)
    except bp.BackprobeError as error:
        said = str(error)
        ask.that("tf_keras" in said or "Keras" in said or "keras" in said, f"the refusal does not say why: {said}")
        ask.refuses("a model of tf_keras as a model: a refusal")
    else:
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(model(X).log_prob(TARGET))
        right = tape.gradient(loss, model.trainable_variables)
        ask.gradients(rec, {"hidden.kernel": right[0], "out.bias": right[3]})
        ask.clean(rec)


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.nan(ask.function(nan, given, nonfinite=True), nan)
    ask.nan(ask.function(zero_scale, given, nonfinite=True), zero_scale)

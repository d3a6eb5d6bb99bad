"""Numerical bugs in TensorFlow, each with its stable twin."""

import tensorflow as tf

from provoke_case import Case

U, V = [0.3, -0.8, 0.5], [1.0, 0.2, -0.4]
ROWS = [[1.0, 0.5, -0.2], [0.3, -1.0, 0.8]]
ONE_HOT = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]


def keras_like_loss(logits, labels):
    prediction = tf.nn.softmax(logits)
    return -tf.reduce_sum(labels * tf.math.log(prediction))


def keras_like_loss_stable(logits, labels):
    return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(labels, logits))


def triplet_distance(anchor, other):
    return tf.norm(anchor - other)


def triplet_distance_stable(anchor, other):
    return tf.sqrt(tf.reduce_sum(tf.square(anchor - other)) + 1e-12)


def autoencoder_sample(mean, log_sigma):
    return tf.reduce_sum(mean + tf.sqrt(tf.exp(log_sigma)))


def autoencoder_sample_stable(mean, log_sigma):
    return tf.reduce_sum(mean + tf.exp(tf.clip_by_value(log_sigma, -20.0, 20.0) / 2))


def batch_normalized(x):
    mean, variance = tf.nn.moments(x, axes=[0])
    return tf.reduce_sum((x - mean) / tf.sqrt(variance))


def batch_normalized_stable(x):
    mean, variance = tf.nn.moments(x, axes=[0])
    return tf.reduce_sum((x - mean) / tf.sqrt(variance + 1e-3))


def scaled_by_largest(x, w):
    largest = tf.reduce_max(tf.abs(w))
    return tf.reduce_sum(x * tf.divide(w, largest))


def scaled_by_largest_stable(x, w):
    largest = tf.reduce_max(tf.abs(w))
    return tf.reduce_sum(x * tf.divide(w, tf.maximum(largest, 1e-3)))


CASES = [
    Case(
        "softmax rounds to 0",
        "tf.math.log(prediction)",
        keras_like_loss,
        keras_like_loss_stable,
        (ROWS, ONE_HOT),
        {"logits": (-150.0, 150.0), "labels": None},
    ),
    Case("the derivative of a norm at 0", "tf.norm(anchor - other)", triplet_distance, triplet_distance_stable, (U, V)),
    Case(
        "exp overflows",
        "tf.exp(log_sigma)",
        autoencoder_sample,
        autoencoder_sample_stable,
        (U, V),
        {"log_sigma": (-200.0, 200.0)},
    ),
    Case(
        "a column of equal numbers",
        "(x - mean) / tf.sqrt(variance)",
        batch_normalized,
        batch_normalized_stable,
        (ROWS,),
    ),
    Case("weights that are all 0", "tf.divide(w, largest)", scaled_by_largest, scaled_by_largest_stable, (U, V)),
]

"""Graphs under test: built in a ``tf.Graph`` of their own, with a session in which the variables are initialized."""

import contextlib

import tensorflow as tf

import backprobe as bp
from asked import on

v1 = tf.compat.v1


@contextlib.contextmanager
def graph(build, kind=v1.Session):
    """What ``build`` returned, and the session; the graph is the default one in the meantime."""
    with tf.Graph().as_default():
        target = build()
        session = kind()
        try:
            session.run(v1.global_variables_initializer())
            yield target, session
        finally:
            session.close()


def probed(build, *feeds, **options):
    """What a probe says of the tensor that ``build`` makes, with a session of its own."""
    with graph(build) as (target, session):
        return bp.probe(target, session=session, **options)(*feeds)


class of(on):
    """Makes a test of a function that builds a graph: what it gives, fed with these."""

    def record(self, build):
        return probed(build, *self.arguments, **self.options)


def fed(name="x", shape=(), dtype=tf.float32):
    return v1.placeholder(dtype, shape, name)


def s3(resource=True):
    """The graph of S3: a = relu(x·w + b), with w = 2 and b = 1."""
    x = fed()
    w = v1.get_variable("w", initializer=2.0, use_resource=resource)
    b = v1.get_variable("b", initializer=1.0, use_resource=resource)
    u = tf.multiply(x, w, name="u")
    v = tf.add(u, b, name="v")
    return tf.nn.relu(v, name="a")


def operations(session):
    return len(session.graph.get_operations())

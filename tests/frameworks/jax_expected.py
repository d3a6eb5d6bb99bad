"""What a recording of JAX has to say, compared in one line: gradients by name, statuses, axes."""

import numpy as np


def grads(rec, **wanted):
    """Is the gradient of each of these names this one, shape and dtype included?"""
    for name, gradient in wanted.items():
        entry = rec[name]
        assert entry.status == "ok", f"{name} is {entry.status}: {entry.reason}"
        same(entry.grad, gradient, name)
        assert entry.grad.shape == entry.value.shape == entry.shape, name
        assert entry.grad.dtype == entry.value.dtype, name


def same(found, wanted, name=""):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, f"{name} has the shape {found.shape} and not {wanted.shape}"
    assert np.allclose(found, wanted, 2e-5, 2e-5), f"{name} is {found} and not {wanted}"


def statuses(rec):
    return {name: str(entry.status) for name, entry in rec.items() if entry.status != "not_tensor"}

"""Probes inside transforms of ``torch.func``: refused in words of their own where no tensor may require a gradient."""

import pytest
import torch
from torch import func

import backprobe as bp

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of PyTorch's own jvp


def f(x):
    h = x * 2
    return h.sum()


def per_example(x):
    return bp.probe(f)(x)["h"].grad


LINEAR = torch.nn.Linear(3, 1)


def of_a_model(x):
    return bp.probe(LINEAR)(x)["return"].value


def of_what_is_outside(x):
    return bp.probe(lambda y: (y * 2).sum())(torch.ones(3))["y"].grad * x


def checked(x):
    bp.check(f)(x)
    return x


def with_a_flag(x):
    return bp.probe(f, wrt="x")(x)["x"].grad


@pytest.mark.parametrize("program", [per_example, of_a_model, of_what_is_outside, checked, with_a_flag])
def test_a_probe_inside_vmap_is_refused_in_words_of_its_own(program):
    with pytest.raises(bp.Unsupported) as raised:
        func.vmap(program)(torch.ones(4, 3))
    assert raised.value.headline == "a probe cannot run inside torch.func.vmap"
    assert "requires_grad_" not in str(raised.value)


def test_what_the_refusal_advises_works():
    rec = bp.probe(lambda x: func.vmap(f)(x).sum())(torch.ones(4, 3))
    assert rec["x"].grad.tolist() == [[2.0] * 3] * 4
    rec = bp.probe(lambda x: func.jvp(f, (x,), (torch.ones(3),))[0].sum())(torch.ones(3))
    assert rec["x"].grad.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("jvp", lambda: func.jvp(per_example, (torch.ones(3),), (torch.ones(3),))),
        ("functionalize", lambda: func.functionalize(per_example)(torch.ones(3))),
        ("vmap", lambda: func.vmap(func.vmap(per_example))(torch.ones(2, 4, 3))),
    ],
)
def test_the_other_transforms_are_named(name, run):
    with pytest.raises(bp.Unsupported, match=rf"inside torch\.func\.{name}\b"):
        run()


def test_a_block_inside_vmap_leaves_the_program_as_it_is():
    def program(x):
        with bp.probe():
            h = x * 2
            y = h.sum()
        return y

    assert func.vmap(program)(torch.ones(4, 3)).tolist() == [6.0] * 4


def test_inside_grad_a_probe_runs():
    seen = []

    def program(x):
        seen.append(bp.probe(f)(x))
        return f(x)

    assert func.grad(program)(torch.ones(3)).tolist() == [2.0] * 3
    assert seen[0]["h"].status == "opaque"


def in_a_block(x):
    with bp.probe() as rec:
        h = x * 2
        y = h.sum()
    SEEN.append(rec)
    return y


def as_a_function(x):
    SEEN.append(bp.probe(f)(x))
    return f(x)


SEEN = []


@pytest.mark.parametrize("program", [in_a_block, as_a_function])
@pytest.mark.parametrize(
    "transform",
    [func.grad, func.grad_and_value, lambda program: lambda x: func.vjp(program, x)[0]],
    ids=["grad", "grad_and_value", "vjp"],
)
def test_a_value_that_lives_in_a_transform_alone_is_not_said_to_be_overwritten(program, transform):
    transform(program)(torch.ones(3))
    with pytest.raises(bp.Overwritten) as raised:
        SEEN.pop()["h"].value  # noqa: B018
    error = raised.value
    assert error.headline == "the value of 'h' was not kept"
    assert error.found == "it exists only inside a torch.func transform"
    assert "wrote" not in str(error)
    assert error.next.startswith("return it from the function that is transformed")


def test_what_is_returned_from_a_transform_can_be_read():
    """What the message advises."""
    gradient, h = func.grad(lambda x: ((x * 2).sum(), x * 2), has_aux=True)(torch.ones(3))
    assert h.tolist() == gradient.tolist() == [2.0] * 3


def test_a_value_inside_a_transform_is_not_kept_by_a_copy_either():
    def program(x):
        SEEN.append(bp.probe(f, values="copy")(x))
        return f(x)

    func.grad(program)(torch.ones(3))
    with pytest.raises(bp.Overwritten, match="was not kept"):
        SEEN.pop()["return"].value  # noqa: B018

"""Ports of models of PyTorch to Haiku, without any ``rename=``: parameters in a dictionary that a function is given."""

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp

WORDS, WIDTH = 7, 4


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        return self.head(self.norm(x.mean((2, 3))))


def convolutional(x):
    for name in ("conv1", "conv2"):
        x = jax.nn.relu(hk.Conv2D(4, 3, name=name)(x))
    return hk.Linear(3, name="head")(hk.LayerNorm(-1, True, True, name="norm")(x.mean((1, 2))))


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def perceptron(x):
    return hk.nets.MLP([6, 6, 3])(x)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, tokens):
        return self.head(self.embed(tokens).mean(1))


def words(tokens):
    return hk.Linear(3, name="head")(hk.Embed(WORDS, WIDTH, name="embed")(tokens).mean(1))


def leaf(array):
    """A weight as Haiku has it."""
    return jnp.asarray(array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T)


def to_haiku(model, params):
    """The parameters of a model, in the order in which both have them."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in state))
    made = {}
    for layer, (module, own) in zip(layers, params.items(), strict=True):
        weight, bias = state[f"{layer}.weight"], state.get(f"{layer}.bias")
        made[module] = {
            name: jnp.asarray(bias if name in ("b", "offset") else weight) if name != "w" else leaf(weight)
            for name in own
        }
    return made


IMAGES = np.random.default_rng(3).standard_normal((2, 2, 4, 4)).astype(np.float32)
ROWS = np.random.default_rng(3).standard_normal((5, 4)).astype(np.float32)
TOKENS = np.array([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])
CASES = {
    "convolutional": (Convolutional, convolutional, IMAGES, "conv2.weight"),
    "perceptron": (Perceptron, perceptron, ROWS, "layers.1.weight"),
    "words": (Words, words, TOKENS, "embed.weight"),
}


def recordings(name, is_faulty):
    """Those of a model and its port; with one weight wrong."""
    reference, port, given, faulty = CASES[name]
    torch.manual_seed(0)
    model = reference()
    array = jnp.asarray(given.transpose(0, 2, 3, 1) if given.ndim == 4 else given)
    forward = hk.without_apply_rng(hk.transform(port))
    params = to_haiku(model, forward.init(jax.random.key(0), array))
    if is_faulty:
        module = list(params)[
            [one.rpartition(".")[0] for one in model.state_dict() if "weight" in one].index(faulty.rpartition(".")[0])
        ]
        leaf = next(one for one in ("w", "embeddings") if one in params[module])
        params[module][leaf] = params[module][leaf][::-1]

    def program(params, x):
        return forward.apply(params, x)

    def mean_square(y):
        return (y * y).mean()

    return bp.probe(model, of=mean_square)(torch.tensor(given)), bp.probe(program, of=mean_square)(params, array)


@pytest.mark.parametrize("name", CASES)
def test_an_exact_port_does_not_differ(name):
    report = bp.diff(*recordings(name, False))
    assert report.heading.startswith("no difference") and not report.findings, str(report)
    weights = [one for one in report.only_a if one.endswith((".weight", ".bias"))]
    assert not weights, str(report)


@pytest.mark.parametrize("name", CASES)
def test_a_planted_fault_is_named(name):
    report = bp.diff(*recordings(name, True))
    assert report.first is not None and report.first.name == CASES[name][3], str(report)

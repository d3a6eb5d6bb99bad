"""e3nn: features that turn with space; its modules are made of code that it compiles itself."""

from pathlib import Path

import torch
from e3nn import o3
from e3nn.nn import FullyConnectedNet, Gate
from e3nn.o3 import FullyConnectedTensorProduct, Irreps, Linear
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("e3nn",)


# https://docs.e3nn.org/en/stable/guide/convolution.html
class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.sh = Irreps.spherical_harmonics(2)
        self.tp = FullyConnectedTensorProduct("2x0e + 1x1o", self.sh, "2x0e + 1x1o", shared_weights=False)
        self.fc = FullyConnectedNet([3, 8, self.tp.weight_numel], torch.relu)

    def forward(self, features, positions, radial):
        harmonics = o3.spherical_harmonics(self.sh, positions, True, normalization="component")
        weight = self.fc(radial)
        messages = self.tp(features, harmonics, weight)
        return messages.mean(0)


def inputs():
    return torch.randn(6, 5), torch.randn(6, 3), torch.rand(6, 3)


def convolution(around, select=None):
    model = Convolution()
    features, positions, radial = inputs()
    positions.requires_grad_()
    with around(model, select) as seen:
        out = model(features, positions, radial)
        loss = out.square().sum()
        loss.backward()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}, positions.grad


def test_convolution(ask):
    rec = ask.block(convolution)
    _, grads, _ = ask.bare(convolution)
    ask.gradients(rec, grads)
    ask.names(rec, "tp", "fc", "fc.layer0", "return", *grads)
    ask.clean(rec)
    ask.works("a convolution: tensor product, radial network, harmonics")


def test_locals_of_a_convolution(ask):
    rec = ask.block(convolution, ["**", ":*"])
    _, grads, d_positions = ask.bare(convolution)
    ask.names(rec, "harmonics", "weight", "messages", "positions", "features", "radial")
    ask.gradients(rec, {"positions": d_positions})
    ask.statuses(rec, {"features": "frozen"})


def harmonic(positions):
    y = o3.spherical_harmonics(1, positions, normalize=False, normalization="integral")
    total = (y * torch.tensor([1.0, 2.0, 3.0])).sum()
    return total


def test_harmonics_by_hand(ask):
    at = torch.tensor([[0.1, 0.5, -0.4], [1.0, 0.2, 0.3]])
    rec = ask.function(harmonic, lambda: (at.clone().requires_grad_(),))
    scale = (3 / (4 * torch.pi)) ** 0.5
    ask.gradients(rec, {"positions": scale * torch.tensor([1.0, 2.0, 3.0]).expand(2, 3)})
    ask.gradients(rec, {"y": torch.tensor([1.0, 2.0, 3.0]).expand(2, 3), "total": 1.0})
    ask.values(rec, {"y": scale * at})
    ask.names(rec, "positions", "y", "total")
    ask.clean(rec)
    ask.works("`spherical_harmonics`, against their formula")


# https://docs.e3nn.org/en/stable/api/o3/o3_linear.html: scalars are mixed like a plain layer, over sqrt of their number
def linear(around):
    layer = Linear("3x0e + 2x1o", "2x0e + 1x1o")
    x = torch.randn(4, 9)
    with around(layer) as seen:
        out = layer(x)
        loss = out[:, :2].sum()
        loss.backward()
    return seen, loss, layer.weight.grad, x


def test_linear_by_hand(ask):
    rec = ask.block(linear)
    _, _, x = ask.bare(linear)
    scalars = x[:, :3].sum(0)[:, None].expand(3, 2) / 3**0.5
    right = torch.cat([scalars.flatten(), torch.zeros(2)])
    ask.gradients(rec, {"weight": right})
    out = torch.zeros(4, 5)
    out[:, :2] = 1
    ask.gradients(rec, {"return": out})


# https://docs.e3nn.org/en/stable/guide/periodic_boundary_conditions.html: energies, forces, gates
class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate("4x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")
        self.first = Linear("1x0e + 1x1o", self.gate.irreps_in)
        self.second = Linear(self.gate.irreps_out, "1x0e")

    def forward(self, positions):
        length = positions.norm(dim=1, keepdim=True)
        features = torch.cat([length, positions], dim=1)
        return self.second(self.gate(self.first(features))).sum()


class EnergyCut(Energy):
    def forward(self, positions):
        length = positions.norm(dim=1, keepdim=True)
        features = torch.cat([length, positions], dim=1)
        gated = self.gate(self.first(features))
        gated = torch.from_numpy(gated.detach().numpy())  # <- cut
        return self.second(gated).sum()


def forces(around, steps=20):
    model = Energy()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    positions = torch.randn(5, 3)
    with around(model, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            at = positions.clone().requires_grad_()
            energy = model(at)
            (gradient,) = torch.autograd.grad(energy, at, create_graph=True)
            loss = (gradient + positions).square().mean()
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_forces(ask):
    rec = ask.block(forces, 1)
    _, grads = ask.bare(forces, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "first", "gate", "second", *grads)
    last = ask.watched(forces)
    ask.rows(last, *grads)
    ask.works("forces as gradients that are trained, with gates; `bp.watch` over the training")


def planted_cut(around):
    model = EnergyCut()
    positions = torch.randn(5, 3)
    with around(model, ["**", ":*"]) as seen:
        loss = model(positions)
        loss.backward()
    return seen, loss


def norm_at_the_origin(positions):
    length = positions.square().sum(1).sqrt()  # <- nan
    y = o3.spherical_harmonics([0, 1], positions, normalize=False)
    return (length[:, None] * y).sum()


def test_planted(ask):
    rec = ask.block(planted_cut)
    ask.cut(rec, EnergyCut.forward)
    ask.statuses(rec, {"first.weight": "not_connected", "gate": "not_connected"})
    at = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]])
    rec = ask.function(norm_at_the_origin, lambda: (at.clone().requires_grad_(),), nonfinite=True)
    ask.nan(rec, norm_at_the_origin)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "e3nn_tetris.py")

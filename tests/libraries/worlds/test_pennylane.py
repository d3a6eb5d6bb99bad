"""PennyLane: quantum circuits whose expectations are differentiated, by PyTorch itself or by shifted parameters."""

import pennylane as qml
import torch
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("pennylane",)


# https://pennylane.ai/qml/demos/tutorial_qubit_rotation: <Z> after RX(a), RY(b) is cos(a) cos(b)
def circuit(method):
    device = qml.device("default.qubit", wires=1)

    @qml.qnode(device, interface="torch", diff_method=method)
    def rotated(angles):
        qml.RX(angles[0], wires=0)
        qml.RY(angles[1], wires=0)
        return qml.expval(qml.PauliZ(0))

    return rotated


def rotation(angles, method):
    expectation = circuit(method)(angles)
    cost = (expectation - 0.5) ** 2
    return cost


def test_rotation_by_hand(ask):
    at = torch.tensor([0.3, 1.1], dtype=torch.double)
    (a, b), (sin_a, sin_b) = at.cos(), at.sin()
    for method in ("backprop", "parameter-shift", "adjoint"):
        rec = ask.function(rotation, lambda: (at.clone().requires_grad_(), method))
        d_expectation = 2 * (a * b - 0.5)
        right = d_expectation * torch.stack([-sin_a * b, -a * sin_b])
        ask.gradients(rec, {"angles": right, "expectation": d_expectation, "cost": 1.0})
        ask.values(rec, {"expectation": a * b})
        ask.names(rec, "angles", "expectation", "cost")
        ask.clean(rec)
    ask.works("`backprop`, `parameter-shift` and `adjoint`, by hand")


# https://pennylane.ai/qml/demos/tutorial_qnn_module_torch: a circuit as a layer
def layer():
    device = qml.device("default.qubit", wires=2)

    @qml.qnode(device, interface="torch", diff_method="backprop")
    def quantum(inputs, weights):
        qml.AngleEmbedding(inputs, wires=range(2))
        qml.BasicEntanglerLayers(weights, wires=range(2))
        return [qml.expval(qml.PauliZ(wires=one)) for one in range(2)]

    return qml.qnn.TorchLayer(quantum, {"weights": (2, 2)})


class Hybrid(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.quantum, self.after = nn.Linear(2, 2), layer(), nn.Linear(2, 1)

    def forward(self, x):
        angles = self.before(x)
        measured = self.quantum(angles)
        return self.after(measured)


class HybridCut(Hybrid):
    def forward(self, x):
        angles = self.before(x)
        angles = torch.tensor(angles.tolist())  # <- cut
        return self.after(self.quantum(angles))


class HybridNan(Hybrid):
    def forward(self, x):
        angles = self.before(x)
        angles = torch.acos(angles * 0 + 1)  # <- nan
        return self.after(self.quantum(angles))


def training(around, kind=Hybrid, steps=20, select=None):
    model = kind()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.randn(3, 2), torch.randn(3, 1)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            if steps > 1:
                optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_hybrid_network(ask):
    rec = ask.block(training, Hybrid, 1, ["**", ":*"])
    _, grads = ask.bare(training, Hybrid, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "before", "quantum", "after", "quantum.weights", "angles", "measured")
    ask.clean(rec)
    last = ask.watched(training)
    ask.rows(last, "quantum", "quantum.weights", "before.weight")
    ask.works("`TorchLayer` between layers: angles, measurements and weights; `bp.watch`")


def test_planted(ask):
    rec = ask.block(training, HybridCut, 1, ["**", ":*"])
    ask.cut(rec, HybridCut.forward)
    ask.statuses(rec, {"before.weight": "not_connected"})
    rec = ask.block(nan_step, nonfinite=True)
    ask.nan(rec, HybridNan.forward)


def nan_step(around):
    return training(around, HybridNan, 1, ["**", ":*"])[:2]

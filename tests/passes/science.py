"""Derivatives as physics uses them: residuals, forces, flows, and samples along a gradient."""

import torch

from passes.program import Collection, each, leaf

program = Collection()


@program(
    """
import torch
import torch.nn as nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.linspace(0, 1, 5).reshape(-1, 1).requires_grad_(True)
u = net(x)
u_x = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]
residual = u_xx + u
loss = residual.square().mean()
loss.backward()
""",
    "https://amm.zanotp.com/pinn",
    backward="loss",
)
def pinn_of_a_second_order_equation():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    x = torch.linspace(0, 1, 5).reshape(-1, 1).requires_grad_(True)
    u = net(x)
    (u_x,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    residual = u_xx + u
    ones = torch.ones(5, 1)
    return {
        "u": each(u, x=x, u=u, cotangent=ones) | {"u_x": None},
        "u_x": each(u_x, x=x, u_x=u_x, cotangent=ones) | {"residual": None},
        "loss": each(residual.square().mean(), x=x, u=u, u_x=u_x, u_xx=u_xx, residual=residual),
    }


@program(
    """
import torch
import torch.nn as nn

class Burgers(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))

def residual(model, x, t, nu=0.1):
    u = model(x, t)
    u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
    return u_t + u * u_x - nu * u_xx

torch.manual_seed(1)
model = Burgers()
xs = torch.rand(3, 1, requires_grad=True)
ts = torch.rand(3, 1, requires_grad=True)
f = residual(model, xs, ts)
loss = f.pow(2).mean()
loss.backward()
""",
    "https://deepwiki.com/jayroxis/PINNs/6.4-automatic-differentiation-for-pdes",
    backward="loss",
)
def pinn_of_burgers_equation():
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    x, t = torch.rand(3, 1, requires_grad=True), torch.rand(3, 1, requires_grad=True)
    u = net(torch.cat([x, t], dim=1))
    first, leaves = u.sum(), {"xs": x, "ts": t}
    u_t, u_x = torch.autograd.grad(first, (t, x), create_graph=True)
    second = u_x.sum()
    (u_xx,) = torch.autograd.grad(second, x, create_graph=True)
    f = u_t + u * u_x - 0.1 * u_xx
    inside = {"/residual:u": u, "/residual:u_t": u_t, "/residual:u_x": u_x}
    return {
        "grad()#0": each(first, leaves | {"/residual:u": u}),
        "grad()#1": each(second, {"xs": x, "/residual:u_x": u_x}) | {"ts": None},
        "loss": each(f.pow(2).mean(), leaves | inside, f=f),
    }


@program("""
import torch
t = torch.linspace(0.0, 1.0, 4, requires_grad=True)
rate = torch.tensor(2.0, requires_grad=True)
n = torch.sigmoid(rate * t)
(dn,) = torch.autograd.grad(n.sum(), t, create_graph=True)
interior = dn - rate * n * (1 - n)
boundary = n[0] - 0.5
loss = interior.pow(2).mean() + boundary.pow(2)
grads = torch.autograd.grad(loss, [rate])
""", "https://www.besthub.dev/articles/solving-differential-equations-with-physics-informed-neural-networks-in-pytorch-6183ea22bad9")  # fmt: skip  # noqa: E501
def the_logistic_equation():
    t, rate = torch.linspace(0.0, 1.0, 4, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    n = torch.sigmoid(rate * t)
    (dn,) = torch.autograd.grad(n.sum(), t, create_graph=True)
    interior = dn - rate * n * (1 - n)
    boundary = n[0] - 0.5
    loss = interior.pow(2).mean() + boundary.pow(2)
    return {
        "grad()": each(n.sum(), t=t, n=n) | {"rate": None},
        "loss": each(loss, rate=rate, n=n, dn=dn, interior=interior, boundary=boundary) | {"t": None},
    }


@program(
    """
import torch
positions = torch.tensor([[0.0, 0.0], [1.0, 0.5], [0.2, 1.1]], requires_grad=True)
i, j = torch.triu_indices(3, 3, offset=1)
r = (positions[i] - positions[j]).norm(dim=1)
energy = (r ** -12 - 2 * r ** -6).sum()
forces = -torch.autograd.grad(energy, positions)[0]
""",
    "https://aiqm.github.io/torchani-test-docs/examples/nnp_training_force.html",
)
def forces_from_an_energy():
    positions = torch.tensor([[0.0, 0.0], [1.0, 0.5], [0.2, 1.1]], requires_grad=True)
    i, j = torch.triu_indices(3, 3, offset=1)
    r = (positions[i] - positions[j]).norm(dim=1)
    energy = (r**-12 - 2 * r**-6).sum()
    return {"energy": each(energy, positions=positions, r=r, energy=energy)}


@program(
    """
import torch
import torch.nn as nn

class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)

    def forward(self, pos):
        hidden = torch.tanh(self.layer(pos))
        return hidden.sum()

    def forces(self, pos):
        energy = self(pos)
        grad, = torch.autograd.grad(energy, pos, create_graph=True)
        return energy, -grad

torch.manual_seed(2)
model = Potential()
weight = model.layer.weight
pos = torch.randn(3, 2, requires_grad=True)
energy, forces = model.forces(pos)
loss = energy.square() + (forces - 0.5).square().mean()
loss.backward()
""",
    "https://aiqm.github.io/torchani-test-docs/examples/nnp_training_force.html",
    backward="loss",
)
def training_with_forces():
    torch.manual_seed(2)
    layer, pos = torch.nn.Linear(2, 3), torch.randn(3, 2, requires_grad=True)
    hidden = torch.tanh(layer(pos))
    energy = hidden.sum()
    (grad,) = torch.autograd.grad(energy, pos, create_graph=True)
    forces = -grad
    loss = energy.square() + (forces - 0.5).square().mean()
    values = {"pos": pos, "/forces/Potential:hidden": hidden, "energy": energy}
    return {
        "energy": each(energy, values) | {"weight": None, "forces": None},
        "loss": each(loss, values, weight=layer.weight, forces=forces),
    }


@program("""
import torch
positions = torch.tensor([[0.0, 0.1], [1.0, 0.9]])
strain = torch.zeros(2, 2, requires_grad=True)
deformed = positions @ (torch.eye(2) + strain)
energy = deformed.pow(4).sum()
stress = torch.autograd.grad(energy.sum(), strain)[0]
""", "https://nvidia.github.io/nvalchemi-toolkit-ops/examples/electrostatics/11_pme_energy_derivative_training.html")  # fmt: skip  # noqa: E501
def stress_from_a_strain():
    strain = torch.zeros(2, 2, requires_grad=True)
    deformed = torch.tensor([[0.0, 0.1], [1.0, 0.9]]) @ (torch.eye(2) + strain)
    energy = deformed.pow(4).sum()
    return {"grad()": each(energy.sum(), strain=strain, deformed=deformed, energy=energy)}


@program("""
import torch
displacement = torch.zeros(2, requires_grad=True)
offset = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
atom_energy = (offset + displacement).square().sum(1)
virial = []
for k in range(2):
    (part,) = torch.autograd.grad(outputs=[atom_energy[k]], inputs=[displacement],
                                  grad_outputs=[torch.ones(())], retain_graph=True, allow_unused=True)
    virial.append(-part)
""", "https://docs.deepmodeling.com/projects/deepmd-gnn/en/latest/_modules/deepmd_gnn/autograd.html", loops=True)  # fmt: skip  # noqa: E501
def the_virial_of_each_atom():
    displacement = torch.zeros(2, requires_grad=True)
    atom_energy = (torch.tensor([[1.0, 0.0], [0.0, 2.0]]) + displacement).square().sum(1)
    return {f"grad()#{k}": each(atom_energy[k], displacement=displacement, atom_energy=atom_energy) for k in range(2)}


@program(
    """
import torch
q = torch.tensor([1.0, 0.0], requires_grad=True)
p = torch.tensor([0.0, 0.5], requires_grad=True)
hamiltonian = p.square().sum() / 2 + q.pow(4).sum() / 4
dq, dp = torch.autograd.grad(hamiltonian, (q, p))
q_next = q + 0.1 * dp
p_next = p - 0.1 * dq
""",
    "https://github.com/greydanus/hamiltonian-nn",
)
def a_hamiltonian_step():
    q, p = leaf(1.0, 0.0), leaf(0.0, 0.5)
    hamiltonian = p.square().sum() / 2 + q.pow(4).sum() / 4
    return {"hamiltonian": each(hamiltonian, q=q, p=p) | {"q_next": None, "p_next": None}}


@program(
    """
import torch
torch.manual_seed(3)
a = torch.randn(2, 2, requires_grad=True)
z = torch.randn(3, 2, requires_grad=True)
e = torch.randn(3, 2)
dz = torch.tanh(z @ a)
e_dzdz = torch.autograd.grad(dz, z, e, create_graph=True)[0]
divergence = (e_dzdz * e).sum(dim=1)
loss = divergence.mean()
loss.backward()
""",
    "https://github.com/rtqichen/ffjord",
    backward="loss",
)
def divergence_after_hutchinson():
    torch.manual_seed(3)
    a, z, e = torch.randn(2, 2, requires_grad=True), torch.randn(3, 2, requires_grad=True), torch.randn(3, 2)
    dz = torch.tanh(z @ a)
    (e_dzdz,) = torch.autograd.grad(dz, z, e, create_graph=True)
    divergence = (e_dzdz * e).sum(dim=1)
    return {
        "dz": each(dz, z=z, dz=dz, cotangent=e) | {"a": None},
        "loss": each(divergence.mean(), a=a, z=z, dz=dz, e_dzdz=e_dzdz, divergence=divergence),
    }


@program(
    """
import torch
z = torch.tensor([[0.5, -0.5]], requires_grad=True)
dz = torch.stack([z[:, 0] * z[:, 1], z[:, 1] ** 2], dim=1)
trace = 0.0
for i in range(2):
    trace = trace + torch.autograd.grad(dz[:, i].sum(), z, create_graph=True)[0][:, i]
""",
    "https://github.com/rtqichen/ffjord",
    loops=True,
)
def the_trace_of_a_jacobian_exactly():
    z = torch.tensor([[0.5, -0.5]], requires_grad=True)
    dz = torch.stack([z[:, 0] * z[:, 1], z[:, 1] ** 2], dim=1)
    return {f"grad()#{i}": each(dz[:, i].sum(), z=z, dz=dz) for i in range(2)}


@program(
    """
import torch
w = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], requires_grad=True)
y0 = torch.tensor([1.0, 0.0], requires_grad=True)
y = y0
for k in range(3):
    y = y + 0.1 * torch.tanh(w @ y)
loss = (y - torch.tensor([0.0, 1.0])).square().sum()
dw, dy0 = torch.autograd.grad(loss, (w, y0))
""",
    "https://github.com/rtqichen/torchdiffeq",
)
def an_equation_integrated_by_euler():
    w, y0 = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], requires_grad=True), leaf(1.0, 0.0)
    ys = [y0]
    for _ in range(3):
        ys.append(ys[-1] + 0.1 * torch.tanh(w @ ys[-1]))
    loss = (ys[-1] - torch.tensor([0.0, 1.0])).square().sum()
    return {"loss": each(loss, {f"y#{k}": y for k, y in enumerate(ys) if k}, w=w, y0=y0)}


@program(
    """
import torch
w = torch.tensor([0.5, 0.2], requires_grad=True)
end = torch.tensor([1.0, -1.0], requires_grad=True)
rate = torch.sin(w * end)
adjoint = torch.tensor([1.0, 2.0])
vjp_y, vjp_w = torch.autograd.grad(rate, (end, w), -adjoint, allow_unused=True)
adjoint = adjoint + 0.1 * vjp_y
""",
    "https://github.com/rtqichen/torchdiffeq",
)
def a_step_of_the_adjoint_method():
    w, end = leaf(0.5, 0.2), leaf(1.0, -1.0)
    rate = torch.sin(w * end)
    return {"rate": each(rate, w=w, end=end, rate=rate, cotangent=torch.tensor([-1.0, -2.0]))}


@program(
    """
import torch
torch.manual_seed(4)
theta = torch.tensor([1.0, 0.5], requires_grad=True)

def energy(x):
    return (theta * x.square()).sum()

x = torch.randn(2, requires_grad=True)
for k in range(2):
    e = energy(x)
    (g,) = torch.autograd.grad(e, x)
    x = (x - 0.1 * g + 0.01 * torch.randn(2)).detach().requires_grad_()
""",
    "https://soran-ghaderi.github.io/torchebm/latest/examples/samplers",
    loops=True,
)
def langevin_dynamics():
    torch.manual_seed(4)
    theta, x, answer = leaf(1.0, 0.5), torch.randn(2, requires_grad=True), {}
    for k in range(2):
        e = (theta * x.square()).sum()
        answer[f"e#{k}"] = each(e, {f"x#{k}": x, f"e#{k}": e}) | {"theta": None, f"x#{k + 1}": None}
        x = (x - 0.1 * answer[f"e#{k}"][f"x#{k}"] + 0.01 * torch.randn(2)).requires_grad_()
    return answer


@program(
    """
import torch
torch.manual_seed(5)
w = torch.randn(2, 2, requires_grad=True)
data = torch.randn(3, 2).requires_grad_()
logp = -(data @ w).square().sum()
score = torch.autograd.grad(logp, data, create_graph=True)[0]
trace = 0
for i in range(2):
    trace = trace + torch.autograd.grad(score[:, i].sum(), data, create_graph=True)[0][:, i]
loss = (trace + score.square().sum(1) / 2).mean()
loss.backward()
""",
    "https://github.com/ermongroup/sliced_score_matching",
    loops=True,
    backward="loss",
)
def score_matching():
    torch.manual_seed(5)
    w, data = torch.randn(2, 2, requires_grad=True), torch.randn(3, 2).requires_grad_()
    logp = -(data @ w).square().sum()
    (score,) = torch.autograd.grad(logp, data, create_graph=True)
    parts = [score[:, i].sum() for i in range(2)]
    trace = sum(torch.autograd.grad(part, data, create_graph=True)[0][:, i] for i, part in enumerate(parts))
    loss = (trace + score.square().sum(1) / 2).mean()
    return {
        "logp": each(logp, data=data, logp=logp) | {"w": None},
        **{f"grad()#{i}": each(part, data=data, score=score) | {"w": None} for i, part in enumerate(parts)},
        "loss": each(loss, w=w, data=data, score=score),
    }


@program(
    """
import torch
torch.manual_seed(6)
w = torch.randn(2, requires_grad=True)
data = torch.randn(4, 2)
noise = 0.3 * torch.randn(4, 2)
noisy = (data + noise).requires_grad_()
logp = -(w * noisy.square()).sum()
score = torch.autograd.grad(logp, noisy, create_graph=True)[0]
loss = (score + noise / 0.09).square().sum(1).mean()
(dw,) = torch.autograd.grad(loss, w)
""",
    "https://github.com/ermongroup/ncsn",
)
def denoising_score_matching():
    torch.manual_seed(6)
    w, data, noise = torch.randn(2, requires_grad=True), torch.randn(4, 2), 0.3 * torch.randn(4, 2)
    noisy = (data + noise).requires_grad_()
    logp = -(w * noisy.square()).sum()
    (score,) = torch.autograd.grad(logp, noisy, create_graph=True)
    loss = (score + noise / 0.09).square().sum(1).mean()
    return {
        "logp": each(logp, noisy=noisy, logp=logp) | {"w": None},
        "loss": each(loss, w=w, score=score, loss=loss) | {"noisy": None, "logp": None},
    }

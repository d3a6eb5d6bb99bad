"""Small trainings in which nothing is wrong, though much in them is cut off, zero or taken by hand."""

HEAD = """
import copy, math
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
"""

TRAININGS = {
    "projected gradient descent by autograd.grad": ("""
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
def attack(x, y):
    delta = torch.zeros_like(x)
    for _ in range(3):
        delta.requires_grad_(True)
        inner = F.cross_entropy(model(x + delta), y)
        (g,) = torch.autograd.grad(inner, delta)
        delta = (delta + 0.1 * g.sign()).clamp(-0.3, 0.3).detach()
    return x + delta
""", """
adv = attack(x, y)
opt.zero_grad()
loss = F.cross_entropy(model(adv), y)
loss.backward()
opt.step()
"""),
    "the same, detached before its sign": ("""
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
""", """
adv = (x + 0.01 * torch.randn_like(x)).detach()
for _ in range(3):
    adv.requires_grad_()
    with torch.enable_grad():
        inner = F.cross_entropy(model(adv), y)
    grad = torch.autograd.grad(inner, [adv])[0]
    adv = adv.detach() + 0.1 * torch.sign(grad.detach())
    adv = torch.min(torch.max(adv, x - 0.3), x + 0.3)
opt.zero_grad()
loss = F.cross_entropy(model(adv), y)
loss.backward()
opt.step()
"""),
    "TRADES": ("""
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
def trades(x):
    model.eval()
    nat = F.softmax(model(x), 1).detach()
    adv = x.detach() + 0.001 * torch.randn(x.shape)
    for _ in range(2):
        adv.requires_grad_()
        kl = F.kl_div(F.log_softmax(model(adv), 1), nat, reduction="sum")
        g = torch.autograd.grad(kl, [adv])[0]
        adv = adv.detach() + 0.01 * torch.sign(g.detach())
        adv = torch.clamp(adv, -3.0, 3.0)
    model.train()
    return adv.detach()
""", """
adv = trades(x)
opt.zero_grad()
out = model(x)
loss = F.cross_entropy(out, y) + F.kl_div(F.log_softmax(model(adv), 1), F.softmax(out, 1), reduction="batchmean")
loss.backward()
opt.step()
"""),
    "virtual adversarial training": ("""
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
""", """
with torch.no_grad():
    p = F.softmax(model(x), 1)
d = F.normalize(torch.randn_like(x), dim=1)
for _ in range(2):
    d.requires_grad_()
    kl = F.kl_div(F.log_softmax(model(x + 1e-2 * d), 1), p, reduction="batchmean")
    kl.backward()
    d = F.normalize(d.grad, dim=1)
    model.zero_grad()
opt.zero_grad()
loss = F.cross_entropy(model(x), y) + F.kl_div(F.log_softmax(model(x + 0.1 * d), 1), p, reduction="batchmean")
loss.backward()
opt.step()
"""),
    "Langevin samples of an energy": ("""
model = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters(), 1e-3)
real = torch.randn(8, 2)
def sample(n=4):
    x = torch.randn(8, 2)
    for _ in range(n):
        x = x.detach().requires_grad_(True)
        e = model(x).sum()
        g = torch.autograd.grad(e, x)[0]
        x = x - 0.1 * g + 0.05 * torch.randn_like(x)
    return x.detach()
""", """
fake = sample()
opt.zero_grad()
loss = model(real).mean() - model(fake).mean()
loss.backward()
opt.step()
"""),
    "BYOL": ("""
class Byol(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        self.predict = nn.Linear(4, 4)
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad = False
    def forward(self, a, b):
        p = F.normalize(self.predict(self.online(a)), dim=1)
        with torch.no_grad():
            t = F.normalize(self.target(b), dim=1)
        return 2 - 2 * (p * t.detach()).sum(1).mean()
    @torch.no_grad()
    def update(self):
        for t, o in zip(self.target.parameters(), self.online.parameters()):
            t.data = 0.9 * t.data + 0.1 * o.data
model = Byol()
opt = torch.optim.SGD([*model.online.parameters(), *model.predict.parameters()], 0.1)
x = torch.randn(8, 4)
""", """
a, b = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
loss = model(a, b) + model(b, a)
opt.zero_grad()
loss.backward()
opt.step()
model.update()
"""),
    "VQ-VAE": ("""
class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(6, 3), nn.Linear(3, 6)
        self.book = nn.Embedding(5, 3)
    def forward(self, x):
        z = self.enc(x)
        k = torch.cdist(z, self.book.weight).argmin(1)
        e = self.book(k)
        commit = F.mse_loss(z, e.detach()) * 0.25 + F.mse_loss(e, z.detach())
        q = z + (e - z).detach()
        return self.dec(q), commit
model = VQ()
opt = torch.optim.Adam(model.parameters(), 1e-2)
x = torch.randn(16, 6)
""", """
opt.zero_grad()
out, commit = model(x)
loss = F.mse_loss(out, x) + commit
loss.backward()
opt.step()
"""),
    "experts": ("""
class Moe(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.head = nn.Linear(4, 2)
    def forward(self, x):
        w, idx = self.gate(x).softmax(1).topk(2, dim=1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = (idx == e).nonzero(as_tuple=True)
            if len(rows):
                out = out.index_add(0, rows, w[rows, slot, None] * expert(x[rows]))
        return self.head(out)
model = Moe()
opt = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
""", """
opt.zero_grad()
loss = F.cross_entropy(model(x), y)
loss.backward()
opt.step()
"""),
    "gradients that are reversed, with a weight that begins at 0": ("""
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return -ctx.alpha * g, None
class Dann(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.c, self.d = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 2)
    def forward(self, x, alpha):
        h = torch.relu(self.f(x))
        return self.c(h), self.d(Reverse.apply(h, alpha))
model = Dann()
opt = torch.optim.SGD(model.parameters(), 0.1)
x, y, dom = torch.randn(16, 4), torch.randint(0, 2, (16,)), torch.randint(0, 2, (16,))
step = 0
""", """
alpha = 2 / (1 + math.exp(-step)) - 1
cls, d = model(x, alpha)
loss = F.cross_entropy(cls, y) + F.cross_entropy(d, dom)
opt.zero_grad()
loss.backward()
opt.step()
step += 1
"""),
    "layers that are dropped": ("""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.out = nn.Linear(4, 2)
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            if self.training and torch.rand(()) < 0.5:
                continue
            x = x + torch.tanh(layer(x))
        return self.out(x)
model = Net()
opt = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
""", """
opt.zero_grad()
loss = F.cross_entropy(model(x), y)
loss.backward()
opt.step()
"""),
    "sharpness-aware minimisation": ("""
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
""", """
F.cross_entropy(model(x), y).backward()
with torch.no_grad():
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm() + 1e-12
    eps = [0.05 * p.grad / norm for p in model.parameters()]
    for p, e in zip(model.parameters(), eps):
        p.add_(e)
opt.zero_grad()
loss = F.cross_entropy(model(x), y)
loss.backward()
with torch.no_grad():
    for p, e in zip(model.parameters(), eps):
        p.sub_(e)
opt.step()
opt.zero_grad()
"""),
    "PPO": ("""
class AC(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi, self.v = nn.Linear(4, 2), nn.Linear(4, 1)
    def act(self, s):
        d = torch.distributions.Categorical(logits=self.pi(s))
        a = d.sample()
        return a, d.log_prob(a)
    def forward(self, s, a):
        d = torch.distributions.Categorical(logits=self.pi(s))
        return d.log_prob(a), self.v(s).squeeze(-1), d.entropy()
model = AC()
opt = torch.optim.Adam(model.parameters(), 1e-2)
s, r = torch.randn(16, 4), torch.randn(16)
""", """
with torch.no_grad():
    a, old = model.act(s)
    adv = r - model(s, a)[1]
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
for _ in range(2):
    new, v, ent = model(s, a)
    ratio = (new - old).exp()
    loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean() + 0.5 * F.mse_loss(v, r) - 0.01 * ent.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""),
    "centers in a buffer": ("""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 6), nn.Linear(6, 3)
        self.register_buffer("centers", torch.zeros(3, 6))
    def forward(self, x, y):
        f = torch.relu(self.body(x))
        with torch.no_grad():
            for c in range(3):
                if (y == c).any():
                    self.centers[c] = 0.9 * self.centers[c] + 0.1 * f[y == c].mean(0)
        return self.head(f), (f - self.centers[y]).pow(2).sum(1).mean()
model = Net()
opt = torch.optim.SGD(model.parameters(), 0.05)
x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
""", """
logits, center = model(x, y)
ce = F.cross_entropy(logits, y, reduction="none")
loss = ((1 - torch.exp(-ce)) ** 2 * ce).mean() + 0.01 * center
opt.zero_grad()
loss.backward()
opt.step()
"""),
    "MoCO's queue": ("""
enc = nn.Linear(6, 4)
key = copy.deepcopy(enc)
for p in key.parameters():
    p.requires_grad = False
model = enc
opt = torch.optim.SGD(enc.parameters(), 0.1)
queue = F.normalize(torch.randn(16, 4), dim=1)
x = torch.randn(8, 6)
""", """
with torch.no_grad():
    for k, p in zip(key.parameters(), enc.parameters()):
        k.data = k.data * 0.9 + p.data * 0.1
    k = F.normalize(key(x + 0.1), dim=1)
qv = F.normalize(enc(x), dim=1)
logits = torch.cat([(qv * k).sum(1, keepdim=True), qv @ queue.clone().detach().T], 1)
loss = F.cross_entropy(logits / 0.2, torch.zeros(8, dtype=torch.long))
opt.zero_grad()
loss.backward()
opt.step()
queue = torch.cat([k, queue[:-8]])
"""),
    "GradScaler": ("""
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
""", """
opt.zero_grad()
with torch.autocast("cpu", dtype=torch.bfloat16):
    out = model(x)
    loss = F.cross_entropy(out, y)
scaler.scale(loss).backward()
scaler.unscale_(opt)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(opt)
scaler.update()
"""),
    "L-BFGS": ("""
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.LBFGS(model.parameters(), max_iter=4)
x, y = torch.randn(16, 4), torch.randn(16, 1)
def closure():
    opt.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss
""", """
loss = opt.step(closure)
"""),
    "style transfer": ("""
features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
features.requires_grad_(False).eval()
model = features
content, style = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)
image = content.clone().requires_grad_(True)
opt = torch.optim.Adam([image], 0.05)
def gram(f):
    f = f.flatten(2)
    return f @ f.transpose(1, 2) / f.shape[2]
with torch.no_grad():
    want, wanted = features(content), gram(features(style))
""", """
opt.zero_grad()
f = features(image)
loss = F.mse_loss(f, want) + 10 * F.mse_loss(gram(f), wanted)
loss.backward()
opt.step()
with torch.no_grad():
    image.clamp_(0, 1)
"""),
    "a derivative as a loss": ("""
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters(), 1e-2)
""", """
t = torch.linspace(0, 1, 10)[:, None].requires_grad_(True)
u = model(t)
du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
loss = ((du + u) ** 2).mean() + (model(torch.zeros(1, 1)) - 1).pow(2).mean()
opt.zero_grad()
loss.backward()
opt.step()
"""),
}  # fmt: skip
"""By name: what is made once, and a step."""

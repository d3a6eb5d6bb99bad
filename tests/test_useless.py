"""Gradients of scripts that are there, and useless: each fact in several forms, and healthy programs that look like it.

The line with ``# <- here`` is the one that must be named.
"""

import contextlib
import io
import json
import runpy
import textwrap
import weakref

import pytest
import torch

from backprobe.backends.torch import own_modes
from backprobe.backends.torch.useless.applied import Applied
from backprobe.backends.torch.useless.distributions import Distributions
from backprobe.backends.torch.useless.operations import Operations
from backprobe.backends.torch.useless.shapes import Shapes
from backprobe.backends.torch.useless.steps import TorchSteps
from backprobe.backends.useless import USELESS
from commands import in_folder, invoked

BEGIN = """\
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(0)
"""
END = "    opt.zero_grad(); loss.backward(); opt.step()\n"
NET = """\
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, {}))
opt = torch.optim.SGD(net.parameters(), 1e-2)
"""
LOOP = "for step in range(3):\n"
DATA = "    x, y, t = torch.randn(16, 8), torch.randn(16), torch.randint(0, 4, (16,))\n"


def looped(setup, body, end=END):
    """A training of three iterations."""
    return BEGIN + textwrap.dedent(setup) + LOOP + DATA + textwrap.indent(textwrap.dedent(body), "    ") + end


def net(outputs, body):
    return looped(NET.format(outputs), body)


FAULTY = {
    "outer: a target of one dimension": ("outer_product", net(1, "loss = (net(x) - y).pow(2).mean()  # <- here\n")),
    "outer: in a loss of the library": (
        "outer_product", "import warnings\nwarnings.simplefilter('ignore')\n"
        + net(1, "loss = F.l1_loss(net(x), y)  # <- here\n")),
    "outer: weights of samples": ("outer_product", net(4, """\
        each = F.cross_entropy(net(x), t, reduction="none")
        weight = torch.rand(16, 1)
        weighted = each * weight  # <- here
        loss = weighted.sum() / 16
        """)),
    "outer: a result with its own name, and a log": ("outer_product", net(1, """\
        error = y - net(x)  # <- here
        loss = F.softplus(error.abs()).mean()
        """)),
    "outer: of tensors that no optimizer has": ("outer_product", BEGIN + textwrap.dedent("""\
        w = torch.randn(8, 1, requires_grad=True)
        for step in range(3):
            x, y = torch.randn(16, 8), torch.randn(16)
            loss = (x @ w - y).pow(2).mean()  # <- here
            loss.backward()
            with torch.no_grad():
                w -= 0.01 * w.grad
            w.grad = None
        """)),
    "twice: a model that ends in softmax": ("distribution_twice", net(4, """\
        p = net(x).softmax(-1)
        loss = F.cross_entropy(p, t)  # <- here
        """)),
    "twice: along another dimension": ("distribution_twice", net(4, """\
        p = net(x).T.softmax(0)
        q = torch.softmax(p, 0)  # <- here
        loss = -q.T.gather(1, t[:, None]).log().mean()
        """)),
    "twice: by hand": ("distribution_twice", net(4, """\
        e = net(x).exp()
        p = e / e.sum(-1, keepdim=True)
        loss = F.nll_loss(F.log_softmax(p, -1), t)  # <- here
        """)),
    "no log-probabilities: raw logits": ("not_log_probabilities", net(4, "loss = F.nll_loss(net(x), t)  # <- here\n")),
    "no log-probabilities: probabilities": (
        "not_log_probabilities", net(4, "loss = F.nll_loss(net(x).softmax(-1), t)  # <- here\n")),
    "no log-probabilities: normalised over the batch": (
        "not_log_probabilities", net(4, "loss = nn.NLLLoss()(F.log_softmax(net(x), dim=0), t)  # <- here\n")),
    "no log-probabilities: with weights": (
        "not_log_probabilities",
        net(4, "loss = F.nll_loss(net(x), t, weight=torch.tensor([1., 2., 1., 3.]))  # <- here\n")),
    "flat: clamped": ("zero_flat", looped("""\
        w, s = nn.Parameter(torch.randn(8)), nn.Parameter(torch.tensor(-3.0))
        opt = torch.optim.SGD([w, s], 1e-2)
        """, """\
        scale = s.clamp(min=0.1)  # <- here
        loss = (scale * (x @ w) - y).pow(2).mean()
        """)),
    "flat: one of a list, in two loops whose variables have one name": ("zero_flat", looped("""\
        lin = nn.Linear(8, 3)
        scales = nn.ParameterList([nn.Parameter(torch.tensor(one)) for one in (0.5, -4.0, 0.7)])
        opt = torch.optim.SGD([*lin.parameters(), *scales], 1e-2)
        """, """\
        kept = [s.clamp(-1, 1) for s in scales]  # <- here
        loss = (sum(lin(x)[:, at] * s for at, s in enumerate(kept)) - y).pow(2).mean()
        """)),
    "flat: a dead unit before the head": ("zero_flat", looped("""\
        enc, head = nn.Linear(8, 4), nn.Linear(4, 1)
        nn.init.constant_(enc.bias, -100.0)
        opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], 1e-2)
        """, """\
        h = enc(x).relu()  # <- here
        loss = (head(h)[:, 0] - y).pow(2).mean()
        """)),
    "flat: rounded": ("zero_flat", looped("""\
        w, b = nn.Parameter(torch.randn(8)), nn.Parameter(torch.zeros(()))
        opt = torch.optim.Adam([w, b], 1e-2)
        """, """\
        shift = torch.round(b)  # <- here
        loss = (x @ w + shift - y).pow(2).mean()
        """)),
    "flat: softmax over one": ("zero_flat", looped("""\
        score, out = nn.Linear(8, 1), nn.Linear(8, 1)
        opt = torch.optim.SGD([*score.parameters(), *out.parameters()], 1e-2)
        """, """\
        a = score(x).softmax(-1)  # <- here
        loss = (out(a * x)[:, 0] - y).pow(2).mean()
        """)),
    "times 0: a mask": ("zero_times_zero", looped("""\
        a, b = nn.Linear(8, 1), nn.Linear(8, 1)
        opt = torch.optim.SGD([*a.parameters(), *b.parameters()], 1e-2)
        """, """\
        gate = torch.zeros(16)
        second = gate * b(x)[:, 0]  # <- here
        loss = (a(x)[:, 0] + second - y).pow(2).mean()
        """)),
    "cancels: over its own sum": ("cancels", looped("""\
        score, out = nn.Linear(8, 1), nn.Linear(8, 1)
        opt = torch.optim.SGD([*score.parameters(), *out.parameters()], 1e-2)
        """, """\
        a = score(x).exp()
        a = a / a.sum(-1, keepdim=True)  # <- here
        loss = (out(a * x)[:, 0] - y).pow(2).mean()
        """)),
    "cancels: added and taken away": ("cancels", looped("""\
        enc, out = nn.Linear(8, 8), nn.Linear(8, 1)
        opt = torch.optim.SGD([*enc.parameters(), *out.parameters()], 1e-2)
        """, """\
        r = enc(x)
        rest = x - r
        h = r + rest  # <- here
        loss = (out(h)[:, 0] - y).pow(2).mean()
        """)),
    "cancels: a weight that is taken away from what is left of it": ("cancels", looped("""\
        w, out = nn.Parameter(torch.randn(8, 8)), nn.Linear(8, 1)
        opt = torch.optim.SGD([w, *out.parameters()], 1e-2)
        """, """\
        few = w + (w.round() - w)  # <- here
        loss = (out(x @ few)[:, 0] - y).pow(2).mean()
        """)),
    "cancels: a normalization of single numbers": ("cancels", looped("""\
        enc, norm, out = nn.Linear(8, 1), nn.LayerNorm(1), nn.Linear(9, 1)
        opt = torch.optim.SGD([*enc.parameters(), *norm.parameters(), *out.parameters()], 1e-2)
        """, """\
        h = norm(enc(x))  # <- here
        loss = (out(torch.cat([x, h], 1))[:, 0] - y).pow(2).mean()
        """)),
    "cancels: before a centering of one": ("cancels", looped("""\
        p = nn.Parameter(torch.randn(8, 1)); out = nn.Linear(8, 1)
        opt = torch.optim.SGD([p, *out.parameters()], 1e-2)
        """, """\
        c = p.sin()
        c = c - c.mean(1, keepdim=True)  # <- here
        loss = (out(x + c[:, 0])[:, 0] - y).pow(2).mean()
        """)),
    "cancels: what softmax takes away": ("cancels", looped("""\
        gate, out = nn.Linear(8, 4), nn.Linear(8, 4)
        opt = torch.optim.SGD([*gate.parameters(), *out.parameters()], 1e-2)
        """, """\
        p = gate(x).softmax(-1)  # <- here
        balance = 4 * p.mean(0).sum()
        loss = F.cross_entropy(out(x), t) + 0.1 * balance
        """)),
    "dropped: a sum": ("result_dropped", net(4, """\
        loss = F.cross_entropy(net(x), t)
        loss.add(0.1 * net[0].weight.pow(2).sum())  # <- here
        """)),
    "dropped: an operator": ("result_dropped", net(4, """\
        loss = F.cross_entropy(net(x), t)
        loss + 0.1 * net[0].weight.pow(2).sum()  # <- here
        """)),
    "dropped: over several lines": ("result_dropped", net(4, """\
        h = net(x)
        torch.nn.functional.normalize(h)
        torch.clamp(  # <- here
            h, -1.0, 1.0,
        )
        loss = F.cross_entropy(h, t)
        """)),
    "steps: bfloat16": ("step_without_effect", looped("""\
        net = nn.Linear(8, 1).bfloat16()
        opt = torch.optim.SGD(net.parameters(), 1e-6)
        """, "loss = (net(x.bfloat16())[:, 0] - y.bfloat16()).pow(2).mean()\n",
        "    opt.zero_grad(); loss.backward()\n    opt.step()  # <- here\n")),
    "steps: before backward": ("step_without_gradient", looped("""\
        net = nn.Linear(8, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        """, "loss = (net(x)[:, 0] - y).pow(2).mean()\n",
        "    opt.zero_grad()\n    opt.step()  # <- here\n    loss.backward()\n")),
    "steps: scaled, and not unscaled": ("step_scaled", looped("""\
        net, scaler = nn.Linear(8, 1), torch.amp.GradScaler("cpu")
        opt = torch.optim.SGD(net.parameters(), 1e-6)
        """, "loss = (net(x)[:, 0] - y).pow(2).mean()\n",
        "    opt.zero_grad(); scaler.scale(loss).backward()\n    opt.step()  # <- here\n")),
    "not sent: words that are all padding": ("zero_not_sent", looped("""\
        emb, net = nn.Embedding(2, 8, padding_idx=0), nn.Linear(8, 1)
        nn.init.normal_(emb.weight)
        opt = torch.optim.SGD([*emb.parameters(), *net.parameters()], 0.1)
        """, """\
        h = x + emb(torch.zeros(16, dtype=torch.long))  # <- here
        loss = (net(h)[:, 0] - y).pow(2).mean()
        """)),
    "hooked: a mask of a leaf": ("zero_hooked", looped("""\
        net, out = nn.Linear(8, 8), nn.Linear(8, 1)
        net.weight.register_hook(lambda g: g * (net.weight.abs() > 9))  # <- here
        opt = torch.optim.SGD([*net.parameters(), *out.parameters()], 0.1)
        """, "loss = (out(net(x))[:, 0] - y).pow(2).mean()\n")),
    "hooked: of a value between": ("zero_hooked", looped("""\
        net, out = nn.Linear(8, 8), nn.Linear(8, 1)
        opt = torch.optim.SGD([*net.parameters(), *out.parameters()], 0.1)
        """, """\
        h = net(x)  # <- here
        h.register_hook(torch.zeros_like)
        loss = (out(h)[:, 0] - y).pow(2).mean()
        """)),
    "stale: a copy that is kept": ("stale_copy", looped("""\
        w = nn.Parameter(torch.randn(8))
        own = w.clone()  # <- here
        opt = torch.optim.SGD([w], 0.1)
        """, "loss = (x @ own - y).pow(2).mean()\n")),
    "undone: loaded again": ("step_undone", looped("""\
        import copy
        net = nn.Linear(8, 1)
        best = copy.deepcopy(net.state_dict())
        opt = torch.optim.SGD(net.parameters(), 0.1)
        """, """\
        net.load_state_dict(best)  # <- here
        loss = (net(x)[:, 0] - y).pow(2).mean()
        """)),
    "unused: the name of a loop": ("update_unused", looped("net = nn.Linear(8, 1)\n", """\
        loss = (net(x)[:, 0] - y).pow(2).mean()
        net.zero_grad(); loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p = p - 0.1 * p.grad  # <- here
        """, "")),
    "unused: in a function, with momentum": ("update_unused", looped("""\
        def move(net, speed):
            for at, p in enumerate(net.parameters()):
                speed[at] = 0.9 * speed[at] + p.grad
                p = torch.add(p, speed[at], alpha=-0.1)  # <- here
        net = nn.Linear(8, 1)
        speed = [torch.zeros_like(p) for p in net.parameters()]
        """, """\
        loss = (net(x)[:, 0] - y).pow(2).mean()
        net.zero_grad(); loss.backward(); move(net, speed)
        """, "")),
    "steps: with a rate of 0": ("step_without_rate", looped("""\
        net = nn.Linear(8, 1)
        opt = torch.optim.AdamW(net.parameters(), 0.1)
        rate = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: step // 100)
        """, "loss = (net(x)[:, 0] - y).pow(2).mean()\n",
        "    opt.zero_grad(); loss.backward()\n    opt.step()  # <- here\n    rate.step()\n")),
    "steps: far below rounding": ("step_without_effect", looped("""\
        net = nn.Linear(8, 1)
        opt = torch.optim.Adam(net.parameters(), 1e-12)
        """, "loss = (net(x)[:, 0] - y).pow(2).mean()\n",
        "    opt.zero_grad(); loss.backward()\n    opt.step()  # <- here\n")),
}  # fmt: skip

HEALTHY = {
    "autocast in each iteration, for two batches a step": looped("""\
        net = nn.Linear(8, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        """, """\
        with torch.autocast("cpu", torch.bfloat16):
            loss = (net(x)[:, 0] - y).pow(2).mean()
            more = (net(-x)[:, 0] + y).pow(2).mean()
        opt.zero_grad(); loss.backward(); more.backward(); opt.step()
        """, ""),
    "runs from the same weights, each put into lists": looped("""\
        import copy
        net = nn.Linear(8, 1)
        first = copy.deepcopy(net.state_dict())
        opt = torch.optim.SGD(net.parameters(), 0.1)
        runs = []
        """, """\
        net.load_state_dict(first)
        loss = (net(x)[:, 0] - y).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        runs.append([one.tolist() for one in net.parameters()])
        """, ""),
    "an adaptation that is used, and then undone": looped("""\
        import copy
        net = nn.Linear(8, 1)
        first = copy.deepcopy(net.state_dict())
        opt = torch.optim.SGD(net.parameters(), 0.1)
        """, """\
        net.load_state_dict(first)
        loss = (net(x)[:, 0] - y).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        print(net(x).mean().item())
        """, ""),
    "updates that are tried elsewhere": looped("net = nn.Linear(8, 1)\n", """\
        loss = (net(x)[:, 0] - y).pow(2).mean()
        net.zero_grad(); loss.backward()
        with torch.no_grad():
            ahead = {name: p - 0.1 * p.grad for name, p in net.named_parameters()}
            print(torch.func.functional_call(net, ahead, (x,)).mean().item())
        """, ""),
    "importance of weights, of several batches": looped("net = nn.Linear(8, 1)\nscore = 0\n", """\
        loss = (net(x)[:, 0] - y).pow(2).mean()
        net.zero_grad(); loss.backward()
        for p in net.parameters():
            score = score + (p * p.grad).abs().sum().item()
            near = p + 1
        """, ""),
    "a hook that looks, and one that keeps some": looped("""\
        net, out = nn.Linear(8, 8), nn.Linear(8, 1)
        net.weight.register_hook(lambda g: print(g.norm().item()))
        out.weight.register_hook(lambda g: g * (torch.arange(8) > 3))
        opt = torch.optim.SGD([*net.parameters(), *out.parameters()], 0.1)
        """, "loss = (out(net(x))[:, 0] - y).pow(2).mean()\n"),
    "a rate that grows from 0": looped("""\
        net = nn.Linear(8, 1)
        opt = torch.optim.AdamW(net.parameters(), 0.1)
        rate = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: step / 100)
        """, "loss = (net(x)[:, 0] - y).pow(2).mean()\n",
        "    opt.zero_grad(); loss.backward(); opt.step(); rate.step()\n"),
    "a scaler of two optimizers, one of them unscaled early": looped("""\
        net, out, scaler = nn.Linear(8, 8), nn.Linear(8, 1), torch.amp.GradScaler("cpu", init_scale=8.0)
        opt, other = torch.optim.SGD(net.parameters(), 0.1), torch.optim.SGD(out.parameters(), 0.1)
        """, "loss = (out(net(x).tanh())[:, 0] - y).pow(2).mean()\n",
        "    opt.zero_grad(); other.zero_grad(); scaler.scale(loss).backward(); scaler.unscale_(opt)\n"
        "    scaler.step(opt); scaler.step(other); scaler.update()\n"),
    "gradients of the iteration before": looped("""\
        net = nn.Linear(8, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        """, "loss = (net(x)[:, 0] - y).pow(2).mean()\n",
        "    opt.step(); opt.zero_grad(); loss.backward()\n"),
    "a bias that the distance of two embeddings does not see": looped("""\
        enc, out = nn.Linear(8, 8), nn.Linear(8, 1)
        opt = torch.optim.SGD([*enc.parameters(), *out.parameters()], 1e-2)
        """, "loss = (out((enc(x) - enc(x.flip(0))).abs())[:, 0] - y).pow(2).mean()\n"),
    "a normalization of two numbers": looped("""\
        enc, norm, out = nn.Linear(8, 2), nn.LayerNorm(2), nn.Linear(2, 1)
        opt = torch.optim.SGD([*enc.parameters(), *norm.parameters(), *out.parameters()], 1e-2)
        """, "loss = (out(norm(enc(x)))[:, 0] - y).pow(2).mean()\n"),
    "a residual branch whose parts are weighed against each other": looped("""\
        w, out = nn.Parameter(torch.ones(8)), nn.Linear(8, 1)
        opt = torch.optim.SGD([w, *out.parameters()], 1e-2)
        """, "loss = (out(w * x + (1 - w) * x.sin())[:, 0] - y).pow(2).mean()\n"),
    "results that nobody wants": net(4, """\
        net(torch.zeros(1, 8))
        h = net(x)
        h.detach()
        h.add_(0.0)
        h.norm().item()
        torch.relu_(h)
        loss = F.cross_entropy(h, t)
        """),
    "two terms that pull on a scale": looped("""\
        mean, raw = nn.Linear(8, 1), nn.Parameter(torch.zeros(()))
        opt = torch.optim.Adam([*mean.parameters(), raw], 1e-2)
        """, """\
        sigma = raw.exp()
        loss = (((mean(x)[:, 0] - y) / sigma) ** 2 / 2 + sigma.log()).mean()
        """),
    "two terms that pull on a scale of each sample": looped("""\
        mean, raw = nn.Linear(8, 1), nn.Linear(8, 1)
        opt = torch.optim.Adam([*mean.parameters(), *raw.parameters()], 1e-2)
        """, """\
        sigma = raw(x)[:, 0].exp()
        loss = (((mean(x)[:, 0] - y) / sigma) ** 2 / 2 + sigma.log()).mean()
        """),
    "words that carry on a state, updated by hand": BEGIN + textwrap.dedent("""\
        rnn, head, h = nn.GRU(4, 8), nn.Linear(8, 3), torch.zeros(1, 2, 8)
        for step in range(3):
            for p in (*rnn.parameters(), *head.parameters()):
                p.grad = None
            h = h.detach()
            out, h = rnn(torch.randn(5, 2, 4), h)
            loss = F.cross_entropy(head(out).flatten(0, 1), torch.randint(0, 3, (10,)))
            loss.backward()
            with torch.no_grad():
                for p in (*rnn.parameters(), *head.parameters()):
                    p.add_(p.grad, alpha=-0.1)
        """),
    "clusters that a batch does not use": BEGIN + textwrap.dedent("""\
        emb = nn.Embedding(30, 64)
        head = nn.AdaptiveLogSoftmaxWithLoss(64, 30, [10, 20])
        opt = torch.optim.SGD([*emb.parameters(), *head.parameters()], 0.1)
        for step in range(3):
            t = torch.arange(4) if step == 0 else torch.arange(0, 30, 3)
            loss = head(emb(t), t).loss
            opt.zero_grad(); loss.backward(); opt.step()
        """),
    "a saturated loss": net(4, "loss = F.cross_entropy(12 * F.one_hot(t, 4) + net(x), t)\n"),
    "a function of its own": BEGIN + textwrap.dedent("""\
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, gradient):
                x, = ctx.saved_tensors
                return 2 * x * gradient

        net = nn.Linear(8, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for step in range(3):
            loss = Square.apply(net(torch.randn(4, 8))).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        """),
    "LoRA": looped("""\
        base, A, B = nn.Linear(8, 4), nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.zeros(4, 2))
        base.requires_grad_(False)
        opt = torch.optim.SGD([A, B], 0.0)
        """, "loss = F.cross_entropy(base(x) + x @ A.T @ B.T, t)\n"),
    "a residual gate that begins at 0": looped("""\
        f, gate, head = nn.Linear(8, 8), nn.Parameter(torch.zeros(())), nn.Linear(8, 4)
        opt = torch.optim.SGD([*f.parameters(), gate, *head.parameters()], 0.0)
        """, "loss = F.cross_entropy(head(x + gate * f(x)), t)\n"),
    "pairwise distances": net(4, """\
        z = net(x)
        apart = (z[:, None] - z[None]).pow(2).sum(-1)
        loss = torch.exp(-apart).mean()
        """),
    "a kernel of one dimension, asked for": net(1, """\
        z = net(x)
        loss = (z - z.T).abs().mean()
        """),
    "all pairs, by unsqueeze": net(1, """\
        s = net(x).squeeze(-1)
        loss = F.softplus(-(s.unsqueeze(0) - s.unsqueeze(1))).mean()
        """),
    "kept dimensions": net(4, """\
        z = net(x)
        z = (z - z.mean(0)) / (z.std(0, keepdim=True) + 1e-5)
        loss = (z * y[:, None]).pow(2).mean()
        """),
    "softmax of weights that begin equal": looped("""\
        w, out = nn.Parameter(torch.ones(4) / 4), nn.Linear(8, 4)
        opt = torch.optim.SGD([w, *out.parameters()], 1e-2)
        """, "loss = F.cross_entropy(out(x) * w.softmax(0), t)\n"),
    "mixtures in log-probabilities": net(4, """\
        p = 0.9 * net(x).softmax(-1) + 0.1 / 4
        loss = F.nll_loss(p.log(), t)
        """),
    "ignored targets": net(4, """\
        t[:3] = -100
        loss = F.cross_entropy(net(x), t, ignore_index=-100)
        """),
    "Q-values": net(4, """\
        q = net(x).gather(1, t[:, None])[:, 0]
        loss = F.smooth_l1_loss(q, y)
        """),
    "a warm-up from nothing": looped("""\
        net = nn.Linear(8, 4)
        opt = torch.optim.Adam(net.parameters(), 1.0)
        warm = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 1e-12 * (step + 1))
        """, "loss = F.cross_entropy(net(x), t)\n", END + "    warm.step()\n"),
    "a layer that is dead for one batch": looped("""\
        enc, head = nn.Linear(8, 4), nn.Linear(4, 4)
        opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], 1e-2)
        """, """\
        x = x - 1000 * (step == 0) * enc.weight.detach().sign()[0]
        loss = F.cross_entropy(head(enc(x)[:, :1].relu() * torch.ones(4) + enc(x) * (step > 0)), t)
        """),
    "a bias before a normalisation": looped("""\
        net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
        opt = torch.optim.SGD(net.parameters(), 1e-2)
        """, "loss = F.cross_entropy(net(x), t)\n"),
    "attention with a mask": looped("""\
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        net = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        head = nn.Linear(8, 4)
        opt = torch.optim.AdamW([*net.parameters(), *head.parameters()], 1e-3)
        """, """\
        padded = torch.zeros(16, 5, dtype=torch.bool); padded[:, 3:] = True
        h = net(x[:, None] + torch.randn(16, 5, 8), src_key_padding_mask=padded)
        loss = F.cross_entropy(head(h[:, 0]), t)
        """),
    "complex numbers": looped("""\
        w = nn.Parameter(torch.randn(8, dtype=torch.complex64))
        opt = torch.optim.SGD([w], 1e-2)
        """, """\
        z = (x.to(torch.complex64) @ w).exp()
        loss = (z * z.conj()).real.mean() + z.imag.pow(2).mean()
        """),
    "a part that underflows in float16": looped("""\
        w, s = nn.Parameter(torch.ones(8).half()), nn.Parameter(torch.ones(()).half())
        opt = torch.optim.SGD([w, s], 10.0)
        """, """\
        loss = ((x.half() * w).sum(-1) * 1e-3 + (s * 1e-6).sin() * 1e-3).mean()
        """),
    "float64": net(4, "loss = F.cross_entropy(net.double()(x.double()), t)\n"),
    "bfloat16 that moves": looped("""\
        net = nn.Linear(8, 4).bfloat16()
        opt = torch.optim.SGD(net.parameters(), 0.5)
        """, "loss = F.cross_entropy(net(x.bfloat16()), t)\n"),
    "autocast": net(4, """\
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(net(x), t)
        """),
    "two losses, one after another": looped("""\
        gen, dis = nn.Linear(8, 8), nn.Linear(8, 1)
        og, od = torch.optim.Adam(gen.parameters(), 1e-3), torch.optim.Adam(dis.parameters(), 1e-3)
        """, """\
        fake = gen(torch.randn(16, 8))
        d = F.softplus(-dis(x)).mean() + F.softplus(dis(fake.detach())).mean()
        od.zero_grad(); d.backward(); od.step()
        g = F.softplus(-dis(fake)).mean()
        og.zero_grad(); g.backward(); og.step()
        """, ""),
}  # fmt: skip


def explained(text, tmp_path, monkeypatch, *options, verb="explain"):
    """The status, the findings and the notes of ``backprobe explain`` of a script."""
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        code, out, err = invoked(verb, "--json", *options, "train.py")
    assert own_modes.count == 0 and own_modes.dispatch_modes() == 0
    assert out, err
    report = json.loads(out[out.index("{") :])
    return code, report["findings"], report["notes"]


@pytest.mark.parametrize("case", FAULTY)
def test_a_useless_gradient_is_found_at_its_line(case, tmp_path, monkeypatch):
    kind, text = FAULTY[case]
    code, findings, _ = explained(text, tmp_path, monkeypatch)
    line = next(at for at, one in enumerate(text.splitlines(), 1) if one.endswith("# <- here"))
    assert code == 1
    assert (kind, line) in {(one["kind"], one["source"]["line"]) for one in findings}, findings
    assert {one["kind"] for one in findings} == {kind}


def of_facts(findings):
    """The kinds of useless gradients that are found, with the names and lines."""
    return {(one["kind"], one["name"], one["source"]["line"]) for one in findings if one["kind"] in USELESS}


ONE_OF_EACH = {kind: text for kind, text in reversed(FAULTY.values())}


@pytest.mark.parametrize("kind", USELESS)
def test_health_of_a_script_says_what_explain_says(kind, tmp_path, monkeypatch):
    text = ONE_OF_EACH[kind]
    _, findings, _ = explained(text, tmp_path, monkeypatch)
    code, others, _ = explained(text, tmp_path, monkeypatch, verb="health")
    assert code == 1
    assert {one[0] for one in of_facts(findings)} == {kind}
    assert of_facts(others) == of_facts(findings)


@pytest.mark.parametrize("case", HEALTHY)
def test_nothing_is_said_of_a_healthy_training(case, tmp_path, monkeypatch):
    code, findings, _ = explained(HEALTHY[case], tmp_path, monkeypatch)
    assert (code, findings) == (0, [])


def in_dtype(text, dtype):
    """A program whose numbers have another dtype, and whose steps are above or below the rounding of that as before."""
    for method in ("bfloat16()", "float()"):
        text = text.replace(f".{method}", f".to(torch.{dtype})")
    text = text.replace(BEGIN, f"{BEGIN}torch.set_default_dtype(torch.{dtype})\n")
    steps = {"1e-6": "1e-20", "1e-12": "1e-22"} if dtype == "float64" else {"1e-2)": "1e-1)"}
    for before, after in steps.items():
        text = text.replace(before, after)
    return text


@pytest.fixture
def default_dtype():
    """It is as it was, also where a script that sets another was stopped."""
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("default_dtype")
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("case", FAULTY)
def test_a_useless_gradient_is_found_in_other_dtypes(case, dtype, tmp_path, monkeypatch):
    kind, text = FAULTY[case]
    text = in_dtype(text, dtype)
    code, findings, _ = explained(text, tmp_path, monkeypatch)
    line = next(at for at, one in enumerate(text.splitlines(), 1) if one.endswith("# <- here"))
    assert code == 1
    assert {(one["kind"], one["source"]["line"]) for one in findings} == {(kind, line)}, findings


@pytest.mark.usefixtures("default_dtype")
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("case", ["two terms that pull on a scale", "two terms that pull on a scale of each sample"])
def test_nothing_is_said_of_a_healthy_training_in_other_dtypes(case, dtype, tmp_path, monkeypatch):
    code, findings, _ = explained(in_dtype(HEALTHY[case], dtype), tmp_path, monkeypatch)
    assert (code, findings) == (0, [])


def test_a_gradient_that_is_zero_in_the_only_iteration_is_a_note(tmp_path, monkeypatch):
    kind, text = FAULTY["flat: clamped"]
    code, findings, notes = explained(text.replace("range(3)", "range(1)"), tmp_path, monkeypatch)
    assert (code, findings) == (0, [])
    assert [one for one in notes if "clamp" in one and "train.py:9" in one]


SCALED = """
net = nn.Linear(8, 4)
a, b, c = (nn.Parameter(torch.tensor(9.0)) for _ in range(3))
opt = torch.optim.SGD([*net.parameters(), {}], 1e-2)
"""


def test_many_gradients_that_are_zero_once_are_one_note(tmp_path, monkeypatch):
    body = """\
        factor = a.clamp(max=1) + b.round() + torch.relu(c - 10)
        loss = F.cross_entropy(net(x) * factor, t)
        """
    text = looped(SCALED.format("a, b, c"), body).replace("range(3):\n    x,", "range(1):\n    x,")
    code, findings, notes = explained(text, tmp_path, monkeypatch)
    assert (code, findings) == (0, [])
    (said,) = [note for note in notes if "exactly 0" in note]
    operations = said.partition("from these operations on: ")[2]
    assert sorted(operations.split(", ")) == [f"{name} (train.py:11)" for name in ("clamp", "relu", "round")]


@pytest.mark.parametrize(
    ("scores", "kinds"),
    [
        ("h - h + a.item() * b * torch.arange(4)", ["cancels", "number"]),
        ("h.detach() + (a + d - d) * torch.arange(4)", ["detach", "cancels"]),
    ],
)
def test_what_is_of_more_parameters_comes_first(scores, kinds, tmp_path, monkeypatch):
    text = looped(SCALED.format("a, b"), f"h, d = net(x), b * 2\nloss = F.cross_entropy({scores}, t)\n")
    _, findings, _ = explained(text, tmp_path, monkeypatch)
    assert [one["kind"] for one in findings] == kinds


def test_a_cause_of_all_gradients_that_are_zero_hangs_beneath_them(tmp_path, monkeypatch):
    text = net(
        4,
        """\
        each = F.cross_entropy(net(x), t, reduction="none")
        mask = (t > 9).float()
        loss = (each * mask).sum()
        """,
    )
    code, (root, cause), _ = explained(text, tmp_path, monkeypatch)
    assert (root["kind"], cause["kind"], cause["cause"]) == ("all_zero", "zero_times_zero", root["headline"])
    assert (code, cause["source"]["line"]) == (1, 11)


def test_numbers_are_those_of_a_run_without_it(tmp_path, monkeypatch):
    text = net(4, "loss = F.cross_entropy(net(x), t).div(2)\nprint(loss.item().hex())\n")
    (tmp_path / "plain.py").write_text(text)
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        _, out, _ = invoked("explain", "--steps", "3", "train.py")
        with contextlib.redirect_stdout(io.StringIO()) as plain:
            runpy.run_path("plain.py")
    assert out.splitlines()[:3] == plain.getvalue().splitlines()


def test_a_mode_of_the_program_sees_what_it_saw(tmp_path, monkeypatch):
    text = net(
        4,
        """\
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(display=False) as flops:
            loss = F.cross_entropy(net(x), t)
        assert flops.get_total_flops() == 2 * 16 * (8 * 16 + 16 * 4), flops.get_total_flops()
        """,
    )
    assert explained(text, tmp_path, monkeypatch)[:2] == (0, [])


def test_an_operation_keeps_no_tensor_of_a_list_alive():
    one = torch.ones(2, requires_grad=True)
    applied = Applied(torch.ops.aten.cat.default, ([one],), [one], torch.cat([one]).detach())
    kept = weakref.ref(one)
    del one
    assert kept() is None
    assert not applied.is_constant()


def test_an_operation_that_a_mode_gets_a_number_for_runs():
    two = torch.ones(3, requires_grad=True).div(2).grad_fn._saved_other  # PyTorch hands a mode the number in its place
    with Operations() as seen:
        assert two.item() == 2
    assert seen.failed is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_is_known_by_its_numbers(dtype, axis):
    logits = (3 * torch.randn(3, 4, 5)).to(dtype).requires_grad_()
    p = logits.softmax(axis)
    seen = Distributions()
    seen.look([p], p.softmax(axis), 1)
    seen.look([p], p.log_softmax(axis), 2)
    seen.look([p], p.softmax((axis + 1) % 3), 3)
    seen.look([p * 2], (p * 2).softmax(axis), 4)
    assert seen.twice == {1: "softmax", 2: "log-softmax"}


@pytest.mark.parametrize(
    "one, other, is_found",
    [
        ((16,), (16, 1), True),
        ((16, 1), (16,), True),
        ((5, 5), (5, 5, 1), True),
        ((5, 7), (5, 5, 1), False),
        ((16, 1), (1, 16), False),
        ((16,), (8, 1), False),
        ((4, 16), (16,), False),
        ((16, 4), (16, 1), False),
    ],
)
def test_shapes_that_meet_by_accident(one, other, is_found):
    seen, a, b = Shapes(), torch.ones(one), torch.ones(other)
    made = torch.add(a, b)
    seen.look(True, [a, b], made, 1)
    seen.look(False, [made], made.mean(), 2)
    found = [(tuple(map(tuple, each.shapes)), each.is_reduced) for each in seen.found]
    assert found == [((one, other), True)] * is_found


@pytest.mark.parametrize("is_closure", [False, True])
def test_an_optimizer_that_finds_zeros_alone_has_no_gradient(is_closure):
    net, steps = torch.nn.Linear(2, 1), TorchSteps()
    opt = torch.optim.SGD(net.parameters(), 0.1)

    def backward():
        loss = net(torch.ones(3, 2)).sum()
        loss.backward()
        return loss

    handles = steps.listen()
    for _ in range(3):
        opt.zero_grad(set_to_none=False)
        opt.step(backward if is_closure else None)
        backward()
    for one in handles:
        one.remove()
    said = [str(note) for note in steps.notes()]
    assert (
        said
        == ["SGD has stepped 3 times, and each time the gradients of all its parameters were None or 0"][is_closure:]
    )

"""PyTorch programs that hold state, each in another place, as people write them.

Each factory seeds the random numbers, makes the program, and returns it as ``Held``. Programs call ``tick()`` between
their calls of PyTorch, where a test may raise KeyboardInterrupt. They end in a logarithm, so that ``bp.provoke`` has an
operation to search, and bind a local ``h``, which ``bp.sweep`` replaces.
"""

import random
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from replay.held import Held, Place, Same, array_bytes, python_and_numpy, tick, walk

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def describe(**roots):
    """A function that describes the state reached from some objects, and the random states."""

    def state():
        into = python_and_numpy() | {"random.torch": array_bytes(torch.get_rng_state().numpy())}
        into |= {"mode.grad": torch.is_grad_enabled(), "mode.dtype": str(torch.get_default_dtype())}
        seen = {}
        for name, root in roots.items():
            walk(name, root, leaf, into, seen)
        return into

    return state


def leaf(name, thing, into):
    if isinstance(thing, torch.Tensor):
        of_tensor(name, thing, into)
    elif isinstance(thing, nn.Module):
        for path, module in thing.named_modules():
            of_module(f"{name}.{path}" if path else name, module, into)
    elif isinstance(thing, torch.Generator):
        into[name] = array_bytes(thing.get_state().numpy())
    elif isinstance(thing, torch.optim.Optimizer):
        of_optimizer(name, thing, into)
    elif isinstance(thing, int | float | str | bytes | None):
        into[name] = repr(thing)
    else:
        return False
    return True


def of_tensor(name, tensor, into):
    into[name] = array_bytes(tensor.detach().numpy())
    into[f"{name} is"], into[f"{name} at"] = Same(tensor), Place(tensor.data_ptr())
    into[f"{name} requires grad"] = tensor.requires_grad
    into[f"{name} hooks"] = [Same(hook) for hook in (tensor._backward_hooks or {}).values()]
    if tensor.is_leaf:
        into[f"{name} has grad"] = tensor.grad is not None
        if tensor.grad is not None:
            into[f"{name} grad"], into[f"{name} grad is"] = array_bytes(tensor.grad.numpy()), Same(tensor.grad)


def of_module(name, module, into):
    into[f"{name} is"], into[f"{name} training"] = Same(module), module.training
    into[f"{name} class"] = type(module).__qualname__
    into[f"{name} attributes"] = ", ".join(sorted(vars(module)))
    for kind in HOOKS:
        into[f"{name} {kind}"] = [Same(hook) for hook in getattr(module, kind).values()]
    held = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    into[f"{name} tensors"] = ", ".join(path for path, _ in held)
    for path, tensor in held:
        of_tensor(f"{name}.{path}", tensor, into)


def of_optimizer(name, optimizer, into):
    into[f"{name} is"] = Same(optimizer)
    for number, group in enumerate(optimizer.param_groups):
        into[f"{name}.{number} options"] = repr({key: value for key, value in group.items() if key != "params"})
        into[f"{name}.{number} params"] = [Same(parameter) for parameter in group["params"]]
        for index, parameter in enumerate(group["params"]):
            kept = optimizer.state.get(parameter, {})
            into[f"{name}.{number}.{index} has"] = ", ".join(sorted(kept))
            for key, value in kept.items():
                leaf(f"{name}.{number}.{index}.{key}", value, into)


def seeded():
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)


def positive(*shape):
    return torch.rand(*shape) + 0.5


def infinite(x):
    x = x.detach().clone()
    x.view(-1)[0] = torch.inf
    return x


def buffers_of(name):
    """Patterns for the running statistics of a BatchNorm."""
    return (f"{name}.running_mean", f"{name}.running_var", f"{name}.num_batches_tracked")


# Buffers of modules, by where the program finds the module


class Critic(nn.Module):
    # https://github.com/pytorch/examples/blob/main/dcgan/main.py: the discriminator, with fewer and smaller layers
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, 4, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2),
            nn.Conv2d(4, 4, 4, 2, 1, bias=False),
            nn.BatchNorm2d(4),
            nn.LeakyReLU(0.2),
        )
        self.last = nn.Conv2d(4, 1, 2, 1, 0, bias=False)

    def forward(self, image):
        tick()
        h = self.main(image)
        tick()
        score = self.last(h)
        return torch.log(score.square().mean())


def batchnorm_of_a_model():
    seeded()
    model = Critic()
    x = positive(4, 1, 8, 8)
    state = describe(model=model, x=x)
    return Held(model, (x,), state, buffers_of("model.main.3"), (infinite(x),), select=":h", guarded=model)


def batchnorm_of_a_closure():
    seeded()
    layer, norm = nn.Linear(3, 4), nn.BatchNorm1d(4)

    def f(x):
        tick()
        h = layer(x)
        tick()
        y = norm(h)
        tick()
        return torch.log((y * h).square().mean())

    x = positive(5, 3)
    return Held(f, (x,), describe(layer=layer, norm=norm, x=x), buffers_of("norm"), (infinite(x),))


NORM = None


def on_the_global(x):
    tick()
    h = NORM(x)
    tick()
    return torch.log((h * x).square().mean())


def batchnorm_of_a_global():
    global NORM
    seeded()
    NORM = nn.BatchNorm1d(3)
    x = positive(5, 3)
    return Held(on_the_global, (x,), describe(norm=NORM, x=x), buffers_of("norm"), (infinite(x),))


def batchnorm_of_an_argument():
    seeded()
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))

    def loss(model, x):
        tick()
        h = model(x)
        tick()
        return torch.log(h.square().mean())

    x = positive(5, 3)
    return Held(loss, (model, x), describe(model=model, x=x), buffers_of("model.1"), (model, infinite(x)))


class Trainer:
    __slots__ = ("encoder", "head")

    def __init__(self):
        self.encoder, self.head = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None)), nn.Linear(4, 1)

    def loss(self, x):
        tick()
        h = self.encoder(x)
        tick()
        return torch.log(self.head(h).square().mean())


def batchnorm_in_a_slot():
    seeded()
    trainer, x = Trainer(), positive(5, 3)
    return Held(trainer.loss, (x,), describe(trainer=trainer, x=x), buffers_of("trainer.encoder.1"), (infinite(x),))


@dataclass
class Parts:
    norms: list = field(default_factory=lambda: [nn.BatchNorm1d(3), nn.InstanceNorm1d(3, track_running_stats=True)])
    heads: dict = field(default_factory=lambda: {"value": nn.Linear(3, 1)})


def batchnorm_in_containers():
    seeded()
    parts, x = Parts(), positive(5, 3, 2)

    def f(x):
        tick()
        h = x
        for norm in parts.norms:
            h = norm(h) + x
            tick()
        y = parts.heads["value"](h.mean(-1))
        return torch.log(y.square().mean())

    written = (*buffers_of("parts.norms.0"), "parts.norms.1.running_*")
    return Held(f, (x,), describe(parts=parts, x=x), written, (infinite(x),), select="h*")


def batchnorm_made_at_the_first_call():
    # What the program puts into its own dict stays there. The module in it is to be as it was when it was made.
    seeded()
    cache = {}

    def norm_of(width):
        if width not in cache:
            cache[width] = nn.BatchNorm1d(width)
        return cache[width]

    def f(x):
        tick()
        h = norm_of(x.shape[1])(x)
        tick()
        return torch.log((h * x).square().mean())

    def buffers():
        norm = cache.get(3) or nn.BatchNorm1d(3)
        return {name: array_bytes(buffer.numpy()) for name, buffer in norm.named_buffers()} | {"mode": norm.training}

    x = positive(5, 3)
    others = describe(x=x)
    written = ("running_mean", "running_var", "num_batches_tracked")
    return Held(f, (x,), lambda: others() | buffers(), written, (infinite(x),))


# Other buffers, and parameters that a forward writes


def spectral_norm_of_a_critic():
    # https://github.com/christiancosgrove/pytorch-spectral-normalization-gan: each forward is a step of power iteration
    seeded()
    critic = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
        nn.LeakyReLU(0.1),
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 1)),
    )
    with torch.no_grad():  # as a step of an optimizer does
        for parameter in critic.parameters():
            parameter.add_(torch.randn_like(parameter))

    def f(x):
        tick()
        h = critic(x)
        tick()
        return torch.log(h.square().mean())

    x = positive(5, 3)
    written = ("critic.*.parametrizations.weight.0._u", "critic.*.parametrizations.weight.0._v")
    return Held(f, (x,), describe(critic=critic, x=x), written, (infinite(x),), guarded=critic)


class Quantizer(nn.Module):
    # https://github.com/zalandoresearch/pytorch-vq-vae/blob/master/vq-vae.ipynb: in training its forward puts new
    # Parameters and a new buffer in the place of those that it had
    def __init__(self, codes=4, width=3, decay=0.9):
        super().__init__()
        self.decay = decay
        self.encoder, self.embedding = nn.Linear(width, width), nn.Embedding(codes, width)
        self.register_buffer("cluster_size", torch.zeros(codes))
        self.ema = nn.Parameter(torch.randn(codes, width))

    def forward(self, x):
        tick()
        x = self.encoder(x)
        nearest = torch.cdist(x.detach(), self.embedding.weight.detach()).argmin(1)
        encodings = F.one_hot(nearest, len(self.cluster_size)).to(x.dtype)
        tick()
        h = encodings @ self.embedding.weight
        if self.training:
            self.cluster_size = self.cluster_size * self.decay + (1 - self.decay) * encodings.sum(0)
            tick()
            self.ema = nn.Parameter(self.ema * self.decay + (1 - self.decay) * encodings.T @ x.detach())
            self.embedding.weight = nn.Parameter(self.ema / (self.cluster_size + 1e-2).unsqueeze(1))
        tick()
        return torch.log((x + (h - x).detach()).square().mean() + F.mse_loss(h.detach(), x))


def codebook_of_new_parameters():
    seeded()
    model, x = Quantizer(), positive(5, 3)
    written = ("model.cluster_size*", "model.ema*", "model.embedding.weight*")
    return Held(model, (x,), describe(model=model, x=x), written, (infinite(x),), select=":h", guarded=model)


class MoCo(nn.Module):
    # https://github.com/facebookresearch/moco/blob/main/moco/builder.py: the forward writes the parameters of the key
    # encoder, and a queue in place
    def __init__(self):
        super().__init__()
        self.encoder_q, self.encoder_k = nn.Linear(3, 4), nn.Linear(3, 4)
        for parameter_q, parameter_k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            parameter_k.data.copy_(parameter_q.data)
            parameter_k.requires_grad = False
        with torch.no_grad():
            self.encoder_q.weight.mul_(1.1)
            self.encoder_q.bias.add_(0.1)
        self.register_buffer("queue", F.normalize(torch.randn(4, 8), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    def forward(self, im_q, im_k):
        tick()
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            for parameter_q, parameter_k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
                parameter_k.data = parameter_k.data * 0.9 + parameter_q.data * 0.1
            tick()
            k = F.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        h = torch.cat([l_pos, l_neg], dim=1) / 0.07
        tick()
        ptr = int(self.queue_ptr)
        self.queue[:, ptr : ptr + len(k)] = k.T
        self.queue_ptr[0] = (ptr + len(k)) % 8
        tick()
        return torch.log(F.cross_entropy(h, torch.zeros(len(h), dtype=torch.long)))


def queue_and_key_encoder():
    seeded()
    model, x = MoCo(), positive(4, 3)
    keys = x + 0.1
    written = ("model.encoder_k.weight", "model.encoder_k.weight at", "model.encoder_k.bias*", "model.queue*")
    state = describe(model=model, x=x, keys=keys)
    return Held(model, (x, keys), state, written, (infinite(x), keys), select=":h", guarded=model)


class RunningScale(nn.Module):
    # as https://github.com/openai/baselines/blob/master/baselines/common/running_mean_std.py, with buffers: each
    # forward binds new tensors to their names
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("count", torch.tensor(1e-4), persistent=False)

    def forward(self, x):
        count = self.count + len(x)
        self.mean = self.mean + (x.detach().mean(0) - self.mean) * len(x) / count
        tick()
        self.count = count
        return x - self.mean


def buffers_bound_anew():
    seeded()
    scale, w, x = RunningScale(), torch.randn(3, requires_grad=True), positive(5, 3)

    def f(x, w):
        tick()
        h = scale(x)
        tick()
        return torch.log((h * w).square().mean())

    state = describe(scale=scale, x=x, w=w)
    return Held(f, (x, w), state, ("scale.mean*", "scale.count*"), (infinite(x), w))


def average_of_weights():
    # https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema
    seeded()
    model = nn.Linear(3, 2)
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
    )
    averaged.update_parameters(nn.Linear(3, 2))

    def f(x):
        tick()
        averaged.update_parameters(model)
        tick()
        h = model(x) - averaged(x)
        tick()
        return torch.log(h.square().mean())

    x = positive(5, 3)
    state = describe(model=model, averaged=averaged, x=x)
    written = ("averaged.n_averaged", "averaged.module.weight", "averaged.module.bias")
    return Held(f, (x,), state, written, (infinite(x),))


# Modes and flags


def mode_left_at_eval():
    # https://discuss.pytorch.org/t/model-train-and-model-eval-vs-model-and-model-eval/5744: the function sets the modes
    seeded()
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    model[1].eval()  # a norm that is kept as it is while all else trains

    def validate(x, y):
        tick()
        model.train()
        h = model(x)
        tick()
        model.eval()
        with torch.no_grad():
            error = F.mse_loss(model(x), y)
        tick()
        return torch.log(F.mse_loss(h, y) + error)

    x, y = positive(5, 3), positive(5, 1)
    written = ("model training", "model.? training", *buffers_of("model.1"), "random.torch")
    return Held(validate, (x, y), describe(model=model, x=x, y=y), written, (infinite(x), y))


def frozen_backbone():
    # https://docs.pytorch.org/tutorials/beginner/finetuning_torchvision_models_tutorial.html: feature extraction
    seeded()
    backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    backbone.requires_grad_(False)
    head = nn.Linear(4, 2)
    frozen = positive(5, 3)
    scale = torch.ones(4, requires_grad=True)

    def f(x, scale):
        tick()
        h = backbone(x) * scale
        tick()
        return torch.log(head(h).square().mean())

    state = describe(backbone=backbone, head=head, x=frozen, scale=scale)
    return Held(f, (frozen, scale), state, buffers_of("backbone.1"), (infinite(frozen), scale))


def attack_on_an_input():
    # https://docs.pytorch.org/tutorials/beginner/fgsm_tutorial.html: the image is made to require a gradient, and a
    # backward pass inside writes `.grad`
    seeded()
    model, x = nn.Linear(3, 2), positive(5, 3)
    batch = {"data": x}

    def attack(epsilon):
        tick()
        data = batch["data"]
        data.requires_grad_(True)
        loss = F.nll_loss(F.log_softmax(model(data), dim=1), torch.zeros(len(data), dtype=torch.long))
        tick()
        model.zero_grad()
        loss.backward()
        tick()
        h = data.detach() + epsilon * data.grad.sign()
        return torch.log(model(h).square().mean())

    epsilon = torch.tensor(0.1)
    state = describe(model=model, batch=batch, epsilon=epsilon)
    written = ("batch.data requires grad", "batch.data has grad", "batch.data grad*", "model.*grad*")
    return Held(attack, (epsilon,), state, written, (torch.tensor(torch.inf),))


# Gradients


def gradients_that_were_there():
    # https://discuss.pytorch.org/t/why-do-we-need-to-set-the-gradients-manually-to-zero-in-pytorch/4903: accumulation
    seeded()
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    model[2].bias.requires_grad_(False)
    x, w = positive(5, 3).requires_grad_(), torch.ones(3, requires_grad=True)
    x.grad = torch.full_like(x, 0.5)
    model[0].weight.grad = torch.full_like(model[0].weight, -0.0)
    model[2].weight.grad = torch.full_like(model[2].weight, 2.0)

    def f(x, w):
        tick()
        h = model(x * w)
        tick()
        return torch.log(h.square().mean() + x.square().mean())

    return Held(f, (x, w), describe(model=model, x=x, w=w), (), (infinite(x).requires_grad_(), w))


# Random states


def dropout_of_a_model():
    # https://github.com/pytorch/examples/blob/main/mnist/main.py, with fewer and smaller layers
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 2, 3, 1)
            self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
            self.fc1, self.fc2 = nn.Linear(18, 6), nn.Linear(6, 3)

        def forward(self, x):
            tick()
            x = F.relu(self.conv1(x))
            x = F.max_pool2d(x, 2)
            x = self.dropout1(x)
            tick()
            h = F.relu(self.fc1(torch.flatten(x, 1)))
            h = self.dropout2(h)
            tick()
            return torch.log(self.fc2(h).square().mean())

    seeded()
    model, x = Net(), positive(4, 1, 8, 8)
    return Held(model, (x,), describe(model=model, x=x), ("random.torch",), (infinite(x),), select=":h*", guarded=model)


def mixup_of_three_libraries():
    # https://github.com/facebookresearch/mixup-cifar10/blob/main/train.py: mixup_data draws with NumPy and PyTorch
    seeded()
    layer, x, y = nn.Linear(3, 2), positive(5, 3), positive(5, 2)

    def mixup(x, y):
        tick()
        lam = np.random.beta(1.0, 1.0)
        index = torch.randperm(len(x))
        tick()
        h = lam * x + (1 - lam) * x[index, :]
        if random.random() < 0.5:
            h = h * 1.5
        tick()
        predicted = layer(h)
        return torch.log(lam * F.mse_loss(predicted, y) + (1 - lam) * F.mse_loss(predicted, y[index]))

    return Held(mixup, (x, y), describe(layer=layer, x=x, y=y), ("random.*",), (infinite(x), y))


class Noise:
    def __init__(self):
        self.torch, self.numpy = torch.Generator().manual_seed(4), np.random.default_rng(5)
        self.python = random.Random(6)


def generators_of_the_program():
    # https://docs.pytorch.org/docs/stable/notes/randomness.html: generators handed on instead of a global state
    seeded()
    noise, x = Noise(), positive(5, 3).requires_grad_()
    kept = {"g": torch.Generator().manual_seed(7)}

    def f(x, generator):
        tick()
        h = x + 0.1 * torch.randn(x.shape, generator=noise.torch) + 0.1 * torch.randn(x.shape, generator=generator)
        tick()
        h = h * noise.numpy.uniform(0.9, 1.1) * noise.python.uniform(0.9, 1.1)
        h = h + 0.1 * torch.rand(x.shape, generator=kept["g"])
        tick()
        return torch.log(h.square().mean())

    given = torch.Generator().manual_seed(8)
    state = describe(a=noise.torch, b=noise.numpy, c=noise.python, kept=kept, given=given, x=x)
    return Held(f, (x, given), state, ("[abc]", "kept.g", "given"), (infinite(x).requires_grad_(), given), select="h*")


# Optimizers


def optimizer_that_steps():
    # https://docs.pytorch.org/tutorials/beginner/introyt/trainingyt.html: a step of training is what is called
    seeded()
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        tick()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        tick()
        optimizer.step()
        tick()
        h = model(x)
        return torch.log(F.mse_loss(h, y))

    x, y = positive(5, 3), positive(5, 1)
    state = describe(model=model, optimizer=optimizer, x=x, y=y)
    written = ("model.*.weight", "model.*.bias", "model.* grad*", "model.* has grad", "optimizer.*")
    return Held(step, (x, y), state, written, (infinite(x), y))


def optimizer_that_is_held():
    seeded()
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(positive(5, 3)).square().mean().backward()
    optimizer.step()
    x = positive(5, 3)

    def f(x):
        tick()
        h = model(x)
        tick()
        return torch.log(h.square().mean() * optimizer.param_groups[0]["lr"] + h.exp().mean())

    state = describe(model=model, optimizer=optimizer, x=x)
    return Held(f, (x,), state, buffers_of("model.1"), (infinite(x),))


# Hooks


def hooks_of_every_kind():
    # https://discuss.pytorch.org/t/how-can-l-load-my-best-model-as-a-feature-extractor-evaluator/17254: get_activation;
    # one hook is put on and taken off again in each call, as feature extractors do
    seeded()
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    activation = {}

    def get_activation(name, module, given, output):
        activation[name] = output.detach()

    def seen_backward(module, given, returned):
        tick()

    model[0].register_forward_hook(partial(get_activation, "first"))
    model[0].register_forward_hook(partial(get_activation, "again"), prepend=True)
    model[1].register_forward_pre_hook(lambda module, given: tick())
    model[2].register_full_backward_hook(seen_backward)
    model[0].weight.register_hook(lambda gradient: gradient * 1.0)

    def f(x):
        tick()
        handle = model[1].register_forward_hook(partial(get_activation, "norm"))
        try:
            h = model(x)
        finally:
            handle.remove()
        tick()
        return torch.log(h.square().mean())

    x = positive(5, 3)
    return Held(f, (x,), describe(model=model, x=x), buffers_of("model.1"), (infinite(x),), guarded=model)


# Arguments


@dataclass
class Batch:
    x: torch.Tensor
    mask: torch.Tensor
    extra: dict


def containers_of_the_caller():
    seeded()
    norm = nn.BatchNorm1d(3)
    weights = [torch.randn(3, requires_grad=True), torch.randn(3)]
    batch = Batch(positive(5, 3), torch.tensor([1, 1, 0, 1, 1]), {"y": positive(5, 3), "norm": norm, "name": "a"})

    def f(batch, weights):
        tick()
        h = batch.extra["norm"](batch.x) * weights[0] + weights[1]
        tick()
        error = (h - batch.extra["y"]).square().mean(1)
        return torch.log((error * batch.mask).sum())

    bad = Batch(infinite(batch.x), batch.mask, batch.extra)
    state = describe(batch=batch, weights=weights)
    return Held(f, (batch, weights), state, buffers_of("batch.extra.norm"), (bad, weights), guarded=norm)


def tensors_written_in_place():
    seeded()
    counts, x = torch.zeros(3), positive(5, 3).requires_grad_()
    memory = {"last": torch.ones(5, 3)}

    def f(x, counts):
        tick()
        h = x * (memory["last"] + 1.0)
        counts.add_(1.0)
        tick()
        memory["last"].copy_(x.detach())
        return torch.log(h.square().mean() + counts.sum())

    state = describe(memory=memory, counts=counts, x=x)
    return Held(f, (x, counts), state, ("counts", "memory.last"), (infinite(x).requires_grad_(), counts))


class Rounded(torch.autograd.Function):
    # stochastic rounding, as https://github.com/Tiiiger/QPyTorch does it: forward draws, backward passes on
    @staticmethod
    def forward(ctx, x, seen, generator):
        seen.add_(1)
        return torch.floor(x + torch.rand(x.shape, generator=generator) + 0.0 * torch.rand(())) + 1.0

    @staticmethod
    def backward(ctx, gradient):
        tick()
        return gradient, None, None


class Rounding(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(9)
        self.register_buffer("seen", torch.tensor(0))
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        tick()
        h = Rounded.apply(self.layer(x), self.seen, self.generator)
        tick()
        return torch.log((h * x).square().mean())


def custom_function_that_draws():
    seeded()
    model, x = Rounding(), positive(5, 3)
    state = describe(model=model, x=x, generator=model.generator)
    written = ("model.seen", "generator", "random.torch")
    return Held(model, (x,), state, written, (infinite(x),), select=":h", guarded=model)


def checkpointed_batchnorm():
    # https://discuss.pytorch.org/t/questions-about-batch-normalization-layer-in-efficientnet-timm-with-gradient-checkpointing/188421:
    # the part is run again in the backward pass, and its norm counts that
    seeded()
    block = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    head, x = nn.Linear(4, 1), positive(5, 3)

    def f(x):
        tick()
        h = checkpoint(block, x, use_reentrant=False)
        tick()
        return torch.log(head(h).square().mean())

    state = describe(block=block, head=head, x=x)
    return Held(f, (x,), state, (*buffers_of("block.1"), "random.torch"), (infinite(x),))


PROGRAMS = [
    batchnorm_of_a_model,
    batchnorm_of_a_closure,
    batchnorm_of_a_global,
    batchnorm_of_an_argument,
    batchnorm_in_a_slot,
    batchnorm_in_containers,
    batchnorm_made_at_the_first_call,
    spectral_norm_of_a_critic,
    codebook_of_new_parameters,
    queue_and_key_encoder,
    buffers_bound_anew,
    average_of_weights,
    mode_left_at_eval,
    frozen_backbone,
    attack_on_an_input,
    gradients_that_were_there,
    dropout_of_a_model,
    mixup_of_three_libraries,
    generators_of_the_program,
    optimizer_that_steps,
    optimizer_that_is_held,
    hooks_of_every_kind,
    containers_of_the_caller,
    tensors_written_in_place,
    custom_function_that_draws,
    checkpointed_batchnorm,
]


def forward(held, args):
    return held.target(*args, **held.kwargs)


def train(held, args):
    """A step as a training takes it, without the update."""
    loss = held.target(*args, **held.kwargs)
    loss.backward()


def fail(held):
    """What runs until a guard raises: the call of a model, and all of a block."""
    step = forward if held.guarded is not None else train
    step(held, held.bad)

"""PyTorch programs whose state is in a place of Python's, each with what describes the state that it changes.

They compute ``h``, which ``bp.sweep`` replaces, and end in a logarithm, for ``bp.provoke``.
"""

import collections
import contextvars
import dataclasses
import functools
import threading
import weakref

import numpy as np
import torch
from torch import nn

import outside

State = collections.namedtuple("State", "h c")
VARIABLE = contextvars.ContextVar("VARIABLE")
COUNT = 0


class Slots:
    __slots__ = ("h", "n")

    def __init__(self):
        self.h, self.n = torch.zeros(3), 0


class Store:
    """Has its attributes in a dict of its own."""

    def __init__(self):
        self.__dict__["store"] = {"h": torch.zeros(3)}

    def __getattr__(self, name):
        return self.__dict__["store"][name]

    def __setattr__(self, name, value):
        self.__dict__["store"][name] = value


class Property:
    def __init__(self):
        self._h = torch.zeros(3)

    @property
    def h(self):
        return self._h

    @h.setter
    def h(self, value):
        self._h = value


class OfAll:
    count, cache, buffer = 0, {}, torch.zeros(3)


@dataclasses.dataclass
class Memory:
    h: torch.Tensor
    log: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    h: torch.Tensor


class Average:
    """Of weights, as trainings keep it."""

    def __init__(self, model):
        self.shadow = {name: one.detach().clone() for name, one in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, one in model.named_parameters():
            self.shadow[name].mul_(0.9).add_(one, alpha=0.1)


class Buffer:
    """Of transitions, as of a DQN."""

    def __init__(self):
        self.data, self.at, self.recent = np.zeros((4, 3)), 0, collections.deque(maxlen=2)

    def push(self, row):
        self.data[self.at % 4] = row
        self.recent.append(row)
        self.at += 1


class Guarded(collections.OrderedDict):
    """Refuses to be written as a whole, as transformers' ModelOutput does."""

    def update(self, *args, **kwargs):
        raise TypeError("no update")

    def clear(self):
        raise TypeError("no clear")


class Caching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm, self.calls = nn.Linear(3, 1), nn.BatchNorm1d(1), 0
        self.memory, self.recent = Memory(torch.zeros(2, 1)), collections.deque(maxlen=3)

    def forward(self, x):
        h = self.norm(self.layer(x))
        self.memory.h = self.memory.h + h.detach()
        self.memory.log.append(1)
        self.recent.append(h)
        self.calls += 1
        return end(h)


def of_caching(one):
    return [of(one.memory), one.calls, len(one.recent), of(one.norm.running_mean)]


def of(one):
    """What there is to see of a tensor, or of an object that has one as ``h``."""
    if not isinstance(one, torch.Tensor):
        return of(one.h), list(getattr(one, "log", ()))
    hooks = len(one._backward_hooks or ()), len(one._post_accumulate_grad_hooks or ())
    return id(one), one.detach().tolist(), one.is_leaf, one.requires_grad, one._version, *hooks


def end(h):
    return torch.log(h.square().sum() + 1)


def slots():
    layer, held = nn.Linear(3, 1), Slots()

    def f(x):
        held.n += 1
        h = layer(x)
        held.h = held.h + 1
        held.h.add_(1)
        return end(h)

    return f, lambda: (held.n, of(held))


def code_that_reads_attributes():
    layer, held, other = nn.Linear(3, 1), Store(), Property()

    def f(x):
        h = layer(x)
        held.h = held.h + 1
        other.h = h.detach().mean(0)
        return end(h)

    return f, lambda: (of(held.h), of(other.h))


def attributes_of_a_class():
    layer = nn.Linear(3, 1)
    OfAll.count, OfAll.cache, OfAll.buffer = 0, {}, torch.zeros(3)

    def f(x):
        OfAll.count += 1
        h = layer(x)
        OfAll.cache[OfAll.count] = h
        OfAll.buffer += 1
        OfAll.made = True
        return end(h)

    return f, lambda: (OfAll.count, sorted(OfAll.cache), of(OfAll.buffer), hasattr(OfAll, "made"))


def attributes_of_a_function():
    layer = nn.Linear(3, 1)

    def f(x):
        f.calls += 1
        h = layer(x)
        f.last.copy_(h.detach().mean(0))
        return end(h)

    f.calls, f.last = 0, torch.zeros(1)
    return f, lambda: (f.calls, of(f.last))


def dataclasses_and_tuples():
    layer, memory, frozen = nn.Linear(3, 1), Memory(torch.zeros(3)), Frozen(torch.zeros(3))
    states = [State(torch.zeros(3), torch.zeros(3))]

    def f(x):
        h = layer(x)
        memory.log.append(h.sum().item())
        memory.h = memory.h + 1
        frozen.h.add_(1)
        states[0].h.add_(1)
        states[0] = states[0]._replace(c=torch.ones(3))
        return end(h)

    return f, lambda: (of(memory), of(frozen), *map(of, states[0]))


def weak_references():
    layer, owner = nn.Linear(3, 1), Memory(torch.zeros(3))
    to_owner, by_layer = weakref.ref(owner), weakref.WeakKeyDictionary({layer: torch.zeros(2)})

    def f(x):
        h = layer(x)
        to_owner().h.add_(1)
        to_owner().log.append(1)
        by_layer[layer].add_(1)
        return end(h)

    return f, lambda: (of(owner), of(by_layer[layer]))


def what_a_cache_or_generator_holds():
    layer, memory = nn.Linear(3, 1), Memory(torch.zeros(3))

    @functools.lru_cache
    def cached(size):
        return Memory(torch.zeros(size))

    def endless():
        own = memory
        while True:
            yield own

    cached(3)
    endlessly = endless()
    next(endlessly)

    def f(x):
        h = layer(x)
        cached(3).h.add_(1)
        cached(3).log.append(2)
        next(endlessly).h.add_(1)
        return end(h)

    return f, lambda: (of(cached(3)), of(memory))


def threads_and_contexts():
    layer, local, memory = nn.Linear(3, 1), threading.local(), Memory(torch.zeros(3))
    local.h, local.n = torch.zeros(3), 0
    VARIABLE.set([0])

    def f(x):
        h = layer(x)
        local.h.add_(1)
        local.n += 1
        VARIABLE.get().append(1)
        VARIABLE.set([*VARIABLE.get(), 2])
        other = threading.Thread(target=memory.h.add_, args=(1,))
        other.start()
        other.join()
        return end(h)

    return f, lambda: (local.n, of(local.h), id(VARIABLE.get()), len(VARIABLE.get()), of(memory))


def average_and_replay_buffer():
    layer = nn.Linear(3, 1)
    average, buffer = Average(layer), Buffer()

    def f(x):
        h = layer(x)
        average.update(layer)
        buffer.push(x[0].detach().numpy())
        return end(h)

    return f, lambda: ([*map(of, average.shadow.values())], buffer.at, buffer.data.tolist(), len(buffer.recent))


def containers_of_other_classes():
    layer, held = nn.Linear(3, 1), Guarded(h=torch.zeros(3))
    counter, lists = collections.Counter(), collections.defaultdict(list)

    def f(x):
        h = layer(x)
        held["h"] = held["h"] + 1
        held["made"] = 2
        counter["calls"] += 1
        lists["calls"].append(1)
        return end(h)

    return f, lambda: ([*held], of(held["h"]), dict(counter), {key: [*value] for key, value in lists.items()})


def cache_in_a_model():
    model = Caching()
    return model, lambda: of_caching(model)


def cache_in_a_model_that_is_looked_up():
    model = Caching()

    @functools.lru_cache
    def registry(name):
        return model

    def f(x):
        h = x * 1
        return registry("model")(h)

    return f, lambda: of_caching(model)


def eval_inside_of_train():
    model = Caching()
    model.norm.eval()

    def f(x):
        h = model.train()(x)
        return h + model.eval()(x)

    return f, lambda: (model.training, model.norm.training, *of_caching(model))


def lazy_modules():
    known, lazy = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()), nn.LazyLinear(2)
    known(torch.rand(2, 3))

    def f(x):
        h = known(x)
        lazy(x)
        return end(h)

    def state():
        return type(lazy), type(lazy.weight), sorted(vars(lazy)), of(known[0].weight), of(known[1].num_batches_tracked)

    return f, state


def hooks_of_leaves():
    weight, other, calls = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True), []
    weight.register_hook(lambda grad: calls.append("gradient"))
    weight.register_post_accumulate_grad_hook(lambda leaf: calls.append("accumulated"))

    def f(x):
        other.register_hook(lambda grad: grad * 2)
        other.register_post_accumulate_grad_hook(lambda leaf: None)
        h = x * weight * other
        return end(h)

    return f, lambda: ([*calls], of(weight), of(other))


def hooks_of_a_module_that_count():
    layer, counted = nn.Linear(3, 1), {"forward": 0, "backward": 0}

    def count(kind):
        counted[kind] += 1

    layer.register_forward_hook(lambda *_: count("forward"))
    layer.register_full_backward_hook(lambda *_: count("backward"))

    def f(x):
        h = layer(x)
        return end(h)

    return f, lambda: dict(counted)


class Trainer:
    def __init__(self):
        self.layer, self.steps = nn.Linear(3, 1), 0
        self.optimizer = torch.optim.Adam(self.layer.parameters())
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        self.scaler = torch.amp.GradScaler("cpu")

    def step(self, x):
        self.steps += 1
        self.optimizer.zero_grad()
        self.scaler.scale(end(self.layer(x.detach()))).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        return end(self.layer(x))


def object_that_trains():
    own = Trainer()

    def f(x):
        h = x * 1
        return own.step(h)

    def state():
        trained = own.optimizer.param_groups[0]["lr"], own.schedule.last_epoch, own.scaler.get_scale()
        return own.steps, len(own.optimizer.state), *trained, of(own.layer.weight)

    return f, state


def names_that_are_rebound():
    layer, calls = nn.Linear(3, 1), 0

    def f(x):
        global COUNT
        nonlocal calls
        COUNT += 1
        calls += 1
        h = layer(x)
        return end(h)

    return f, lambda: (COUNT, calls)


def defaults_of_parameters():
    layer = nn.Linear(3, 1)

    def f(x, seen=[], last=torch.zeros(4), *, named={}):  # noqa: B006  that is what is tested
        seen.append(1)
        named[len(named)] = 1
        h = layer(x)
        last.fill_(len(seen))
        return end(h)

    return f, lambda: (len(f.__defaults__[0]), of(f.__defaults__[1]), len(f.__kwdefaults__["named"]))


def counted(function):
    calls = 0

    @functools.wraps(function)
    def called(*args):
        global COUNT
        nonlocal calls
        COUNT += 1
        calls += 1
        called.last = calls
        return function(*args)

    return called, lambda: (COUNT, calls, getattr(called, "last", None))


def decorator_that_counts():
    layer = nn.Linear(3, 1)

    def f(x):
        h = layer(x)
        return end(h)

    return counted(f)


def global_of_another_module():
    layer = nn.Linear(3, 1)

    def f(x):
        outside.CALLS += 1
        h = layer(x)
        return end(h)

    return f, lambda: outside.CALLS


def result_that_is_written_to():
    layer = nn.Linear(3, 1)
    kept, cache = [end(layer(torch.ones(2, 3)))], [torch.zeros(4, 1)]

    def f(x):
        h = layer(x)
        with torch.no_grad():
            kept[0].add_(1)
        cache[0].index_copy_(0, torch.tensor([1, 2]), h)  # as a cache of keys that has a fixed size
        return end(cache[0])

    return f, lambda: (of(kept[0])[:2], of(cache[0]))


PROGRAMS = [
    slots,
    code_that_reads_attributes,
    attributes_of_a_class,
    attributes_of_a_function,
    dataclasses_and_tuples,
    weak_references,
    what_a_cache_or_generator_holds,
    threads_and_contexts,
    average_and_replay_buffer,
    containers_of_other_classes,
    cache_in_a_model,
    cache_in_a_model_that_is_looked_up,
    eval_inside_of_train,
    lazy_modules,
    hooks_of_leaves,
    hooks_of_a_module_that_count,
    object_that_trains,
    names_that_are_rebound,
    result_that_is_written_to,
    defaults_of_parameters,
    decorator_that_counts,
    global_of_another_module,
]

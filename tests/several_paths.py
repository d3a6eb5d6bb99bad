"""Models that reach a module by several paths, each with the names that its user would guess.

``python tests/several_paths.py`` prints how many of these names are printed. A case of a library that is not installed
is left out, and it says so.
"""

from __future__ import annotations

import importlib.util
import sys
from itertools import chain
from pathlib import Path

import torch
from torch import nn

import backprobe as bp


def small():
    """A net of an encoder and a head."""
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU()), nn.Linear(3, 1)


class Net(nn.Module):
    """What others wrap."""

    def __init__(self):
        super().__init__()
        self.encoder, self.head = small()

    def forward(self, x):
        h = self.encoder(x)
        return self.head(h)


class Wrapping(nn.Module):
    """The wrapped model is private and comes first, as in a bridge of TransformerLens."""

    def __init__(self):
        super().__init__()
        self._wrapped = Net()
        self.encoder, self.head = self._wrapped.encoder, self._wrapped.head

    def forward(self, x):
        return self._wrapped(x)


class ByKind(nn.Module):
    """A private dictionary holds what public names are given to later."""

    def __init__(self):
        super().__init__()
        self._by_kind = nn.ModuleDict({"query": nn.Linear(2, 2), "key": nn.Linear(2, 2)})
        self.query, self.key = self._by_kind["query"], self._by_kind["key"]

    def forward(self, x):
        return self.query(x) * self._by_kind["key"](x)


class Remembering(nn.Module):
    """A private list of what has a public name already."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(2, 2)
        self._seen = nn.ModuleList([self.query])

    def forward(self, x):
        return self._seen[0](x)


class First(nn.Module):
    """A layer that has a name of its own beside its place in a list."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.last = self.layers[1]

    def forward(self, x):
        return self.last(self.layers[0](x))


class Chained(nn.Module):
    """Modules with names, which a Sequential chains."""

    def __init__(self):
        super().__init__()
        self.lift, self.drop = nn.Linear(2, 3), nn.Linear(3, 1)
        self.net = nn.Sequential(self.lift, nn.ReLU(), self.drop)

    def forward(self, x):
        return self.net(x)


class Twins(nn.Module):
    """One encoder for two kinds of inputs."""

    def __init__(self):
        super().__init__()
        self.of_queries = self.of_keys = nn.Linear(2, 2)

    def forward(self, x):
        return self.of_queries(x) * self.of_keys(x * 2)


class Hidden(nn.Module):
    """No path of the module is public."""

    def __init__(self):
        super().__init__()
        self._inner = nn.Linear(2, 2)
        self._same = nn.ModuleList([self._inner])

    def forward(self, x):
        return self._same[0](x)


class Nested(nn.Module):
    """Every path has a private segment, and one of them has two."""

    def __init__(self):
        super().__init__()
        self._core = Wrapping()

    def forward(self, x):
        return self._core(x)


class Tied(nn.Module):
    """One parameter, of a private module and of a public one."""

    def __init__(self):
        super().__init__()
        self._table, self.head = nn.Linear(2, 3, bias=False), nn.Linear(2, 3, bias=False)
        self.head.weight = self._table.weight

    def forward(self, x):
        return self.head(self._table(x)[:, :2])


def plain(model, *names):
    """A model of two numbers, and names."""

    def step():
        model(torch.ones(1, 2)).sum().backward()

    return model, step, names


def rectified():
    """A rectifier that stands twice in a Sequential."""
    rectifier = nn.ReLU()
    model = nn.Sequential(nn.Linear(2, 2), rectifier, nn.Linear(2, 2), rectifier)
    return plain(model, "0", "1", "2.weight")


def prompts_of_peft():
    """Prompt tuning has the table of words a second time."""
    import peft
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=20, n_positions=16, bos_token_id=0, eos_token_id=0)
    model = peft.get_peft_model(
        GPT2LMHeadModel(config), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    )
    ids = torch.tensor([[1, 2, 3]])
    names = "base_model.transformer.wte", "base_model.transformer.h.0.attn", "prompt_encoder.default.embedding.weight"
    return model, lambda: model(input_ids=ids, labels=ids).loss.backward(), names


def likelihood_of_gpytorch():
    """A likelihood is a part of the model, and of what is maximised."""
    import gpytorch

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module, self.covar_module = gpytorch.means.ConstantMean(), gpytorch.kernels.RBFKernel()

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x, y = torch.linspace(0, 1, 5), torch.ones(5)
    model = Exact(x, y, gpytorch.likelihoods.GaussianLikelihood())
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)

    def step():
        (-mll(model(x), y)).backward()

    return mll, step, ("likelihood.noise_covar.raw_noise", "model.covar_module.raw_lengthscale", "model.mean_module")


def sum_of_botorch():
    """Two models of a Gaussian process in a list, and the sum of what is maximised of them."""
    from botorch.models import ModelListGP, SingleTaskGP
    from gpytorch.mlls import SumMarginalLogLikelihood

    x = torch.linspace(0, 1, 6, dtype=torch.double).unsqueeze(1)
    model = ModelListGP(SingleTaskGP(x, x * 2), SingleTaskGP(x, x.sin()))
    mll = SumMarginalLogLikelihood(model.likelihood, model)

    def step():
        (-mll(model(*model.train_inputs), model.train_targets)).backward()

    noise, kernel = "likelihood.likelihoods.0.noise_covar.raw_noise", "model.models.1.covar_module.raw_lengthscale"
    return mll, step, (noise, kernel, "model.models.0.mean_module")


def sequences_of_tensordict():
    """An actor and a critic that share their first module."""
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    common = TensorDictModule(nn.Linear(2, 3), ["x"], ["h"])
    actor = TensorDictSequential(common, TensorDictModule(nn.Linear(3, 1), ["h"], ["action"]))
    value = TensorDictSequential(common, TensorDictModule(nn.Linear(3, 1), ["h"], ["value"]))
    model = nn.ModuleDict({"actor": actor, "value": value})

    def step():
        both = value(actor(TensorDict({"x": torch.ones(1, 2)}, [1])))
        (both["action"] * both["value"]).sum().backward()

    return model, step, ("actor.module.0.module", "value.module.1.module", "actor.module.0.module.weight")


def bridge_of(which, *names):
    """A bridge of TransformerLens around a small model of Hugging Face."""
    sys.path.append(str(Path(__file__).parent / "coming_from"))
    import with_transformerlens

    given = with_transformerlens.given()
    model = given[which]
    return model, lambda: model(given["ids"], return_type="loss").backward(), names


CASES = {
    "wrapping": lambda: plain(Wrapping(), "encoder", "encoder.0", "head", "head.weight"),
    "by kind": lambda: plain(ByKind(), "query", "key", "query.weight", "key.bias"),
    "remembering": lambda: plain(Remembering(), "query", "query.weight"),
    "first": lambda: plain(First(), "layers.0", "layers.1", "layers.1.weight"),
    "chained": lambda: plain(Chained(), "lift", "drop", "net.1", "lift.weight"),
    "twins": lambda: plain(Twins(), "of_queries", "of_queries.weight"),
    "hidden": lambda: plain(Hidden(), "_inner", "_inner.weight"),
    "nested": lambda: plain(Nested(), "_core.encoder", "_core.head", "_core.head.weight"),
    "tied": lambda: plain(Tied(), "head", "head.weight"),
    "rectified": rectified,
    "peft": prompts_of_peft,
    "gpytorch": likelihood_of_gpytorch,
    "botorch": sum_of_botorch,
    "tensordict": sequences_of_tensordict,
    "transformer_lens, GPT-2": lambda: bridge_of(
        "bridge",
        "blocks.0.attn",
        "blocks.0.attn.q",
        "blocks.0.attn.o",
        "blocks.0.attn.hook_pattern",
        "blocks.1.mlp",
        "blocks.1.mlp.in",
        "blocks.1.ln1",
        "unembed",
        "transformer.h.0.ln1._original_component.weight",
        "transformer.h.1.attn.q._original_component.bias",
    ),
    "transformer_lens, Llama": lambda: bridge_of(
        "llama_bridge",
        "blocks.0.attn",
        "blocks.0.attn.q",
        "blocks.0.attn.o",
        "blocks.0.attn.hook_pattern",
        "blocks.1.mlp",
        "blocks.1.mlp.gate",
        "blocks.1.ln1",
        "unembed",
    ),
}
"""Each gives a model, a step of it, and names."""

LIBRARIES = {"peft", "gpytorch", "botorch", "tensordict", "transformer_lens"}


def is_here(case):
    """Is the library installed, whose name the case has?"""
    library = case.partition(",")[0]
    return library not in LIBRARIES or importlib.util.find_spec(library) is not None


def unprinted(case):
    """The paths of a case that are not the first ones printed of their module or parameter, each with what is instead.

    A value may have the name of another module too, of one that returns it as it was given: these are left aside.
    """
    torch.manual_seed(0)
    model, step, wanted = CASES[case]()
    return unprinted_of(model, step, wanted), len(wanted)


def unprinted_of(model, step, wanted):
    """The same of a model, a step of it, and the paths that are wanted."""
    with bp.probe(model, ["**"]) as rec:
        step()
    listed, same = bp.names(model), paths(model)
    bound = {name.partition(":")[0] for name in listed if ":" in name}
    wrong = {}
    for path in wanted:
        named = [
            [name for name in map(path_of, (entry.name, *entry.aliases)) if name in same[path]]
            for entry in rec.values()
        ]
        printed = {names[0] for names in named if names}
        if printed != {path}:
            wrong[path] = ", ".join(sorted(printed)) or "nothing"
        elif path not in listed or not bound.isdisjoint(same[path] - {path}):
            wrong[path] = f"listed as {', '.join(sorted(bound & same[path]))}"
    return wrong


def listed_again(model):
    """The names that ``bp.names`` lists without a remark although it lists their module or parameter before."""
    listed, same = bp.names(model), paths(model)
    first, again = {}, []
    for name in [name for name in listed if name in same and not listed.marks[name].startswith("same as ")]:
        if first.setdefault(frozenset(same[name]), name) != name:
            again.append(name)
    return again


def paths(model):
    """The other paths of the module or parameter at each path, and itself."""
    found = {}
    parameters = nn.Module.named_parameters(model, remove_duplicate=False)
    own = []
    if type(model).named_parameters is not nn.Module.named_parameters:
        try:
            own = model.named_parameters(remove_duplicate=False)
        except TypeError:  # a model may override it without that
            own = model.named_parameters()
    for path, part in chain(model.named_modules(remove_duplicate=False), parameters, own):
        found.setdefault(id(part), set()).add(path)
    return {path: several for several in found.values() for path in several}


def path_of(name):
    """The path in a name."""
    return name.partition(":")[0].partition("#")[0]


def main():
    """The score, a line for each case, and what is printed for names that are not."""
    right = asked = 0
    for case in CASES:
        if not is_here(case):
            print(f"{case}: left out, not installed")
            continue
        wrong, names = unprinted(case)
        right, asked = right + names - len(wrong), asked + names
        again = len(listed_again(CASES[case]()[0]))
        print(
            f"{case}: {names - len(wrong)} of {names}; listed again: {again}",
            *[f"  {one}: {other}" for one, other in wrong.items()],
            sep="\n",
        )
    print(f"{right} of {asked}")


if __name__ == "__main__":
    main()

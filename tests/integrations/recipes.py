"""The code of docs/trainers.md, run as it is written; and what hooks put on by hand see of the same training."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parent.parent.parent / "docs" / "trainers.md"
EVERY = 10


class Recipe:
    """The names that the code of a section defines. Its looks are kept in `seen`, with the steps they belong to."""

    def __init__(self, section, layers):
        text = PAGE.read_text()
        first, wanted = text.split("\n## ")[0], text.split(f"\n## {section}\n")[1].split("\n## ")[0]
        self.space, self.seen = {"__name__": "recipe"}, []
        for block in re.findall(r"^```python\n(.*?)^```$", first + wanted, re.MULTILINE | re.DOTALL):
            exec(compile(block, str(PAGE), "exec"), self.space)
        self.print = self.space["look"]
        self.space["LAYERS"], self.space["look"] = layers, self.look

    def __getitem__(self, name):
        return self.space[name]

    def look(self, step, rec):
        self.print(step, rec)
        self.seen.append((step, rec))

    def gradients(self, name):
        return [rec[name].grad for _, rec in self.seen]


class ByHand:
    """The gradients of layers and parameters, by hooks on a bare model: one for each batch."""

    def __init__(self, model, names):
        self.gradients = {name: [] for name in names}
        parameters = dict(model.named_parameters())
        for name in names:
            if name in parameters:
                parameters[name].register_hook(self.gradients[name].append)
            else:
                model.get_submodule(name).register_forward_hook(self.listening(name))

    def listening(self, name):
        def hook(module, inputs, output):
            tensor = output[0] if isinstance(output, tuple) else output
            tensor.register_hook(self.gradients[name].append)

        return hook

    def at(self, name, is_looked_at):
        """Those of the batches that are looked at, by number."""
        return [gradient for at, gradient in enumerate(self.gradients[name]) if is_looked_at(at)]


def same(found, expected):
    """Are these the same bits?"""
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


def same_weights(model, other):
    return same(list(model.state_dict().values()), list(other.state_dict().values()))

"""Kinds of statements that were wrong with a library, in programs that need none: see tests/libraries."""

from collections.abc import Mapping

import pytest
import torch
from torch import nn
from torch.utils._pytree import register_pytree_node
from torch.utils.checkpoint import checkpoint

import backprobe as bp


class Rebinding(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x):
        gated = self.first(x)
        gated = torch.from_numpy(gated.detach().numpy())  # cut
        return self.second(gated).sum()


def test_a_cut_before_a_use_that_is_not_recorded_is_the_cause():
    """And not the line behind it, which uses what the cut has left."""
    net = Rebinding()
    with bp.probe(net, ["**", ":*"]) as rec:
        net(torch.randn(5, 3)).backward()
    (found,) = bp.explain(rec).findings
    assert found.source.text.endswith("# cut")


class Rows(Mapping):
    """A mapping that iterates over its rows, as a TensorDict does."""

    def __init__(self, parts):
        self.parts = parts

    def __getitem__(self, key):
        return self.parts[key]

    def __len__(self):
        return len(self.parts)

    def __iter__(self):
        return iter([{name: part[0] for name, part in self.parts.items()}])

    def keys(self):
        return self.parts.keys()


class Registered(Rows):
    def detach(self):
        return Registered({name: part.detach() for name, part in self.parts.items()})


register_pytree_node(
    Registered,
    lambda rows: ([*rows.parts.values()], [*rows.parts]),
    lambda parts, names: Registered(dict(zip(names, parts, strict=True))),
)


class Returning(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return Rows({"hidden": self.layer(x), "inner": Rows({"twice": self.layer(x) * 2})})


def test_a_mapping_that_iterates_over_rows_is_opened_by_its_keys():
    model = Returning()
    with bp.probe(model) as rec:
        model(torch.ones(1, 2))["inner"]["twice"].sum().backward()
    assert rec["return.inner.twice"].grad.tolist() == [[1.0, 1.0]]
    assert "return.hidden" in rec


def test_a_mapping_that_the_framework_takes_apart_is_opened_where_a_local_holds_it():
    def program(x, w):
        data = Registered({"x": x, "y": x * w})
        return data["y"].sum()

    rec = bp.probe(program)(torch.ones(2), torch.tensor([2.0, 3.0]))
    assert rec["data.y"].grad.tolist() == [1.0, 1.0]


def test_a_method_of_a_container_that_cuts_all_of_it_is_the_cause():
    def program(x, w):
        data = Registered({"x": x, "y": x * w})
        kept = data.detach()
        return kept["y"].sum() + x.sum()

    report = bp.explain(bp.probe(program)(torch.ones(2), torch.tensor([2.0, 3.0])), "w")
    assert report.findings[0].source.text == "kept = data.detach()"


def test_jagged_tensors_are_looked_through_for_nan():
    def program(first, second):
        nested = torch.nested.as_nested_tensor([first, second], layout=torch.jagged)
        gap = nested - nested
        root = gap.sqrt()
        return root.values().sum()

    report = bp.explain(bp.probe(program, nonfinite=True)(torch.ones(2, 4), torch.ones(3, 4)))
    assert report.findings[0].source.text == "root = gap.sqrt()"


def test_a_birth_in_backward_is_named_with_the_line_inside_of_what_was_not_followed():
    def program(x):
        def field(y):
            flow = torch.sqrt(y)
            return -flow

        path = checkpoint(field, x, use_reentrant=False)
        return path.sum()

    report = bp.explain(bp.probe(program, nonfinite=True)(torch.tensor([1.0, 0.0])))
    assert "in `flow = torch.sqrt(y)`" in report.findings[0].facts[0]
    assert not torch.is_anomaly_enabled()


def test_why_a_program_does_not_run_again_is_said_once(tmp_path):
    def program(x):
        (tmp_path / "written").write_text("")
        return torch.sqrt(x).sum()

    report = bp.explain(bp.probe(program, nonfinite=True)(torch.tensor([1.0, 0.0])))
    assert len([note for note in report.notes if "not tried" in note]) == 1


class Narrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.target = nn.Linear(2, 1), nn.Linear(2, 1)

    def named_parameters(self, prefix="", recurse=True):
        every = super().named_parameters(prefix=prefix, recurse=recurse)
        return (pair for pair in every if not pair[0].startswith("target"))

    def forward(self, x):
        return (self.layer(x) - self.target(x).detach()).square().mean()


def test_a_model_may_name_its_parameters_by_a_method_of_its_own(tmp_path):
    model = Narrow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bp.watch(model, tmp_path / "run", optimizer=optimizer), bp.probe(model) as rec:
        model(torch.ones(3, 2)).backward()
        optimizer.step()
    assert rec["layer.weight"].grad.shape == (1, 2)
    assert "layer.weight" in bp.open_run(tmp_path / "run").at(0)


@pytest.mark.parametrize("is_trained", [False, True])
def test_parameters_that_gradients_only_pass_are_not_missed(is_trained):
    """A model on which candidates are moved: no optimizer has its parameters, and one has the candidates."""

    class Surrogate(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(2, 1), nn.Linear(1, 1)

        def forward(self, x):
            return self.used(x)

    model, candidates = Surrogate(), torch.randn(3, 2, requires_grad=True)
    optimizer = torch.optim.Adam([candidates, *(model.parameters() if is_trained else ())])
    with bp.probe() as rec:
        loss = model(candidates).sum()
        loss.backward()
    optimizer.step()
    assert bp.explain(rec).ok != is_trained

"""``bp.attribute``: compared with sums by hand, with exact patches, and with the real change of the output."""

import copy
import json
import math
import pickle
import re

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from attribute_cases import (
    CASES,
    CLEAN,
    CORRUPT,
    IDS,
    OTHER,
    PARTS,
    B,
    W,
    chain,
    computed,
    counted,
    difference,
    dot,
    leaf,
    linear,
    stream,
)
from circuit_pages import recorded
from goldens import golden

BOTH = (CLEAN, W, B), (CORRUPT, W, B)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_numbers_are_those_by_hand(case):
    truth = case.truth()
    result = bp.attribute(
        case.target, case.clean, case.corrupt, case.select, of=case.of, steps=case.steps, along=case.along
    )
    assert result.change == pytest.approx(truth.change, rel=1e-4, abs=1e-6)
    assert dict(result.numbers) == pytest.approx(truth.nodes, rel=1e-4, abs=1e-5)
    assert dict(result.edges) == pytest.approx(truth.edges, rel=1e-4, abs=1e-5)
    assert result.exact(len(result)).effects == pytest.approx(truth.exact, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_edges_from_a_value_sum_to_its_attribution(case):
    result = bp.attribute(
        case.target, case.clean, case.corrupt, case.select, of=case.of, steps=case.steps, along=case.along
    )
    for name, number in result.numbers.items():
        outward = [edge for (source, _), edge in result.edges.items() if source == name]
        assert math.fsum(outward) == pytest.approx(number, rel=1e-4, abs=1e-5)


def test_steps_bring_the_sum_to_the_real_change():
    errors = [abs(bp.attribute(chain, *BOTH, ["x", "u"], steps=steps).error) for steps in (1, 4, 16)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 1e-2
    far = bp.attribute(stream(), IDS, OTHER, PARTS, of=difference, steps=12, edges=False)
    assert far.first == ("embed",) and abs(far.error) < 1e-2


def test_in_a_linear_function_one_pass_is_exact():
    result = bp.attribute(linear, CASES[2].clean, CASES[2].corrupt, ["x", "y", "u", "v"])
    assert result.error == pytest.approx(0, abs=1e-6) and result.sum == pytest.approx(result.change) == 11
    exact = result.exact()
    assert exact.approximations == pytest.approx(exact.effects) and exact.agreement == pytest.approx(1)


def test_arguments_are_a_tuple_a_dict_or_one():
    by_name = [dict(zip("xwb", given, strict=True)) for given in BOTH]
    numbers = [dict(bp.attribute(chain, *given, ["x", "u"]).numbers) for given in (BOTH, by_name)]
    assert numbers[0] == numbers[1]
    assert bp.attribute(counted, CLEAN, CORRUPT, "h").change == bp.attribute(counted, (CLEAN,), (CORRUPT,), "h").change


def test_chunks_and_the_lack_of_edges_change_no_number():
    whole = bp.attribute(stream(), IDS, OTHER, PARTS, of=difference)
    for chunk, edges in ((2, True), (2, False), (None, False)):
        other = bp.attribute(stream(), IDS, OTHER, PARTS, of=difference, chunk=chunk, edges=edges)
        assert dict(other.numbers) == pytest.approx(dict(whole.numbers), rel=1e-5)
        assert dict(other.edges) == pytest.approx(dict(whole.edges) if edges else {}, rel=1e-5)
        assert list(other) == list(whole) and other.first == whole.first


def test_indices_along_axes_are_kept_apart():
    model = stream()
    result = bp.attribute(model, IDS, OTHER, PARTS, of=difference, axis=(2, 1), edges=False)
    rec = bp.probe(model, PARTS, of=difference)(OTHER)
    clean, corrupt = computed(model, IDS)[0], computed(model, OTHER)[0]
    for name, one, other in zip(PARTS, clean, corrupt, strict=True):
        product = ((one - other) * rec[name].grad)[0].T
        torch.testing.assert_close(torch.from_numpy(result.parts[name]).float(), product, rtol=1e-4, atol=1e-6)
        assert result[name] == pytest.approx(float(product.detach().sum()), rel=1e-4, abs=1e-6)
    back = bp.attribute(model, IDS, OTHER, "embed", of=difference, axis=-1)
    assert back.parts["embed"] == pytest.approx(result.parts["embed"].sum(1), rel=1e-4, abs=1e-6)


def test_other_values_may_move_along_the_way():
    model = stream()
    result = bp.attribute(model, IDS, OTHER, "h.1.mlp", of=difference, steps=3, along="h.0.attn")
    clean, corrupt = computed(model, IDS)[0], computed(model, OTHER)[0]
    change, expected = clean[4] - corrupt[4], 0.0
    for point in (1 / 6, 1 / 2, 5 / 6):
        moved = {"h.0.attn": corrupt[1] + point * (clean[1] - corrupt[1])}
        outputs, _ = computed(model, OTHER, moved)
        h = leaf(outputs[4])
        last = difference(model.out(model.norm(sum(outputs[:4]) + h)))
        expected += dot(change, torch.autograd.grad(last, h)[0]) / 3
    assert result["h.1.mlp"] == pytest.approx(expected, rel=1e-4)


def test_runs_draw_the_same_random_numbers_and_leave_nothing_behind():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.BatchNorm1d(16), nn.Linear(16, 1))
    clean, corrupt = torch.randn(6, 4), torch.randn(6, 4)
    before, drawn = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    result = bp.attribute(model, clean, corrupt, "*", of=torch.sum, steps=2)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(own, before[name]) for name, own in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    again = bp.attribute(model, clean, corrupt, "*", of=torch.sum, steps=2)
    assert dict(again.numbers) == dict(result.numbers) and dict(again.edges) == dict(result.edges)
    model(corrupt)
    torch.manual_seed(3)


def test_nothing_is_attributed_where_both_runs_are_one():
    result = bp.attribute(chain, BOTH[0], BOTH[0], ["x", "u", "v"])
    assert {*result.numbers.values(), *result.edges.values()} == {0.0}
    assert result.change == 0 and math.isnan(result.error)
    assert " – " in str(result) or "–" in str(result)


def test_where_nothing_changes_an_infinite_gradient_does_no_harm():
    def root(x):
        u = x * 1
        return torch.sqrt(u).sum()

    result = bp.attribute(root, torch.tensor([0.0, 4.0]), torch.tensor([0.0, 1.0]), "u")
    assert result["u"] == pytest.approx(1.5)


def test_half_precision_is_computed_in_single():
    def program(x):
        u = x * 3
        return (u * u).float().sum()

    clean, corrupt = (torch.linspace(a, b, 7).bfloat16() for a, b in ((0, 1), (1, -2)))
    result = bp.attribute(program, clean, corrupt, "u")
    u, v = (clean * 3).double(), (corrupt * 3).double()
    assert result["u"] == pytest.approx(float(((u - v) * 2 * v).sum()), rel=1e-2)


# what is printed, drawn and kept


def test_it_prints_the_largest_values_and_edges():
    result = bp.attribute(stream(), IDS, OTHER, PARTS, of=difference)
    text = str(result)
    assert list(result.top(2)) == ["embed", "h.1.attn"]
    assert list(result.top_edges(1)) == [("embed", "h.0.mlp")]
    assert "embed → h.0.mlp" in text and "5 more in result.edges" in text
    assert "the first value, embed, has 0.425077, and the output changes by 0.616385" in text
    assert "h.0.mlp" in result._repr_html_()
    assert repr(result) == "<backprobe.Attribution of 5 values and 15 edges: of() of Stream>"


def test_it_is_data():
    result = bp.attribute(chain, *BOTH, ["x", "u"])
    known = json.loads(json.dumps(result.to_dict()))
    assert known["attributions"] == dict(result.numbers) and known["change"] == result.change
    assert {(one["source"], one["target"]): one["attribution"] for one in known["edges"]} == dict(result.edges)
    infinite = bp.attribute(lambda x: torch.log(x).sum(), torch.zeros(2), torch.ones(2), "x")
    assert infinite.to_dict()["change"] == "-infinite"


def test_the_circuit_has_the_largest_edges_with_their_numbers():
    result = bp.attribute(stream(), IDS, OTHER, PARTS, of=difference)
    svg = result.draw(k=4).svg
    assert "0.321" in svg and "attribution 0.425" in svg and "changes by 0.616" in svg
    assert "h.0.attn" not in svg
    assert "the 4 largest of 15 edges" in " ".join(re.findall(r">([^<>\n]+)</text>", svg))
    assert "h.0.attn" in bp.draw(result).svg


def test_the_page_of_a_circuit_has_the_numbers(tmp_path):
    result = bp.attribute(stream(), IDS, OTHER, PARTS, of=difference)
    result.draw(tmp_path / "circuit.html")
    shown = recorded((tmp_path / "circuit.html").read_text())
    assert "attribution 0.425" in json.dumps(shown) and shown["weighs"] == "attribution"


def test_a_copy_has_the_numbers_and_no_program():
    result = pickle.loads(pickle.dumps(bp.attribute(stream(), IDS, OTHER, PARTS, of=difference)))
    assert result["h.1.mlp"] == pytest.approx(0.09647, rel=1e-3)
    assert "was copied without its program" in message(bp.NotSaved, result.exact)


def test_no_tensor_of_the_runs_is_kept():
    result = bp.attribute(stream(), IDS, OTHER, PARTS, of=difference)
    assert all(entry.held_value is entry.held_grad is None for entry in result.record.entries)
    assert all(edge.contribution is None for entry in result.record.entries for edge in entry.inputs)


# what is refused


def branching(x):
    h = x * 2
    if x.sum() > 0:
        h = h * h
    return h.sum()


def cut(x):
    u = x * 2
    v = u.detach()
    return (v * x).sum()


REFUSED = {
    "another shape": (bp.BadOption, lambda: bp.attribute(counted, CLEAN, CORRUPT[:2], "h")),
    "another dtype": (bp.BadOption, lambda: bp.attribute(counted, CLEAN, CORRUPT.double(), "h")),
    "in one run alone": (bp.BadOption, lambda: bp.attribute(branching, CLEAN, -CLEAN, "h")),
    "in the other run alone": (bp.BadOption, lambda: bp.attribute(branching, -CLEAN, CLEAN, "h")),
    "several times": (bp.AmbiguousName, lambda: bp.attribute(counted, CLEAN, CORRUPT, "h")["h"]),
    "no gradient": (bp.NoGradient, lambda: bp.attribute(cut, CLEAN, CORRUPT, ["x", "v"])),
    "no path": (bp.NoGradient, lambda: bp.attribute(cut, CLEAN, CORRUPT, "u")),
    "parameters": (bp.NothingMatched, lambda: bp.attribute(stream(), IDS, OTHER, "**weight", of=difference)),
    "no such name": (bp.NothingMatched, lambda: bp.attribute(chain, *BOTH, "nothing")),
    "too few arguments": (bp.BadOption, lambda: bp.attribute(chain, CLEAN, CORRUPT, "u")),
    "no arguments": (bp.BadOption, lambda: bp.attribute(chain, None, BOTH[1], "u")),
    "a recording": (bp.BadOption, lambda: bp.attribute(counted, bp.probe(counted)(CLEAN), CORRUPT, "h")),
    "nothing selected": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, None)),
    "no function": (bp.BadOption, lambda: bp.attribute(3, *BOTH, "u")),
    "a vector": (bp.BadOutput, lambda: bp.attribute(chain, *BOTH, "u", of="v")),
    "several outputs": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, "u", of=["u", "v"])),
    "no steps": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, "u", steps=0)),
    "along without steps": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, "u", along="x")),
    "no such axis": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, "u", axis=1)),
    "no chunk": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, "u", chunk=0)),
    "edges": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, "u", edges="all")),
    "unknown in the result": (bp.UnknownName, lambda: bp.attribute(chain, *BOTH, "u")["v"]),
    "the output": (bp.NoGradient, lambda: bp.attribute(chain, *BOTH, "u")["return"]),
    "no largest": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, "u").top(0)),
    "no edges to draw": (bp.BadOption, lambda: bp.attribute(chain, *BOTH, "u", edges=False).draw()),
    "frozen": (
        bp.NothingToDifferentiate,
        lambda: bp.attribute(stream().requires_grad_(False), IDS, OTHER, PARTS, of=difference),
    ),
    "no such module": (bp.NothingMatched, lambda: bp.attribute(stream(), IDS, OTHER, "h.7", of=difference)),
}


def test_what_cannot_be_attributed_is_refused():
    golden("attribute", "\n\n".join(f"{name}: {message(kind, call)}" for name, (kind, call) in REFUSED.items()))


def test_what_has_no_gradient_is_left_out_of_a_pattern_and_said():
    result = bp.attribute(cut, CLEAN, CORRUPT, "*")
    assert list(result) == ["x"] and result.notes == ("without a gradient, and left out: u, v",)
    assert "not_connected" in message(bp.NoGradient, lambda: result["u"])


# edges, patched exactly


def squared(x):
    u = x * x
    v = u + 2 * x
    return (u * v).sum()


def test_edges_are_patched_one_at_a_time():
    result = bp.attribute(squared, torch.tensor([2.0]), torch.tensor([1.0]), ["x", "u", "v"])
    exact = result.exact_edges(5)
    # u is 1 or 4, v 3 or 8: what each edge alone brings, by hand
    by_hand = {"u → return": 4 * 3 - 3, "x → u": 4 * 6 - 3, "v → return": 8 - 3, "u → v": 6 - 3, "x → v": 5 - 3}
    assert exact.effects == by_hand and exact.output == 3.0
    assert exact.approximations == {" → ".join(way): number for way, number in result.edges.items()}
    assert "with one edge replaced at a time" in str(exact) and -1 <= exact.agreement <= 1


def test_edges_of_a_linear_function_are_exact_by_one_pass():
    def linear(x, w):
        u = 3 * x
        v = u + x
        return (u * w + v).sum()

    clean, corrupt = (torch.tensor([2.0, 5.0]), torch.ones(2)), (torch.tensor([1.0, -1.0]), torch.ones(2))
    result = bp.attribute(linear, clean, corrupt, ["x", "u", "v"])
    exact = result.exact_edges()
    assert exact.effects == pytest.approx(exact.approximations) and exact.agreement == pytest.approx(1.0)


def test_edges_between_modules_by_hand():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = x + torch.tanh(self.a(x))
            return (x + torch.tanh(self.b(x))).sum()

    torch.manual_seed(0)
    model = Residual()
    clean, corrupt = torch.randn(3, 4), torch.randn(3, 4)
    result = bp.attribute(model, clean, corrupt, ["a", "b"])
    exact = result.exact_edges()
    with torch.no_grad():
        a, b = model.a(corrupt), model.b(corrupt + torch.tanh(model.a(corrupt)))
        plain = (corrupt + torch.tanh(a) + torch.tanh(b)).sum()
        moved = model.a(clean)
        through = model.b(corrupt + torch.tanh(moved))
        by_hand = {
            "a → b": (corrupt + torch.tanh(a) + torch.tanh(through)).sum() - plain,
            "a → return": (corrupt + torch.tanh(moved) + torch.tanh(b)).sum() - plain,
            "b → return": (corrupt + torch.tanh(a) + torch.tanh(model.b(clean + torch.tanh(moved)))).sum() - plain,
        }
    assert exact.effects == pytest.approx({name: float(one) for name, one in by_hand.items()}, rel=1e-4)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())


def test_edges_of_a_copy_cannot_be_patched():
    result = copy.copy(bp.attribute(squared, torch.tensor([2.0]), torch.tensor([1.0]), ["x", "u"]))
    assert "was copied without its program" in message(bp.NotSaved, result.exact_edges)
    assert "k is a whole number" in message(bp.BadOption, lambda: result.exact_edges(0))
